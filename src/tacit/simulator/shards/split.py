"""A layout cut into shards of one form, and the way of states between the two.

Agents keep their bucket, so that a bucket is as wide in every shard; it is padded to the largest number of its agents
in a shard. A padding agent has no link, and counts in no figure.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple

import jax
import numpy as np

from tacit.core.contract import Phase
from tacit.simulator.layout import Halo, Layout, LinkLayout, RoleLayout
from tacit.simulator.loop_state import InFlight, LoopState

NEARLY_ALL = 1.25
"""Rows are sent as they lie, to all shards, where that is at most so many times as many as are read there."""
Moves = list[Callable[[np.ndarray], np.ndarray]]
"""Per bucket, what puts its agents into their other places."""


class InTable(NamedTuple):
    """Links into the agents of a bucket of all shards, shard by shard, as in the layout that was cut."""

    agent: np.ndarray
    live: np.ndarray
    edge: np.ndarray
    row: np.ndarray
    slot_row: np.ndarray


class OutTable(NamedTuple):
    """Links out of them."""

    agent: np.ndarray
    live: np.ndarray
    edge: np.ndarray
    row: np.ndarray


class RoleSplit(NamedTuple):
    """Places of a role's agents in shards."""

    columns: tuple[np.ndarray, ...]
    """Per bucket, (shards, length) the agent's place in the bucket of the layout that was cut; -1 for padding."""
    place: np.ndarray
    """Internal position before -> after, shard by shard."""
    origin: np.ndarray
    """The other way round; -1 for padding."""


class Rows(NamedTuple):
    """Rows of an array of messages: in shards with what they read of others, and before the cut."""

    origin: np.ndarray
    """(shards, rows with halo) -> row before; 0 for padding."""
    place: np.ndarray
    """Row before -> shard * rows with halo + row there."""


class Split(NamedTuple):
    """A layout cut into shards."""

    layout: Layout
    roles: Mapping[str, RoleSplit]
    rows: Mapping[str, Rows]
    """Link set -> rows of messages, one per sender."""
    slot_rows: Mapping[str, Rows]
    """Link set -> rows of per-slot messages."""

    def together(self, loop: LoopState, phases: tuple[Phase, ...], per_slot: tuple[bool, ...]) -> LoopState:
        """Return a state of all shards as one device would hold it."""

        def agents(role: str, axis: int) -> Moves:
            inverse: Moves = []
            for columns in self.roles[role].columns:
                flat = columns.reshape(-1)
                places = np.empty(int((flat >= 0).sum()), np.int64)
                places[flat[flat >= 0]] = np.flatnonzero(flat >= 0)
                inverse.append(partial(np.take, indices=places, axis=axis))
            return inverse

        def rows(leaf: np.ndarray, known: Rows, rounds: int) -> np.ndarray:
            shards, length = known.origin.shape
            parts = leaf.reshape(shards, rounds, length, -1)
            at = known.place
            return parts[at // length, :, at % length].swapaxes(0, 1).reshape(rounds * at.size, -1)

        return self._moved(loop, phases, per_slot, agents, rows)

    def apart(self, loop: LoopState, phases: tuple[Phase, ...], per_slot: tuple[bool, ...]) -> LoopState:
        """Return the state of one device as the shards hold it."""

        def agents(role: str, axis: int) -> Moves:
            columns = [np.maximum(found, 0).reshape(-1) for found in self.roles[role].columns]
            return [partial(np.take, indices=places, axis=axis) for places in columns]

        def rows(leaf: np.ndarray, known: Rows, rounds: int) -> np.ndarray:
            parts = leaf.reshape(rounds, -1, leaf.shape[1])[:, known.origin]
            return parts.swapaxes(0, 1).reshape(-1, leaf.shape[1])

        return self._moved(loop, phases, per_slot, agents, rows)

    def _moved(
        self, loop: LoopState, phases: tuple[Phase, ...], per_slot: tuple[bool, ...], agents: Any, rows: Any
    ) -> LoopState:
        def moved(parts: Any, role: str, axis: int = 0) -> Any:
            return tuple(jax.tree.map(f, part) for f, part in zip(agents(role, axis), parts, strict=True))

        flying: list[InFlight | None] = []
        for found, phase, slots in zip(loop.in_flight, phases, per_slot, strict=True):
            if found is None:
                flying.append(None)
                continue
            known, rounds = (self.slot_rows if slots else self.rows)[phase.links], found.delay[0].shape[0]
            ring = {name: rows(leaf, known, rounds) for name, leaf in found.rows.items()}
            weight = None if found.weight is None else moved(found.weight, phase.target, 2)
            flying.append(InFlight(ring, moved(found.delay, phase.target, 2), weight))
        memories = (
            None if found is None else moved(found, phase.source)
            for found, phase in zip(loop.memories, phases, strict=True)
        )
        states = {role: moved(parts, role) for role, parts in loop.states.items()}
        return LoopState(loop.round, states, tuple(flying), tuple(memories), loop.lies)


def split(layout: Layout, homes: Mapping[str, np.ndarray], ends: Mapping[str, tuple[str, str]], shards: int) -> Split:
    """Cut a layout; `homes` says in which shard each agent is, by id in the union, and `ends` the roles of links."""
    roles = {role: _split_role(found, homes[role], shards) for role, found in layout.roles.items()}
    cut = {role: _role_layout(found, roles[role], shards) for role, found in layout.roles.items()}
    links, rows, slot_rows = {}, {}, {}
    for name, found in layout.links.items():
        source, target = ends[name]
        known = cut[source], cut[target], roles[source], roles[target]
        links[name], rows[name], slot_rows[name] = _split_links(found, *known, source == target)
    return Split(Layout(layout.repeats, cut, links, shards), roles, rows, slot_rows)


def _split_role(role: RoleLayout, home: np.ndarray, shards: int) -> RoleSplit:
    columns, origins = [], []
    for bucket in role.buckets:
        mine = home[role.order[bucket]]
        count = np.bincount(mine, minlength=shards)
        by_shard = np.argsort(mine, kind="stable")
        rank = np.arange(mine.size) - (np.cumsum(count) - count)[mine[by_shard]]
        column = np.full((shards, count.max()), -1)
        column[mine[by_shard], rank] = by_shard
        columns.append(column)
        origins.append(np.where(column < 0, -1, column + bucket.start))
    origin = np.concatenate(origins, axis=1).reshape(-1)
    place = np.empty(role.order.size, np.int64)
    place[origin[origin >= 0]] = np.flatnonzero(origin >= 0)
    return RoleSplit(tuple(columns), place, origin)


def _role_layout(role: RoleLayout, cut: RoleSplit, shards: int) -> RoleLayout:
    ends = np.cumsum([0, *(column.shape[1] for column in cut.columns)]).tolist()
    return RoleLayout(
        role.agents,
        role.order[np.maximum(cut.origin, 0)],
        cut.place[role.position].astype(np.int32),
        tuple(slice(a, b) for a, b in pairwise(ends)),
        role.cluster,
        role.availability,
        shards,
        cut.origin >= 0,
    )


def _split_links(
    links: LinkLayout, source: RoleLayout, target: RoleLayout, senders: RoleSplit, receivers: RoleSplit, one_role: bool
) -> tuple[LinkLayout, Rows, Rows]:
    shards, begun = source.shards, np.concatenate([table.first for table in links.out])
    widths = np.concatenate(
        [np.full(b.stop - b.start, t.live.shape[0]) for b, t in zip(source.buckets, links.out, strict=True)]
    )
    starts, count = np.cumsum(widths) - widths, int(widths.sum())
    dead = links.graph.edges + (links.graph.agents if one_role else 0)
    into: list[Any] = []
    apart: list[tuple[np.ndarray, ...]] = []
    homes: list[np.ndarray] = []
    for bucket, table, columns in zip(target.buckets, links.into, receivers.columns, strict=True):
        column, shard = columns.reshape(-1), np.repeat(np.arange(shards), columns.shape[1])
        old, there = np.maximum(column, 0), column >= 0
        live = table.live[:, old] & there
        sender, row = np.divmod(senders.place[table.row[:, old]], source.rows)
        slot = starts[row] + table.slot_row[:, old] - begun[table.row[:, old]]
        own = np.tile(np.arange(bucket.start, bucket.stop), shards) if one_role else np.zeros(column.size, np.int64)
        row, slot = np.where(live, row, own), np.where(live, slot, starts[own])
        away = live & (sender != shard)
        apart.append((np.broadcast_to(shard, live.shape)[away], sender[away], row[away], slot[away]))
        agent = np.where(live, table.agent[:, old], -1).astype(np.int32)
        homes.append(np.where(live, sender, shard))
        into.append(InTable(agent, live, np.where(there, table.edge[:, old], dead).astype(np.int32), row, slot))
        apart[-1] = (*apart[-1], away)
    to, of, row, slot = (np.concatenate([found[k] for found in apart]) for k in range(4))
    # Where all hear all there may be one sum instead, for which nothing is sent.
    halo, places = _halo(to, of, row, source.rows, shards, not links.uniform)
    slot_halo, slot_places = _halo(to, of, slot, count, shards, not links.uniform)
    first = 0
    for b, (*_, away) in enumerate(apart):
        last = first + int(away.sum())
        row = _read_at(into[b].row, homes[b] * source.rows, halo, away, places[first:last])
        slot = _read_at(into[b].slot_row, homes[b] * count, slot_halo, away, slot_places[first:last])
        into[b] = into[b]._replace(row=row, slot_row=slot)
        first = last
    out: list[Any] = []
    for bucket, sent, columns in zip(source.buckets, links.out, senders.columns, strict=True):
        column = columns.reshape(-1)
        old, there = np.maximum(column, 0), column >= 0
        mine = starts[bucket] + np.arange(sent.live.shape[0])[:, None]
        rows = np.tile(mine, (1, shards)).astype(np.int32)
        live, edge = sent.live[:, old] & there, np.where(there, sent.edge[:, old], dead).astype(np.int32)
        out.append(OutTable(np.where(live, sent.agent[:, old], -1).astype(np.int32), live, edge, rows))
    whole = LinkLayout(links.graph, tuple(into), tuple(out), count, links.uniform, halo, slot_halo)
    origin = np.maximum(senders.origin, 0).reshape(shards, -1)
    # Slot k of an agent is k rows behind its first one, before the cut as after it.
    slot_origin = np.repeat(begun[origin], widths, axis=1) + (np.arange(count) - np.repeat(starts, widths))
    place = (senders.place // source.rows, senders.place % source.rows)
    slot_place = np.empty(links.slot_rows, np.int64), np.empty(links.slot_rows, np.int64)
    real = np.repeat((senders.origin >= 0).reshape(shards, -1), widths, axis=1)
    slot_place[0][slot_origin[real]], slot_place[1][slot_origin[real]] = np.nonzero(real)
    return whole, _rows(origin, place, halo), _rows(slot_origin, slot_place, slot_halo)


def _read_at(row: np.ndarray, begun: np.ndarray, halo: Halo | None, away: np.ndarray, places: np.ndarray) -> np.ndarray:
    """Return where rows of shards that begin there are read: those of others, `away`, at `places` behind the own."""
    if halo is not None and halo.whole:
        row = row + begun
    else:
        row[away] = places
    return row.astype(np.int32)


def _halo(
    to: np.ndarray, of: np.ndarray, row: np.ndarray, rows: int, shards: int, may_be_whole: bool
) -> tuple[Halo | None, np.ndarray]:
    """Return what shards `of` send to shards `to`, each row once, and where each entry then lies."""
    if not to.size:
        return None, row
    unique, inverse = np.unique((to * shards + of) * rows + row, return_inverse=True)
    pair, row = np.divmod(unique, rows)
    to, of = np.divmod(pair, shards)
    rank, offset = np.arange(pair.size) - np.searchsorted(pair, pair), (to - of) % shards
    length = np.zeros(shards, np.int64)
    np.maximum.at(length, offset, rank + 1)
    if may_be_whole and (shards - 1) * rows <= NEARLY_ALL * length.sum():
        return Halo((), (), (shards - 1) * rows), row
    offsets = np.flatnonzero(length)
    sends = []
    for k in offsets:
        table, mine = np.zeros((shards, length[k]), np.int32), offset == k
        table[of[mine], rank[mine]] = row[mine]
        sends.append(table)
    first = rows + np.cumsum(length) - length
    halo = Halo(tuple(offsets.tolist()), tuple(sends), int(length.sum()))
    return halo, (first[offset] + rank)[inverse.reshape(-1)]


def _rows(origin: np.ndarray, place: tuple[np.ndarray, np.ndarray], halo: Halo | None) -> Rows:
    shards, parts = origin.shape[0], [origin]
    if halo is not None and halo.whole:
        everyones = np.tile(origin.reshape(1, -1), (shards, 1))
        return Rows(everyones, place[0] * (everyones.shape[1] + origin.shape[1]) + place[1])
    if halo is not None:
        for offset, sends in zip(halo.offsets, halo.sends, strict=True):
            parts.append(np.roll(np.take_along_axis(origin, sends, axis=1), offset, axis=0))
    whole = np.concatenate(parts, axis=1)
    assert whole.shape[0] == shards
    return Rows(whole, place[0] * whole.shape[1] + place[1])
