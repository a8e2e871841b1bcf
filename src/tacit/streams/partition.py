"""Partitions of a data set: each function cuts range(rows) into one index array per agent, each row in one.

Only `unequal` may leave rows over, which no agent holds then.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.core.checks import positive, proportion, whole_number
from tacit.core.errors import ConfigError, DataError
from tacit.core.extras import require
from tacit.streams.validate import check_features

Parts = list[NDArray[np.int64]]
"""One sorted array of row indices per agent."""


def iid(rows: int, agents: int, seed: int = 0) -> Parts:
    """Rows dealt out at random; shares differ by one row at most.

    Args:
      rows: Number of rows.
      agents: Number of agents, at most as many as rows.
      seed: Seed of the draw, 0 or more.

    Returns:
      One sorted array of row indices per agent, as of every function here.

    Example:
      >>> from tacit.streams import partition
      >>> [len(part) for part in partition.iid(20, agents=3)]
      [7, 7, 6]
    """
    _enough(rows, agents)
    return _sorted(np.array_split(_generator(seed).permutation(rows), agents))


def label_shards(y: Any, agents: int, shards_per_agent: int, seed: int = 0) -> Parts:
    """Rows sorted by label, cut into equal shards and dealt out: with few shards an agent sees few classes.

    Args:
      y: Labels (rows,).
      agents: Number of agents.
      shards_per_agent: Shards that each agent gets, at least 1.
      seed: Seed of the draw, 0 or more.

    Example:
      >>> import numpy as np
      >>> from tacit.streams import partition
      >>> y = np.repeat([0, 1, 2, 3], 5)
      >>> [len(set(y[part])) for part in partition.label_shards(y, agents=4, shards_per_agent=1)]
      [1, 1, 1, 1]
    """
    labels = _labels(y)
    whole_number("shards_per_agent", shards_per_agent)
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


def few_classes(y: Any, agents: int, classes_per_agent: int, seed: int = 0) -> Parts:
    """Rows of exactly so many classes for each agent, however large the classes are.

    Each class is cut by itself, at random, into one piece for each agent that holds it; pieces of one class differ by
    one row at most. Every class has as many holders as another, up to one. (Equal shards of all rows, `label_shards`,
    go over the edges between classes of unequal sizes, so that an agent may hold more or fewer.)

    Args:
      y: Labels (rows,).
      agents: Number of agents.
      classes_per_agent: Classes that each agent holds, at most as many as there are.
      seed: Seed of the draw, 0 or more.

    Example:
      >>> import numpy as np
      >>> from tacit.streams import partition
      >>> y = np.repeat([0, 1, 2, 3], [5, 9, 7, 6])
      >>> [len(set(y[part])) for part in partition.few_classes(y, agents=4, classes_per_agent=2)]
      [2, 2, 2, 2]
    """
    labels = _labels(y)
    _enough(len(labels), agents)
    names, label, rows = np.unique(labels, return_inverse=True, return_counts=True)
    whole_number("classes_per_agent", classes_per_agent, f"the labels have {len(names)} classes", most=len(names))
    if agents * classes_per_agent < len(names):
        raise DataError(
            f"{agents} agents x {classes_per_agent} classes: nobody would hold the rows of "
            f"{len(names) - agents * classes_per_agent} of {len(names)} classes; use more agents or classes each"
        )
    rng = _generator(seed)
    holders = _holders(len(names), agents, classes_per_agent, rng)
    holder = np.empty(len(labels), np.int64)
    for c, name in enumerate(names):
        of_class = np.flatnonzero(holders[:, c])
        if rows[c] < len(of_class):
            raise DataError(
                f"class {name} has {rows[c]} rows for {len(of_class)} agents; expected at least one row each: use "
                "fewer agents, or fewer classes each"
            )
        dealt = rng.permutation(np.flatnonzero(label == c))
        for agent, share in zip(rng.permutation(of_class), np.array_split(dealt, len(of_class)), strict=True):
            holder[share] = agent
    return _by_holder(holder, agents)


def dirichlet(y: Any, agents: int, alpha: float, seed: int = 0) -> Parts:
    """Rows of each class shared out by proportions drawn from Dirichlet(alpha): small alpha, very different agents.

    An agent that would get nothing takes one row from the agent that has most.

    Args:
      y: Labels (rows,).
      agents: Number of agents.
      alpha: Concentration, above 0.
      seed: Seed of the draw, 0 or more.

    Example:
      >>> import numpy as np
      >>> from tacit.streams import partition
      >>> sum(len(part) for part in partition.dirichlet(np.repeat([0, 1], 10), agents=4, alpha=0.5))
      20
    """
    labels = _labels(y)
    _enough(len(labels), agents)
    positive("alpha", alpha)
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


def random_sizes(rows: int, agents: int, smallest: int, largest: int, seed: int = 0) -> NDArray[np.int64]:
    """Random numbers of rows for each agent, together no more than there are.

    Each size is uniform on smallest..largest where the rows suffice for what was drawn; the others are left over. Where
    they do not, u in smallest + floor(u (largest - smallest + 1)), uniform on [0, 1), becomes u ** p with the smallest
    p > 1 for which they do: small sizes are then more frequent, the range stays, and no row is left over (in the case
    of ties fewer than `agents` are).

    Args:
      rows: Number of rows.
      agents: Number of agents.
      smallest: Least number of rows of an agent, at least 1.
      largest: Greatest number.
      seed: Seed of the draw, 0 or more.

    Example:
      >>> from tacit.streams import partition
      >>> int(partition.random_sizes(20, agents=4, smallest=2, largest=12).sum()) <= 20
      True
    """
    whole_number("rows", rows, least=0)
    whole_number("agents", agents)
    whole_number("smallest", smallest)
    whole_number("largest", largest, most=2**53)  # it is multiplied in double precision
    if smallest > largest:
        raise ConfigError(f"smallest={smallest!r}, largest={largest!r}: expected a range; exchange the two")
    if agents * smallest > rows:
        raise DataError(
            f"{rows} rows for {agents} agents with at least {smallest} each; expected at least {agents * smallest} "
            "rows: use fewer agents, or a smaller `smallest`"
        )
    u = _generator(seed).random(agents)

    def sizes(power: float) -> NDArray[np.int64]:
        return smallest + np.floor(u**power * (largest - smallest + 1)).astype(np.int64)

    low, high = 1.0, 1.0
    while sizes(high).sum() > rows:
        low, high = high, 2 * high
    while low < (middle := (low + high) / 2) < high:  # until the two are neighbouring numbers
        low, high = (middle, high) if sizes(middle).sum() > rows else (low, middle)
    return sizes(high)


def unequal(y: Any, agents: int, smallest: int, largest: int, alpha: float, seed: int = 0) -> Parts:
    """Random numbers of rows (`random_sizes`) and an own mix of classes for each agent.

    The text says only "randomly in a non-IID fashion", with sizes from 79 to 688. Here agent k's mix of classes is
    drawn from Dirichlet(alpha q), q the mix of all rows: its mean is q, and the share of class c has variance q_c (1 -
    q_c) / (alpha + 1), so that a large alpha makes agents alike. Then the places of all agents are filled in random
    order: each draws a class from its agent's mix, and a row of that class at random, without repetition. A class that
    has run out is left out of the mix; an agent none of whose classes is left draws from what is.

    Args:
      y: Labels (rows,).
      agents: Number of agents.
      smallest: Least number of rows of an agent, at least 1.
      largest: Greatest number.
      alpha: Concentration, above 0.
      seed: Seed of the draw, 0 or more.

    Example:
      >>> import numpy as np
      >>> from tacit.streams import partition
      >>> len(partition.unequal(np.repeat([0, 1], 10), agents=4, smallest=2, largest=8, alpha=1.0))
      4

    References:
      Rizk (2023), sec. 2.6.2.
    """
    labels = _labels(y)
    sizes = random_sizes(len(labels), agents, smallest, largest, seed)
    positive("alpha", alpha)
    # Not the generator that drew the sizes: their number must not decide the mixes.
    rng = np.random.default_rng([seed, 1])
    classes, label, supply = np.unique(labels, return_inverse=True, return_counts=True)
    mix = rng.dirichlet(alpha * supply / len(labels), agents)
    holder = rng.permutation(np.repeat(np.arange(agents), sizes))
    drawn = _classes_drawn(mix, holder, supply, rng)
    chosen = np.empty(len(holder), np.int64)
    for c in range(len(classes)):
        places = np.flatnonzero(drawn == c)
        chosen[places] = rng.permutation(np.flatnonzero(label == c))[: len(places)]
    return _sorted([chosen[holder == agent] for agent in range(agents)])


def stochastic_adversarial(x: Any, agents: int, fraction: float, seed: int = 0) -> Parts:
    """Rows of which a share is dealt out at random, while the rest goes by clusters, one per agent.

    The clusters are k-means (k-means++ start, one start, at most 20 Lloyd steps) on standardised features; on 40,000
    rows and 1,024 clusters that is faster than mini-batch k-means, and the clusters are tighter. A cluster that came
    out empty (more clusters than distinct rows) takes the row of the largest cluster that is farthest from its centre.
    Clusters differ in size, as in the text. It needs ``pip install 'tacit[data]'``.

    Args:
      x: Features (rows, columns).
      agents: Number of agents.
      fraction: Share of the rows that is dealt out at random, 0 (all by clusters) to 1 (all at random).
      seed: Seed of the draw, 0 or more.

    Example:
      >>> import numpy as np
      >>> from tacit.streams import partition
      >>> len(partition.stochastic_adversarial(np.eye(20), agents=4, fraction=1.0))
      4

    References:
      OPS paper, sec. 5.1.
    """
    features = check_features(x)
    rows = len(features)
    _enough(rows, agents)
    proportion("fraction", fraction, "at 0 all rows go by clusters, at 1 at random", zero=True, one=True)
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


def _holders(classes: int, agents: int, each: int, rng: np.random.Generator) -> NDArray[np.bool_]:
    """Draw (agents, classes) who holds what: so many classes each, of which those with most places left."""
    left = np.full(classes, agents * each // classes)
    left[rng.permutation(classes)[: agents * each % classes]] += 1
    holds = np.zeros((agents, classes), bool)
    for agent in rng.permutation(agents):
        chosen = np.lexsort((rng.random(classes), -left))[:each]
        holds[agent, chosen] = True
        left[chosen] -= 1
    return holds


def _classes_drawn(
    mix: NDArray[np.float64], holder: NDArray[np.int64], supply: NDArray[np.int64], rng: np.random.Generator
) -> NDArray[np.int64]:
    """Draw a class for each place in turn from its holder's mix, no class more often than it has rows."""
    drawn = np.empty(len(holder), np.int64)
    left, done = supply.copy(), 0
    while done < len(holder):  # one pass for each class that runs out
        open_mix = mix * (left > 0)
        open_mix[open_mix.sum(axis=1) == 0] = left
        edges = np.cumsum(open_mix, axis=1)
        edges /= edges[:, -1:]
        turn = (rng.random((len(holder) - done, 1)) >= edges[holder[done:]]).sum(axis=1)
        taken = np.cumsum(turn[:, None] == np.arange(len(left)), axis=0)
        beyond = (taken > left).any(axis=1)
        stop = int(np.argmax(beyond)) if beyond.any() else len(turn)
        drawn[done : done + stop] = turn[:stop]
        left -= np.bincount(turn[:stop], minlength=len(left))
        done += stop
    return drawn


def _clusters(x: NDArray[np.float32], clusters: int, seed: int) -> NDArray[np.int64]:
    cluster, exceptions = require("sklearn.cluster", extra="data"), require("sklearn.exceptions", extra="data")
    threads = require("threadpoolctl", extra="data")
    spread = x.std(axis=0)
    scaled = ((x - x.mean(axis=0)) / np.where(spread > 0, spread, 1)).reshape(len(x), -1)
    # One thread: sums in a fixed order, so that one seed gives one partition.
    with warnings.catch_warnings(), threads.threadpool_limits(1):
        warnings.simplefilter("ignore", exceptions.ConvergenceWarning)  # fewer rows than clusters: mended below
        found = cluster.KMeans(clusters, n_init=1, max_iter=20, random_state=seed).fit(scaled)
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
    whole_number("rows", rows, least=0)
    whole_number("agents", agents)
    if rows < agents:
        raise DataError(f"{rows} rows for {agents} agents; expected at least one row each: use fewer agents")


def _generator(seed: int) -> np.random.Generator:
    whole_number("seed", seed, least=0)
    return np.random.default_rng(seed)
