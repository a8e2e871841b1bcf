"""Growth of regret and overspending with the number of rounds, from several seeds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tacit.metrics import mean_interval, paired_difference
from tacit_reproduction.experiment import Claim
from tacit_reproduction.judging import brief
from tacit_reproduction.mirror.slopes import pseudo_slopes

Floats = NDArray[np.float64]
FEWEST = 3
"""Horizons that a slope is taken over."""
NEARLY_LINEAR = 0.9
"""A slope above this counts as growth in proportion to the rounds."""
BELOW_LINEAR = 1 - 1e-6
"""A slope of exactly 1 must not pass for rounding."""
HOW = (
    "A slope is that of the logarithm of the mean over the seeds over the logarithm of T; its standard error comes "
    "from leaving out one seed at a time, and the interval is 95 %, Student's t. Where the mean is not above 0 there "
    "is no logarithm. A mean whose interval ends at or below 0 at the longest horizon needs none, since nothing grows "
    "there. One that cannot be told from 0 there passes if its average per round is below that of the shortest "
    "horizon (paired over the seeds). Otherwise the slope is taken over the horizons from which on the mean is above 0"
)


class Growth(NamedTuple):
    """A slope on logarithmic axes."""

    slope: float
    stderr: float
    low: float
    high: float
    since: int
    """The first horizon that it is taken over."""


def growth(horizons: Sequence[int], totals: Floats) -> Growth | None:
    """Return the slope of the mean of totals (seeds, horizons); None where fewer than FEWEST in a row are above 0."""
    seeds = len(totals)
    whole = totals.mean(axis=0)
    without_one = (totals.sum(axis=0) - totals) / (seeds - 1)
    positive = (whole > 0) & np.all(without_one > 0, axis=0)
    begin = len(horizons) - int(np.argmin(positive[::-1])) if not positive.all() else 0
    if len(horizons) - begin < FEWEST or not positive[-1]:
        return None
    slopes = pseudo_slopes(horizons[begin:], totals[:, begin:])
    found = mean_interval(slopes)
    stderr = float(np.std(slopes, ddof=1) / np.sqrt(seeds))
    return Growth(found.mean, stderr, found.low, found.high, horizons[begin])


def sublinear(claim: str, horizons: Sequence[int], curves: Mapping[str, Floats], agents: int, note: str = "") -> Claim:
    """Every curve of totals (seeds, horizons) grows with a slope below 1, or is not above 0 at the longest horizon."""
    verdicts, words = [], []
    for name, totals in curves.items():
        last = mean_interval(totals[:, -1] / (agents * horizons[-1]))
        end = f"{brief(last.mean, 3)} [{brief(last.low, 3)}, {brief(last.high, 3)}] per agent and round at the end"
        found = growth(horizons, totals)
        if last.high <= 0:
            verdicts.append(True)
            words.append(f"{name}: not above 0, {end}")
        elif found is None:
            fall = paired_difference(totals[:, -1] / horizons[-1], totals[:, 0] / horizons[0])
            verdicts.append(last.low <= 0 and fall.high < 0)
            change = f"{brief(fall.mean / agents, 3)} [{brief(fall.low / agents, 3)}, {brief(fall.high / agents, 3)}]"
            words.append(f"{name}: too seldom above 0 for a slope, {end}, {change} from the shortest horizon to it")
        else:
            verdicts.append(found.high < BELOW_LINEAR)
            words.append(f"{name}: {in_words(found, horizons)}, {end}")
    figure = f"{'; '.join(words)}; {len(next(iter(curves.values())))} seeds"
    return Claim(claim, all(verdicts), f"{figure}. {note}" if note else figure)


def linear(claim: str, horizons: Sequence[int], curves: Mapping[str, Floats], agents: int) -> Claim:
    """Every curve of totals grows in proportion to the rounds or faster."""
    verdicts, words = [], []
    for name, totals in curves.items():
        last = mean_interval(totals[:, -1] / (agents * horizons[-1]))
        found = growth(horizons, totals)
        verdicts.append(found is not None and found.low > NEARLY_LINEAR)
        slope = "no slope" if found is None else in_words(found, horizons)
        words.append(
            f"{name}: {slope}, {brief(last.mean, 3)} [{brief(last.low, 3)}, {brief(last.high, 3)}] per agent and round "
            "at the end"
        )
    figure = f"{'; '.join(words)}; the interval is to lie above {NEARLY_LINEAR:g}"
    return Claim(claim, all(verdicts), figure)


def in_words(found: Growth, horizons: Sequence[int]) -> str:
    """Return a slope as a phrase."""
    since = "" if found.since == horizons[0] else f" from T = {found.since:,} on"
    return f"slope {found.slope:.2f}{since}, standard error {found.stderr:.2g}, [{found.low:.2f}, {found.high:.2f}]"
