"""Graphs from a weight matrix, from networkx and from a text file."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np

from tacit.errors import GraphError
from tacit.graphs.edges import matrix_entries, split_keys
from tacit.graphs.graph import Graph
from tacit.graphs.weights import given


def from_matrix(W: Any, *, name: str = "given") -> Graph:
    """Return the graph of a square weight matrix W, row = receiver (scipy.sparse, or dense up to 500 agents).

    Every entry off the diagonal that is not 0 is an edge; the diagonal gives the self weights.
    """
    if len(np.shape(W)) != 2 or np.shape(W)[0] != np.shape(W)[1]:
        raise GraphError(f"W has shape {np.shape(W)}: expected a square matrix (row = receiver)")
    agents = int(np.shape(W)[0])
    keys, weight, own = matrix_entries(W, two_roles=False)
    senders, receivers = split_keys(keys, agents)
    graph = Graph.from_edges(agents, senders, receivers, name=name)
    return graph.with_weights(given(weight, own))


def from_networkx(graph: Any, *, name: str | None = None) -> Graph:
    """Return the links of a networkx graph, both ways where it is undirected; attributes are not read.

    Nodes called 0..n-1 keep their numbers; others are numbered in the graph's own order.
    """
    nodes = list(graph.nodes)
    if not nodes:
        raise GraphError("the networkx graph has no nodes: expected at least one")
    numbered = set(nodes) == set(range(len(nodes)))
    number = {node: node if numbered else index for index, node in enumerate(nodes)}
    pairs = np.array([(number[a], number[b]) for a, b in graph.edges()], dtype=np.int64).reshape(-1, 2)
    senders, receivers = pairs[:, 0], pairs[:, 1]
    if not graph.is_directed():
        senders, receivers = np.concatenate([senders, receivers]), np.concatenate([receivers, senders])
    return Graph.from_edges(len(nodes), senders, receivers, name=name or graph.name or "networkx")


def from_edge_list(path: str | os.PathLike[str], *, agents: int | None = None, name: str | None = None) -> Graph:
    """Read "sender receiver [weight]" per line, parted by white space or commas; '#' starts a comment.

    Weights stand on all lines or on none. With weights, a line "i i weight" gives agent i's self weight (0 if
    there is none). `agents` is needed where agents with the highest numbers have no link.
    """
    file = Path(path)
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise GraphError(f"{file}: cannot be read as text ({error})") from error
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
        if agents is not None and max(sender, receiver) >= agents:
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
