"""Verdicts on mean deviations: the texts average NMSDs over Monte Carlo runs before they take decibels.

Clusters are drawn anew for every seed. Where they happen to lie close together everything is easy, so that a mean of
decibels would be one of the lucky seeds; these verdicts compare the means themselves, paired over seeds.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tacit.metrics import Interval, mean_interval, paired_difference
from tacit_reproduction.experiment import Claim

Floats = NDArray[np.float64]


class Pair(NamedTuple):
    """Two samples of deviations, seed by seed."""

    name: str
    value: Floats
    reference: Floats

    @property
    def excess(self) -> Interval:
        """By how much the value's mean is above the reference's, as a share of the latter."""
        scale = float(np.mean(self.reference))
        return paired_difference(self.value / scale, self.reference / scale)


def mean_decibels(values: Floats) -> float:
    """Return 10 log10 of the mean over seeds."""
    mean = float(np.mean(values))
    return 10 * math.log10(mean) if 0 < mean < math.inf else math.nan


def in_words(values: Floats) -> str:
    """Return the mean over seeds in dB, and the ends of its 95 % interval."""
    found = mean_interval(values)
    ends = [f"{10 * math.log10(end):.2f}" if 0 < end < math.inf else "-inf" for end in (found.low, found.high)]
    return f"{mean_decibels(values):.2f} [{', '.join(ends)}]"


def compared(
    claim: str, pairs: Sequence[Pair], holds: Callable[[Interval], bool], why: str = "", note: str = ""
) -> Claim:
    """Every pair's excess (95 %, paired over seeds) is as claimed; `why` is said where one is not."""
    parts, failed = [], []
    for pair in pairs:
        found = pair.excess
        ends = ", ".join(f"{100 * end:+.3g}" for end in (found.low, found.high))
        parts.append(
            f"{pair.name}: {mean_decibels(pair.value):.2f} against {mean_decibels(pair.reference):.2f} dB, "
            f"{100 * found.mean:+.3g} % [{ends}]"
        )
        if not holds(found):
            failed.append(pair.name)
    figure = f"{'; '.join(parts)} (means over {len(pairs[0].value)} seeds, differences paired, 95 %)"
    if failed:
        figure += f". Not so: {', '.join(failed)}"
        figure += f". Why: {why}" if why else ""
    return Claim(claim, not failed, f"{figure}. {note}" if note else figure)


def higher(found: Interval) -> bool:
    """The whole interval lies above 0."""
    return found.low > 0


def alike(decibels: float) -> Callable[[Interval], bool]:
    """The whole interval lies within so many dB of equality."""
    ratio = 10 ** (decibels / 10)
    return lambda found: 1 / ratio - 1 < found.low and found.high < ratio - 1
