"""What the attacker makes of the evidence: one number per trial and statistic, larger for the given data set.

- likelihood: log-likelihood ratio of everything that was released, under the noise that was declared. No test of a run
  that does what it declares is better (Neyman and Pearson).
- repeated noise: noise must be new in every coordinate, round and agent. The right hypothesis is the one under which
  the noise that must have been drawn is twice the same.
- impossible message: something left that could not have left under one of the hypotheses.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tacit.contract import Distribution

Floats = NDArray[np.float64]

_EQUAL = 1e-7
"""Draws closer than this, in scales of the noise, count as the same; rounding is well below, chance rarely as near."""


def likelihood(residuals: Floats, scales: Floats, distributions: Sequence[Distribution | None]) -> Floats:
    """(trials,) from residuals (trials, 2, entries, width), scales (trials, entries) and entries' distributions."""
    total = np.zeros(residuals.shape[:2])
    for entry, distribution in enumerate(distributions):
        if distribution is None:
            continue
        unit = np.abs(residuals[:, :, entry] / scales[:, None, entry, None])
        density = unit if distribution == "laplace" else unit**2 / 2
        total -= np.nansum(density, axis=-1)
    return total[:, 0] - total[:, 1]


def repeated_noise(residuals: Floats, scales: Floats, known: Floats) -> Floats:
    """(trials,) sum over pairs of draws of how much nearer they are under one hypothesis, on a logarithmic scale.

    `known` (trials, draws) is noise of the neighbours, in scales, which is the same under both hypotheses.
    """
    unit = (residuals / scales[:, None, :, None]).reshape(*residuals.shape[:2], -1)
    score = np.zeros(len(unit))
    for k in range(unit.shape[2]):
        gaps = [np.abs(unit[:, :, k : k + 1] - rest) for rest in (unit[:, :, k + 1 :], known[:, None])]
        nearness = -np.log(np.concatenate(gaps, axis=2) + _EQUAL)
        score += np.nansum(nearness[:, 0] - nearness[:, 1], axis=1)
    return score


def impossible_message(leaks: NDArray[np.bool_]) -> Floats:
    """(trials,) 1 where the other hypothesis is refuted, -1 where the given one is, 0 where neither."""
    return leaks[:, 1].astype(np.float64) - leaks[:, 0]
