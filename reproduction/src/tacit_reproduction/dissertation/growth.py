"""Growth with the number of rounds: slopes of means on logarithmic axes, and what counts as slower than linear."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import ArrayLike

from tacit.core.errors import DataError
from tacit.metrics import loglog_slope, mean_interval
from tacit_reproduction.table import Floats
from tacit_reproduction.verdict import Claim, Pair, below, judged

FEWEST = 3  # horizons that a slope is taken over
HOW = (
    "A slope is that of the logarithm of the mean over the seeds over the logarithm of T, with a jackknife interval "
    "over the seeds. A total that is not above 0 at the longest horizon does not grow; where the mean is too seldom "
    "above 0 for a slope, the average per round has to fall from the shortest horizon to the longest"
)


def jackknife(x: ArrayLike, values: Floats) -> Floats:
    """Return (seeds,) pseudo-values of the log-log slope of the mean of curves (seeds, points).

    Their mean and their scatter are the slope's own. Not a number where a mean, of all seeds or of all but one, is not
    above 0 throughout.
    """

    def slope(curve: Floats) -> float:
        try:
            return loglog_slope(x, curve).slope
        except DataError:
            return float("nan")

    seeds, total = len(values), values.sum(axis=0)
    whole = slope(total / seeds)
    return np.array([seeds * whole - (seeds - 1) * slope((total - own) / (seeds - 1)) for own in values])


def sublinear(claim: str, horizons: Floats, curves: Mapping[str, Floats], **words: str) -> Claim:
    """Every total (seeds, horizons) grows more slowly than the number of rounds; `words` as for `judged`."""
    return judged(claim, [_growth(name, horizons, totals) for name, totals in curves.items()], below(), **words)


def _growth(name: str, horizons: Floats, totals: Floats) -> Pair:
    average = totals / horizons
    end = mean_interval(average[:, -1])
    if end.high <= 0:
        return Pair(f"{name}, per round at the end", average[:, -1])
    for begin in range(len(horizons) - FEWEST + 1):  # where the mean is above 0 from some horizon on
        found = jackknife(horizons[begin:], totals[:, begin:])
        if np.isfinite(found).all():
            since = f" from T = {horizons[begin]:,.0f} on" if begin else ""
            return Pair(f"{name}, slope{since}", found, 1.0)
    if end.low > 0 or average[:, 0].mean() <= 0:  # above 0 for too short a time, or on its way up
        return Pair(f"{name}, per round at the end", average[:, -1])
    return Pair(f"{name}, per round at the end against the beginning", average[:, -1], average[:, 0])
