"""Where every agent and every link lives in the simulator's arrays.

Agents are kept in *buckets* of similar in-degree. Within a bucket each agent has the same number of in-slots, so a
round is a few vectorised programs whose padding is small whatever the degrees are: a hub with a million neighbours sits
in a bucket of one. All arrays here are host arrays of size O(agents + links).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from tacit.core.errors import GraphError
from tacit.graphs import Availability, Graph, Topology

BUCKET_OVERHEAD = 300
"""What one more bucket costs per round, in slots mixed: a bucket must save more padding than this."""


def most_buckets(agents: int) -> int:
    """Each bucket is compiled by itself, which takes about half a second: more of them where a round takes longer."""
    return 8 if agents >= 50_000 else 4


class SlotTable(NamedTuple):
    """One side of a bucket's links; every array is (slots, agents of the bucket)."""

    agent: np.ndarray
    """Id of the neighbour within its role and repeat, -1 for padding."""
    live: np.ndarray
    """False for padding (and for slot 0 between two roles)."""
    edge: np.ndarray
    """Index into [links | self links | dead]: see `LinkLayout`."""
    row: np.ndarray
    """In-side: row of the sender in the message array. Out-side: row in the array of per-slot messages."""
    slot_row: np.ndarray
    """In-side: row of this very link in the array of per-slot messages. Out-side: the same as `row`."""


class Halo(NamedTuple):
    """Messages of other shards that are read in a shard, behind its own: blocks of fixed lengths, one per offset."""

    offsets: tuple[int, ...]
    """How many shards further on a block is sent."""
    sends: tuple[np.ndarray, ...]
    """Per offset, (shards, length) the rows that each shard sends; padded with row 0."""
    rows: int
    """That a shard gets."""


class LinkLayout(NamedTuple):
    """One link set: the edges as the graph lists them, then one self link per agent, then one dead link for padding."""

    graph: Graph
    into: tuple[SlotTable, ...]
    """Per bucket of the target role."""
    out: tuple[SlotTable, ...]
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


def _slots(
    ends: np.ndarray, others: np.ndarray, edges: np.ndarray, role: RoleLayout, own: bool, dead: int
) -> tuple[list[SlotTable], np.ndarray]:
    """Tables of one side (in internal order) with `row` still holding union ids, and each edge's slot there.

    `ends[e]` is the agent on this side of edge e, `others[e]` the one on the other side.
    """
    total = role.order.size
    degree = np.bincount(ends, minlength=total)
    first = np.concatenate([[0], np.cumsum(degree)[:-1]])
    by_end = edges if np.all(np.diff(ends) >= 0) else np.argsort(ends, kind="stable")
    slot = np.empty(ends.size, np.int32)
    slot[by_end] = np.arange(ends.size) - first[ends[by_end]] + 1
    tables = []
    for bucket in role.buckets:
        ids = role.order[bucket]
        width = int(degree[ids].max(initial=0)) + 1
        shape = (width, ids.size)
        other = np.broadcast_to(ids, shape).copy() if own else np.zeros(shape, np.int32)
        edge = np.full(shape, dead, np.int32)
        live = np.zeros(shape, np.bool_)
        if own:
            edge[0] = edges.size + ids
            live[0] = True
        in_bucket = np.zeros(total, np.bool_)
        in_bucket[ids] = True
        mine = np.flatnonzero(in_bucket[ends]) if len(role.buckets) > 1 else edges
        column = role.position[ends[mine]] - bucket.start
        other[slot[mine], column] = others[mine]
        edge[slot[mine], column] = mine
        live[slot[mine], column] = True
        tables.append(SlotTable(other, live, edge, other, other))
    return tables, slot


def _lay_out_links(graph: Graph, source: RoleLayout, target: RoleLayout, one_role: bool) -> LinkLayout:
    edges = np.arange(graph.senders.size, dtype=np.int32)
    dead = edges.size + (target.order.size if one_role else 0)
    into, _ = _slots(graph.receivers, graph.senders, edges, target, one_role, dead)
    out, out_slot = _slots(graph.senders, graph.receivers, edges, source, one_role, dead)

    # Per-slot messages lie bucket by bucket of the sender, agent by agent, slot by slot.
    width = np.empty(source.order.size, np.int64)
    start = np.empty(source.order.size, np.int64)
    offset = 0
    for bucket, table in zip(source.buckets, out, strict=True):
        slots, agents = table.live.shape
        width[bucket] = slots
        start[bucket] = offset + np.arange(agents) * slots
        offset += slots * agents
    if offset >= 2**31:
        raise GraphError(f"{offset} out-slots do not fit an index of 32 bits; use fewer agents or links")

    def sender_rows(table: SlotTable) -> SlotTable:
        row = source.position[table.agent]
        slot = np.zeros(table.live.shape, np.int64)
        linked = table.live & (table.edge < edges.size)
        slot[linked] = out_slot[table.edge[linked]]
        return table._replace(
            agent=np.where(table.live, table.agent % source.agents, -1).astype(np.int32),
            row=row.astype(np.int32),
            slot_row=(start[row] + slot).astype(np.int32),
        )

    def own_rows(table: SlotTable, bucket: slice) -> SlotTable:
        slots, _ = table.live.shape
        row = (start[bucket] + np.arange(slots)[:, None]).astype(np.int32)
        agent = np.where(table.live, table.agent % target.agents, -1).astype(np.int32)
        return table._replace(agent=agent, row=row, slot_row=row)

    return LinkLayout(
        graph,
        tuple(map(sender_rows, into)),
        tuple(own_rows(table, bucket) for table, bucket in zip(out, source.buckets, strict=True)),
        offset,
        one_role and bool(np.all(graph.in_degree == target.agents - 1)),
    )
