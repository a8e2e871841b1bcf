"""Generators of graphs: regular shapes, and sequences of graphs that are played in turn.

Random graphs are in `random_graphs`, graphs from files and other libraries in `convert`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from tacit.core.errors import GraphError
from tacit.graphs.dynamics import Periodic
from tacit.graphs.edges import BoolArray, complete_edges, edge_keys, refuse_large, split_keys
from tacit.graphs.graph import Graph, first_of_equal_sizes
from tacit.graphs.weights import Weights, given


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
    keys = [edge_keys(graph.senders, graph.receivers, graph.columns) for graph in graphs]
    union = np.unique(np.concatenate(keys))
    places = [np.searchsorted(union, own) for own in keys]
    table: BoolArray = np.zeros((len(graphs), len(union)), dtype=bool)
    for row, place in zip(table, places, strict=True):
        row[place] = True
    senders, receivers = split_keys(union, first.columns)
    graph = Graph(first.agents, senders, receivers, sources=first.sources, name=name)
    weights = _weights_in_turn(graphs, places, len(union))
    graph = graph.with_dynamics(Periodic(table))
    return graph if weights is None else graph.with_weights(weights)


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
