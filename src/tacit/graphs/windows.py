"""Windows of rounds over which a time-varying graph is connected, and the first that is not.

Asked of the union of a window's links: whether it is strongly connected (B-connectivity, B rounds to a window). The
order of the rounds within the window does not matter.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt

from tacit.core.errors import GraphError
from tacit.graphs.checks import LARGEST_TABLE, adjacency, is_strongly_connected, one_role, pair_without_path
from tacit.graphs.dynamics import Scheduled
from tacit.graphs.edges import BoolArray, IntArray
from tacit.graphs.graph import Graph

Rows = Callable[[int, int], BoolArray]
"""(first, last) -> which links are up in these rounds, one row per round, the last one included."""


class Window(NamedTuple):
    """Number of rounds over which a graph is connected; see `connection_window`."""

    rounds: int | None
    """Least B such that the links of any B rounds in a row connect all agents; None: not found."""
    exact: bool
    """True for fixed graphs and for schedules; otherwise found on sampled rounds."""
    statement: str
    """The finding in words."""


class Gap(NamedTuple):
    """Rounds in a row whose links together do not connect all agents."""

    first: int
    """Round in which it begins."""
    last: int
    """Round in which it ends."""
    source: int
    """An agent from which there is no path..."""
    target: int
    """... to this one. Numbered within their part."""
    part: int
    """Which repeat of a union; 0 where there is one."""

    def __str__(self) -> str:
        """Return it as the evidence of an error's sentence."""
        rounds = (
            f"round {self.first} leaves" if self.first == self.last else f"rounds {self.first} to {self.last} leave"
        )
        return f"{rounds} no path from agent {self.source} to agent {self.target}"


def connection_window(graph: Graph, *, horizon: int = 64, seed: int = 0) -> Window:
    """Least B such that the links of every B rounds in a row are strongly connected.

    Exact for fixed graphs and for schedules (periodic links, attendance). Random dynamics have no such B for certain:
    each link is up in each round with a probability above 0, independently of earlier rounds, so a strongly connected
    graph is connected infinitely often with probability 1; B is then the figure of sampled rounds.

    Args:
      graph: A graph among agents of one role.
      horizon: Rounds that are sampled of random dynamics.
      seed: Seed of these.

    Example:
      >>> import tacit
      >>> tacit.graphs.connection_window(tacit.graphs.one_peer_exponential(8)).statement
      'connected over every 3 rounds in a row (period 3)'
    """
    if not is_strongly_connected(graph):
        return Window(None, True, "never connected: not even all links together connect everybody")
    if graph.dynamics is None:
        return Window(1, True, "connected in every round")
    if isinstance(graph.dynamics, Scheduled):
        period, rows = graph.dynamics.period, _rows_of_schedule(graph, graph.dynamics)
        # Windows that begin in the first period: there are no others.
        rounds = _least(lambda length: _first_gap(graph, rows, period + length - 1, length, 1) is None, period)
        return Window(rounds, True, f"connected over every {rounds} rounds in a row (period {period})")
    table = live_rounds(graph, jax.random.split(jax.random.key(seed), horizon))
    promise = "connected infinitely often with probability 1"
    sampled = _least(lambda length: first_gap(graph, table, length) is None, horizon)
    found = (
        f"not within {horizon} sampled rounds"
        if sampled is None
        else f"over every {sampled} of {horizon} sampled rounds"
    )
    return Window(sampled, False, f"{promise}; {found}")


def first_gap(graph: Graph, live: BoolArray, window: int, *, parts: int = 1) -> Gap | None:
    """First `window` rounds in a row whose links together do not strongly connect all agents, or None.

    Args:
      graph: A graph among agents of one role.
      live: (T, E) bool, which links are up in rounds 1 to T (`live_rounds`).
      window: Rounds of a window; a run of fewer has none.
      parts: Number of repeats of which the graph is the union; each is asked for by itself.

    Example:
      >>> import numpy as np, tacit
      >>> up = np.array([[True, True, True], [True, False, True]])
      >>> print(tacit.graphs.first_gap(tacit.graphs.directed_ring(3), up, window=1))
      round 2 leaves no path from agent 0 to agent 1
    """
    if live.dtype != np.bool_ or live.ndim != 2 or live.shape[1] != graph.edges:
        raise GraphError(
            f"the live table has shape {live.shape} and type {live.dtype}: expected (rounds, {graph.edges}) of bool, "
            "one column per edge of the graph; make it with live_rounds"
        )
    return _first_gap(graph, lambda first, last: live[first - 1 : last], len(live), window, parts)


def first_gap_of_run(
    graph: Graph, keys: jax.Array, window: int, *, parts: int = 1, there: Rows | None = None
) -> Gap | None:
    """First gap of a run of rounds 1, 2, ..., drawn as the run will draw them, or None.

    Args:
      graph: A graph among agents of one role.
      keys: (T,) keys of the rounds' dynamics.
      window: Rounds of a window.
      parts: Number of repeats of which the graph is the union.
      there: (first, last) -> (rounds, agents) which agents are there; None: all, always.

    Example:
      >>> import jax, tacit
      >>> keys = jax.random.split(jax.random.key(0), 10)
      >>> print(tacit.graphs.first_gap_of_run(tacit.graphs.ring(5), keys, window=1))
      None
    """
    different = len(keys)
    if there is None and graph.dynamics is None:
        different = window
    elif there is None and isinstance(graph.dynamics, Scheduled):
        different = graph.dynamics.period + window - 1

    def rows(first: int, last: int) -> BoolArray:
        up = live_rounds(graph, keys[first - 1 : last], first)
        if there is None:
            return up
        present = there(first, last)
        return up & present[:, graph.senders] & present[:, graph.receivers]

    return _first_gap(graph, rows, min(len(keys), different), window, parts)


def live_rounds(graph: Graph, keys: jax.Array, first: int = 1) -> BoolArray:
    """Table (T, E) of which links are up in T rounds.

    Args:
      graph: The graph.
      keys: (T,) keys of the rounds' dynamics.
      first: Number of the first of these rounds, counted from 1.

    Example:
      >>> import jax, tacit
      >>> keys = jax.random.split(jax.random.key(0), 10)
      >>> tacit.graphs.live_rounds(tacit.graphs.ring(5).with_dynamics(tacit.graphs.LinkDrop(0.5)), keys).shape
      (10, 10)
    """
    table = np.ones((len(keys), graph.edges), dtype=np.bool_)
    if graph.dynamics is None:
        return table
    size = _rows_at_once(graph.edges, graph.agents)
    for start in range(0, len(keys), size):
        now = slice(start, min(start + size, len(keys)))
        rounds = jnp.arange(first + now.start, first + now.stop, dtype=jnp.int32)
        table[now] = _live(graph.dynamics, rounds, keys[now], graph.senders, graph.receivers, graph.agents)
    return table


@partial(jax.jit, static_argnames="agents")
def _live(dynamics: Any, rounds: jax.Array, keys: jax.Array, senders: Any, receivers: Any, agents: int) -> jax.Array:
    up: jax.Array = jax.vmap(lambda t, key: dynamics.live(t, key, senders, receivers, agents)[0])(rounds, keys)
    return up


def _rows_of_schedule(graph: Graph, dynamics: Scheduled) -> Rows:
    return lambda first, last: dynamics.links_in(np.arange(first, last + 1), graph.senders, graph.receivers)


def _least(holds: Callable[[int], bool], longest: int) -> int | None:
    """Return the least length <= longest for which it holds; longer windows hold more links, so halving finds it."""
    low, high = 1, longest + 1
    while low < high:
        middle = (low + high) // 2
        if holds(middle):
            high = middle
        else:
            low = middle + 1
    return low if low <= longest else None


def _first_gap(graph: Graph, rows: Rows, rounds: int, window: int, parts: int) -> Gap | None:
    """Go through the rounds piece by piece, each with the end of the piece before it."""
    one_role(graph)
    if window < 1:
        raise GraphError(f"a window of {window} rounds: expected at least 1")
    if parts < 1 or graph.agents % parts:
        raise GraphError(f"{parts} parts of {graph.agents} agents: expected a number that divides them")
    agents = graph.agents // parts
    if np.any(graph.senders // agents != graph.receivers // agents):
        raise GraphError(
            f"links of {graph.name!r} lead from one of {parts} parts to another: expected a disjoint union"
        )
    bounds = np.searchsorted(graph.receivers, agents * np.arange(parts + 1))
    size = max(_rows_at_once(graph.edges, graph.agents), window)
    table: BoolArray = np.zeros((0, graph.edges), dtype=np.bool_)
    for start in range(0, rounds, size):
        stop = min(start + size, rounds)
        table = np.concatenate([table[max(len(table) - window + 1, 0) :], rows(start + 1, stop)])
        found, reach = None, len(table)
        for part in range(parts):
            own = slice(bounds[part], bounds[part + 1])
            ends = (graph.senders[own] - part * agents, graph.receivers[own] - part * agents)
            opening = _first_open(agents, *ends, table[:reach, own], window)
            if opening is not None:
                up = np.any(table[opening : opening + window, own], axis=0)
                pair = pair_without_path(adjacency(agents, ends[0][up], ends[1][up]))
                assert pair is not None
                first = stop - len(table) + 1 + opening
                found = Gap(first, first + window - 1, *pair, part)
                reach = opening + window - 1  # another part is of interest only where its gap is earlier
        if found is not None:
            return found
    return None


def _first_open(agents: int, senders: IntArray, receivers: IntArray, live: BoolArray, window: int) -> int | None:
    """Return the row at which the first window begins that does not connect all agents."""
    windows = len(live) - window + 1
    if windows < 1:
        return None
    # Blocks of half a window, side by side: each window holds one of them, so most need no look of their own.
    half = (window + 1) // 2
    closed = _connected(agents, senders, receivers, _unions(live, half)[::half])
    starts = np.arange(windows)
    doubtful = starts[~closed[-(-starts // half)]]
    if len(doubtful) == 0:
        return None
    unions, size = _unions(live, window), _rows_at_once(live.shape[1], agents)
    for begin in range(0, len(doubtful), size):
        some = doubtful[begin : begin + size]
        is_open = ~_connected(agents, senders, receivers, unions[some])
        if is_open.any():
            return int(some[np.argmax(is_open)])
    return None


def _unions(live: BoolArray, length: int) -> BoolArray:
    """Return in row s the links of rows s to s + length - 1 together."""
    span = 1
    while span < length:
        step = min(span, length - span)
        live = live[: len(live) - step] | live[step:]
        span += step
    return live


def _connected(agents: int, senders: IntArray, receivers: IntArray, up: BoolArray) -> BoolArray:
    """Return for each row of `up` (rows, E) whether its links strongly connect the agents."""
    from scipy.sparse.csgraph import connected_components

    answers, size = np.zeros(len(up), dtype=np.bool_), _rows_at_once(up.shape[1], agents)
    for start in range(0, len(up), size):
        # All of the rows as one graph, each with agents of its own.
        row, edge = np.nonzero(up[start : start + size])
        count = min(size, len(up) - start)
        base: npt.NDArray[np.int32] = (row * agents).astype(np.int32)
        links = adjacency(count * agents, base + senders[edge], base + receivers[edge])
        _, component = connected_components(links, connection="strong")
        mine = component.reshape(count, agents)
        answers[start : start + count] = (mine == mine[:, :1]).all(axis=1)
    return answers


def _rows_at_once(edges: int, agents: int) -> int:
    return max(LARGEST_TABLE // max(edges, agents), 1)
