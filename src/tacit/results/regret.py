"""True static regret of a run: the comparator is solved for on all the data that the agents saw."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from weakref import WeakKeyDictionary

import jax
import numpy as np
from numpy.typing import NDArray

from tacit.contract import Objective, Tree
from tacit.errors import ConfigError
from tacit.metrics import Comparator, best_fixed_prefixes, static_regret
from tacit.streams import Stream

CHUNK_BYTES = 2**26
"""Data are read in pieces of about this size."""

_solved: WeakKeyDictionary[Stream, dict[tuple[Objective, tuple[int, ...]], list[Comparator]]] = WeakKeyDictionary()
# A stream is pure, so its comparator is a fact about it: algorithms that are compared on one stream share it.


@dataclass(frozen=True, eq=False)
class RegretCurve:
    """Static regret after some rounds, the last of which is the final one.

    Sums are over all agents and rounds 1..t: loss at prediction time minus that of the one model that would
    have been best for all agents over those rounds. Negative values are possible: agents that may differ, or
    move with a drift, can beat every fixed model.
    """

    rounds: NDArray[np.int64]
    """(k,) the rounds t."""
    total: NDArray[np.float64]
    """(repeats, k)."""
    per_agent_round: NDArray[np.float64]
    """(repeats, k) total / (agents t)."""
    node_total: NDArray[np.float64] | None
    """(repeats, k) the same for one agent's model on everybody's data, where the run recorded its loss."""
    node_per_agent_round: NDArray[np.float64] | None
    gap: float | None
    """Certified: no comparator's average loss is above the optimum by more than this; None: unknown."""
    converged: bool
    """Whether the solver reached its tolerance everywhere."""


def prefixes(rounds: int, points: int) -> NDArray[np.int64]:
    """Return up to `points` log-spaced rounds, the last one final, the first about a hundredth of it."""
    if isinstance(points, bool) or not isinstance(points, int) or points < 1:
        raise ConfigError(f"points is {points!r}; expected a whole number from 1 on")
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
) -> RegretCurve:
    """Return the regret of (repeats, rounds) losses averaged over agents; one stream, or one per repeat."""
    rounds = prefixes(loss.shape[1], points)
    found = [_comparators(objective, stream, rounds) for stream in streams]
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
    )


def _comparators(objective: Objective, stream: Stream, rounds: NDArray[np.int64]) -> list[Comparator]:
    key = (objective, tuple(rounds.tolist()))
    known = _solved.setdefault(stream, {})
    if key not in known:
        chunks = _reader(stream, int(rounds[-1]))
        known[key] = best_fixed_prefixes(objective, chunks, stream.batch_spec(), rounds.tolist())
    return known[key]


def _reader(stream: Stream, rounds: int) -> Callable[[], Iterator[Tree]]:
    leaves = jax.tree.leaves(stream.batch_spec())
    per_round = stream.agents * sum(int(np.prod(leaf.shape)) * leaf.dtype.itemsize for leaf in leaves)
    step = max(1, CHUNK_BYTES // max(1, per_round))

    def chunks() -> Iterator[Tree]:
        for start in range(0, rounds, step):
            yield stream.chunk(start, min(start + step, rounds))

    return chunks
