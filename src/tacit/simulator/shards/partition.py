"""Partition of agents into shards: equal numbers of each bucket's agents, and few messages from shard to shard.

Several are made and the cheapest one is taken, by what a round would cost the busiest device: the slots that it mixes,
padding included, and the rows that it gets from others. They are the agents in the order given and in that of reverse
Cuthill-McKee, which puts neighbours side by side, each cut into equal pieces as a whole or bucket by bucket; and the
best of these after exchanges of agents between shards that save links. Repeats have no links between them, and come one
after the other in the order given: they go to different devices first.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import reverse_cuthill_mckee

from tacit.attacks.kinds import Attack
from tacit.core.errors import ConfigError
from tacit.simulator.layout import Layout

ROW_COST = 4.0
"""Cost of a row from another shard, in slots mixed: it is gathered, sent, and written behind the shard's own."""
PASSES = 12
"""Rounds of exchanges, at most; they end when one saves less than a fiftieth of the links between shards."""


class Agents(NamedTuple):
    """Agents of all roles, one after the other, with all their links."""

    first: Mapping[str, int]
    """Role -> number of its first agent."""
    role: np.ndarray
    """Number of each agent's role."""
    bucket: np.ndarray
    """Number of each agent's bucket, over all roles."""
    width: np.ndarray
    """In-slots of each bucket."""
    senders: np.ndarray
    receivers: np.ndarray

    def cost(self, home: np.ndarray, shards: int) -> float:
        """Return what a round costs the busiest shard."""
        sizes = np.bincount(self.bucket * shards + home, minlength=self.width.size * shards).reshape(-1, shards)
        return float(sizes.max(axis=1) @ self.width) + ROW_COST * int(rows_read(self, home, shards).max())


def homes(layout: Layout, ends: Mapping[str, tuple[str, str]], shards: int) -> dict[str, np.ndarray]:
    """Return the shard of each agent of each role, by id in the union."""
    agents = _agents(layout, ends)
    home = _best(agents, shards)
    sizes = {role: found.order.size for role, found in layout.roles.items()}
    return {role: home[agents.first[role] : agents.first[role] + size] for role, size in sizes.items()}


def rows_read(agents: Agents, home: np.ndarray, shards: int) -> np.ndarray:
    """Return, per shard, how many agents of other shards it hears."""
    away = home[agents.senders] != home[agents.receivers]
    senders, to = agents.senders[away], home[agents.receivers[away]]
    found = np.zeros(shards, np.int64)
    for shard in range(shards):
        heard = np.zeros(home.size, bool)
        heard[senders[to == shard]] = True
        found[shard] = heard.sum()
    return found


def _agents(layout: Layout, ends: Mapping[str, tuple[str, str]]) -> Agents:
    first, total = {}, 0
    for role, found in layout.roles.items():
        first[role] = total
        total += found.order.size
    kinds, bucket = np.empty(total, np.int64), np.empty(total, np.int64)
    width: list[int] = []
    for number, (role, found) in enumerate(layout.roles.items()):
        kinds[first[role] : first[role] + found.order.size] = number
        heard = [links.into for name, links in layout.links.items() if ends[name][1] == role]
        for b, part in enumerate(found.buckets):
            bucket[first[role] + found.order[part]] = len(width)
            width.append(1 + sum(tables[b].live.shape[0] for tables in heard))
    sides = [
        (first[ends[name][0]] + links.graph.senders.astype(np.int64), first[ends[name][1]] + links.graph.receivers)
        for name, links in layout.links.items()
    ]
    senders, receivers = (np.concatenate(side) for side in zip(*sides, strict=True))
    return Agents(first, kinds, bucket, np.array(width), senders, receivers)


def _best(agents: Agents, shards: int) -> np.ndarray:
    given = np.arange(agents.bucket.size)
    home = _cut(given, agents.role, shards)
    if not np.any(home[agents.senders] != home[agents.receivers]):
        return home
    links = csr_array((np.ones(agents.senders.size, np.int32), (agents.senders, agents.receivers)), (given.size,) * 2)
    links = links + links.T
    near = np.empty_like(given)
    near[reverse_cuthill_mckee(links, symmetric_mode=True)] = given
    found = [_cut(order, groups, shards) for order in (given, near) for groups in (agents.role, agents.bucket)]
    best = min(found, key=lambda home: agents.cost(home, shards))
    return min((best, _exchanged(agents, links, best, shards)), key=lambda home: agents.cost(home, shards))


def _cut(order: np.ndarray, groups: np.ndarray, shards: int) -> np.ndarray:
    """Cut each group, its members sorted by `order`, into equal pieces."""
    by_group = np.lexsort((order, groups))
    count = np.bincount(groups)
    rank = np.arange(order.size) - (np.cumsum(count) - count)[groups[by_group]]
    home = np.empty(order.size, np.int64)
    home[by_group] = rank * shards // count[groups[by_group]]
    return home


def _exchanged(agents: Agents, links: csr_array, home: np.ndarray, shards: int) -> np.ndarray:
    """Let agents of one bucket change places between two shards where that saves links."""
    rng = np.random.default_rng(0)
    best, fewest = home, np.inf
    for _ in range(PASSES):
        there = links @ np.eye(shards, dtype=np.int32)[home]
        here = there[np.arange(home.size), home]
        apart = int(there.sum() - here.sum())
        if apart > 0.98 * fewest:
            break
        best, fewest, home = home, apart, home.copy()
        to = np.argmax(np.where(np.arange(shards) == home[:, None], -1, there), axis=1)
        beside = there[np.arange(home.size), to]
        gain = beside - here
        # Half of those that have a neighbour there: two neighbours that both move gain nothing.
        movers = np.flatnonzero((beside > 0) & (rng.random(home.size) < 0.5))
        low, high = np.minimum(home[movers], to[movers]), np.maximum(home[movers], to[movers])
        pair = (agents.bucket[movers] * shards + low) * shards + high
        order = np.lexsort((-gain[movers], home[movers], pair))
        movers, pair = movers[order], pair[order]
        up = home[movers] < to[movers]
        side = 2 * pair + ~up
        place = pair * home.size + np.arange(movers.size) - np.searchsorted(side, side)
        # The k-th to go up changes with the k-th to go down.
        _, first, second = np.intersect1d(place[up], place[~up], assume_unique=True, return_indices=True)
        one, other = movers[up][first], movers[~up][second]
        saves = gain[one] + gain[other] > 0
        one, other = one[saves], other[saves]
        home[one], home[other] = home[other], home[one]
    return best


def refuse_liars(liars: Mapping[int, Attack]) -> None:
    """Refuse liars: what they tell is made of messages of all shards."""
    if liars:
        raise ConfigError(
            f"agents {list(liars)} lie, and liars look at the messages of all agents, which several devices do not "
            "hold; leave out devices, or the liars"
        )
