"""Data of `npfl-rl`: a graph in clusters, and regression of clusters with similar models (Gauthier 2023, sec. 6.3)."""

from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tacit.core.errors import DataError
from tacit.graphs import Graph, erdos_renyi
from tacit.streams import Stream, whole, with_validation
from tacit_reproduction.table import Floats

CLIENTS, CLUSTERS, DIMENSIONS, NEIGHBOURS, RECORDS = 30, 3, 60, 6, (5, 35)
SIMILARITY, NOISE = 0.5, 1.0
"""Bound on delta_q, and of a client's noise variance, which is uniform from 0 on; ||w_q||^2 is around 60."""
CONNECTED, DRAWN = "each cluster connected", "clusters as drawn"
MOST_DRAWS = 100_000
WHAT = f"Linear regression: {RECORDS[0]} to {RECORDS[1]} records of each of {CLIENTS} clients, d = {DIMENSIONS}."
HOW = f"""
A connected random graph of mean degree {NEIGHBOURS}, {CLUSTERS} clusters of equal size at random;
w_q = (1 + delta_q) w0, delta_q uniform on +-{SIMILARITY:g}, w0 and features standard normal; as many records again are
held back for tuning. The text does not say whether links within a random cluster connect it: in the main runs graph and
clusters are drawn until they do. Nor does it give the noise: a client's variance is uniform from 0 to {NOISE:g},
||w_q||^2 around {DIMENSIONS}."""


class World(NamedTuple):  # one seed's network, data and truth
    graph: Graph
    stream: Stream
    truth: Floats  # (clients, dimensions) the model of each one's cluster
    sizes: NDArray[np.int64]  # (clients,) records of each
    accompanied: NDArray[np.bool_]  # (clients,) whether a neighbour is of the same cluster


@lru_cache(maxsize=128)
def world(network: str, seed: int) -> World:
    graph, labels = _network(network, seed)
    rng = np.random.default_rng([seed, CLIENTS])
    base = rng.standard_normal(DIMENSIONS)
    truth = ((1 + rng.uniform(-SIMILARITY, SIMILARITY, CLUSTERS))[:, None] * base)[labels]
    sizes = rng.integers(RECORDS[0], RECORDS[1] + 1, CLIENTS)
    sizes[rng.integers(CLIENTS)] = RECORDS[1]  # so that batches have one shape whatever the seed
    deviations, owner = np.sqrt(rng.uniform(0, NOISE, CLIENTS)), np.repeat(np.arange(CLIENTS), sizes)

    def records() -> Stream:
        x = rng.standard_normal((len(owner), DIMENSIONS))
        y = np.einsum("ij,ij->i", x, truth[owner]) + deviations[owner] * rng.standard_normal(len(owner))
        return whole(x, y, owner, task="regression")

    fitted, held_back = records(), records()
    own = graph.receivers[labels[graph.senders] == labels[graph.receivers]]
    return World(graph, with_validation(fitted, held_back), truth, sizes, np.isin(np.arange(CLIENTS), own))


def _network(network: str, seed: int) -> tuple[Graph, NDArray[np.int64]]:
    rng = np.random.default_rng([seed, NEIGHBOURS])
    for _ in range(MOST_DRAWS):
        graph = erdos_renyi(CLIENTS, NEIGHBOURS / (CLIENTS - 1), int(rng.integers(2**31)))
        if parts(graph, np.zeros(CLIENTS, np.int64)) > 1:
            continue
        labels = rng.permutation(np.arange(CLIENTS) % CLUSTERS)
        if network == DRAWN or parts(graph, labels) == CLUSTERS:
            return graph.with_clusters(labels), labels
    raise DataError(f"no network with {network} among {MOST_DRAWS:,} draws of seed {seed}; take another seed")


def parts(graph: Graph, labels: NDArray[np.int64]) -> int:
    """Return how many parts the links within clusters connect the clients to."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    keep = labels[graph.senders] == labels[graph.receivers]
    links = (np.ones(int(keep.sum())), (graph.senders[keep], graph.receivers[keep]))
    return int(connected_components(coo_array(links, shape=(graph.agents, graph.agents)))[0])
