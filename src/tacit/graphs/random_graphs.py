"""Random graphs, vectorised: a million agents take seconds."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from tacit.core.errors import GraphError
from tacit.graphs.build import circulant_regular
from tacit.graphs.edges import IntArray, edge_keys, refuse_large, split_keys
from tacit.graphs.graph import Graph

Keys = npt.NDArray[np.int64]
SWAP_SWEEPS = 10
"""Proposed exchanges per link of a random regular graph: beyond about ten, its statistics no longer move."""
CHUNK = 4_000_000
"""Numbers drawn at once where a dense neighbourhood is shuffled."""


def random_digraph(n: int, out_degree: int, seed: int, *, exact: bool = False) -> Graph:
    """Random digraph that is strongly connected.

    A random cycle through all agents gives each its first link, so that there is a path between any two agents and
    every agent has an in-link; the other targets are uniform.

    Args:
      n: Number of agents, at least 2.
      out_degree: Largest out-degree, 1 to n - 1; degrees are uniform on 1..out_degree.
      seed: Seed of the draw, 0 or more.
      exact: Whether every agent has just `out_degree` links out.

    Example:
      >>> import tacit
      >>> tacit.graphs.is_strongly_connected(tacit.graphs.random_digraph(20, 3, seed=0))
      True
    """
    if n < 2 or not 1 <= out_degree <= n - 1:
        raise GraphError(
            f"random_digraph({n}, {out_degree}): expected n >= 2 and an out-degree in 1..n-1, so that there are targets"
        )
    refuse_large(n, n * (out_degree if exact else (out_degree + 1) / 2), "random_digraph")
    rng = np.random.default_rng(seed)
    cycle = rng.permutation(n)
    follower = np.empty(n, dtype=np.int32)
    follower[cycle] = np.roll(cycle, -1)
    del cycle
    degree = np.full(n, out_degree) if exact else rng.integers(1, out_degree + 1, n)
    dense = degree > n // 2
    keys = [
        edge_keys(np.arange(n, dtype=np.int32), follower),
        *_targets_by_rejection(rng, n, follower, np.where(dense, 1, degree)),
        _targets_by_shuffle(rng, n, follower, degree, np.flatnonzero(dense)),
    ]
    links = np.concatenate(keys)
    del keys
    links.sort()
    return Graph(n, *split_keys(links), name=f"random_digraph({n}, {out_degree})")


def erdos_renyi(n: int, p: float, seed: int, *, directed: bool = False) -> Graph:
    """Erdos-Renyi graph: each pair of agents is linked with probability p. It may be disconnected.

    The number of links is drawn first, then that many distinct pairs: O(links).

    Args:
      n: Number of agents, at least 1.
      p: Probability of a link, 0 to 1.
      seed: Seed of the draw, 0 or more.
      directed: Whether ordered pairs are drawn one by one; otherwise links go both ways.

    Example:
      >>> import tacit
      >>> tacit.graphs.is_symmetric(tacit.graphs.erdos_renyi(20, 0.2, seed=0))
      True
    """
    if n < 1 or not 0 <= p <= 1:
        raise GraphError(f"erdos_renyi({n}, {p}): expected n >= 1 and a probability in [0, 1]")
    pairs = n * (n - 1) if directed else n * (n - 1) // 2
    refuse_large(n, n * (n - 1) * p, "erdos_renyi")
    rng = np.random.default_rng(seed)
    chosen = _distinct(rng, pairs, int(rng.binomial(pairs, p)))
    name = f"erdos_renyi({n}, {p:g})"
    # Pair number q is (i, i + d) around a ring of n, with i = q mod n: every pair once, no square roots.
    first = chosen % n
    second = (first + chosen // n + 1) % n
    return Graph.from_edges(n, first, second, name=name) if directed else _undirected(n, first, second, name)


def geometric(n: int, radius: float, seed: int) -> Graph:
    """Random geometric graph: uniform points of the unit square, linked where near. It may be disconnected.

    Args:
      n: Number of agents, at least 1.
      radius: Distance up to which two agents are linked both ways, above 0.
      seed: Seed of the draw, 0 or more.

    Example:
      >>> import tacit
      >>> tacit.graphs.geometric(5, radius=1.5, seed=0)
      Graph(geometric, 5 agents, 20 links)
    """
    from scipy.spatial import cKDTree

    if n < 1 or radius <= 0:
        raise GraphError(f"geometric({n}, {radius}): expected n >= 1 and a radius above 0")
    refuse_large(n, n * (n - 1) * min(1.0, math.pi * min(radius, 1.0) ** 2), "geometric")
    points = np.random.default_rng(seed).random((n, 2))
    pairs = cKDTree(points).query_pairs(radius, output_type="ndarray").reshape(-1, 2)
    return _undirected(n, pairs[:, 0], pairs[:, 1], f"geometric({n}, {radius:g})")


def small_world(n: int, k: int, rewire: float, seed: int) -> Graph:
    """Small world: each agent is linked with the k nearest on a ring, and links are rewired at random.

    A rewired link keeps one end; the other is uniform among agents that it does not reach by another link or by one of
    the ring's. Where there is hardly any such agent (tiny n) a link stays as it was.

    Args:
      n: Number of agents.
      k: Neighbours on the ring: even, 2 <= k < n.
      rewire: Probability that a link is rewired, 0 to 1.
      seed: Seed of the draw, 0 or more.

    Example:
      >>> import tacit
      >>> tacit.graphs.small_world(20, 4, 0.1, seed=0)
      Graph(small_world, 20 agents, 80 links)

    References:
      Watts and Strogatz (1998), "Collective dynamics of small-world networks", Nature 393.
    """
    if k < 2 or k % 2 or k >= n or not 0 <= rewire <= 1:
        raise GraphError(f"small_world({n}, {k}, {rewire}): expected k even, 2 <= k < n, and rewire in [0, 1]")
    refuse_large(n, n * k, "small_world")
    rng = np.random.default_rng(seed)
    first = np.tile(np.arange(n), k // 2)
    second = (first + np.repeat(np.arange(1, k // 2 + 1), n)) % n
    taken = np.sort(_pair_keys(first, second, n))
    waiting = np.flatnonzero(rng.random(len(first)) < rewire)
    for _ in range(100):
        if len(waiting) == 0:
            break
        target = rng.integers(0, n, len(waiting))
        keys = _pair_keys(first[waiting], target, n)
        _, earliest = np.unique(keys, return_index=True)
        free = np.zeros(len(waiting), dtype=bool)
        free[earliest] = True
        free &= (target != first[waiting]) & ~_contains(taken, keys)
        second[waiting[free]] = target[free]
        taken = np.sort(np.concatenate([taken, keys[free]]))
        waiting = waiting[~free]
    return _undirected(n, first, second, f"small_world({n}, {k}, {rewire:g})")


def k_regular(n: int, k: int, seed: int | None = None) -> Graph:
    """Undirected graph in which each agent has k neighbours; connected for k >= 2.

    Args:
      n: Number of agents; n * k must be even.
      k: Number of neighbours, 1 <= k < n.
      seed: None: circulant, the k nearest on a ring. A number: random, the circulant graph with its agents shuffled,
        after ten sweeps of swapping ends between random pairs of links (k = 2: a random cycle).

    Example:
      >>> import tacit
      >>> tacit.graphs.k_regular(8, 3, seed=0).in_degree
      array([3, 3, 3, 3, 3, 3, 3, 3])
    """
    if not 1 <= k < n or (n * k) % 2:
        raise GraphError(f"k_regular({n}, {k}): expected 1 <= k < n and n * k even")
    start = circulant_regular(n, k)
    if seed is None:
        return start
    rng = np.random.default_rng(seed)
    label = rng.permutation(n)
    one_way = start.senders < start.receivers
    first, second = label[start.senders[one_way]], label[start.receivers[one_way]]
    if k == 2:
        return _undirected(n, first, second, start.name)
    while True:
        for _ in range(SWAP_SWEEPS):
            first, second = _exchange_ends(rng, n, first, second)
        if k == 1 or _is_connected(n, first, second):
            return _undirected(n, first, second, start.name)


def _targets_by_rejection(rng: np.random.Generator, n: int, follower: IntArray, degree: IntArray) -> list[Keys]:
    """Return links to degree - 1 distinct targets each, part by part, drawn again while they collide."""
    missing, parts = degree - 1, list[Keys]()
    while missing.any():
        senders = np.repeat(np.arange(n, dtype=np.int32), missing)
        target = rng.integers(0, n - 1, len(senders), dtype=np.int32)
        target += target >= senders  # any agent but the sender itself
        known = target == np.repeat(follower, missing)
        keys, again = edge_keys(senders[~known], target[~known]), [senders[known]]
        del senders, target, known
        keys.sort()
        repeated = np.zeros(len(keys), dtype=bool)
        np.equal(keys[1:], keys[:-1], out=repeated[1:])
        for part in parts:
            repeated |= _contains(part, keys)
        again.append(split_keys(keys[repeated])[0])
        parts.append(keys[~repeated])
        missing = np.bincount(np.concatenate(again), minlength=n)
    return parts


def _targets_by_shuffle(
    rng: np.random.Generator, n: int, follower: IntArray, degree: IntArray, senders: IntArray
) -> Keys:
    """Return the same for senders that reach more than half of the agents, where rejection would be slow."""
    parts = [np.zeros(0, dtype=np.int64)]
    rows = max(CHUNK // n, 1)
    for start in range(0, len(senders), rows):
        block = senders[start : start + rows]
        rank = rng.random((len(block), n))
        row = np.arange(len(block))
        rank[row, block] = rank[row, follower[block]] = np.inf  # never chosen here
        order = np.argsort(rank, axis=1)
        chosen = np.arange(n) < (degree[block] - 1)[:, None]
        parts.append(edge_keys(np.broadcast_to(block[:, None], order.shape)[chosen], order[chosen]))
    return np.concatenate(parts)


def _distinct(rng: np.random.Generator, population: int, count: int) -> Keys:
    """Return `count` distinct numbers below `population`, sorted, in O(count)."""
    if count > population // 2:
        left_out = _distinct(rng, population, population - count)
        keep = np.ones(population, dtype=bool)
        keep[left_out] = False
        return np.flatnonzero(keep)
    numbers = np.zeros(0, dtype=np.int64)
    while len(numbers) < count:
        more = rng.integers(0, population, count - len(numbers))
        numbers = _sorted_distinct(np.concatenate([numbers, more]))
    return numbers


def _sorted_distinct(values: Keys) -> Keys:
    """Do what np.unique does, by sorting: its hash table is several times slower on millions of numbers."""
    values = np.sort(values)
    new = np.ones(len(values), dtype=bool)
    np.not_equal(values[1:], values[:-1], out=new[1:])
    distinct: Keys = values[new]
    return distinct


def _exchange_ends(rng: np.random.Generator, n: int, first: Keys, second: Keys) -> tuple[Keys, Keys]:
    """Turn disjoint pairs of links (a, b), (c, d) into (a, d), (c, b) where both are new: degrees stay."""
    order = rng.permutation(len(first))
    flip = rng.random(len(first)) < 0.5
    a, b = np.where(flip, second, first)[order], np.where(flip, first, second)[order]
    half = len(a) // 2
    one, two = slice(0, half), slice(half, 2 * half)
    proposed = np.stack([_pair_keys(a[one], b[two], n), _pair_keys(a[two], b[one], n)])
    present = np.sort(_pair_keys(a, b, n))
    _, inverse, times = np.unique(proposed, return_inverse=True, return_counts=True)
    good = (times[inverse.reshape(proposed.shape)] == 1) & ~_contains(present, proposed)
    good &= np.stack([a[one] != b[two], a[two] != b[one]])
    swap = good.all(axis=0)
    left, right = b[one].copy(), b[two].copy()
    b[one], b[two] = np.where(swap, right, left), np.where(swap, left, right)
    return a, b


def _is_connected(n: int, first: Keys, second: Keys) -> bool:
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    links = coo_array((np.ones(len(first), dtype=np.int8), (first, second)), shape=(n, n))
    return int(connected_components(links, directed=False, return_labels=False)) == 1


def _pair_keys(first: IntArray, second: IntArray, n: int) -> Keys:
    return np.minimum(first, second).astype(np.int64) * n + np.maximum(first, second)


def _contains(sorted_values: Keys, wanted: Keys) -> npt.NDArray[np.bool_]:
    if len(sorted_values) == 0:
        return np.zeros(wanted.shape, dtype=bool)
    place = np.minimum(np.searchsorted(sorted_values, wanted), len(sorted_values) - 1)
    found: npt.NDArray[np.bool_] = sorted_values[place] == wanted
    return found


def _undirected(n: int, first: IntArray, second: IntArray, name: str) -> Graph:
    return Graph.from_edges(n, np.concatenate([first, second]), np.concatenate([second, first]), name=name)
