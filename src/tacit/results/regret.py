"""True regret of a run: its comparators are solved for on all the data that the agents saw."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

import jax
import numpy as np
from numpy.typing import NDArray

from tacit.core.checks import whole_number
from tacit.core.contract import Array, Batch, Objective, Params, Tree
from tacit.metrics import (
    Comparator,
    DynamicComparator,
    FeasibleComparator,
    best_fixed_prefixes,
    best_fixed_within,
    dynamic_comparator,
    static_regret,
)
from tacit.metrics.feasible import MOST_COORDINATES
from tacit.objectives import ConvexSet
from tacit.streams import Stream

Constraints = Mapping[str, Callable[[Params, Batch], Array]]
Found = TypeVar("Found")
Told = Callable[[int, int], None]
"""Hears how many of how many steps are done."""
NO_CONSTRAINTS: Constraints = MappingProxyType({})

CHUNK_BYTES = 2**26
"""Data are read in pieces of about this size."""

_solved: WeakKeyDictionary[Stream, dict[Hashable, Any]] = WeakKeyDictionary()
# A stream is pure, so its comparator is a fact about it: algorithms that are compared on one stream share it.


@dataclass(frozen=True, eq=False, repr=False)
class RegretCurve:
    """Static regret after some rounds, the last of which is the final one.

    Sums are over all agents and rounds 1..t: loss at prediction time minus that of the one model that would
    have been best for all agents over those rounds, among those of the run's set. Negative values are possible: agents
    that may differ, or move with a drift, can beat every fixed model.
    """

    rounds: NDArray[np.int64]
    """(k,) the rounds t."""
    total: NDArray[np.float64]
    """(repeats, k)."""
    per_agent_round: NDArray[np.float64]
    """(repeats, k) total / (agents t)."""
    node_total: NDArray[np.float64] | None
    """(repeats, k) the same for one agent's model on the data of all agents, where the run recorded its loss."""
    node_per_agent_round: NDArray[np.float64] | None
    """(repeats, k) node_total / (agents t)."""
    gap: float | None
    """Certified: no comparator's average loss is above the optimum by more than this; None: unknown. In a set or under
    constraints this takes the loss to be convex."""
    converged: bool
    """Whether the solver reached its tolerance everywhere."""
    window: int | None = None
    """The comparator keeps the run's constraints over every so many rounds in a row; None: it need not keep them."""

    def __repr__(self) -> str:
        final = f"{self.per_agent_round[:, -1].mean():.4g} per agent and round"
        return f"RegretCurve({len(self.rounds)} points, {final} after round {self.rounds[-1]:,})"


@dataclass(frozen=True, eq=False, repr=False)
class DynamicRegret:
    """Regret against the best model of every single round, and how far that model moved.

    Sums over all agents and rounds 1..t: loss at prediction time minus f_is(x*_s), x*_s = argmin of round s's total
    loss in the run's set.
    """

    rounds: NDArray[np.int64]
    """(rounds,) t = 1, 2, ..."""
    total: NDArray[np.float64]
    """(repeats, rounds)."""
    path_length: NDArray[np.float64]
    """(repeats, rounds) sum over the rounds up to t of ||x*_s - x*_(s-1)||_2."""
    path_error: NDArray[np.float64] | None
    """(repeats, rounds) certified for convex losses: the true path length differs by at most this. None where the loss
    has no l2 regulariser: then a round may have several optima, and the path is that of the points found."""
    gap: float | None
    """Certified for convex losses: in no round is the comparator's loss, averaged over the agents, above the optimum by
    more than this; None: unknown."""
    converged: bool
    """Whether the solver reached its tolerance in all rounds."""

    def __repr__(self) -> str:
        final = f"total {self.total[:, -1].mean():.4g}, path length {self.path_length[:, -1].mean():.4g}"
        return f"DynamicRegret({len(self.rounds):,} rounds, {final})"


def prefixes(rounds: int, points: int) -> NDArray[np.int64]:
    """Return up to `points` log-spaced rounds, the last one final, the first about a hundredth of it."""
    whole_number("points", points)
    if points == 1:
        return np.array([rounds])
    first = max(1.0, rounds / 100)
    return np.unique(np.rint(np.geomspace(first, rounds, points)).astype(np.int64))


def regret_curve(
    objective: Objective,
    streams: Sequence[Stream],
    loss: NDArray[np.floating],
    node_loss: NDArray[np.floating] | None,
    points: int,
    *,
    within: ConvexSet | None = None,
    constraints: Constraints = NO_CONSTRAINTS,
    window: int | None = None,
    told: Told | None = None,
) -> RegretCurve:
    """Return the regret of (repeats, rounds) losses averaged over agents; one stream, or one per repeat.

    `told` hears how many comparators are solved for, of how many.
    """
    rounds = prefixes(loss.shape[1], points)
    found = []
    for number, stream in enumerate(streams):

        def solved(count: int, before: int = number * len(rounds)) -> None:
            if told is not None:
                told(before + count, len(streams) * len(rounds))

        solved(0)
        found.append(_comparators(objective, stream, rounds, within, constraints, window, solved))
    best = np.array([[c.total_loss for c in row] for row in found])  # (streams, k): broadcasts over repeats if shared
    agents = streams[0].agents

    def curve(values: NDArray[np.floating]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        cumulative = agents * np.cumsum(np.asarray(values, np.float64), axis=1)[:, rounds - 1]
        regret = static_regret(rounds, cumulative, best)
        return regret.total, regret.per_round / agents

    total, per_agent_round = curve(loss)
    node_total, node_per_agent_round = (None, None) if node_loss is None else curve(node_loss)
    gaps = [c.gap for row in found for c in row]
    return RegretCurve(
        rounds,
        total,
        per_agent_round,
        node_total,
        node_per_agent_round,
        gap=None if None in gaps else max(g for g in gaps if g is not None),
        converged=all(c.converged for row in found for c in row),
        window=window,
    )


def dynamic_regret(
    objective: Objective, streams: Sequence[Stream], loss: NDArray[np.floating], *, within: ConvexSet | None = None
) -> DynamicRegret:
    """Return the dynamic regret of (repeats, rounds) losses averaged over agents; one stream, or one per repeat."""
    repeats, rounds = loss.shape
    found = [_dynamic_comparator(objective, stream, rounds, within) for stream in streams]
    own = streams[0].agents * np.asarray(loss, np.float64)
    best = np.array([each.loss for each in found])  # (streams, rounds): broadcasts over repeats if shared
    moves = np.broadcast_to(np.array([each.moves for each in found]), (repeats, rounds))
    errors = [each.move_errors for each in found if each.move_errors is not None]
    known = len(errors) == len(found)
    gaps = [each.gap for each in found]
    return DynamicRegret(
        np.arange(1, rounds + 1),
        np.cumsum(own - best, axis=1),
        np.cumsum(moves, axis=1),
        np.cumsum(np.broadcast_to(np.array(errors), (repeats, rounds)), axis=1) if known else None,
        gap=None if any(gap is None for gap in gaps) else max(float(np.max(gap)) for gap in gaps if gap is not None),
        converged=all(each.converged for each in found),
    )


def _comparators(
    objective: Objective,
    stream: Stream,
    rounds: NDArray[np.int64],
    within: ConvexSet | None,
    constraints: Constraints,
    window: int | None,
    solved: Callable[[int], None],
) -> Sequence[Comparator | FeasibleComparator]:
    at, spec = rounds.tolist(), stream.batch_spec()
    limits = tuple(constraints.items()) if window is not None else ()

    def solve() -> Sequence[Comparator | FeasibleComparator]:
        chunks = _reader(stream, at[-1])
        if within is None and window is None:
            return best_fixed_prefixes(objective, chunks, spec, at, solved=solved)
        size = sum(np.size(leaf) for leaf in jax.tree.leaves(objective.initial(spec)))
        if window is None and within is not None and size > MOST_COORDINATES:
            free = best_fixed_prefixes(objective, chunks, spec, at, solved=solved)
            if all(within.fault(each.params) is None for each in free):  # the best of all models is the set's best too
                return free
        return best_fixed_within(
            objective, chunks, spec, at, within=within, constraints=dict(limits), window=window, solved=solved
        )

    return _once(stream, (objective, tuple(at), within, limits, window), solve)


def _dynamic_comparator(
    objective: Objective, stream: Stream, rounds: int, within: ConvexSet | None
) -> DynamicComparator:
    def solve() -> DynamicComparator:
        return dynamic_comparator(objective, _reader(stream, rounds), stream.batch_spec(), within=within)

    return _once(stream, (objective, rounds, within), solve)


def _once(stream: Stream, key: Hashable, solve: Callable[[], Found]) -> Found:
    known: dict[Hashable, Found] = _solved.setdefault(stream, {})
    if key not in known:
        known[key] = solve()
    return known[key]


def _reader(stream: Stream, rounds: int) -> Callable[[], Iterator[Tree]]:
    leaves = jax.tree.leaves(stream.batch_spec())
    per_round = stream.agents * sum(int(np.prod(leaf.shape)) * leaf.dtype.itemsize for leaf in leaves)
    step = max(1, CHUNK_BYTES // max(1, per_round))

    def chunks() -> Iterator[Tree]:
        for start in range(0, rounds, step):
            yield stream.chunk(start, min(start + step, rounds))

    return chunks
