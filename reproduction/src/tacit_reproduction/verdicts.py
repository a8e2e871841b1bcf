"""From losses to verdicts: functions of arrays with one value per seed that return a claim.

All comparisons are paired: the methods meet the same graphs, partitions and orders of samples, seed by seed,
so the interval is that of the difference (95 %, Student's t). One that is not finite supports no claim.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacit.core.errors import DataError
from tacit.metrics import Interval, mean_interval, paired_difference
from tacit_reproduction.experiment import Claim

TOLERANCE = 0.01
"""A is "not worse" than B if the interval of A - B ends below this share of B's mean."""

Named = tuple[str, ArrayLike]
"""Name, and value per seed."""


def lower(claim: str, a: Named, b: Named, note: str = "") -> Claim:
    """A is lower than B: the whole interval of A - B lies below 0."""
    difference = paired_difference(a[1], b[1])
    return Claim(claim, difference.high < 0, _sentences(f"{_two(a, b)}; {_of(a, b, difference)}", note))


def not_worse(claim: str, a: Named, b: Named, note: str = "") -> Claim:
    """A is not worse than B: the interval of A - B ends below 1 % of B's mean."""
    difference = paired_difference(a[1], b[1])
    margin = TOLERANCE * float(np.mean(np.asarray(b[1], np.float64)))
    rule = f"not worse means that the interval ends below {100 * TOLERANCE:g} % of {b[0]}, {margin:.2g}"
    return Claim(claim, difference.high < margin, _sentences(f"{_two(a, b)}; {_of(a, b, difference)}; {rule}", note))


def falling(claim: str, levels: Sequence[int], losses: ArrayLike, level_name: str) -> Claim:
    """Losses (levels, seeds) fall as the level grows: the interval of their log-log slope lies below 0.

    The trend is taken on logarithms, since losses at the lowest levels are skewed: a few of the sparsest
    graphs are far worse than the rest.
    """
    values = np.asarray(losses, np.float64)
    if values.ndim != 2 or values.shape[0] != len(levels) or len(levels) < 2:
        raise DataError(
            f"losses of shape {values.shape} for {len(levels)} levels: expected (levels, seeds), at least "
            "two levels; run more of them"
        )
    slope = mean_interval(slopes(levels, np.log2(values)))
    means = ", ".join(
        f"{level_name} {level}: {mean:.4f}" for level, mean in zip(levels, values.mean(axis=1), strict=True)
    )
    change, low, high = (100 * (2.0**bound - 1) for bound in slope[:3])
    agreeing = int(np.sum(values[-1] < values[0]))
    figure = (
        f"{means}; each doubling changes the loss by {change:+.1f} % [{low:+.1f}, {high:+.1f}] (95 %, paired "
        f"over {slope.n} seeds); it is lower at {levels[-1]} than at {levels[0]} for {agreeing} of them"
    )
    return Claim(claim, slope.high < 0, figure)


def larger_gain(claim: str, here: tuple[Named, Named], there: tuple[Named, Named]) -> Claim:
    """B - A is larger here than there: the whole interval of the difference of gains lies above 0."""
    gains = [np.asarray(b[1], np.float64) - np.asarray(a[1], np.float64) for a, b in (here, there)]
    difference = paired_difference(gains[0], gains[1])
    parts = (f"{b[0]} minus {a[0]} {gain.mean():.4f}" for (a, b), gain in zip((here, there), gains, strict=True))
    figure = f"{'; '.join(parts)}; the first gain minus the second {_interval(difference)}"
    return Claim(claim, difference.low > 0, figure)


def slopes(levels: Sequence[int], values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return (seeds,) the least-squares slope of values (levels, seeds) over log2(level)."""
    x = np.log2(np.asarray(levels, np.float64))
    x = x - x.mean()
    return np.asarray(x @ values / (x @ x))


def difference_in_words(a: Named, b: Named) -> str:
    """Return both means and the paired difference as a phrase."""
    return f"{_two(a, b)}; {_of(a, b, paired_difference(a[1], b[1]))}"


def _two(a: Named, b: Named) -> str:
    return ", ".join(f"{name} {float(np.mean(np.asarray(values, np.float64))):.4f}" for name, values in (a, b))


def _of(a: Named, b: Named, difference: Interval) -> str:
    return f"{a[0]} minus {b[0]} {_interval(difference)}"


def _interval(value: Interval) -> str:
    return f"{value.mean:+.4f} [{value.low:+.4f}, {value.high:+.4f}] (95 %, paired over {value.n} seeds)"


def _sentences(figure: str, note: str) -> str:
    return f"{figure}. {note}" if note else figure
