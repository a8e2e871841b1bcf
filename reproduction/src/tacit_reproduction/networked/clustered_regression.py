"""Problems of `npfl-rl`: a graph in clusters, and regression data of clusters with similar models."""

from __future__ import annotations

from functools import lru_cache
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tacit.core.errors import DataError
from tacit.graphs import Graph, erdos_renyi
from tacit.streams import Stream, whole, with_validation

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Network = Literal["as drawn", "clusters connected"]
"""Clusters dealt out at random, or drawn again until the links within each cluster connect it."""

CLIENTS, CLUSTERS, DIMENSIONS = 30, 3, 60
NEIGHBOURS = 6
"""On average."""
RECORDS = (5, 35)
"""The fewest and the most of a client."""
SIMILARITY = 0.5
"""w_q = (1 + delta_q) w0, delta_q uniform between minus and plus this."""
NOISE = 1.0
"""A client's noise variance is uniform from 0 to this; a label's own variance is ||w_q||^2, around 60."""
MOST_DRAWS = 100_000


class World(NamedTuple):
    """One seed's network, data and truth."""

    graph: Graph
    stream: Stream
    truth: Floats
    """(clients, dimensions) the model of each one's cluster."""
    sizes: Ints
    """(clients,) records of each."""
    own: Ints
    """(clients,) neighbours of the same cluster."""
    reach: Ints
    """(clients,) records of all whom links within the cluster connect a client to, its own included."""


@lru_cache(maxsize=128)
def world(network: Network, seed: int) -> World:
    """Draw everything of a seed. Data and models are the same for both kinds of network."""
    graph, group = _network(network, seed)
    rng = np.random.default_rng([seed, CLIENTS])
    base = rng.standard_normal(DIMENSIONS)
    models = (1 + rng.uniform(-SIMILARITY, SIMILARITY, CLUSTERS))[:, None] * base
    sizes = rng.integers(RECORDS[0], RECORDS[1] + 1, CLIENTS)
    sizes[rng.integers(CLIENTS)] = RECORDS[1]  # so that batches have one shape whatever the seed
    deviations = np.sqrt(rng.uniform(0, NOISE, CLIENTS))
    assert graph.clusters is not None
    truth = models[graph.clusters]
    fitted, held_back = (_records(rng, truth, sizes, deviations) for _ in range(2))
    reach = np.bincount(group, weights=sizes)[group].astype(np.int64)
    return World(graph, with_validation(fitted, held_back), truth, sizes, _own_neighbours(graph), reach)


def _records(rng: np.random.Generator, truth: Floats, sizes: Ints, deviations: Floats) -> Stream:
    client = np.repeat(np.arange(len(sizes)), sizes)
    x = rng.standard_normal((len(client), truth.shape[1]))
    y = np.einsum("ij,ij->i", x, truth[client]) + deviations[client] * rng.standard_normal(len(client))
    return whole(x, y, np.split(np.arange(len(client)), np.cumsum(sizes)[:-1]), task="regression")


def _network(network: Network, seed: int) -> tuple[Graph, Ints]:
    """Return a connected graph with clusters of equal size, and the part of its cluster that each client is in."""
    rng = np.random.default_rng([seed, NEIGHBOURS])
    for _ in range(MOST_DRAWS):
        graph = erdos_renyi(CLIENTS, NEIGHBOURS / (CLIENTS - 1), int(rng.integers(2**31)))
        if _parts(graph, np.ones(len(graph.senders), bool))[0] > 1:
            continue
        labels = rng.permutation(np.arange(CLIENTS) % CLUSTERS)
        count, group = _parts(graph, labels[graph.senders] == labels[graph.receivers])
        if network == "as drawn" or count == CLUSTERS:
            return graph.with_clusters(labels), group
    raise DataError(f"no network of kind {network!r} among {MOST_DRAWS:,} draws of seed {seed}; take another seed")


def _parts(graph: Graph, keep: NDArray[np.bool_]) -> tuple[int, Ints]:
    """Return how many parts some of the links connect the clients to, and each client's part."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    links = (np.ones(int(keep.sum())), (graph.senders[keep], graph.receivers[keep]))
    count, group = connected_components(coo_array(links, shape=(graph.agents, graph.agents)))
    return int(count), np.asarray(group, np.int64)


def _own_neighbours(graph: Graph) -> Ints:
    assert graph.clusters is not None
    within = graph.clusters[graph.senders] == graph.clusters[graph.receivers]
    return np.bincount(graph.receivers[within], minlength=graph.agents).astype(np.int64)
