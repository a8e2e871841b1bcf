"""Draws and sources that the tests of the samplers share."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import stats

from tacit.core.contract import Distribution
from tacit.privacy.noise import NoiseSource, release_on_grid

ALPHA = 1e-6
"""False-alarm rate of each statistical test; seeds are fixed, so one that passed goes on passing."""
CONTINUOUS: tuple[Distribution, ...] = ("laplace", "gaussian")
LAWS: dict[str, Any] = {"laplace": stats.laplace, "gaussian": stats.norm}
DRAWS = 2_000_000


def seeded(seed: int = 0) -> NoiseSource:
    return NoiseSource.seeded_for_simulation(seed)


def draws(distribution: Distribution, count: int, scale: float = 1.0, value: float = 0.0, seed: int = 0) -> np.ndarray:
    return release_on_grid(np.full(count, value), distribution, scale, seeded(seed), simulation=True)


class Scripted(NoiseSource):
    """Gives the words that it was told, then zeros."""

    def __init__(self, *words: int) -> None:
        super().__init__()
        self.script, self.extensions = list(words), 0

    def words(self, count: int) -> np.ndarray:
        taken, self.script = self.script[:count], self.script[count:]
        self.extensions += not taken
        assert self.extensions < 100, "bits are asked for without end"
        return np.asarray(taken + [0] * (count - len(taken)), np.uint64)
