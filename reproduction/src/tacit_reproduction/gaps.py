"""Verdicts on differences of deviations, in dB and seed by seed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tacit.metrics import Interval, mean_interval, paired_difference
from tacit_reproduction.experiment import Claim

Floats = NDArray[np.float64]


class Gap(NamedTuple):
    """Two samples of deviations to compare."""

    name: str
    value: Floats
    reference: Floats

    @property
    def interval(self) -> Interval:
        """Value above the reference, in dB, paired over seeds."""
        return paired_difference(decibels(self.value), decibels(self.reference))


def decibels(values: Floats) -> Floats:
    """Return 10 log10; of what has left all bounds, not a number."""
    return np.asarray(10 * np.log10(np.where(np.isfinite(values) & (values > 0), values, np.nan)))


def in_decibels(values: Floats) -> str:
    """Return the mean over seeds in dB with half of its 95 % interval; what is not finite has diverged."""
    if not np.isfinite(values).all():
        return f"diverged for {int((~np.isfinite(values)).sum())} of {len(values)} seeds"
    found = mean_interval(decibels(values))
    return f"{found.mean:.2f} ± {found.high - found.mean:.2f}"


def judged(claim: str, gaps: Sequence[Gap], holds: Callable[[Interval], bool], why: str = "", note: str = "") -> Claim:
    """Every gap's interval (95 %, paired over seeds) is as claimed; `why` is said where one is not."""
    parts, failed = [], []
    for gap in gaps:
        found = gap.interval
        mean, reference = (float(np.mean(decibels(values))) for values in (gap.value, gap.reference))
        name = f"{gap.name}: " if gap.name else ""
        parts.append(
            f"{name}{mean:.2f} against {reference:.2f} dB, {found.mean:+.2f} [{found.low:+.2f}, {found.high:+.2f}]"
        )
        if not holds(found):
            failed.append(gap.name or "this")
    figure = f"{'; '.join(parts)} (95 %, paired over {len(gaps[0].value)} seeds)"
    if failed:
        figure += f". Not so: {', '.join(failed)}"
        figure += f". Why: {why}" if why else ""
    return Claim(claim, not failed, f"{figure}. {note}" if note else figure)


def all_close(claim: str, gaps: Sequence[Gap], limit: float) -> Claim:
    """All gaps together are within so many dB with their whole interval, and no single one's lies wholly outside.

    A seed's deviation is an average over few independent rounds, so that single gaps have wide intervals.
    """
    apart = np.stack([decibels(gap.value) - decibels(gap.reference) for gap in gaps])
    found = [mean_interval(values) for values in apart]
    widest = max(range(len(gaps)), key=lambda k: abs(found[k].mean))
    inside = [one.low < limit and one.high > -limit for one in found]
    together = mean_interval(apart.mean(axis=0))
    figure = (
        f"all {len(gaps)} settings together {_in_words(together)}, the farthest, {gaps[widest].name}, "
        f"{_in_words(found[widest])} (95 %, paired over {together.n} seeds)"
    )
    off = [f"{gap.name} {_in_words(one)}" for gap, one, near in zip(gaps, found, inside, strict=True) if not near]
    if off:
        figure += f". Not so: {'; '.join(off)}"
    return Claim(claim, not off and within(limit)(together), figure)


def _in_words(found: Interval) -> str:
    return f"{found.mean:+.2f} [{found.low:+.2f}, {found.high:+.2f}] dB"


def within(limit: float) -> Callable[[Interval], bool]:
    """The whole interval lies within this many dB."""
    return lambda found: -limit < found.low and found.high < limit


def above(limit: float) -> Callable[[Interval], bool]:
    """The whole interval lies at least this many dB above."""
    return lambda found: found.low >= limit
