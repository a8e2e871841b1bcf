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
from tacit.graphs.edges import stable_order

BUCKET_OVERHEAD = 300
"""What one more bucket costs per round, in slots mixed: a bucket must save more padding than this."""


def most_buckets(agents: int) -> int:
    """Each bucket is compiled by itself, which takes about half a second: more of them where a round takes longer."""
    return 8 if agents >= 50_000 else 4


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
    slot_of: np.ndarray
    """Of each edge, its slot at the sender."""

    @property
    def slot_row(self) -> np.ndarray:
        """Row of this very link in the array of per-slot messages; made anew, for most methods never."""
        rows: np.ndarray = self.first[self.row]
        rows += self.slot_of[self.edge]
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


class Side(NamedTuple):
    """Links of a bucket's agents on one side, as in `InTable` but for the ids."""

    agent: np.ndarray
    live: np.ndarray
    edge: np.ndarray


def _slots(
    ends: np.ndarray, others: np.ndarray, role: RoleLayout, own: bool, dead: int
) -> tuple[list[Side], np.ndarray]:
    """Tables of one side, bucket by bucket, with neighbours' ids in the union, and each edge's slot there.

    `ends[e]` is the agent on this side of edge e, `others[e]` the one on the other side. The tables are parts of common
    arrays, in which each edge is written once, wherever its bucket is.
    """
    degree = np.bincount(ends, minlength=role.order.size)
    slot = _numbered(ends, degree)
    shapes = [(int(degree[role.order[b]].max(initial=0)) + 1, b.stop - b.start) for b in role.buckets]
    starts = np.cumsum([0, *(slots * agents for slots, agents in shapes)])
    other, edge = np.zeros(starts[-1], np.int32), np.full(starts[-1], dead, np.int32)
    parts = list(zip(role.buckets, starts[:-1], starts[1:], shapes, strict=True))
    if own:
        for bucket, start, stop, shape in parts:
            other[start:stop].reshape(shape)[:] = role.order[bucket]
            edge[start : start + shape[1]] = ends.size + role.order[bucket]
    first, step = np.empty((2, role.order.size), np.int32 if starts[-1] < 2**31 else np.int64)
    for bucket, start, _, (_, agents) in parts:
        first[role.order[bucket]] = start + np.arange(agents)
        step[role.order[bucket]] = agents
    place = slot * step[ends]
    place += first[ends]
    other[place] = others
    edge[place] = np.arange(ends.size, dtype=np.int32)
    live = edge != dead
    tables = [Side(*(a[start:stop].reshape(shape) for a in (other, live, edge))) for _, start, stop, shape in parts]
    return tables, slot


def _numbered(ends: np.ndarray, degree: np.ndarray) -> np.ndarray:
    """Number the edges of each agent from 1 on, in the order given."""
    first = np.cumsum(degree) - degree - 1
    numbers = np.arange(ends.size, dtype=np.int32)
    if np.all(ends[1:] >= ends[:-1]):
        numbers -= first.astype(np.int32)[ends]
        return numbers
    order = stable_order(ends, degree.size)
    numbers -= np.repeat(first.astype(np.int32), degree)
    slot = np.empty(ends.size, np.int32)
    slot[order] = numbers
    return slot


def _lay_out_links(graph: Graph, source: RoleLayout, target: RoleLayout, one_role: bool) -> LinkLayout:
    dead = graph.edges + (target.order.size if one_role else 0)
    into, _ = _slots(graph.receivers, graph.senders, target, one_role, dead)
    out, out_slot = _slots(graph.senders, graph.receivers, source, one_role, dead)

    # Per-slot messages lie bucket by bucket of the sender, agent by agent, slot by slot.
    start = np.empty(source.order.size, np.int64)
    offset = 0
    for bucket, table in zip(source.buckets, out, strict=True):
        slots, agents = table.live.shape
        start[bucket] = offset + np.arange(agents) * slots
        offset += slots * agents
    if offset >= 2**31:
        raise GraphError(f"{offset} out-slots do not fit an index of 32 bits; use fewer agents or links")
    first, slot_of = start.astype(np.int32), np.concatenate([out_slot, np.zeros(dead + 1 - graph.edges, np.int32)])

    def ids(table: Side, role: RoleLayout) -> np.ndarray:
        agent = table.agent if role.agents == role.order.size else table.agent % role.agents
        return np.where(table.live, agent, np.int32(-1))

    return LinkLayout(
        graph,
        tuple(
            InTable(ids(table, source), table.live, table.edge, source.position[table.agent], first, slot_of)
            for table in into
        ),
        tuple(
            OutTable(ids(table, target), table.live, table.edge, first[bucket])
            for table, bucket in zip(out, source.buckets, strict=True)
        ),
        offset,
        one_role and bool(np.all(graph.in_degree == target.agents - 1)),
    )
