"""Ratio of two samples' variances, with an interval."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tacit_reproduction.judging import brief


class Ratio(NamedTuple):
    """Of two variances, with its 95 % interval."""

    value: float
    low: float
    high: float

    def words(self) -> str:
        """Return "12 [6.3, 23]"."""
        return f"{brief(self.value, 3)} [{brief(self.low, 3)}, {brief(self.high, 3)}]"


def variance_ratio(a: NDArray[np.float64], b: NDArray[np.float64]) -> Ratio:
    """Return var(a) / var(b) and the interval that the F distribution gives, which takes values to be normal."""
    from scipy.special import fdtri

    ratio = float(np.var(a, ddof=1) / np.var(b, ddof=1))
    low, high = (float(fdtri(len(a) - 1, len(b) - 1, quantile)) for quantile in (0.975, 0.025))
    return Ratio(ratio, ratio / low, ratio / high)
