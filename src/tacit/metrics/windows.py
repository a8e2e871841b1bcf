"""Constraints over windows: for every agent, the sum of c_it(x) over every K rounds in a row shall be at most 0.

There are as many windows as rounds and agents, and few of them matter. Those that a point breaks most are cut off by
their tangents there, which lie below them (c is convex): a point that keeps every window keeps all cuts.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tacit.core.errors import DataError
from tacit.metrics import blocks
from tacit.metrics.blocks import Data, Loss, Vector, Vectors

Whole = NDArray[np.signedinteger[Any]]
SAME = 1e-9
"""Difference up to which two gradients count as one, relative to the largest entry."""


class Window(NamedTuple):
    """Rounds in a row of one agent and one constraint."""

    constraint: str
    agent: int
    first: int
    """Rounds count from 1."""
    last: int


class _Affine(NamedTuple):
    """A constraint that is the same plane wherever it was looked at: then the data are not needed again."""

    slope: Vector
    """(rounds, agents, d)."""
    offset: Vector
    """(rounds, agents)."""


class Windows:
    """All windows of some constraints, and the cuts <row, x> <= limit that were made so far."""

    def __init__(
        self,
        data: Data,
        vectors: Vectors,
        constraints: Mapping[str, Loss],
        length: int,
        probes: tuple[Vector, Vector],
        rounds: int,
    ) -> None:
        self._data, self._vectors, self._constraints, self.length = data, vectors, constraints, length
        self.rows, self.limits = np.zeros((0, vectors.size)), np.zeros(0)
        self.windows: list[Window] = []
        self._affine: dict[str, _Affine] = {}
        if rounds * data.agents * vectors.size * 8 > blocks.HOLD_BYTES:
            return
        for name, function in constraints.items():
            slope, other = (data.gradients(function, vectors, x, rounds) for x in probes)
            if np.all(np.abs(slope - other) <= SAME * np.max(np.abs(slope))):
                offset = data.values(function, vectors, probes[0], rounds) - slope @ probes[0]
                self._affine[name] = _Affine(slope, offset)

    def cut(self, x: Vector, last: int, above: float) -> tuple[float, int]:
        """Cut x off wherever a window's sum is more than `above`: for each constraint and agent the largest one.

        Only windows that end by round `last` count. Returned are the largest sum and how many cuts are new.
        """
        if last < self.length:
            return -np.inf, 0
        largest, new = -np.inf, 0
        for name in self._constraints:
            sums = self._sums(name, x, last)
            first = np.argmax(sums, axis=0)
            found = sums[first, np.arange(len(first))]
            if np.isnan(found).any():
                raise DataError(
                    f"constraint {name!r} of agent {int(np.argmax(np.isnan(found)))} is NaN at a point of the set: "
                    "expected a number; check the data for NaN, and that it is defined in the set"
                )
            largest = max(largest, float(np.max(found)))
            chosen = np.flatnonzero(found > above)
            if chosen.size:
                new += self._add(name, x, last, chosen, first, found)
        return largest, new

    def sum(self, window: Window, x: Vector) -> float:
        """Return the sum over a window."""
        return float(self._sums(window.constraint, x, window.last)[window.first - 1, window.agent])

    def confirm(self, x: Vector, last: int) -> bool:
        """Return whether the planes that were taken for constraints are right at x, and look at the data where not."""
        wrong = []
        for name, plane in self._affine.items():
            true = self._data.values(self._constraints[name], self._vectors, x, last)
            size = 1 + float(np.max(np.abs(true)))
            if not np.allclose(true, plane.slope[:last] @ x + plane.offset[:last], rtol=0, atol=1e-9 * size):
                wrong.append(name)
        for name in wrong:
            del self._affine[name]
        return not wrong

    def _sums(self, name: str, x: Vector, last: int) -> Vector:
        """Return (windows, agents) the sums over all windows that end by round `last`."""
        plane = self._affine.get(name)
        if plane is None:
            values = self._data.values(self._constraints[name], self._vectors, x, last)
        else:
            values = plane.slope[:last] @ x + plane.offset[:last]
        if self.length == 1:
            return values
        until = np.vstack([np.zeros((1, values.shape[1])), np.cumsum(values, axis=0)])
        return np.asarray(until[self.length :] - until[: -self.length])

    def _add(self, name: str, x: Vector, last: int, agents: Whole, first: Whole, sums: Vector) -> int:
        plane = self._affine.get(name)
        if plane is None:
            weight = np.zeros((last, len(first)))
            for agent in agents:
                weight[first[agent] : first[agent] + self.length, agent] = 1
            slopes = self._data.agent_gradients(self._constraints[name], self._vectors, x, weight)
        else:
            slopes = np.zeros((len(first), x.size))
            for agent in agents:
                slopes[agent] = plane.slope[first[agent] : first[agent] + self.length, agent].sum(axis=0)
        new = 0
        for agent in agents:
            row, limit = slopes[agent], float(slopes[agent] @ x - sums[agent])
            size = 1e-12 * max(float(np.max(np.abs(row))), abs(limit))
            known = (np.abs(self.limits - limit) <= size) & np.all(np.abs(self.rows - row) <= size, axis=1)
            if not known.any():  # agents with the same data, or a constraint that does not depend on them
                begin = int(first[agent]) + 1
                self.rows, self.limits = np.vstack([self.rows, row]), np.append(self.limits, limit)
                self.windows.append(Window(name, int(agent), begin, begin + self.length - 1))
                new += 1
        return new
