"""Step size of a method: the best one on a geometric grid, found without trying all of it."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

from tacit.core.errors import ConfigError

LEAST_STEP, LARGEST_STEP = 2.0**-12, 2.0**8


class Tuned(NamedTuple):
    """A step, and the evidence for it."""

    step: float
    tried: dict[float, float]
    """Step -> loss on the tuning seeds, in rising order of steps."""
    at_edge: bool
    """Whether the search ended at the end of the grid, so that the optimum may lie beyond."""


def bracket(loss: Callable[[float], float], start: float, ratio: float) -> Tuned:
    """Walk downhill on the grid start * ratio^k until both neighbours of the best step are worse.

    It finds the grid's optimum where the loss has one valley, as that of online gradient descent has; `start`
    decides only how long it takes. A loss that is not finite counts as infinitely bad.
    """
    if not LEAST_STEP <= start <= LARGEST_STEP or ratio <= 1:
        raise ConfigError(
            f"start={start!r}, ratio={ratio!r}: expected a start from {LEAST_STEP:g} to {LARGEST_STEP:g} and "
            "a ratio above 1"
        )
    tried: dict[int, float] = {}

    def at(k: int) -> float:
        if not LEAST_STEP <= start * ratio**k <= LARGEST_STEP:
            return math.inf
        if k not in tried:
            found = loss(start * ratio**k)
            tried[k] = found if math.isfinite(found) else math.inf
        return tried[k]

    best = 0
    while True:
        lowest = min((best - 1, best, best + 1), key=lambda k: (at(k), abs(k - best)))
        if lowest == best:
            break
        best = lowest
    return Tuned(
        start * ratio**best,
        {start * ratio**k: tried[k] for k in sorted(tried)},
        at_edge=not {best - 1, best + 1} <= tried.keys(),
    )
