"""Regret against a fixed comparator, and the rate at which a curve falls or rises."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacit.core.errors import DataError


class Regret(NamedTuple):
    """Static regret after each of some rounds. Make it with `static_regret`."""

    rounds: NDArray[np.int64]
    """(k,) the rounds t."""
    total: NDArray[np.float64]
    """(..., k) Reg_t: cumulative loss minus that of the comparator."""
    per_round: NDArray[np.float64]
    """(..., k) Reg_t / t."""

    def __repr__(self) -> str:
        last = np.mean(self.total[..., -1])
        return f"Regret({last:.6g} after {self.rounds[-1]} rounds, {last / self.rounds[-1]:.4g} per round)"


def static_regret(rounds: ArrayLike, cumulative_loss: ArrayLike, comparator_totals: ArrayLike) -> Regret:
    """Static regret at some rounds: cumulative loss minus that of the best fixed model.

    Args:
      rounds: (k,) the rounds t, counted from 1.
      cumulative_loss: (..., k) sum over rounds 1..t and all agents of f_is at the models in use.
      comparator_totals: (k,) or (..., k) `total_loss` of `best_fixed_prefixes` at the same rounds.

    Example:
      >>> import tacit
      >>> tacit.metrics.static_regret([10, 20], [8.0, 14.0], [5.0, 10.0])
      Regret(4 after 20 rounds, 0.2 per round)
    """
    times = np.asarray(rounds, np.int64)
    loss, best = np.asarray(cumulative_loss, np.float64), np.asarray(comparator_totals, np.float64)
    if times.ndim != 1 or times.size == 0 or np.any(times < 1):
        raise DataError(f"rounds = {times!r}: expected a list of rounds t >= 1; count rounds from 1")
    # Broadcasting a single total over all rounds would be silent nonsense: the comparator depends on t.
    for name, values in (("cumulative_loss", loss), ("comparator_totals", best)):
        if values.shape[-1:] != times.shape:
            raise DataError(
                f"{name} of shape {values.shape}: expected one value for each of the {times.size} rounds "
                "along the last axis; take both at the same rounds"
            )
    total = loss - best
    return Regret(times, total, total / times)


class Slope(NamedTuple):
    """A straight line through points on log-log axes: log(value) = intercept + slope log(t)."""

    slope: float
    stderr: float
    """Standard error of the slope if the points scatter independently, which those of one run hardly do."""
    intercept: float

    def __repr__(self) -> str:
        return f"Slope({self.slope:.4g} +- {self.stderr:.2g})"


def loglog_slope(t: ArrayLike, values: ArrayLike) -> Slope:
    """Least-squares slope of log(values) over log(t): -1/2 for values that fall like t^(-1/2).

    Args:
      t: (k,) rounds, k >= 3.
      values: (k,) numbers above 0.

    Example:
      >>> import tacit
      >>> round(tacit.metrics.loglog_slope([1, 4, 16], [1.0, 0.5, 0.25]).slope, 6)
      -0.5
    """
    times, heights = np.asarray(t, np.float64), np.asarray(values, np.float64)
    if times.ndim != 1 or times.shape != heights.shape or times.size < 3:
        raise DataError(
            f"t of shape {times.shape} and values of shape {heights.shape}: expected two lists of the same "
            "length >= 3; record more rounds, and average repeats first"
        )
    for name, numbers in (("t", times), ("values", heights)):
        if not np.all(np.isfinite(numbers) & (numbers > 0)):
            worst = numbers[~(np.isfinite(numbers) & (numbers > 0))][0]
            raise DataError(
                f"{name} contain {worst}: expected finite numbers > 0, which have a logarithm; "
                "fit over rounds where the curve is positive"
            )
    x, y = np.log(times), np.log(heights)
    spread = float(np.sum((x - x.mean()) ** 2))
    if spread == 0:
        raise DataError(f"t = {times[0]} throughout: expected different rounds; a slope needs at least two")
    slope = float(np.sum((x - x.mean()) * (y - y.mean()))) / spread
    intercept = float(y.mean() - slope * x.mean())
    residual = y - intercept - slope * x
    stderr = math.sqrt(float(residual @ residual) / (x.size - 2) / spread)
    return Slope(slope, stderr, intercept)
