"""Slopes of curves that have a logarithm only in the mean: single seeds may beat every comparator."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacit.core.errors import DataError
from tacit.metrics import Interval, loglog_slope, mean_interval


def slope_of_mean(x: ArrayLike, values: NDArray[np.float64]) -> Interval:
    """Return the log-log slope of the mean of curves (seeds, k), with its jackknife interval (95 %)."""
    return mean_interval(pseudo_slopes(x, values))


def pseudo_slopes(x: ArrayLike, values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return (seeds,) the jackknife's pseudo-values of that slope, whose scatter is its own.

    Not a number where the mean, of all seeds or of all but one, is not above 0 throughout.
    """

    def of(curve: NDArray[np.float64]) -> float:
        try:
            return loglog_slope(x, curve).slope
        except DataError:
            return float("nan")

    n, total = len(values), values.sum(axis=0)
    whole = of(total / n)
    return np.array([n * whole - (n - 1) * of((total - own) / (n - 1)) for own in values])
