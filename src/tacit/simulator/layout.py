"""Where every agent and every link lives in the simulator's arrays.

Agents are kept in *buckets* of similar in-degree. Within a bucket each agent has the same number of in-slots, so a
round is a few vectorised programs whose padding is small whatever the degrees are: a hub with a million neighbours sits
in a bucket of one. All arrays here are host arrays of size O(agents + links).
"""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np

from tacit.core.errors import GraphError
from tacit.graphs import Availability, Graph, Topology
from tacit.graphs.edges import stable_order

BUCKET_OVERHEAD = 300
"""What one more bucket costs per round, in slots mixed: a bucket must save more padding than this."""

BLOCK_AGENTS, BLOCK_SLOTS = 1 << 15, 1 << 17
"""Tables are made of so many agents at once, and of so many slots."""

NO_LINK = np.zeros(1, np.int32)
"""In the place of the links of a graph that has none: what is taken of it is not used."""


def most_buckets(agents: int) -> int:
    """Each bucket is compiled by itself, which takes about half a second: more of them where a round takes longer."""
    return 8 if agents >= 50_000 else 4


@dataclass
class Side:
    """Links in the order of the agents on one side of them."""

    degree: np.ndarray
    others: np.ndarray
    """Agents on the other side."""
    edges: np.ndarray | None
    """Their places in the graph; None: they are in its order."""

    @cached_property
    def slots(self) -> np.ndarray:
        """Slot of each edge of the graph: an agent's edges are numbered from 1 on."""
        first = np.cumsum(self.degree) - self.degree - 1
        slot = np.arange(int(self.degree.sum()), dtype=np.int32)
        slot -= np.repeat(first.astype(np.int32), self.degree)
        if self.edges is not None:
            slot[self.edges] = slot.copy()
        return slot


class InTable(NamedTuple):
    """Links into the agents of a bucket; arrays are (slots, agents of the bucket) but for the last two."""

    agent: np.ndarray
    """Id of the neighbour within its role and repeat, -1 for padding."""
    live: np.ndarray
    """False for padding (and for slot 0 between two roles)."""
    edge: np.ndarray
    """Index into [links | self links | dead]: see `LinkLayout`."""
    row: np.ndarray
    """Row of the sender in the message array."""
    first: np.ndarray
    """Of each sender, row of its slot 0 in the array of per-slot messages."""
    sends: Side | None
    """Links in the order of the senders; None where only shapes are left."""

    @property
    def slot_row(self) -> np.ndarray:
        """Row of this very link in the array of per-slot messages; made anew, for most methods never."""
        assert self.sends is not None
        rows: np.ndarray = self.first[self.row]
        slots = self.sends.slots
        rows += np.where(self.edge < slots.size, slots.take(self.edge, mode="clip") if slots.size else 0, 0)
        return rows


class OutTable(NamedTuple):
    """Links out of the agents of a bucket, as in `InTable`."""

    agent: np.ndarray
    live: np.ndarray
    edge: np.ndarray
    first: np.ndarray
    """Of each agent of the bucket, row of its slot 0 in the array of per-slot messages."""

    @property
    def row(self) -> np.ndarray:
        """Row in the array of per-slot messages; made anew."""
        rows: np.ndarray = self.first + np.arange(self.live.shape[0], dtype=np.int32)[:, None]
        return rows


class Halo(NamedTuple):
    """Messages of other shards that are read in a shard.

    They lie behind its own, in blocks of fixed lengths, one per offset. Where nearly all are read, a shard has those of
    all shards instead, shard by shard: nothing is picked out then, and nothing copied behind the own ones.
    """

    offsets: tuple[int, ...]
    """How many shards further on a block is sent; none where all messages go to all shards."""
    sends: tuple[np.ndarray, ...]
    """Per offset, (shards, length) the rows that each shard sends; padded with row 0."""
    rows: int
    """That a shard gets."""

    @property
    def whole(self) -> bool:
        """Whether a shard gets all messages."""
        return not self.offsets


class LinkLayout(NamedTuple):
    """One link set: the edges as the graph lists them, then one self link per agent, then one dead link for padding."""

    graph: Graph
    into: tuple[InTable, ...]
    """Per bucket of the target role."""
    out: tuple[OutTable, ...]
    """Per bucket of the source role."""
    slot_rows: int
    """Rows of the array of per-slot messages."""
    uniform: bool
    """Everyone hears everyone: the sum over in-slots is the sum over all agents of the repeat."""
    halo: Halo | None = None
    """Of messages, one per sender; None: none are read of other shards."""
    slot_halo: Halo | None = None
    """Of per-slot messages."""


class RoleLayout(NamedTuple):
    """Agents of one role, of all repeats, in internal order."""

    agents: int
    """Per repeat."""
    order: np.ndarray
    """Internal position -> id in the union of the repeats."""
    position: np.ndarray
    """The inverse."""
    buckets: tuple[slice, ...]
    """Slices of internal positions."""
    cluster: np.ndarray
    """Of each agent of the union, by id; zeros where there are none."""
    availability: Availability | None
    """Who of the union is there in a round, by id; None: all."""
    shards: int = 1
    """Shards, of equal lengths, that follow each other in `order`; `buckets` are slices of each."""
    real: np.ndarray | None = None
    """By internal position, False where a shard is padded with an agent that nobody hears; None: all are real."""

    @property
    def rows(self) -> int:
        """Agents of a shard."""
        return self.order.size // self.shards

    def in_bucket(self, values: Any, bucket: slice) -> Any:
        """Return the values, given by internal position, of a bucket's agents, shard after shard."""
        if self.shards == 1:
            return values[bucket]
        return values.reshape(self.shards, self.rows, *values.shape[1:])[:, bucket].reshape(-1, *values.shape[1:])


class Layout(NamedTuple):
    """All roles and link sets of a topology that is the union of `repeats` copies."""

    repeats: int
    roles: Mapping[str, RoleLayout]
    links: Mapping[str, LinkLayout]
    shards: int = 1


def lay_out(topology: Topology, ends: Mapping[str, tuple[str, str]], repeats: int) -> Layout:
    """Lay out a union topology; `ends` gives source and target role of each link set in use."""
    into = {role: np.zeros(size, np.int64) for role, size in topology.roles.items()}
    out = {role: np.zeros(size, np.int64) for role, size in topology.roles.items()}
    for links, (source, target) in ends.items():
        into[target] += topology.links[links].in_degree
        out[source] += topology.links[links].out_degree
    roles = {
        role: _lay_out_role(
            _bucketing_degree(into[role], out[role]),
            size // repeats,
            topology.clusters.get(role, np.zeros(size, np.int32)),
            topology.availability.get(role),
        )
        for role, size in topology.roles.items()
    }
    return Layout(
        repeats,
        roles,
        {
            name: _lay_out_links(topology.links[name], roles[source], roles[target], source == target)
            for name, (source, target) in ends.items()
        },
    )


def _bucketing_degree(into: np.ndarray, out: np.ndarray) -> np.ndarray:
    """Return the degree by which agents are put together.

    In-degrees decide how fast a round is. Out-degrees only matter for memory, where they are so skewed that a hub would
    make the tables of everybody beside it as wide as its own.
    """
    bucket_of = np.searchsorted(_bucket_bounds(into), into)
    widest = np.zeros(bucket_of.max(initial=0) + 1, np.int64)
    np.maximum.at(widest, bucket_of, out)
    slots = int(np.sum(widest[bucket_of] + 1))
    return np.maximum(into, out) if slots > 4 * (into.size + int(out.sum())) else into


def _lay_out_role(
    degree: np.ndarray, agents: int, cluster: np.ndarray, availability: Availability | None
) -> RoleLayout:
    bounds = _bucket_bounds(degree)
    if len(bounds) == 1:
        order = np.arange(degree.size, dtype=np.int32)
        buckets: tuple[slice, ...] = (slice(0, degree.size),)
    else:
        bucket_of = np.searchsorted(bounds, degree)
        order = np.argsort(bucket_of, kind="stable").astype(np.int32)
        ends = np.cumsum(np.bincount(bucket_of, minlength=len(bounds)))
        buckets = tuple(slice(int(a), int(b)) for a, b in zip([0, *ends[:-1]], ends, strict=True))
    position = np.empty_like(order)
    position[order] = np.arange(order.size, dtype=np.int32)
    return RoleLayout(agents, order, position, buckets, cluster, availability)


def _bucket_bounds(in_degree: np.ndarray) -> list[int]:
    """Largest in-degree of each bucket, so that padded slots plus overhead per bucket are fewest."""
    values, counts = np.unique(in_degree, return_counts=True)
    if values.size > 64:  # skewed degrees: geometric candidates lose at most an eighth
        keep = np.unique(np.floor(np.log2(np.maximum(values, 1)) * 6), return_index=True)[1]
        last_of_group = np.append(keep[1:] - 1, values.size - 1)
        counts = np.add.reduceat(counts, keep)
        values = values[last_of_group]
    total = np.concatenate([[0], np.cumsum(counts)])
    # best[k][j]: least cost of the first j values in k buckets
    size = values.size
    most = most_buckets(in_degree.size)
    best = np.full((most + 1, size + 1), np.inf)
    cut = np.zeros((most + 1, size + 1), np.int64)
    best[0, 0] = 0
    for k in range(1, most + 1):
        for j in range(1, size + 1):
            cost = best[k - 1, :j] + (total[j] - total[:j]) * (values[j - 1] + 1) + BUCKET_OVERHEAD
            cut[k, j] = int(np.argmin(cost))
            best[k, j] = cost[cut[k, j]]
    k = int(np.argmin(best[:, size]))
    bounds: list[int] = []
    j = size
    while j > 0:
        bounds.append(int(values[j - 1]))
        j = int(cut[k, j])
        k -= 1
    return bounds[::-1]


class Table(NamedTuple):
    """Slots of a bucket's agents on one side, as in `InTable`."""

    agent: np.ndarray
    live: np.ndarray
    edge: np.ndarray
    row: np.ndarray
    """Empty where it is not asked for."""


def _tables(side: Side, role: RoleLayout, other: RoleLayout, own: int | None, dead: int, rows: bool) -> list[Table]:
    """Return the tables of one side, bucket by bucket; with `rows`, the positions of the agents on the other side.

    `own` is the number of the first self link; None: there are none.
    """
    degree = side.degree.astype(np.int32)
    before = (np.cumsum(side.degree) - side.degree - 1).astype(np.int32)
    tables, blocks = [], []
    for bucket in role.buckets:
        ids = role.order[bucket]
        shape = int(side.degree[ids].max(initial=0)) + 1, ids.size
        kinds = (np.int32, shape), (bool, shape), (np.int32, shape), (np.int32, shape if rows else (0, 0))
        table = Table(*(np.empty(size, kind) for kind, size in kinds))
        for first in range(0, ids.size, BLOCK_AGENTS):
            columns = slice(first, first + BLOCK_AGENTS)
            part = Table(*(column[:, columns] for column in table))
            mine = ids[columns]
            blocks.append(partial(_fill, part, side, mine, degree[mine], before[mine], other, own, dead))
        tables.append(table)
    if side.others.size < BLOCK_SLOTS:
        for block in blocks:
            block()
        return tables
    with ThreadPoolExecutor() as threads:  # NumPy lets them work side by side
        for done in [threads.submit(block) for block in blocks]:
            done.result()
    return tables


def _fill(
    table: Table, side: Side, ids: np.ndarray, degree: np.ndarray, before: np.ndarray, other: RoleLayout,
    own: int | None, dead: int,
) -> None:  # fmt: skip
    """Fill the slots of some agents, in blocks that stay in the cache; `before` is the place before their links."""
    nobody, many = np.zeros_like(ids) if own is None else ids, other.agents < other.order.size
    slots = table.agent.shape[0]
    for begin in range(0, slots, step := max(1, BLOCK_SLOTS // ids.size)):
        part = slice(begin, begin + step)
        slot = np.arange(begin, min(begin + step, slots), dtype=np.int32)[:, None]
        live = slot <= degree
        live &= slot > 0
        place = (before + slot) * live  # np.take is several times as fast as brackets
        edge = place if side.edges is None else side.edges.take(place)
        agent = np.where(live, side.others.take(place), nobody)
        if table.row.size:
            table.row[part] = other.position.take(agent)
        if own is not None and begin == 0:
            live[0], edge[0] = True, own + ids
        table.live[part] = live
        table.edge[part] = np.where(live, edge, np.int32(dead))
        table.agent[part] = np.where(live, agent % other.agents if many else agent, np.int32(-1))


def _lay_out_links(graph: Graph, source: RoleLayout, target: RoleLayout, one_role: bool) -> LinkLayout:
    dead = graph.edges + (target.order.size if one_role else 0)
    if dead >= 2**31:
        raise GraphError(f"{dead:,} links and agents do not fit an index of 32 bits; use fewer of them")
    own = graph.edges if one_role else None
    hears, sends = Side(graph.in_degree, NO_LINK, None), Side(graph.out_degree, NO_LINK, None)
    if graph.edges:
        order = stable_order(graph.senders)
        hears.others, sends.others, sends.edges = graph.senders, graph.receivers.take(order), order
    into = _tables(hears, target, source, own, dead, rows=True)
    out = _tables(sends, source, target, own, dead, rows=False)

    # Per-slot messages lie bucket by bucket of the sender, agent by agent, slot by slot.
    start = np.empty(source.order.size, np.int64)
    offset = 0
    for bucket, table in zip(source.buckets, out, strict=True):
        slots, agents = table.live.shape
        start[bucket] = offset + np.arange(agents) * slots
        offset += slots * agents
    if offset >= 2**31:
        raise GraphError(f"{offset:,} out-slots do not fit an index of 32 bits; use fewer agents or links")
    first = start.astype(np.int32)
    return LinkLayout(
        graph,
        tuple(InTable(table.agent, table.live, table.edge, table.row, first, sends) for table in into),
        tuple(
            OutTable(table.agent, table.live, table.edge, first[bucket])
            for table, bucket in zip(out, source.buckets, strict=True)
        ),
        offset,
        one_role and bool(np.all(hears.degree == target.agents - 1)),
    )
