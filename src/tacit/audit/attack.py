"""The attacker's statistics of the evidence: one number per trial, larger for the given data set.

All of them look at draws: the noise that must have been added, in units of the declared scale. Of noise that is
correlated over an agent's releases these are multiplied by its matrix C, which the attacker knows: then they are
independent if it is as declared.

- likelihood: log-likelihood ratio of everything that was released, under the noise that was declared. No test of a run
  that does what it declares is better (Neyman and Pearson).
- correlated noise: the same for Gaussian noise whose covariance over rounds, coordinates and agents is what it was in
  other trials. Draws that are used twice, cancel, or follow from each other give it away.
- repeated noise: noise must be new in every coordinate, round and agent. The right hypothesis is the one under which
  the noise that must have been drawn is twice the same.
- familiar noise: under the right hypothesis the noise is a number that it was in other trials too, or near one: a few
  steps of a grid, none at all, or within a bound.
- impossible message: something left that could not have left under one of the hypotheses.

Correlated and familiar noise are learnt from trials that are used for nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tacit.core.contract import Correlation, Distribution

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

_EQUAL = 1e-7
"""Draws closer than this, in scales of the noise, count as the same; rounding is well below, chance rarely as near."""
_LEAST_VARIANCE = 1e-12
"""Of a combination of draws, in squared scales: below it all is rounding."""
_FEWEST = 8
"""Trials to learn from."""
_MOST_DRAWS = 64
"""Draws of which all pairs are compared."""


def whitened(unit: Floats, correlation: Correlation) -> Floats:
    """(..., rounds, width) noise times C, block by block over an agent's own releases; NaN where it made none."""
    rounds = unit.shape[-2]
    number = np.arange(rounds)
    lag = number[:, None] - number
    same_block = number[:, None] // correlation.rounds == number // correlation.rounds
    matrix = np.where((lag >= 0) & same_block, correlation.coefficients(rounds)[lag], 0)
    # Rounds without a release, which the noise does not count, go behind all others and back.
    silent = np.isnan(unit).all(axis=-1, keepdims=True)
    order = np.argsort(silent, axis=-2, kind="stable")
    made = np.take_along_axis(unit, order, axis=-2)
    white = np.where(np.isnan(made), np.nan, matrix @ np.nan_to_num(made))
    return np.take_along_axis(white, np.argsort(order, axis=-2), axis=-2)


def likelihood(draws: Floats, distributions: Sequence[Distribution | None]) -> Floats:
    """(trials,) from draws (trials, 2, entries, width) and the entries' distributions."""
    total = np.zeros(draws.shape[:2])
    for entry, distribution in enumerate(distributions):
        if distribution is None:
            continue
        unit = np.abs(draws[:, :, entry])
        density = unit if distribution == "laplace" else unit**2 / 2
        total -= np.nansum(density, axis=-1)
    return total[:, 0] - total[:, 1]


def repeated_noise(unit: Floats, known: Floats) -> Floats:
    """(trials,) sum over pairs of draws of how much nearer they are under one hypothesis, on a logarithmic scale.

    `unit` (trials, 2, draws) is the victim's noise under either hypothesis, `known` (trials, draws) that of the
    neighbours, which is the same under both; in scales. Draws that are the same but for their sign count as well.
    """
    score = np.zeros(len(unit))
    unit, known = unit[:, :, :_MOST_DRAWS], known[:, :_MOST_DRAWS]
    for k in range(unit.shape[2]):
        rest = np.concatenate([unit[:, :, k + 1 :], np.repeat(known[:, None], 2, axis=1)], axis=2)
        size = np.abs(np.abs(unit[:, :, k : k + 1]) - np.abs(rest))
        nearness = -np.log(size + _EQUAL)
        score += np.nansum(nearness[:, 0] - nearness[:, 1], axis=1)
    return score


def correlated_noise(unit: Floats, known: Floats, other: Bools, learnt_on: Bools) -> Floats:
    """(trials,) log-likelihood ratio under Gaussian noise of the covariance that the trials `learnt_on` show."""
    beside = np.repeat(known[:, None], 2, axis=1)
    draws = np.nan_to_num(np.concatenate([unit, beside], axis=2), posinf=0.0, neginf=0.0)
    true = draws[learnt_on, other[learnt_on].astype(int)]
    if len(true) < _FEWEST:
        return np.zeros(len(draws))
    variances, directions = np.linalg.eigh(true.T @ true / len(true))
    weights = directions / np.sqrt(np.maximum(variances, _LEAST_VARIANCE))
    # Of what differs between the hypotheses: what both share would only add rounding.
    apart, middle = (draws[:, 1] - draws[:, 0]) @ weights, (draws[:, 1] + draws[:, 0]) @ weights / 2
    return np.asarray(np.sum(apart * middle, axis=1))


def familiar_noise(unit: Floats, other: Bools, learnt_on: Bools) -> Floats:
    """(trials,) how much nearer the noise is to numbers that it was in the trials `learnt_on`, logarithmically."""
    true = unit[learnt_on, other[learnt_on].astype(int)]
    seen = np.unique(true[np.isfinite(true)])
    if seen.size < _FEWEST:
        return np.zeros(len(unit))
    nearness = -np.log(_distance(seen, unit) + _EQUAL)
    return np.asarray(np.nansum(nearness[:, 0] - nearness[:, 1], axis=1))


def _distance(known: Floats, values: Floats) -> Floats:
    """How far each value is from the nearest of the sorted known ones; not a number where it is none."""
    after = np.clip(np.searchsorted(known, values), 1, known.size - 1)
    return np.asarray(np.minimum(np.abs(values - known[after - 1]), np.abs(known[after] - values)))


def impossible_message(leaks: Bools) -> Floats:
    """(trials,) 1 where the other hypothesis is refuted, -1 where the given one is, 0 where neither."""
    return leaks[:, 1].astype(np.float64) - leaks[:, 0]
