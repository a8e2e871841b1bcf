"""Who holds which rows: each function cuts range(rows) into one index array per agent, each row in one."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.errors import ConfigError, DataError
from tacit.streams.validate import check_count, check_features

Parts = list[NDArray[np.int64]]
"""One sorted array of row indices per agent."""


def iid(rows: int, agents: int, seed: int = 0) -> Parts:
    """Deal rows out at random; shares differ by one row at most."""
    _enough(rows, agents)
    return _sorted(np.array_split(_generator(seed).permutation(rows), agents))


def label_shards(y: Any, agents: int, shards_per_agent: int, seed: int = 0) -> Parts:
    """Sort rows by label, cut them into equal shards and deal `shards_per_agent` to each agent.

    With few shards an agent sees few classes: the usual pathological split of federated learning.
    """
    labels = _labels(y)
    check_count("shards_per_agent", shards_per_agent)
    _enough(len(labels), agents)
    shards = agents * shards_per_agent
    if len(labels) < shards:
        raise DataError(
            f"{len(labels)} rows for {agents} agents x {shards_per_agent} shards; expected at least {shards} "
            "rows: use fewer agents or shards"
        )
    rng = _generator(seed)
    by_label = np.lexsort((rng.random(len(labels)), labels))
    shard = np.array_split(by_label, shards)
    dealt = rng.permutation(shards).reshape(agents, shards_per_agent)
    return _sorted([np.concatenate([shard[s] for s in hand]) for hand in dealt])


def dirichlet(y: Any, agents: int, alpha: float, seed: int = 0) -> Parts:
    """Share each class out by proportions drawn from Dirichlet(alpha): small alpha, very different agents.

    An agent that would get nothing takes one row from the agent that has most.
    """
    labels = _labels(y)
    _enough(len(labels), agents)
    if not 0 < alpha < np.inf:
        raise ConfigError(f"alpha={alpha!r}: expected a finite number above 0")
    rng = _generator(seed)
    holder = np.empty(len(labels), np.int64)
    for label in np.unique(labels):
        rows = rng.permutation(np.flatnonzero(labels == label))
        edges = np.cumsum(rng.dirichlet(np.full(agents, alpha)))[:-1]
        cuts = np.round(np.clip(edges, 0, 1) * len(rows)).astype(np.int64)
        for agent, share in enumerate(np.split(rows, cuts)):
            holder[share] = agent
    _fill_empty(holder, agents, rng.random(len(labels)))
    return _by_holder(holder, agents)


def stochastic_adversarial(x: Any, agents: int, fraction: float, seed: int = 0) -> Parts:
    """003's split: `fraction` of the rows is dealt out at random, the rest goes by clusters, one per agent.

    Text 003, section 5.1. The clusters are k-means (k-means++ start, one start, at most 20 Lloyd steps) on
    standardised features; on 40,000 rows and 1,024 clusters that is faster than mini-batch k-means, and the
    clusters are tighter. A cluster that came out empty (more clusters than distinct rows) takes the row of
    the largest cluster that is farthest from its centre. Clusters differ in size, as in the text.
    """
    features = check_features(x)
    rows = len(features)
    _enough(rows, agents)
    if not 0 <= fraction <= 1:
        raise ConfigError(f"fraction={fraction!r}: expected a share from 0 (all by clusters) to 1 (all at random)")
    rng = _generator(seed)
    shuffled = rng.permutation(rows)
    dealt = round(fraction * rows)
    clustered = np.sort(shuffled[dealt:])
    if 0 < len(clustered) < agents:
        raise DataError(
            f"fraction={fraction!r} of {rows} rows leaves {len(clustered)} rows for {agents} clusters; "
            "expected at least one each: use a smaller fraction, fewer agents, or fraction=1"
        )
    holder = np.empty(rows, np.int64)
    holder[shuffled[:dealt]] = np.arange(dealt) % agents
    if len(clustered):
        holder[clustered] = _clusters(features[clustered], agents, int(rng.integers(1 << 31)))
    return _by_holder(holder, agents)


def _clusters(x: NDArray[np.float32], clusters: int, seed: int) -> NDArray[np.int64]:
    from sklearn.cluster import KMeans
    from sklearn.exceptions import ConvergenceWarning
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

    spread = x.std(axis=0)
    scaled = ((x - x.mean(axis=0)) / np.where(spread > 0, spread, 1)).reshape(len(x), -1)
    # One thread: sums in a fixed order, so that one seed gives one partition.
    with warnings.catch_warnings(), threadpool_limits(1):
        warnings.simplefilter("ignore", ConvergenceWarning)  # fewer distinct rows than clusters: mended below
        found = KMeans(clusters, n_init=1, max_iter=20, random_state=seed).fit(scaled)
    label = np.asarray(found.labels_, np.int64)
    distance = np.linalg.norm(scaled - found.cluster_centers_[label], axis=1)
    _fill_empty(label, clusters, distance)
    return label


def _fill_empty(holder: NDArray[np.int64], agents: int, rank: NDArray[Any]) -> None:
    """Give each agent without rows that row of the largest holder which ranks highest, in place."""
    size = np.bincount(holder, minlength=agents)
    for agent in np.flatnonzero(size == 0):
        rich = int(np.argmax(size))
        rows = np.flatnonzero(holder == rich)
        holder[rows[np.argmax(rank[rows])]] = agent
        size[rich] -= 1
        size[agent] += 1


def _by_holder(holder: NDArray[np.int64], agents: int) -> Parts:
    order = np.argsort(holder, kind="stable")
    return np.split(order, np.cumsum(np.bincount(holder, minlength=agents))[:-1])


def _sorted(parts: list[NDArray[Any]]) -> Parts:
    return [np.sort(part).astype(np.int64) for part in parts]


def _labels(y: Any) -> NDArray[Any]:
    labels = np.asarray(y)
    if labels.ndim != 1:
        raise DataError(f"labels of shape {labels.shape}; expected (rows,), one label per row")
    return labels


def _enough(rows: int, agents: int) -> None:
    check_count("rows", rows, least=0)
    check_count("agents", agents)
    if rows < agents:
        raise DataError(f"{rows} rows for {agents} agents; expected at least one row each: use fewer agents")


def _generator(seed: int) -> np.random.Generator:
    check_count("seed", seed, least=0)
    return np.random.default_rng(seed)
