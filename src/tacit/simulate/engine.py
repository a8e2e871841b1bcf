"""One round of any algorithm, vectorised over the agents of all repeats.

The engine knows phases, links and channels; it never names an algorithm. Repeats are a disjoint union of graphs, so that
they are nothing but more agents.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from tacit import runtime
from tacit.contract import Algorithm, Array, Batch, Key, Links, Params, Phase, State, Tree, View
from tacit.errors import ConfigError, ContractError
from tacit.graphs import Channel, Graph
from tacit.graphs.weights import evaluate_exactly
from tacit.runtime import MessageSpec
from tacit.simulate.inbox import GatheredInbox, Packed, Packing, padding
from tacit.simulate.layout import Layout, SlotTable

LINK_AXES = Links(agent=1, live=1, weight=1)
VIEW_AXES = View(agent=0, round=None, present=0, data_size=0, out=LINK_AXES, into=LINK_AXES)


class Slots(NamedTuple):
    """A bucket's slot table on the device; what a run does not need is empty."""

    links: Links
    """As at round 0; weights are 0 where the graph varies."""
    row: Array
    edge: Array | tuple[()]
    slot_row: Array | tuple[()]


class LinkArrays(NamedTuple):
    """A link set on the device."""

    into: tuple[Slots, ...]
    out: tuple[Slots, ...]
    graph: Graph | tuple[()]
    """Only where it varies over the rounds."""


class Members(NamedTuple):
    """Agents of one bucket."""

    key: Key
    agent: Array
    repeat: Array
    data_size: Array


class World(NamedTuple):
    """Everything that stays the same through a run, as device arrays."""

    root: Key
    members: Mapping[str, tuple[Members, ...]]
    links: Mapping[str, LinkArrays]
    served_by: Array | tuple[()]
    """Position of the predictor that speaks for each learner, where these are different roles."""


class Flight(NamedTuple):
    """Messages of one phase that may still be under way, youngest first: leading axis of delay + 1 rounds."""

    rows: Packed
    delay: tuple[Array, ...]
    """Per target bucket (rounds, slots, agents): delay of each message, -1 where none was sent or it was lost."""
    weight: tuple[Array, ...]
    """Per target bucket: the weight at the time of sending; empty where weights never change."""


Desks = tuple[Packed, ...]
"""Per phase, the array from which neighbours' messages are read."""


class Carry(NamedTuple):
    """What a round hands to the next one."""

    round: Array
    states: Mapping[str, tuple[PackedState, ...]]
    flights: tuple[Flight | tuple[()], ...]


class PackedState(NamedTuple):
    """States of a bucket between two rounds: vectors and numbers of one type side by side in one array.

    A mix that lands in several leaves is then written once, as one array; XLA would otherwise gather the neighbours'
    rows once per leaf, or copy every link's row to share it. The array has as many padding columns as a message; what
    they hold is never read, and taking them from the mix lets XLA see that state and mix are one array.
    """

    columns: Mapping[str, Array]
    """Element type -> (agents, width)."""
    others: tuple[Array, ...]
    """Leaves with more axes, one per slot for instance, as they are."""


class StatePacking:
    """From states to their packed form and back."""

    def __init__(self, state: State) -> None:
        """Settle it for a state with a leading axis of agents, or its shapes."""
        leaves, self._structure = jax.tree.flatten(state)
        self._shapes = [(leaf.shape[1:], leaf.dtype) for leaf in leaves]

    def pack(self, state: State, tail: Packed) -> PackedState:
        """Put vectors and numbers side by side, padded with `tail` where it fits."""
        columns: dict[str, list[Array]] = {}
        others = []
        for leaf, (shape, dtype) in zip(jax.tree.leaves(state), self._shapes, strict=True):
            if len(shape) <= 1:
                columns.setdefault(dtype.name, []).append(leaf.reshape(leaf.shape[0], -1))
            else:
                others.append(leaf)
        for name, parts in columns.items():
            missing = padding(sum(part.shape[1] for part in parts))
            fits = name in tail and tail[name].shape[1] == missing
            parts.append(tail[name] if fits else jnp.zeros((parts[0].shape[0], missing), name))
        return PackedState({k: jnp.concatenate(v, axis=1) for k, v in columns.items()}, tuple(others))

    def unpack(self, packed: PackedState) -> State:
        """Take it apart again."""
        taken = dict.fromkeys(packed.columns, 0)
        others = iter(packed.others)
        leaves = []
        for shape, dtype in self._shapes:
            if len(shape) > 1:
                leaves.append(next(others))
                continue
            start = taken[dtype.name]
            taken[dtype.name] = start + math.prod(shape)
            part = packed.columns[dtype.name][:, start : taken[dtype.name]]
            leaves.append(part.reshape(part.shape[0], *shape))
        return self._structure.unflatten(leaves)


class Links1(NamedTuple):
    """Links of one link set in one round, per bucket."""

    into: tuple[Links, ...]
    out: tuple[Links, ...]
    present: Array | None


class Engine:
    """The compiled-once round of one algorithm on one layout."""

    def __init__(
        self,
        algorithm: Algorithm,
        layout: Layout,
        channel: Channel,
        dtype: jnp.dtype,
    ) -> None:
        self.algorithm, self.layout, self.channel, self.dtype = algorithm, layout, channel, dtype
        self.role_index = {role: k for k, role in enumerate(algorithm.init)}
        self.links_index = {name: k for k, name in enumerate(layout.links)}
        self.varying = {
            name: links.graph.dynamics is not None
            or (links.graph.weights is not None and links.graph.weights.period is not None)
            for name, links in layout.links.items()
        }
        self.specs: tuple[MessageSpec, ...] = ()
        self.packings: tuple[Packing, ...] = ()
        self.packed: dict[str, tuple[StatePacking, ...]] = {}

    # -- before the run ------------------------------------------------------------------------------------------------

    def world(self, seed: int, data_size: np.ndarray) -> World:
        """Put the layout on the device."""
        root = jax.random.key(seed)
        members = {}
        for role, role_layout in self.layout.roles.items():
            if role not in self.role_index:
                continue
            ids = role_layout.order
            agent, repeat = ids % role_layout.agents, ids // role_layout.agents
            index = self.role_index[role]
            keys = jax.vmap(lambda r, a, role=index: runtime.agent_key(root, role, r, a))(repeat, agent)
            size = data_size[ids] if role == self.algorithm.learner else np.zeros(ids.size, np.int32)
            members[role] = tuple(
                Members(keys[b], jnp.asarray(agent[b]), jnp.asarray(repeat[b]), jnp.asarray(size[b]))
                for b in role_layout.buckets
            )
        links = {name: self._link_arrays(name) for name in self.layout.links}
        return World(root, members, links, self._served_by())

    def _link_arrays(self, name: str) -> LinkArrays:
        layout = self.layout.links[name]
        varying = self.varying[name]
        needs_edge = varying or not self.channel.reliable
        at_first = np.zeros(layout.graph.edges + layout.graph.agents + 1)
        if not varying:
            edge, own = fixed_weights(layout.graph)
            tail = [own, [0.0]] if layout.graph.sources is None else [[0.0]]
            at_first = np.concatenate([edge, *tail])

        def on_device(table: SlotTable) -> Slots:
            weight = jnp.asarray(at_first[table.edge] if not varying else np.zeros(table.edge.shape), self.dtype)
            return Slots(
                Links(jnp.asarray(table.agent), jnp.asarray(table.live), weight),
                jnp.asarray(table.row),
                jnp.asarray(table.edge) if needs_edge else (),
                jnp.asarray(table.slot_row) if self._needs_slot_rows(name) else (),
            )

        return LinkArrays(
            tuple(map(on_device, layout.into)),
            tuple(map(on_device, layout.out)),
            jax.tree.map(jnp.asarray, layout.graph) if varying else (),
        )

    def _needs_slot_rows(self, links: str) -> bool:
        phases = zip(self.algorithm.phases, self.specs, strict=True)
        return any(p.links == links and (s.delivery == "per_slot" or s.addressed) for p, s in phases)

    def _served_by(self) -> Array | tuple[()]:
        learner, predictor = self.algorithm.learner, self.algorithm.predictor
        if learner == predictor:
            return ()
        for phase in self.algorithm.phases:
            if (phase.source, phase.target) == (predictor, learner):
                layout = self.layout.links[phase.links]
                if np.any(layout.graph.in_degree == 0):
                    raise ConfigError(
                        f"{learner} {int(np.argmin(layout.graph.in_degree)) % self.layout.roles[learner].agents} hears no "
                        f"{predictor} on {phase.links!r}, so that no model speaks for it; link it to one"
                    )
                return jnp.asarray(np.concatenate([table.row[1] for table in layout.into]))
        raise ContractError(
            f"algorithm {self.algorithm.name!r}: no phase leads from predictor {predictor!r} to learner {learner!r}"
        )

    def settle(self, params: Params, spec: Batch) -> None:
        """Find out what each phase sends."""
        views = {
            role: {links: self._abstract_view(role, links) for links, pair in self._ends() if role in pair}
            for role in self.algorithm.init
        }
        self.specs = runtime.settle(self.algorithm, params, spec, views)
        self.packings = tuple(map(Packing, self.specs))

    def _ends(self) -> list[tuple[str, tuple[str, str]]]:
        return list(runtime.link_ends(self.algorithm).items())

    def _abstract_view(self, role: str, name: str) -> View:
        layout = self.layout.links[name]
        source, target = runtime.link_ends(self.algorithm)[name]

        def side(tables: tuple[SlotTable, ...], mine: bool) -> Links:
            size = tables[0].live.shape[0] if mine else 1
            return jax.eval_shape(lambda: runtime.empty_links((size,), self.dtype))

        number = jax.ShapeDtypeStruct((), jnp.int32)  # type: ignore[no-untyped-call]
        truth = jax.ShapeDtypeStruct((), jnp.bool_)  # type: ignore[no-untyped-call]
        return View(
            number, number, truth, number, side(layout.out, role == source), side(layout.into, role == target)
        )

    def start(self, world: World, params: Params) -> Carry:
        """First states of all agents, and empty channels."""
        links = {name: self._links_now(world, name, None) for name in world.links}
        states: dict[str, tuple[PackedState, ...]] = {}
        for role, init in self.algorithm.init.items():
            names = [name for name, pair in self._ends() if role in pair]
            per_bucket = []
            for b, members in enumerate(world.members[role]):
                views = {name: self._view(role, name, b, members, links[name], jnp.int32(0)) for name in names}
                make = jax.vmap(
                    lambda k, v, init=init: init(runtime.init_key(k), params, v),
                    in_axes=(0, dict.fromkeys(names, VIEW_AXES)),
                )
                per_bucket.append(make(members.key, views))
            self.packed[role] = tuple(map(StatePacking, per_bucket))
            states[role] = self._pack(role, tuple(per_bucket), [{}] * len(per_bucket))
        return Carry(jnp.int32(0), states, tuple(self._empty_flight(k) for k in range(len(self.specs))))

    def _empty_flight(self, phase: int) -> Flight | tuple[()]:
        if self.channel.longest_delay == 0:
            return ()
        spec, layout = self.specs[phase], self.layout.links[self.algorithm.phases[phase].links]
        rounds = self.channel.longest_delay + 1
        count = self._row_count(self.algorithm.phases[phase], spec)
        return Flight(
            {name: jnp.zeros((rounds, count, width), name) for name, width in self.packings[phase].widths.items()},
            tuple(jnp.full((rounds, *t.live.shape), -1, jnp.int32) for t in layout.into),
            tuple(jnp.zeros((rounds, *t.live.shape), self.dtype) for t in layout.into)
            if self.varying[self.algorithm.phases[phase].links] and spec.delivery == "push"
            else (),
        )

    def _pack(self, role: str, states: tuple[State, ...], tails: Sequence[Packed]) -> tuple[PackedState, ...]:
        parts = zip(self.packed[role], states, tails, strict=True)
        return tuple(packing.pack(state, tail) for packing, state, tail in parts)

    def _unpack(self, role: str, states: tuple[PackedState, ...]) -> tuple[State, ...]:
        return tuple(packing.unpack(state) for packing, state in zip(self.packed[role], states, strict=True))

    # -- a round -------------------------------------------------------------------------------------------------------

    def models(self, world: World, carry: Carry) -> list[Params]:
        """Parameters with which the learners of each bucket predict."""
        states = self._unpack(self.algorithm.predictor, carry.states[self.algorithm.predictor])
        models = [jax.vmap(self.algorithm.model)(state) for state in states]
        if isinstance(world.served_by, tuple):
            return models
        serving = jax.tree.map(lambda m: m[world.served_by], joined(models))
        return [slices(serving, bucket) for bucket in self.layout.roles[self.algorithm.learner].buckets]

    def desks(self) -> Desks:
        """Room for the messages of each phase, to be written in place round after round."""
        return tuple(
            {
                name: jnp.zeros((self._row_count(phase, spec), width), name)
                for name, width in packing.widths.items()
            }
            for phase, spec, packing in zip(self.algorithm.phases, self.specs, self.packings, strict=True)
        )

    def _row_count(self, phase: Phase, spec: MessageSpec) -> int:
        if spec.delivery == "per_slot":
            return self.layout.links[phase.links].slot_rows
        return self.layout.roles[phase.source].order.size

    @property
    def counts_vary(self) -> bool:
        """Whether the number of messages differs from round to round."""
        answers = any(phase.answers is not None for phase in self.algorithm.phases)
        return any(self.varying.values()) or any(s.addressed for s in self.specs) or answers

    def round(self, world: World, carry: Carry, batch: Batch, desks: Desks) -> tuple[Carry, Desks, Array]:
        """Run every phase once. Returns the desks with this round's messages, and messages sent, (phases, repeats)."""
        t = carry.round + 1
        new_desks = []
        states = {role: self._unpack(role, packed) for role, packed in carry.states.items()}
        tails: dict[str, Sequence[Packed]] = {role: [{}] * len(parts) for role, parts in states.items()}
        reached: dict[str, Array] = {}
        flights, sent_counts = [], []
        now = {name: self._links_now(world, name, t) for name in world.links}
        for index, phase in enumerate(self.algorithm.phases):
            takes_part = None if phase.answers is None else reached[phase.answers]
            rows, sent, states[phase.source] = self._send(
                world, index, phase, states[phase.source], batch, now[phase.links], t, takes_part, desks[index]
            )
            new_desks.append(rows)
            departures = self._depart(world, index, phase, now[phase.links], sent, takes_part, t)
            flight, entries = self._fly(index, rows, departures, carry.flights[index], world, now[phase.links])
            flights.append(flight)
            sent_counts.append(self._count_sent(world, phase, departures))
            states[phase.target], tails[phase.target] = self._absorb(
                world, index, phase, states[phase.target], entries, now[phase.links], t
            )
            if any(p.answers == phase.links for p in self.algorithm.phases):
                now_reached = joined([jnp.any(e.arrived[1:], axis=0) for e in entries.buckets])
                reached[phase.links] = reached.get(phase.links, jnp.zeros((), bool)) | now_reached
        packed = {role: self._pack(role, state, tails[role]) for role, state in states.items()}
        return Carry(t, packed, tuple(flights)), tuple(new_desks), jnp.stack(sent_counts)

    def _links_now(self, world: World, name: str, t: Array | None) -> Links1:
        arrays = world.links[name]
        if isinstance(arrays.graph, tuple) or t is None:
            return Links1(tuple(s.links for s in arrays.into), tuple(s.links for s in arrays.out), None)
        graph = arrays.graph.at(t, runtime.links_key(world.root, self.links_index[name], t), self.dtype)
        own = [jnp.ones(graph.self_weight.shape, bool)] if arrays.graph.sources is None else []
        live = jnp.concatenate([graph.live, *own, jnp.zeros(1, bool)])
        own_weight = [graph.self_weight] if arrays.graph.sources is None else []
        weight = jnp.concatenate([graph.edge_weight, *own_weight, jnp.zeros(1, self.dtype)])

        def current(slots: Slots) -> Links:
            assert not isinstance(slots.edge, tuple)
            return Links(slots.links.agent, live[slots.edge], weight[slots.edge])

        return Links1(tuple(map(current, arrays.into)), tuple(map(current, arrays.out)), graph.present)

    def _view(self, role: str, name: str, bucket: int, members: Members, now: Links1, t: Array) -> View:
        source, target = runtime.link_ends(self.algorithm)[name]
        none = runtime.empty_links((1, members.agent.shape[0]), self.dtype)
        present = jnp.ones(members.agent.shape, bool)
        if now.present is not None and role == target:
            role_layout = self.layout.roles[role]
            present = now.present[role_layout.order[role_layout.buckets[bucket]]]
        return View(
            members.agent,
            t,
            present,
            members.data_size,
            now.out[bucket] if role == source else none,
            now.into[bucket] if role == target else none,
        )

    def _send(
        self,
        world: World,
        index: int,
        phase: Phase,
        states: tuple[State, ...],
        batch: Batch,
        now: Links1,
        t: Array,
        takes_part: Array | None,
        desk: Packed,
    ) -> tuple[Packed, Array | None, tuple[State, ...]]:
        """Compute, release and emit for every source agent: all messages, which slots were addressed, new states."""
        spec = self.specs[index]
        role = self.layout.roles[phase.source]
        new_states, addressed = [], []
        rows = dict(desk)
        first = 0

        def one(key: Key, state: State, own_batch: Batch, view: View) -> tuple[State, Packed, Array]:
            state, outbox, sent = runtime.prepare(phase, index, key, state, own_batch, view)
            return state, self.packings[index].pack(outbox.message), sent

        for b, (members, state) in enumerate(zip(world.members[phase.source], states, strict=True)):
            part = slices(batch, role.buckets[b]) if phase.source == self.algorithm.learner else ()
            view = self._view(phase.source, phase.links, b, members, now, t)
            new, message, sent = jax.vmap(one, in_axes=(0, 0, 0, VIEW_AXES))(members.key, state, part, view)
            if takes_part is not None:
                new = where(takes_part[role.buckets[b]], new, state)
            new_states.append(new)
            if spec.delivery == "per_slot":
                message = jax.tree.map(lambda m: m.reshape(-1, m.shape[-1]), message)
            # Written in place, bucket by bucket: a concatenation would be recomputed or copied.
            for name, part in message.items():
                rows[name] = jax.lax.dynamic_update_slice(rows[name], part, (first, 0)) if len(states) > 1 else part
            first += next(iter(message.values())).shape[0] if message else 0
            addressed.append(sent.reshape(-1))
        return rows, joined(addressed) if spec.addressed else None, tuple(new_states)

    def _depart(
        self,
        world: World,
        index: int,
        phase: Phase,
        now: Links1,
        sent: Array | None,
        takes_part: Array | None,
        t: Array,
    ) -> list[Departure] | None:
        """What becomes of the messages of this phase, per target bucket; None: every live slot hears at once."""
        arrays = world.links[phase.links]
        if sent is None and takes_part is None and not self.varying[phase.links] and self.channel.reliable:
            return None
        graph = self.layout.links[phase.links].graph
        if not self.channel.reliable:
            lost, delay = self.channel.draw(runtime.channel_key(world.root, index, t), graph.edges)
            own_links = graph.agents if graph.sources is None else 0
            fate = jnp.concatenate([jnp.where(lost, -1, delay), jnp.zeros(own_links + 1, jnp.int32)])
        departures = []
        for slots, links in zip(arrays.into, now.into, strict=True):
            left = links.live
            if sent is not None:
                left &= sent[slots.slot_row]
            if takes_part is not None:
                left &= takes_part[slots.row]
            delays = jnp.int32(0) if self.channel.reliable else fate[slots.edge]
            departures.append(Departure(left, jnp.where(left, delays, -1)))
        return departures

    def _fly(
        self,
        index: int,
        rows: Packed,
        departures: list[Departure] | None,
        flight: Flight | tuple[()],
        world: World,
        now: Links1,
    ) -> tuple[Flight | tuple[()], Entries]:
        """Put what was sent under way and take out what arrives now."""
        spec = self.specs[index]
        arrays = world.links[self.algorithm.phases[index].links]
        buckets = []
        per_slot = spec.delivery == "per_slot"
        # Padding reads the agent's own row; between two roles it has none, so that entries must be masked.
        complete = departures is None and self.layout.links[self.algorithm.phases[index].links].graph.sources is None
        if isinstance(flight, tuple) and not isinstance(flight, Flight):
            for b, (slots, links) in enumerate(zip(arrays.into, now.into, strict=True)):
                place = slots.slot_row if per_slot else slots.row
                arrived = links.live if departures is None else departures[b].delay == 0
                buckets.append(Entry(place, arrived, links.weight, complete))
            return (), Entries(rows, tuple(buckets))
        assert departures is not None  # a channel with delays is never reliable
        new_rows = {name: shifted(flight.rows[name], value) for name, value in rows.items()}
        new_delay = tuple(
            shifted(old, d.delay) for old, d in zip(flight.delay, departures, strict=True)
        )
        new_weight = tuple(shifted(old, links.weight) for old, links in zip(flight.weight, now.into, strict=False))
        rounds = self.channel.longest_delay + 1
        count = next(iter(new_rows.values())).shape[1] if new_rows else 0
        for b, (delay, slots, links) in enumerate(zip(new_delay, arrays.into, now.into, strict=True)):
            place = slots.slot_row if per_slot else slots.row
            index_all = jnp.concatenate([place + lag * count for lag in range(rounds)])
            arrived = jnp.concatenate([delay[lag] == lag for lag in range(rounds)])
            weight = jnp.concatenate(list(new_weight[b])) if new_weight else jnp.tile(links.weight, (rounds, 1))
            buckets.append(Entry(index_all, arrived, weight, False))
        flat = {name: value.reshape(-1, value.shape[-1]) for name, value in new_rows.items()}
        return Flight(new_rows, new_delay, new_weight), Entries(flat, tuple(buckets))

    def _absorb(
        self,
        world: World,
        index: int,
        phase: Phase,
        states: tuple[State, ...],
        entries: Entries,
        now: Links1,
        t: Array,
    ) -> tuple[tuple[State, ...], list[Packed]]:
        totals = self._everyone(phase, entries, now)
        result, tails = [], []
        for b, (members, state) in enumerate(zip(world.members[phase.target], states, strict=True)):
            entry = entries.buckets[b]

            def one(
                key: Key, state: State, view: View, place: Array, arrived: Array, pushed: Array, repeat: Array,
                complete: bool = entry.complete,
            ) -> tuple[State, Packed]:  # fmt: skip
                everyone = None if totals is None else {name: v[repeat] for name, v in totals.items()}
                inbox = GatheredInbox(
                    self.packings[index],
                    entries.rows,
                    place,
                    arrived,
                    view.into.weight,
                    pushed,
                    complete=complete,
                    everyone=everyone,
                )
                after = phase.absorb(runtime.absorb_key(key, view.round, index), state, inbox, view)
                runtime.check_state(self.algorithm, index, phase.target, state, after)
                return after, inbox.tail

            view = self._view(phase.target, phase.links, b, members, now, t)
            new, tail = jax.vmap(one, in_axes=(0, 0, VIEW_AXES, 1, 1, 1, 0))(
                members.key, state, view, entry.place, entry.arrived, entry.weight, members.repeat
            )
            result.append(new)
            tails.append(tail)
        return tuple(result), tails

    def _everyone(self, phase: Phase, entries: Entries, now: Links1) -> Packed | None:
        """Where all hear all with one weight, the mix is one sum per repeat."""
        layout = self.layout.links[phase.links]
        if not layout.uniform or self.varying[phase.links] or not entries.buckets[0].complete:
            return None
        edge, own = fixed_weights(layout.graph)
        weights = np.concatenate([edge, own])
        if np.ptp(weights) > 0 or any(s.delivery == "per_slot" for s in self.specs):
            return None
        role, repeats = self.layout.roles[phase.source], self.layout.repeats

        def total(rows: Array) -> Array:
            if len(role.buckets) == 1:
                return jnp.sum(rows.reshape(repeats, -1, rows.shape[-1]), axis=1, dtype=rows.dtype)
            return jax.ops.segment_sum(rows, role.order // role.agents, repeats)

        scale = jnp.asarray(weights[0])
        return {name: scale.astype(rows.dtype) * total(rows) for name, rows in entries.rows.items()}

    def _count_sent(self, world: World, phase: Phase, departures: list[Departure] | None) -> Array:
        """Messages that left in this phase, per repeat: what is lost on the way was sent all the same."""
        repeats = self.layout.repeats
        if departures is None:
            receivers = self.layout.links[phase.links].graph.receivers
            per_repeat = np.bincount(receivers // self.layout.roles[phase.target].agents, minlength=repeats)
            return jnp.asarray(per_repeat, jnp.int32)
        counts = jnp.zeros(repeats, jnp.int32)
        for members, departure in zip(world.members[phase.target], departures, strict=True):
            per_agent = jnp.sum(departure.left[1:], axis=0, dtype=jnp.int32)
            counts = counts.at[members.repeat].add(per_agent)
        return counts


class Departure(NamedTuple):
    """A bucket's messages of one phase as they leave: (slots, agents), seen from the receivers."""

    left: Array
    """Whether there was one."""
    delay: Array
    """Rounds until it arrives; -1 where it never does."""


class Entry(NamedTuple):
    """A bucket's inbox entries: (entries, agents)."""

    place: Array
    arrived: Array
    weight: Array
    complete: bool


class Entries(NamedTuple):
    """All messages that may be read in a phase, and who reads which."""

    rows: Packed
    buckets: tuple[Entry, ...]


def joined(parts: list[Any]) -> Any:
    """Concatenate pytrees along their first axis."""
    return parts[0] if len(parts) == 1 else jax.tree.map(lambda *leaves: jnp.concatenate(leaves), *parts)


def slices(tree: Tree, part: slice) -> Tree:
    """Take a slice of agents of every leaf."""
    return jax.tree.map(lambda leaf: leaf[part], tree)


def where(mask: Array, new: Tree, old: Tree) -> Tree:
    """Agent by agent, the new value where the mask is set."""

    def pick(a: Array, b: Array) -> Array:
        return jnp.where(mask.reshape(mask.shape + (1,) * (a.ndim - 1)), a, b)

    return jax.tree.map(pick, new, old)


def shifted(buffer: Array, newest: Array) -> Array:
    """Push a value in front of a buffer of rounds and drop the oldest."""
    return jnp.concatenate([jnp.broadcast_to(newest, buffer.shape[1:])[None], buffer[:-1]])


def fixed_weights(graph: Graph) -> tuple[np.ndarray, np.ndarray]:
    """Weights of a graph that does not vary, in double precision."""
    assert graph.weights is not None  # `simulate` has chosen them
    return evaluate_exactly(graph.weights, graph.senders, graph.receivers, graph.agents, sources=graph.sources)
