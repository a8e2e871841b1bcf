"""Bounds of columns by a private histogram: scaling that is charged, where no public bounds are known."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tacit.core.checks import positive
from tacit.core.errors import DataError
from tacit.privacy.events import Event
from tacit.privacy.noise import NoiseSource, release_on_grid

Floats = NDArray[np.float64]
SMALLEST, LARGEST = -20, 30
"""Powers of two between which magnitudes are told apart."""
CERTAIN = 4.0
"""A cell is taken for occupied if its share is so many deviations of the noise above 0: in 99 of 100 columns none of a
hundred empty cells is."""


class PrivateBounds(NamedTuple):
    """Bounds of every column, and what they cost.

    Args:
      low: Per column.
      high: Per column.
      events: One per owner, to be booked.
    """

    low: Floats
    high: Floats
    events: tuple[Event, ...]


def edges() -> Floats:
    """Return the edges of the cells: powers of two of either sign, and 0."""
    powers = 2.0 ** np.arange(SMALLEST, LARGEST + 1)
    return np.concatenate([-powers[::-1], [0.0], powers])


def private_bounds(
    x: NDArray[np.floating], owner: NDArray[np.integer], rho: float, source: NoiseSource, simulation: bool = False
) -> PrivateBounds:
    """Find bounds of every column from histograms that each owner releases with Gaussian noise.

    An owner's release is the share of its records in each cell, for all columns at once: replacing a record moves two
    cells per column by 1 / m, so that the l2 sensitivity is sqrt(2 columns) / m. The shares of all owners are averaged,
    and a column's bounds are the edges of the outermost cells whose share stands out of the noise; what lies further
    out is cut off.

    Args:
      x: Rows (records, columns), finite.
      owner: Number of each row's owner, 0, 1, ...
      rho: What a record costs, above 0.
      source: Of the noise.
      simulation: Whether predictable noise will do.

    Returns:
      The bounds, and one event per owner.

    Example:
      >>> import numpy as np
      >>> from tacit.privacy.noise import NoiseSource
      >>> x, owner = np.linspace(17, 30, 4000)[:, None], np.arange(4000) % 2
      >>> found = private_bounds(x, owner, rho=0.1, source=NoiseSource())
      >>> float(found.low[0]), float(found.high[0])
      (16.0, 32.0)
    """
    positive("rho", rho, "the cost of the bounds")
    if not np.isfinite(x).all():
        raise DataError("a row holds a value that is not finite; fill it in, or leave it out")
    cuts = edges()
    cells, columns = len(cuts) + 1, x.shape[1]
    which = np.searchsorted(cuts, x)  # cell k lies between cuts[k - 1] and cuts[k]
    total, variance, events = np.zeros((columns, cells)), 0.0, []
    for number in np.unique(owner):
        mine = which[owner == number]
        counts = np.zeros((columns, cells))
        np.add.at(counts, (np.arange(columns)[None].repeat(len(mine), 0), mine), 1.0)
        sensitivity = math.sqrt(2 * columns) / len(mine)
        scale = sensitivity / math.sqrt(2 * rho)
        total += release_on_grid(counts / len(mine), "gaussian", scale, source, simulation=simulation)
        variance += scale**2
        events.append(Event("bounds", "gaussian", sensitivity, scale, columns * cells, calibration=math.sqrt(2 * rho)))
    shares = total / len(events)
    least = CERTAIN * math.sqrt(variance) / len(events)
    limits = [_limits(share > least, cuts) for share in shares]
    low, high = (np.array(side) for side in zip(*limits, strict=True))
    return PrivateBounds(low, high, tuple(events))


def _limits(occupied: NDArray[np.bool_], cuts: Floats) -> tuple[float, float]:
    """Return the edges of the outermost occupied cells; where there are none, the widest."""
    found = np.flatnonzero(occupied)
    if not found.size:
        return float(cuts[0]), float(cuts[-1])
    # The outermost cells have one edge: what lies beyond it is cut off.
    first, last = max(int(found[0]), 1), min(int(found[-1]), len(cuts) - 1)
    return float(cuts[first - 1]), float(cuts[max(last, first)])
