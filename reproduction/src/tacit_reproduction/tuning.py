"""Step size of a method: the best one on a geometric grid, found without trying all of it."""

import functools
import math
from collections.abc import Callable

LEAST_STEP, LARGEST_STEP = 2.0**-12, 2.0**8


def bracket(loss: Callable[[float], float], start: float, ratio: float) -> float:
    """Walk downhill on the grid start * ratio^k until both neighbours of the best step are worse, and return that.

    It finds the grid's optimum where the loss has one valley, as that of online gradient descent has; `start`
    decides only how long it takes. A loss that is not finite counts as infinitely bad.
    """

    @functools.cache
    def at(k: int) -> float:
        inside = LEAST_STEP <= start * ratio**k <= LARGEST_STEP
        found = loss(start * ratio**k) if inside else math.inf
        return found if math.isfinite(found) else math.inf

    best, before = 0, None
    while best != before:
        before, best = best, min((best - 1, best, best + 1), key=lambda k: (at(k), abs(k - best)))
    return start * ratio**best
