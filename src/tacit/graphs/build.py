"""Generators of graphs: regular shapes, and sequences of graphs that are played in turn.

Random graphs are in `random_graphs`, graphs from files and other libraries in `convert`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from tacit.core.errors import GraphError
from tacit.graphs.dynamics import Periodic, Schedule
from tacit.graphs.edges import BoolArray, IntArray, complete_edges, edge_keys, refuse_large, split_keys
from tacit.graphs.graph import Graph, first_of_equal_sizes
from tacit.graphs.weights import Weights, given

LONGEST_PERIOD = 10_000
"""Rounds of a schedule."""


def ring(n: int) -> Graph:
    """Ring: each agent is linked both ways with the next one.

    Args:
      n: Number of agents, at least 1.

    Example:
      >>> import tacit
      >>> tacit.graphs.ring(5)
      Graph(ring, 5 agents, 10 links)
    """
    return _circulant(n, (1, -1), f"ring({n})")


def directed_ring(n: int) -> Graph:
    """Ring in one direction: agent i sends to agent i + 1 mod n.

    Args:
      n: Number of agents, at least 1.

    Example:
      >>> import tacit
      >>> tacit.graphs.directed_ring(5).neighbours_in(0)
      array([4], dtype=int32)
    """
    return _circulant(n, (1,), f"directed_ring({n})")


def complete(n: int) -> Graph:
    """Complete graph: every agent sends to every other one.

    Args:
      n: Number of agents, 1 to 20,000; it has n (n - 1) links.

    Example:
      >>> import tacit
      >>> tacit.graphs.complete(5).edges
      20
    """
    _check_size("complete", n, 0)  # links of a complete graph are made without sorting, and bounded by themselves
    senders, receivers = complete_edges(n)
    return Graph(n, senders, receivers, name=f"complete({n})")


def star(n: int) -> Graph:
    """Star of agents of one role: agent 0 is the hub, linked both ways with each other one.

    For a server with a role of its own use `star_roles`.

    Args:
      n: Number of agents, the hub included, at least 1.

    Example:
      >>> import tacit
      >>> tacit.graphs.star(5).in_degree
      array([4, 1, 1, 1, 1])
    """
    _check_size("star", n, 2 * n)
    rim, hub = np.arange(1, n), np.zeros(n - 1, dtype=np.int64)
    return Graph.from_edges(n, np.concatenate([rim, hub]), np.concatenate([hub, rim]), name=f"star({n})")


def exponential(n: int) -> Graph:
    """Static exponential graph: agent i sends to i + 2^j mod n for every 2^j < n.

    Out-degrees are about log2 n, and so is the longest path.

    Args:
      n: Number of agents, at least 1.

    Example:
      >>> import tacit
      >>> tacit.graphs.exponential(8).neighbours_out(0)
      array([1, 2, 4], dtype=int32)
    """
    _check_size("exponential", n, n * len(_powers_of_two(n)))
    return _circulant(n, _powers_of_two(n), f"exponential({n})")


def one_peer_exponential(n: int) -> Graph:
    """Exponential graph with one link per agent and round: in round t, i sends to i + 2^(t mod log2 n).

    Args:
      n: Number of agents, at least 1.

    Example:
      >>> import tacit
      >>> graph = tacit.graphs.one_peer_exponential(8)
      >>> [int(graph.live_at(t).sum()) for t in (1, 2, 3)]
      [8, 8, 8]
    """
    _check_size("one_peer_exponential", n, n * len(_powers_of_two(n)))
    powers = _powers_of_two(n)
    # Round t = 1 plays the power 2^(1 mod P), so the list starts with the second one.
    steps = [_circulant(n, (power,), "step") for power in powers[1:] + powers[:1]]
    return periodic(steps, name=f"one_peer_exponential({n})")


def periodic(graphs: Sequence[Graph], *, name: str = "periodic") -> Graph:
    """Graphs played in turn: round t = 1, 2, ... is number (t - 1) mod P of the list, counted from 0.

    Args:
      graphs: Fixed graphs on the same agents. Given weights are played with their graphs; a rule must be common to all.
      name: Name in reports.

    Example:
      >>> import tacit
      >>> there = tacit.graphs.directed_ring(5)
      >>> tacit.graphs.periodic([there, there.reverse()])
      Graph(periodic, 5 agents, 10 links, Periodic)
    """
    first = first_of_equal_sizes(graphs, "periodic()", "graphs played in turn are on the same agents")
    for index, graph in enumerate(graphs):
        if graph.dynamics is not None:
            raise GraphError(f"graph {index} varies by itself ({type(graph.dynamics).__name__}): list fixed graphs")
    keys = [edge_keys(graph.senders, graph.receivers) for graph in graphs]
    union = np.unique(np.concatenate(keys))
    places = [np.searchsorted(union, own) for own in keys]
    table: BoolArray = np.zeros((len(graphs), len(union)), dtype=bool)
    for row, place in zip(table, places, strict=True):
        row[place] = True
    senders, receivers = split_keys(union)
    graph = Graph(first.agents, senders, receivers, sources=first.sources, name=name)
    weights = _weights_in_turn(graphs, places, len(union))
    graph = graph.with_dynamics(Periodic(table))
    return graph if weights is None else graph.with_weights(weights)


@dataclass(frozen=True)
class Rotation(Schedule):
    """Links played in turn by the distance of their ends: in round t, i sends to i + hops[(t - 1) mod P] mod n alone.

    Each end knows from the two ids whether a link is up. The hops 2, 4, ..., 1 are a one-peer exponential graph; all
    of 1, ..., n - 1 have everybody send to one other after the other.

    Args:
      hops: Distances, one for each round of the period; of links that the graph has not, none is up.
      symmetric: Whether i also sends to i - hop, so that links that lead both ways are up both ways.

    Example:
      >>> import tacit
      >>> graph = tacit.graphs.exponential(8).with_dynamics(tacit.graphs.Rotation([2, 4, 1]))
      >>> [int(graph.live_at(t).sum()) for t in (1, 2, 3)]
      [8, 8, 8]
    """

    hops: list[int]
    symmetric: bool = False

    def __post_init__(self) -> None:
        _check_rounds("Rotation hops", len(self.hops))
        for hop in self.hops:
            if not 1 <= hop <= np.iinfo(np.int32).max:
                raise GraphError(f"Rotation hops: {hop} is no distance; expected whole numbers from 1 to agents - 1")

    def table(self, senders: IntArray, receivers: IntArray, agents: int) -> BoolArray:
        """Return (P, E) which links are up in each round of the period."""
        hops = np.asarray(self.hops, np.int64)[:, None]
        ahead = (receivers.astype(np.int64) - senders) % agents
        up: BoolArray = ahead == hops
        return up | (agents - ahead == hops) if self.symmetric else up

    def check(self, senders: IntArray, receivers: IntArray, agents: int, of: Collection[int]) -> None:
        """Raise where a hop leads round, or where a link is never up."""
        if max(self.hops) >= agents > 1:
            raise GraphError(f"Rotation hops: {max(self.hops)} leads round {agents} agents; expected 1 to {agents - 1}")
        idle = np.flatnonzero(~self.table(senders, receivers, agents).any(axis=0))
        if idle.size:
            a, b = int(senders[idle[0]]), int(receivers[idle[0]])
            raise GraphError(
                f"Rotation: the link {a} -> {b} is up in no round, for {(b - a) % agents} is not among the hops "
                f"{self.hops}; add it to them, or remove the link"
            )


@dataclass(frozen=True)
class Timetable(Schedule):
    """Links played in turn by a list: row (t - 1) mod P has those that are up in round t, as (sender, receiver).

    Args:
      rounds: For each round of the period its links, each a pair of ids; every link of the graph is in one of them.
      symmetric: Whether a pair stands for both directions.

    Example:
      >>> import tacit
      >>> turns = tacit.graphs.Timetable([[[0, 1], [1, 2]], [[2, 0]]])
      >>> tacit.graphs.directed_ring(3).with_dynamics(turns).live_at(2).sum()
      np.int64(1)
    """

    rounds: list[list[list[int]]]
    symmetric: bool = False

    def __post_init__(self) -> None:
        _check_rounds("Timetable rounds", len(self.rounds))
        for number, links in enumerate(self.rounds, 1):
            for link in links:
                if len(link) != 2 or min(link) < 0 or max(link) > np.iinfo(np.int32).max or link[0] == link[1]:
                    raise GraphError(f"Timetable round {number}: {link} is no link; expected [sender, receiver]")

    def pairs(self, links: list[list[int]]) -> set[tuple[int, int]]:
        """Return all links of a row, both directions where a pair stands for both.

        Args:
          links: A row of `rounds`.
        """
        listed = {(a, b) for a, b in links}
        return listed | {(b, a) for a, b in listed} if self.symmetric else listed

    def table(self, senders: IntArray, receivers: IntArray, agents: int) -> BoolArray:
        """Return (P, E) which links are up in each round of the period."""
        ends = list(zip(senders.tolist(), receivers.tolist(), strict=True))
        rows = [self.pairs(links) for links in self.rounds]
        return np.array([[end in row for end in ends] for row in rows], dtype=bool).reshape(len(rows), len(ends))

    def check(self, senders: IntArray, receivers: IntArray, agents: int, of: Collection[int]) -> None:
        """Raise where a link that is listed is not there, or the other way round."""
        there = set(zip(senders.tolist(), receivers.tolist(), strict=True))
        listed = {pair for links in self.rounds for pair in self.pairs(links) if pair[0] in of or pair[1] in of}
        for a, b in sorted({pair for links in self.rounds for pair in self.pairs(links) if max(pair) >= agents}):
            raise GraphError(f"Timetable: {a} -> {b} is listed, and there are {agents} agents, counted from 0")
        for a, b in sorted(listed - there):
            raise GraphError(f"Timetable: {a} -> {b} is listed and is no link; remove it, or add the link")
        for a, b in sorted(there - listed):
            raise GraphError(f"Timetable: the link {a} -> {b} is up in no round; list it in one, or remove the link")


def _check_rounds(what: str, count: int) -> None:
    if not 1 <= count <= LONGEST_PERIOD:
        raise GraphError(f"{what}: a period of {count:,} rounds; expected 1 to {LONGEST_PERIOD:,}")


def _weights_in_turn(graphs: Sequence[Graph], places: Iterable[np.ndarray], edges: int) -> Weights | None:
    kinds = {None if graph.weights is None else graph.weights.rule for graph in graphs}
    if len(kinds) > 1:
        raise GraphError(f"graphs played in turn need one kind of weights, but these have {sorted(map(str, kinds))}")
    if kinds != {"given"}:
        return graphs[0].weights
    edge, own = np.zeros((len(graphs), edges)), np.zeros((len(graphs), graphs[0].agents))
    for step, (graph, place) in enumerate(zip(graphs, places, strict=True)):
        assert graph.weights is not None
        edge[step, place], own[step] = graph.weights.edge, graph.weights.own
    return given(edge, own)


def _powers_of_two(n: int) -> tuple[int, ...]:
    return tuple(1 << j for j in range(max(n - 1, 1).bit_length()) if 1 << j < n) or (1,)


def _circulant(n: int, offsets: Sequence[int], name: str) -> Graph:
    """Return the graph with links i -> i + offset mod n, without repeats and self loops (tiny n)."""
    _check_size(name, n, n * len(offsets))
    distinct = np.array(sorted({offset % n for offset in offsets} - {0}), dtype=np.int64)
    senders = np.tile(np.arange(n), len(distinct))
    return Graph.from_edges(n, senders, (senders + np.repeat(distinct, n)) % n, name=name)


def circulant_regular(n: int, k: int) -> Graph:
    """Return the ring in which each agent is linked with the k nearest (k odd: and the opposite one)."""
    _check_size("k_regular", n, n * k)
    half = tuple(range(1, k // 2 + 1))
    opposite = (n // 2,) if k % 2 else ()
    return _circulant(n, half + tuple(-offset for offset in half) + opposite, f"k_regular({n}, {k})")


def _check_size(name: str, n: int, links: int) -> None:
    kind = name.partition("(")[0]
    if n < 1:
        raise GraphError(f"{kind} of {n} agents: expected at least 1")
    refuse_large(n, links, kind)
