"""Confidence intervals over repeats, and the paired comparison that experiments' claims rest on."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacit.core.checks import proportion
from tacit.core.errors import DataError


class Interval(NamedTuple):
    """A mean with its Student-t confidence interval; unbounded where there is one repeat only."""

    mean: float
    """Over the repeats."""
    low: float
    """Lower end."""
    high: float
    """Upper end."""
    n: int
    """Number of repeats."""

    def __repr__(self) -> str:
        return f"Interval({self.mean:.6g}, from {self.low:.6g} to {self.high:.6g}, {self.n} repeats)"


class Band(NamedTuple):
    """An interval at each point of a curve."""

    mean: NDArray[np.float64]
    """Over the repeats, point by point."""
    low: NDArray[np.float64]
    """Lower ends."""
    high: NDArray[np.float64]
    """Upper ends."""
    n: int
    """Number of repeats."""

    def __repr__(self) -> str:
        return f"Band({len(self.mean)} points, {self.n} repeats)"


def mean_interval(values: ArrayLike, confidence: float = 0.95) -> Interval:
    """Mean of independent repeats and its confidence interval.

    Args:
      values: (n,) one number per repeat.
      confidence: Coverage, between 0 and 1.

    Example:
      >>> import tacit
      >>> tacit.metrics.mean_interval([1.0, 2.0, 3.0])
      Interval(2, from -0.484138 to 4.48414, 3 repeats)
    """
    numbers = np.asarray(values, np.float64)
    if numbers.ndim != 1:
        raise DataError(f"values of shape {numbers.shape}: expected one number per repeat; for curves use mean_band")
    band = mean_band(numbers[:, None], confidence)
    return Interval(float(band.mean[0]), float(band.low[0]), float(band.high[0]), band.n)


def mean_band(curves: ArrayLike, confidence: float = 0.95) -> Band:
    """Mean of independent repeats of a curve and its confidence interval, point by point.

    Args:
      curves: (n, points), one row per repeat.
      confidence: Coverage at each point, between 0 and 1.

    Example:
      >>> import tacit
      >>> tacit.metrics.mean_band([[1.0, 2.0], [3.0, 2.0]])
      Band(2 points, 2 repeats)
    """
    numbers = np.asarray(curves, np.float64)
    if numbers.ndim != 2 or numbers.shape[0] == 0:
        raise DataError(f"curves of shape {numbers.shape}: expected (repeats, points), at least one repeat; stack them")
    proportion("confidence", confidence, "0.95 is usual")
    n = numbers.shape[0]
    mean = numbers.mean(axis=0)
    if n == 1:
        unknown = np.full_like(mean, np.inf)
        return Band(mean, -unknown, unknown, n)
    # scipy.stats has the same quantile but takes three times as long to import.
    from scipy.special import stdtrit

    half = stdtrit(n - 1, (1 + confidence) / 2) * numbers.std(axis=0, ddof=1) / np.sqrt(n)
    return Band(mean, mean - half, mean + half, n)


def paired_difference(a: ArrayLike, b: ArrayLike, confidence: float = 0.95) -> Interval:
    """Interval of a - b over repeats with shared seeds: "a < b" holds if its `high` is below 0.

    Args:
      a: (n,) one number per repeat.
      b: (n,) of the same repeats.
      confidence: Coverage, between 0 and 1.

    Example:
      >>> import tacit
      >>> tacit.metrics.paired_difference([1.0, 2.1, 2.9], [2.0, 3.0, 4.0]).high < 0
      True
    """
    first, second = np.asarray(a, np.float64), np.asarray(b, np.float64)
    if first.shape != second.shape:
        raise DataError(
            f"a of shape {first.shape} and b of shape {second.shape}: expected the same repeats of both; "
            "run both with the same seeds"
        )
    return mean_interval(first - second, confidence)
