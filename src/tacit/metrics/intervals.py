"""Confidence intervals over repeats, and the paired comparison that experiments' claims rest on."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacit.core.errors import ConfigError, DataError


class Interval(NamedTuple):
    """A mean with its Student-t confidence interval; unbounded if there is one repeat only."""

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
    """Return the mean of independent repeats (n,) and its confidence interval."""
    numbers = np.asarray(values, np.float64)
    if numbers.ndim != 1:
        raise DataError(f"values of shape {numbers.shape}: expected one number per repeat; for curves use mean_band")
    band = mean_band(numbers[:, None], confidence)
    return Interval(float(band.mean[0]), float(band.low[0]), float(band.high[0]), band.n)


def mean_band(curves: ArrayLike, confidence: float = 0.95) -> Band:
    """Return the mean of independent repeats (n, points) and its confidence interval, point by point."""
    numbers = np.asarray(curves, np.float64)
    if numbers.ndim != 2 or numbers.shape[0] == 0:
        raise DataError(f"curves of shape {numbers.shape}: expected (repeats, points), at least one repeat; stack them")
    if not 0 < confidence < 1:
        raise ConfigError(f"confidence = {confidence!r}: expected a number between 0 and 1; 0.95 is usual")
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
    """Return the interval of a - b over repeats with shared seeds: "A < B" holds if its `high` is below 0."""
    first, second = np.asarray(a, np.float64), np.asarray(b, np.float64)
    if first.shape != second.shape:
        raise DataError(
            f"a of shape {first.shape} and b of shape {second.shape}: expected the same repeats of both; "
            "run both with the same seeds"
        )
    return mean_interval(first - second, confidence)
