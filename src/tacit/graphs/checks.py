"""Checks of a graph: connectivity, symmetry, sums of weights, spectral gap, Perron vectors.

On sparse structures throughout; a dense matrix is made for at most 500 agents. Over how many rounds a time-varying
graph is connected is asked in `windows`.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from tacit.core.errors import GraphError
from tacit.graphs.dynamics import Attendance, Scheduled
from tacit.graphs.edges import (
    LARGEST_DENSE,
    BoolArray,
    FloatArray,
    IntArray,
    counts,
    edge_keys,
    one_sided,
    reverse_positions,
    split_keys,
)
from tacit.graphs.graph import Graph
from tacit.graphs.weights import TOLERANCE, evaluate_exactly

Side = Literal["sender", "receiver"]
LARGEST_TABLE = 1 << 21
"""Rounds times links that are looked at together, so that no table grows with the length of a run."""


def is_strongly_connected(graph: Graph) -> bool:
    """Whether there is a path between any two agents, over the links that are ever up.

    Args:
      graph: A graph among agents of one role.

    Example:
      >>> import tacit
      >>> tacit.graphs.is_strongly_connected(tacit.graphs.directed_ring(5))
      True
    """
    from scipy.sparse.csgraph import connected_components

    one_role(graph)
    links = adjacency(graph.agents, graph.senders, graph.receivers, ever_up(graph))
    return int(connected_components(links, connection="strong", return_labels=False)) == 1


def component_count(graph: Graph) -> int:
    """Return the number of weakly connected parts, over all links that are ever up."""
    from scipy.sparse.csgraph import connected_components

    links = adjacency(graph.agents, graph.senders, graph.receivers, ever_up(graph))
    return int(connected_components(links, directed=False, return_labels=False))


def missing_path(graph: Graph) -> tuple[int, int] | None:
    """Two agents (a, b) without a path from a to b, or None where there is a path between any two.

    Args:
      graph: A graph among agents of one role.

    Example:
      >>> import tacit
      >>> tacit.graphs.missing_path(tacit.graphs.from_edges(3, [0, 1], [1, 0]))
      (0, 2)
    """
    one_role(graph)
    return pair_without_path(adjacency(graph.agents, graph.senders, graph.receivers, ever_up(graph)))


def is_symmetric(graph: Graph) -> bool:
    """Whether every link has its reverse.

    Args:
      graph: A graph among agents of one role.

    Example:
      >>> import tacit
      >>> tacit.graphs.is_symmetric(tacit.graphs.directed_ring(5))
      False
    """
    return one_sided_edge(graph) is None


def one_sided_edge(graph: Graph) -> tuple[int, int] | None:
    """The first link (sender, receiver) without a reverse, or None.

    Args:
      graph: A graph among agents of one role.

    Example:
      >>> import tacit
      >>> tacit.graphs.one_sided_edge(tacit.graphs.directed_ring(5))
      (4, 0)
    """
    one_role(graph)
    return one_sided(graph.senders, graph.receivers, graph.agents)


def one_sided_share(graph: Graph) -> float:
    """Share of the links that have no reverse, 0 to 1.

    Args:
      graph: A graph among agents of one role.

    Example:
      >>> import tacit
      >>> tacit.graphs.one_sided_share(tacit.graphs.directed_ring(5))
      1.0
    """
    return float(np.mean(_reverse(graph) < 0)) if graph.edges else 0.0


def row_sums(graph: Graph, t: int = 1) -> FloatArray:
    """Sums (agents,) of the weights that each receiver applies in one round.

    Args:
      graph: A graph with weights.
      t: Round, 1, 2, ...; under random dynamics all links are taken to be up.

    Example:
      >>> import tacit
      >>> tacit.graphs.row_sums(tacit.graphs.ring(5).with_weights("receiver")).round(6)
      array([1., 1., 1., 1., 1.])
    """
    edge, own = _weights(graph, t)
    return np.bincount(graph.receivers, edge, graph.agents) + own


def column_sums(graph: Graph, t: int = 1) -> FloatArray:
    """Sums (senders,) of the weights of each sender's message in one round.

    Args:
      graph: A graph with weights.
      t: Round, 1, 2, ...; under random dynamics all links are taken to be up.

    Example:
      >>> import tacit
      >>> tacit.graphs.column_sums(tacit.graphs.star(3).with_weights("sender")).round(6)
      array([1., 1., 1.])
    """
    edge, own = _weights(graph, t)
    sums: FloatArray = np.bincount(graph.senders, edge, graph.columns).astype(np.float64, copy=False)
    return sums if graph.sources is not None else sums + own


def _weights(graph: Graph, t: int) -> tuple[FloatArray, FloatArray]:
    """Return the weights of links, 0 where one is down, and of agents for themselves."""
    if graph.weights is None:
        raise GraphError(f"graph {graph.name!r} has no weights yet: use with_weights('sender'), for one")
    live = None if graph.dynamics is None else graph.live_at(t)
    return evaluate_exactly(
        graph.weights.in_round(t), graph.senders, graph.receivers, graph.agents, live, sources=graph.sources
    )


def receiver_normalised(graph: Graph) -> bool:
    """Whether the rows of W sum to 1 in every round: each receiver takes a convex combination.

    Args:
      graph: A graph with weights, among agents of one role.

    Example:
      >>> import tacit
      >>> tacit.graphs.receiver_normalised(tacit.graphs.star(5).with_weights("sender"))
      False
    """
    return normalisation_fault(graph, "receiver") is None


def sender_normalised(graph: Graph) -> bool:
    """Whether the columns of W sum to 1 in every round: each sender splits its mass, as push-sum needs.

    Args:
      graph: A graph with weights, among agents of one role.

    Example:
      >>> import tacit
      >>> tacit.graphs.sender_normalised(tacit.graphs.star(5).with_weights("sender"))
      True
    """
    return normalisation_fault(graph, "sender") is None


def doubly_stochastic(graph: Graph) -> bool:
    """Whether the rows and the columns of W sum to 1 in every round.

    Args:
      graph: A graph with weights, among agents of one role.

    Example:
      >>> import tacit
      >>> tacit.graphs.doubly_stochastic(tacit.graphs.star(5).with_weights("metropolis"))
      True
    """
    return receiver_normalised(graph) and sender_normalised(graph)


def normalisation_fault(graph: Graph, side: Side) -> str | None:
    """Return why the weights are not normalised on this side in every round, or None.

    Exact for fixed graphs and for schedules; under random dynamics by the rule's promise for any live links.
    """
    one_role(graph)
    if graph.weights is None:
        raise GraphError(f"graph {graph.name!r} has no weights yet: use with_weights({side!r}), for one")
    if graph.weights.rule == side:
        return None  # each share is 1 of as many as there are
    kept = graph.weights.rule if graph.weights.rule != "given" else graph.weights.absorbs
    promised = graph.weights.period is None and kept in (side, "metropolis", "either")
    rounds = [1] if promised else _different_rounds(graph)
    for t in rounds:
        sums = row_sums(graph, t) if side == "receiver" else column_sums(graph, t)
        wrong = np.abs(sums - 1) > TOLERANCE
        if wrong.any():
            agent = int(np.argmax(wrong))
            line = "row of receiver" if side == "receiver" else "column of sender"
            when = f" in round {t}" if len(rounds) > 1 else ""
            return f"the {line} {agent} sums to {sums[agent]:.6g}{when}, not to 1"
    if promised or graph.dynamics is None or isinstance(graph.dynamics, Scheduled):
        return None
    sums_of = "rows" if side == "receiver" else "columns"
    return (
        f"the {sums_of} sum to 1 while every link is up, which {type(graph.dynamics).__name__} with "
        f"{graph.weights.rule!r} weights does not promise for other rounds"
    )


def spectral_gap(graph: Graph, t: int = 1) -> float:
    """Spectral gap 1 - |second largest eigenvalue| of W in one round: the larger, the sooner agents agree.

    Dense up to 500 agents, then by Arnoldi or (symmetric W) Lanczos iteration.

    Args:
      graph: A graph with weights, among agents of one role.
      t: Round, 1, 2, ...

    Example:
      >>> import tacit
      >>> round(tacit.graphs.spectral_gap(tacit.graphs.ring(5).with_weights("metropolis")), 3)
      0.461
    """
    one_role(graph)
    W = graph.matrix(t)
    if graph.agents == 1:
        return 1.0
    if graph.agents <= LARGEST_DENSE:
        sizes = np.abs(np.linalg.eigvals(W.toarray()))
    else:
        sizes = np.abs(_leading_eigenvalues(W))
    return float(1 - np.sort(sizes)[-2])


class Perron(NamedTuple):
    """Dominant eigenvectors of W, each summing to 1; see `perron`."""

    left: FloatArray
    """q with q W = r q: the weight of each agent in what receiver-normalised mixing agrees on."""
    right: FloatArray
    """v with W v = r v: the share of the mass at each agent under sender-normalised mixing."""
    eigenvalue: float
    """r, the largest in size."""


def perron(graph: Graph, t: int = 1, *, tolerance: float = 1e-12, most_steps: int = 100_000) -> Perron:
    """Dominant eigenvectors of W by power iteration.

    Args:
      graph: A strongly connected graph with weights.
      t: Round, 1, 2, ...
      tolerance: Change of the vector per step, in the l1 norm, at which the iteration stops.
      most_steps: Number of steps after which it gives up.

    Example:
      >>> import tacit
      >>> tacit.graphs.perron(tacit.graphs.star(3).with_weights("receiver")).left.round(3)
      array([0.429, 0.286, 0.286])
    """
    path = missing_path(graph)
    if path is not None:
        raise GraphError(
            f"no path from agent {path[0]} to agent {path[1]}: the Perron vector is defined on "
            "strongly connected graphs"
        )
    W = graph.matrix(t)
    right, eigenvalue = _power_iteration(W, tolerance, most_steps)
    left, _ = _power_iteration(W.T.tocsr(), tolerance, most_steps)
    return Perron(left, right, eigenvalue)


def _power_iteration(W: Any, tolerance: float, most_steps: int) -> tuple[FloatArray, float]:
    vector: FloatArray = np.full(W.shape[0], 1 / W.shape[0])
    change = np.inf
    for _ in range(most_steps):
        image = W @ vector
        eigenvalue = float(image.sum())
        # Averaged with the vector itself: plain iteration swings for ever on a ring without self weights.
        new = (image / eigenvalue + vector) / 2
        change = float(np.abs(new - vector).sum())
        vector = new
        if change <= tolerance:
            return vector / vector.sum(), eigenvalue
    raise GraphError(
        f"power iteration still moved by {change:.1e} after {most_steps:,} steps: the spectral gap is too small; allow "
        "more steps or a larger tolerance"
    )


def _leading_eigenvalues(W: Any) -> npt.NDArray[np.complexfloating[Any, Any]]:
    from scipy.sparse.linalg import ArpackNoConvergence, eigs, eigsh

    symmetric = abs(W - W.T).max() <= TOLERANCE * 1e-6
    start = np.random.default_rng(0).random(W.shape[0])
    try:
        find = eigsh if symmetric else eigs
        return np.asarray(find(W, k=2, which="LM", v0=start, ncv=64, return_eigenvectors=False, maxiter=2000))
    except ArpackNoConvergence as error:
        raise GraphError(
            f"the spectral gap of {W.shape[0]} agents was not found by iteration: it is too small ({error})"
        ) from error


def ever_up(graph: Graph) -> BoolArray | None:
    """Return which links are up in any round; None where dynamics are random, or there are none: all of them."""
    if not isinstance(graph.dynamics, Scheduled):
        return None
    up = np.zeros(graph.edges, dtype=np.bool_)
    size = max(LARGEST_TABLE // max(graph.edges, 1), 1)
    for first in range(1, graph.dynamics.period + 1, size):
        rounds = np.arange(first, min(first + size, graph.dynamics.period + 1))
        up |= graph.dynamics.links_in(rounds, graph.senders, graph.receivers).any(axis=0)
    return up


def adjacency(agents: int, senders: IntArray, receivers: IntArray, up: BoolArray | None = None) -> Any:
    """Return the links that are up as a csr array, row = receiver, straight from the sorted edge list."""
    from scipy.sparse import csr_array

    if up is not None:
        senders, receivers = senders[up], receivers[up]
    starts = np.concatenate([[0], np.cumsum(counts(receivers, agents))]).astype(np.int32)
    ones = np.broadcast_to(np.ones(1), len(senders))  # searches look at the places alone
    return csr_array((ones, senders, starts), shape=(agents, agents))


def pair_without_path(links: Any) -> tuple[int, int] | None:
    """Return two agents (a, b) without a path from a to b over these links (row = receiver), or None."""
    # Where there is such a pair, agent 0 does not reach all, or is not reached by all.
    unreached = _unreached(_turned(links), 0)
    if len(unreached):
        return 0, int(unreached[0])
    unheard = _unreached(links, 0)
    return (int(unheard[0]), 0) if len(unheard) else None


def _turned(links: Any) -> Any:
    """Return the links with every one of them turned round."""
    agents = np.arange(links.shape[0], dtype=np.int32)
    keys = edge_keys(np.repeat(agents, np.diff(links.indptr)), links.indices)
    keys.sort()
    return adjacency(links.shape[0], *split_keys(keys))


def _unreached(links: Any, start: int) -> npt.NDArray[np.int64]:
    from scipy.sparse.csgraph import breadth_first_order

    reached = breadth_first_order(links, start, directed=True, return_predecessors=False)
    left = np.ones(links.shape[0], dtype=bool)
    left[reached] = False
    return np.flatnonzero(left)


def _different_rounds(graph: Graph) -> list[int]:
    """Return the rounds of a schedule whose weights may differ; the first one of anything else."""
    if not isinstance(graph.dynamics, Scheduled):
        return [1]
    if isinstance(graph.dynamics, Attendance):
        _, found = np.unique(graph.dynamics.table, axis=0, return_index=True)
        return [int(index) + 1 for index in np.sort(found)]
    return list(range(1, graph.dynamics.period + 1))


def _reverse(graph: Graph) -> npt.NDArray[np.int64]:
    one_role(graph)
    return reverse_positions(graph.senders, graph.receivers, graph.agents)


def one_role(graph: Graph) -> None:
    """Raise where the graph links two roles."""
    if graph.sources is not None:
        raise GraphError(f"{graph.name!r} links two roles: this is a question about agents of one role")
