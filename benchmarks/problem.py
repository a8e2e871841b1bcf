"""The problem that every variant of the engine benchmark solves: online push-sum, logistic regression, d = 18."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

import tacit

DIM = 18
STEP = 0.1
L2 = 1e-4
POOL_BYTES = 2**28
"""Distinct rounds of data are kept up to this size and read in turn."""


class Problem(NamedTuple):
    graph: tacit.graphs.Graph
    stream: tacit.streams.Stream
    period: int


def make(agents: int) -> Problem:
    """A random digraph with 10 out-links each (strongly connected) and a pool of one-sample rounds."""
    period = int(np.clip(POOL_BYTES // (agents * (DIM + 1) * 4), 2, 64))
    graph = tacit.graphs.random_digraph(agents, 10, seed=0, exact=True)
    stream = tacit.streams.logistic_drift(agents=agents, dim=DIM, seed=0, repeat_every=period)
    return Problem(graph, stream, period)


def data(problem: Problem) -> tuple[np.ndarray, np.ndarray]:
    batch = problem.stream.chunk(0, problem.period)
    return np.ascontiguousarray(batch.x, np.float32), np.ascontiguousarray(batch.y, np.float32)


def weights(graph: tacit.graphs.Graph) -> tuple[np.ndarray, np.ndarray]:
    """Sender-normalised weight of each link, in the graph's order, and of each agent for itself."""
    share = 1 / (1 + graph.out_degree)
    return share[graph.senders].astype(np.float32), share.astype(np.float32)
