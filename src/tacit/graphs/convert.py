"""Graphs from a weight matrix, from and to networkx, and from a text file."""

from __future__ import annotations

import os
from collections.abc import Hashable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tacit.core import limits
from tacit.core.errors import GraphError
from tacit.core.extras import require
from tacit.graphs.edges import matrix_entries, refuse_large, split_keys
from tacit.graphs.graph import Graph
from tacit.graphs.weights import given

BYTES_PER_BYTE = 50
"""Memory per byte of an edge list while it is read: a line of four, "1 2", is an entry of a dictionary."""


def from_matrix(W: Any, *, name: str = "given") -> Graph:
    """Graph of a square weight matrix W, row = receiver.

    Args:
      W: A scipy.sparse matrix, or an array of at most 500 rows. Every entry off the diagonal that is not 0 is a link;
        the diagonal holds the self weights.
      name: Name in reports.

    Returns:
      The graph with these weights.

    Example:
      >>> import tacit
      >>> tacit.graphs.from_matrix([[0.5, 0.5], [0.0, 1.0]])  # agent 1 sends to agent 0
      Graph(given, 2 agents, 1 links, given weights)
    """
    if len(np.shape(W)) != 2 or np.shape(W)[0] != np.shape(W)[1]:
        raise GraphError(f"W has shape {np.shape(W)}: expected a square matrix (row = receiver)")
    agents = int(np.shape(W)[0])
    keys, weight, own = matrix_entries(W, two_roles=False)
    senders, receivers = split_keys(keys)
    graph = Graph.from_edges(agents, senders, receivers, name=name)
    return graph.with_weights(given(weight, own))


def from_networkx(
    graph: Any, *, name: str | None = None, weight: str | None = None, cluster: str | None = None
) -> Graph:
    """Graph of the links of a networkx graph, both ways where it is undirected.

    Args:
      graph: A networkx graph. Nodes called 0..n-1 keep their numbers; others are numbered in the order of
        `list(graph.nodes)`. Parallel edges are one link; with `weight` they are refused, as only you know whether their
        weights add up.
      name: Name in reports; None: that of the networkx graph.
      weight: Edge attribute that becomes W[b, a] of an edge (a, b), and W[a, a] of a self loop (0 where there is none);
        None: no weights are read, as a "weight" in networkx is mostly a distance or a strength.
      cluster: Node attribute with the agent's cluster; None: no clusters.

    Example:
      >>> import networkx, tacit
      >>> tacit.graphs.from_networkx(networkx.cycle_graph(5), name="cycle")
      Graph(cycle, 5 agents, 10 links)
    """
    nodes = list(graph.nodes)
    if not nodes:
        raise GraphError("the networkx graph has no nodes: expected at least one")
    numbered = set(nodes) == set(range(len(nodes)))
    number = {node: node if numbered else index for index, node in enumerate(nodes)}
    weights: dict[tuple[int, int], float] = {}
    for a, b, found in graph.edges(data=weight) if weight else ((a, b, 0.0) for a, b in graph.edges()):
        ends, value = (number[a], number[b]), _weight(a, b, found, weight)
        if weight and ends in weights:
            raise GraphError(
                f"edge {a!r} -> {b!r} is there more than once, with {weight!r} {weights[ends]:g} and {value:g}; make "
                "one edge of them, e.g. with the sum, or leave weight= out"
            )
        weights[ends] = value
        if not graph.is_directed():
            weights[ends[::-1]] = value
    loops = {a: value for (a, b), value in weights.items() if a == b} if weight else {}
    pairs = np.array([pair for pair in weights if pair[0] not in loops or pair[0] != pair[1]], np.int64).reshape(-1, 2)
    values: dict[str, Any] = {}
    if weight:
        own = np.zeros(len(nodes))
        own[list(loops)] = list(loops.values())
        values = {"weight": [weights[a, b] for a, b in pairs.tolist()], "self_weight": own}
    made = Graph.from_edges(len(nodes), pairs[:, 0], pairs[:, 1], name=name or graph.name or "networkx", **values)
    if cluster is None:
        return made
    labels = {number[node]: label for node, label in graph.nodes(data=cluster)}
    if None in labels.values():
        node = next(node for node in nodes if labels[number[node]] is None)
        raise GraphError(f"node {node!r} has no {cluster!r}; give every node one, or leave cluster= out")
    return made.with_clusters([labels[k] for k in range(len(nodes))])


def _weight(a: Hashable, b: Hashable, found: Any, name: str | None) -> float:
    if found is None:
        raise GraphError(f"edge {a!r} -> {b!r} has no {name!r}; give every edge one, or leave weight= out")
    try:
        value = float(found)
    except (TypeError, ValueError, OverflowError):
        value = float("nan")
    if not 0 <= value < float("inf"):
        shown = repr(found)[:60]
        raise GraphError(f"edge {a!r} -> {b!r} has {name!r} {shown}; expected a finite number, 0 or larger")
    return value


def to_networkx(graph: Graph, *, nodes: Sequence[Hashable] | None = None) -> Any:
    """A graph as a networkx.DiGraph, edges from sender to receiver.

    Where weights were chosen, every edge has W[receiver, sender] as "weight", and a self loop has W[i, i]; clusters are
    "cluster" of a node. With `weight="weight"` and `cluster="cluster"`, `from_networkx` gives the same graph back.
    Links between two roles go from ("sender", j) to ("receiver", i), and "bipartite" is 0 and 1. Of links that come and
    go all are there.

    Args:
      graph: The graph.
      nodes: Names of the agents, one each; None: 0, 1, ... For a graph that came from networkx: `list(graph.nodes)`.

    Example:
      >>> import tacit
      >>> sorted(tacit.graphs.to_networkx(tacit.graphs.directed_ring(3)).edges)
      [(0, 1), (1, 2), (2, 0)]
    """
    networkx = require("networkx", extra="graphs")
    if nodes is not None and (graph.sources is not None or len(set(nodes)) != graph.agents):
        raise GraphError(
            f"{len(set(nodes))} different names for {graph.agents} agents: expected one each (and none between roles)"
        )
    into: list[Hashable] = list(nodes) if nodes is not None else list(range(graph.agents))
    out = into
    made = networkx.DiGraph(name=graph.name)
    if graph.sources is not None:
        into, out = [("receiver", k) for k in range(graph.agents)], [("sender", k) for k in range(graph.sources)]
        made.add_nodes_from(out, bipartite=0)
        made.add_nodes_from(into, bipartite=1)
    made.add_nodes_from(into)
    if graph.clusters is not None:
        networkx.set_node_attributes(made, dict(zip(into, graph.clusters.tolist(), strict=True)), "cluster")
    made.add_edges_from((out[s], into[r]) for s, r in zip(graph.senders, graph.receivers, strict=True))
    if graph.weights is not None:
        W = graph.matrix().tocoo()
        made.add_weighted_edges_from(
            (out[s], into[r], float(w)) for r, s, w in zip(W.row, W.col, W.data, strict=True) if w or r != s
        )
    return made


def from_edge_list(path: str | os.PathLike[str], *, agents: int | None = None, name: str | None = None) -> Graph:
    """Graph out of a text file: "sender receiver [weight]" per line.

    Fields are parted by white space or commas; '#' starts a comment. Weights stand on all lines or on none; with
    weights, a line "i i weight" gives agent i's self weight (0 where there is none).

    Args:
      path: The file, UTF-8.
      agents: Number of agents; None: the highest number in the file + 1.
      name: Name in reports; None: that of the file.

    Example:
      >>> import pathlib, tacit, tempfile
      >>> with tempfile.TemporaryDirectory() as folder:
      ...     file = pathlib.Path(folder) / "links.txt"
      ...     _ = file.write_text("0, 1  # a comment")
      ...     tacit.graphs.from_edge_list(file, agents=3)
      Graph(links, 3 agents, 1 links)
    """
    file = Path(path)
    try:
        limits.refuse_beyond(file.stat().st_size * BYTES_PER_BYTE, str(file), GraphError)
        lines = file.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise GraphError(
            f"{file}: cannot be read as text ({error}); give a file with a line 'sender receiver [weight]' per link"
        ) from error
    seen: dict[tuple[int, int], int] = {}
    weights: list[float] = []
    for index, line in enumerate(lines, start=1):
        fields = line.partition("#")[0].replace(",", " ").split()
        if not fields:
            continue
        place = f"{file}, line {index}"
        sender, receiver, weight = _parse(fields, place)
        if seen and (weight is not None) != bool(weights):
            raise GraphError(f"{place}: weights stand on all lines or on none, found {' '.join(fields)!r}")
        if sender == receiver and weight is None:
            raise GraphError(f"{place}: {sender} {receiver} is a self loop: drop it, or give weights on all lines")
        if agents is None:
            refuse_large(max(sender, receiver) + 1, len(seen) + 1, f"{place}: with these numbers, a graph")
        elif max(sender, receiver) >= agents:
            raise GraphError(f"{place}: agent {max(sender, receiver)} is not in 0..{agents - 1}")
        if (sender, receiver) in seen:
            raise GraphError(f"{place}: {sender} {receiver} stands on line {seen[sender, receiver]} already")
        seen[sender, receiver] = index
        if weight is not None:
            weights.append(weight)
    if not seen and agents is None:
        raise GraphError(f"{file}: no edges found, expected lines 'sender receiver [weight]'")
    pairs = np.array(list(seen), dtype=np.int64).reshape(-1, 2)
    size = int(pairs.max()) + 1 if agents is None else agents
    label = name or file.stem
    if not weights:
        return Graph.from_edges(size, pairs[:, 0], pairs[:, 1], name=label)
    loop = pairs[:, 0] == pairs[:, 1]
    values, own = np.array(weights), np.zeros(size)
    own[pairs[loop, 0]] = values[loop]
    return Graph.from_edges(size, pairs[~loop, 0], pairs[~loop, 1], name=label, weight=values[~loop], self_weight=own)


def _parse(fields: list[str], place: str) -> tuple[int, int, float | None]:
    found = f"found {' '.join(fields)!r}"
    if len(fields) not in (2, 3):
        raise GraphError(f"{place}: expected 'sender receiver [weight]', {found}")
    try:
        sender, receiver = int(fields[0]), int(fields[1])
    except ValueError:
        raise GraphError(f"{place}: sender and receiver must be whole numbers, {found}") from None
    if sender < 0 or receiver < 0:
        raise GraphError(f"{place}: agents are numbered from 0, {found}")
    if len(fields) == 2:
        return sender, receiver, None
    try:
        weight = float(fields[2])
    except ValueError:
        raise GraphError(f"{place}: the weight must be a number, {found}") from None
    if not 0 <= weight < float("inf"):
        raise GraphError(f"{place}: the weight must be a finite number, 0 or larger, {found}")
    return sender, receiver, weight
