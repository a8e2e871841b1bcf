"""What can be said of a graph: connectivity, symmetry, sums of weights, spectral gap, Perron vectors.

On sparse structures throughout; a dense matrix is made for at most 500 agents.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import jax
import numpy as np
import numpy.typing as npt

from tacit.errors import GraphError
from tacit.graphs.dynamics import Periodic
from tacit.graphs.edges import LARGEST_DENSE, BoolArray, FloatArray, reverse_positions
from tacit.graphs.graph import Graph
from tacit.graphs.weights import TOLERANCE

Side = Literal["sender", "receiver"]


def is_strongly_connected(graph: Graph) -> bool:
    """Whether there is a path between any two agents, over the links that are ever up."""
    from scipy.sparse.csgraph import connected_components

    _one_role(graph)
    links = _adjacency(graph, _ever_up(graph))
    return int(connected_components(links, connection="strong", return_labels=False)) == 1


def missing_path(graph: Graph) -> tuple[int, int] | None:
    """Return two agents (a, b) without a path from a to b, or None where there is a path between any two."""
    if is_strongly_connected(graph):
        return None
    into = _adjacency(graph, _ever_up(graph))
    # Agent 0 reaches not everybody, or not everybody reaches it.
    unreached = _unreached(into.T.tocsr(), 0)
    if len(unreached):
        return 0, int(unreached[0])
    return int(_unreached(into, 0)[0]), 0


def is_symmetric(graph: Graph) -> bool:
    """Whether every edge has its reverse."""
    return one_sided_edge(graph) is None


def one_sided_edge(graph: Graph) -> tuple[int, int] | None:
    """Return the first edge (sender, receiver) without a reverse, or None."""
    back = _reverse(graph)
    if not np.any(back < 0):
        return None
    edge = int(np.argmax(back < 0))
    return int(graph.senders[edge]), int(graph.receivers[edge])


def one_sided_share(graph: Graph) -> float:
    """Share of the edges that have no reverse."""
    return float(np.mean(_reverse(graph) < 0)) if graph.edges else 0.0


def row_sums(graph: Graph, t: int = 1) -> FloatArray:
    """(agents,) sum of the weights that a receiver applies in round t; random dynamics: all links up."""
    return np.asarray(graph.matrix(t).sum(axis=1), dtype=np.float64).ravel()


def column_sums(graph: Graph, t: int = 1) -> FloatArray:
    """(columns,) sum of the weights of a sender's message in round t; random dynamics: all links up."""
    return np.asarray(graph.matrix(t).sum(axis=0), dtype=np.float64).ravel()


def receiver_normalised(graph: Graph) -> bool:
    """Whether rows of W sum to 1, in every round."""
    return normalisation_fault(graph, "receiver") is None


def sender_normalised(graph: Graph) -> bool:
    """Whether columns of W sum to 1, in every round."""
    return normalisation_fault(graph, "sender") is None


def doubly_stochastic(graph: Graph) -> bool:
    """Whether rows and columns of W sum to 1, in every round."""
    return receiver_normalised(graph) and sender_normalised(graph)


def normalisation_fault(graph: Graph, side: Side) -> str | None:
    """Return what keeps the weights from being normalised on this side in every round, or None.

    Exact for fixed and periodic graphs; under random dynamics by what the rule promises for any live links.
    """
    _one_role(graph)
    if graph.weights is None:
        raise GraphError(f"graph {graph.name!r} has no weights yet: use with_weights({side!r}), for one")
    rounds = len(graph.dynamics.table) if isinstance(graph.dynamics, Periodic) else 1
    for t in range(1, rounds + 1):
        sums = row_sums(graph, t) if side == "receiver" else column_sums(graph, t)
        wrong = np.abs(sums - 1) > TOLERANCE
        if wrong.any():
            agent = int(np.argmax(wrong))
            line = "row of receiver" if side == "receiver" else "column of sender"
            when = f" in round {t}" if rounds > 1 else ""
            return f"the {line} {agent} sums to {sums[agent]:.6g}{when}, not to 1"
    if graph.dynamics is None or isinstance(graph.dynamics, Periodic):
        return None
    kept = graph.weights.rule if graph.weights.rule != "given" else graph.weights.absorbs
    if kept in (side, "metropolis", "either"):
        return None
    sums_of = "rows" if side == "receiver" else "columns"
    return (
        f"the {sums_of} sum to 1 while every link is up, which {type(graph.dynamics).__name__} with "
        f"{graph.weights.rule!r} weights does not promise for other rounds"
    )


class Window(NamedTuple):
    """Over how many rounds a graph is connected."""

    rounds: int | None
    """Least B such that the links of any B rounds in a row connect everybody; None: not found."""
    exact: bool
    """True for fixed and periodic graphs; otherwise found on sampled rounds."""
    statement: str


def connection_window(graph: Graph, *, horizon: int = 64, seed: int = 0) -> Window:
    """Return the least B such that the links of every B rounds in a row are strongly connected.

    Exact for fixed and periodic graphs. Random dynamics have no such B for certain: each link is up in
    each round with a probability above 0, independently of earlier rounds, so a strongly connected graph is
    connected infinitely often with probability 1; B is then the figure of `horizon` sampled rounds.
    """
    if not is_strongly_connected(graph):
        return Window(None, True, "never connected: not even all links together connect everybody")
    if graph.dynamics is None:
        return Window(1, True, "connected in every round")
    if isinstance(graph.dynamics, Periodic):
        table = np.asarray(graph.dynamics.table)
        rounds = _least_window(graph, np.concatenate([table, table[:-1]]), len(table))
        return Window(rounds, True, f"connected over every {rounds} rounds in a row (period {len(table)})")
    keys = jax.random.split(jax.random.key(seed), horizon)
    table = np.stack([graph.live_at(t, key) for t, key in enumerate(keys, start=1)])
    promise = "connected infinitely often with probability 1"
    sampled = _least_window(graph, table, horizon)
    found = (
        f"not within {horizon} sampled rounds"
        if sampled is None
        else f"over every {sampled} of {horizon} sampled rounds"
    )
    return Window(sampled, False, f"{promise}; {found}")


def spectral_gap(graph: Graph, t: int = 1) -> float:
    """1 - |second largest eigenvalue| of W in round t: the larger, the sooner agents agree.

    Dense up to 500 agents, then by Arnoldi or (symmetric W) Lanczos iteration.
    """
    _one_role(graph)
    W = graph.matrix(t)
    if graph.agents == 1:
        return 1.0
    if graph.agents <= LARGEST_DENSE:
        sizes = np.abs(np.linalg.eigvals(W.toarray()))
    else:
        sizes = np.abs(_leading_eigenvalues(W))
    return float(1 - np.sort(sizes)[-2])


class Perron(NamedTuple):
    """Dominant eigenvectors of W, each summing to 1."""

    left: FloatArray
    """q with q W = r q: the weight of each agent in what receiver-normalised mixing agrees on."""
    right: FloatArray
    """v with W v = r v: the share of the mass at each agent under sender-normalised mixing."""
    eigenvalue: float


def perron(graph: Graph, t: int = 1, *, tolerance: float = 1e-12, most_steps: int = 100_000) -> Perron:
    """Return the dominant eigenvectors of W by power iteration; the graph must be strongly connected."""
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
        f"power iteration still moved by {change:.1e} after {most_steps:,} steps: the spectral gap is "
        "too small; allow "
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


def _least_window(graph: Graph, table: BoolArray, longest: int) -> int | None:
    """Return the least B <= longest such that every B rows in a row, within the table, connect everybody."""
    # Longer windows hold more links, so the answer can be halved in on.
    low, high = 1, longest + 1
    while low < high:
        middle = (low + high) // 2
        if _connected_windows(graph, table, middle):
            high = middle
        else:
            low = middle + 1
    return low if low <= longest else None


def _connected_windows(graph: Graph, table: BoolArray, length: int) -> bool:
    from scipy.sparse.csgraph import connected_components

    for start in range(len(table) - length + 1):
        links = _adjacency(graph, _any_row(table[start : start + length]))
        if connected_components(links, connection="strong", return_labels=False) != 1:
            return False
    return True


def _ever_up(graph: Graph) -> BoolArray | None:
    return _any_row(graph.dynamics.table) if isinstance(graph.dynamics, Periodic) else None


def _any_row(table: BoolArray) -> BoolArray:
    return np.asarray(np.any(table, axis=0), dtype=np.bool_)


def _adjacency(graph: Graph, up: BoolArray | None) -> Any:
    """Return the links as a csr array, row = receiver, straight from the sorted edge list."""
    from scipy.sparse import csr_array

    senders, receivers = (graph.senders, graph.receivers) if up is None else (graph.senders[up], graph.receivers[up])
    starts = np.concatenate([[0], np.cumsum(np.bincount(receivers, minlength=graph.agents))])
    return csr_array((np.ones(len(senders), dtype=np.int8), senders, starts), shape=(graph.agents, graph.agents))


def _unreached(links: Any, start: int) -> npt.NDArray[np.int64]:
    from scipy.sparse.csgraph import breadth_first_order

    reached = breadth_first_order(links, start, directed=True, return_predecessors=False)
    left = np.ones(links.shape[0], dtype=bool)
    left[reached] = False
    return np.flatnonzero(left)


def _reverse(graph: Graph) -> npt.NDArray[np.int64]:
    _one_role(graph)
    return reverse_positions(graph.senders, graph.receivers, graph.agents)


def _one_role(graph: Graph) -> None:
    if graph.sources is not None:
        raise GraphError(f"{graph.name!r} links two roles: this is a question about agents of one role")
