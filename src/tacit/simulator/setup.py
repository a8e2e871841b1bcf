"""Before the first round: the layout on the device, what each phase sends, and the first states."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tacit import runtime
from tacit.core import limits
from tacit.core.contract import Algorithm, Array, Batch, Links, Params, Phase, State, View
from tacit.core.errors import ConfigError, ContractError
from tacit.graphs import Channel, masking_pairs
from tacit.privacy.noise.fixed_point import GRID_TYPES, fixed_point_step
from tacit.runtime import MessageSpec
from tacit.simulator.inbox import Packed, Packing
from tacit.simulator.layout import Layout, SlotTable
from tacit.simulator.loop_state import (
    Carry,
    Flight,
    LinkArrays,
    LinksNow,
    Masks,
    Members,
    PackedState,
    Slots,
    StatePacking,
    World,
    fixed_weights,
)

# Axes over which the functions of one agent are vectorised: slots come first in slot tables, agents elsewhere.
LINK_AXES: Any = Links(agent=1, live=1, weight=1)  # type: ignore[arg-type]
VIEW_AXES: Any = View(0, None, 0, 0, out=LINK_AXES, into=LINK_AXES, cluster=0, fresh=None)  # type: ignore[arg-type]


class Stage:
    """One algorithm on one layout, ready to start."""

    def __init__(
        self,
        algorithm: Algorithm,
        layout: Layout,
        channel: Channel,
        dtype: jnp.dtype,
    ) -> None:
        self.algorithm = runtime.self_contained(algorithm)
        self.layout, self.channel, self.dtype = layout, channel, dtype
        self.role_index = {role: k for k, role in enumerate(algorithm.init)}
        self.links_index = {name: k for k, name in enumerate(layout.links)}
        self.varying = {
            name: links.graph.dynamics is not None
            or any(layout.roles[role].availability is not None for role in runtime.link_ends(algorithm)[name])
            or (links.graph.weights is not None and links.graph.weights.period is not None)
            for name, links in layout.links.items()
        }
        self.specs: tuple[MessageSpec, ...] = ()
        self.packings: tuple[Packing, ...] = ()
        self.packed: dict[str, tuple[StatePacking, ...]] = {}

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
            columns = (agent, repeat, size, role_layout.cluster[ids])
            members[role] = tuple(
                Members(keys[b], *(jnp.asarray(column[b]) for column in columns)) for b in role_layout.buckets
            )
        links = {name: self._link_arrays(name) for name in self.layout.links}
        masks = tuple(self._masks(phase) for phase in self.algorithm.phases)
        there = {role: found.availability for role, found in self.layout.roles.items()}
        available = {role: jax.tree.map(jnp.asarray, a) for role, a in there.items() if a is not None}
        return World(root, members, links, masks, self._called(), self._served_by(), available)

    def _called(self) -> tuple[Any, ...]:
        """Tables of the phases that call cohorts, where these are run by themselves (`calls.Calls`)."""
        return ((),) * len(self.algorithm.phases)

    def _masks(self, phase: Phase) -> Masks | tuple[()]:
        if phase.mechanism.spread != "masked":
            return ()
        layout = self.layout.links[phase.links]
        row = np.zeros(layout.graph.edges, np.int32)
        for table in layout.into:
            links = table.live & (table.edge < row.size)
            row[table.edge[links]] = table.slot_row[links]
        pairs = masking_pairs(layout.graph)
        mechanism = phase.mechanism
        scale = {
            name: jnp.asarray(mechanism.mask_scale / fixed_point_step(mechanism, name), self.dtype)
            for name in GRID_TYPES
        }
        return Masks(jnp.asarray(row[pairs.adds]), jnp.asarray(row[pairs.subtracts]), scale)

    def _link_arrays(self, name: str) -> LinkArrays:
        layout = self.layout.links[name]
        varying = self.varying[name]
        needs_edge = varying or not self.channel.on(name).reliable
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
                    lonely = int(np.argmin(layout.graph.in_degree)) % self.layout.roles[learner].agents
                    raise ConfigError(
                        f"{learner} {lonely} hears no {predictor} on {phase.links!r}, so that no model speaks for it; "
                        "link it to one"
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
            return runtime.empty_links((tables[0].live.shape[0] if mine else 1,), self.dtype)

        view: View = jax.eval_shape(
            lambda: View(
                jnp.int32(0),
                jnp.int32(0),
                jnp.asarray(True),
                jnp.int32(0),
                side(layout.out, role == source),
                side(layout.into, role == target),
                jnp.int32(0),
            )
        )
        return view

    def start(self, world: World, params: Params, own: Params | None = None) -> Carry:
        """First states of all agents, and empty channels; `own` are the learners' own parameters, (agents, ...)."""
        links = {name: self._links_now(world, name, None) for name in world.links}
        states: dict[str, tuple[PackedState, ...]] = {}
        for role, init in self.algorithm.init.items():
            names = [name for name, pair in self._ends() if role in pair]
            per_bucket = []
            for b, members in enumerate(world.members[role]):
                views = {name: self._view(role, name, b, members, links[name], jnp.int32(0)) for name in names}
                keys = jax.vmap(runtime.init_key)(members.key)
                given, axis = params, None
                if own is not None and role == self.algorithm.learner:
                    given, axis = jax.tree.map(lambda leaf, who=members.agent: leaf[who], own), 0
                make = jax.vmap(init, in_axes=(0, axis, dict.fromkeys(names, VIEW_AXES)))
                per_bucket.append(make(keys, given, views))
            self.packed[role] = tuple(map(StatePacking, per_bucket))
            states[role] = self._pack(role, tuple(per_bucket), [{}] * len(per_bucket))
        flights = tuple(self._empty_flight(k) for k in range(len(self.specs)))
        return Carry(jnp.int32(0), states, flights)

    def _empty_flight(self, phase: int) -> Flight | tuple[()]:
        links = self.algorithm.phases[phase].links
        rounds = self.channel.on(links).longest_delay + 1
        if rounds == 1:
            return ()
        spec, layout = self.specs[phase], self.layout.links[links]
        count = self._row_count(self.algorithm.phases[phase], spec)
        width = sum(width * jnp.dtype(name).itemsize for name, width in self.packings[phase].widths.items())
        slots = sum(table.live.size for table in layout.into)
        limits.refuse_beyond(
            rounds * (count * width + 8 * slots), f"messages that are up to {rounds - 1:,} rounds late"
        )
        return Flight(
            {name: jnp.zeros((rounds * count, width), name) for name, width in self.packings[phase].widths.items()},
            tuple(jnp.full((rounds, *t.live.shape), -1, jnp.int32) for t in layout.into),
            tuple(jnp.zeros((rounds, *t.live.shape), self.dtype) for t in layout.into)
            if self.varying[links] and spec.delivery == "push"
            else (),
        )

    def _pack(self, role: str, states: tuple[State, ...], tails: Sequence[Packed]) -> tuple[PackedState, ...]:
        parts = zip(self.packed[role], states, tails, strict=True)
        return tuple(packing.pack(state, tail) for packing, state, tail in parts)

    def _unpack(self, role: str, states: tuple[PackedState, ...]) -> tuple[State, ...]:
        return tuple(packing.unpack(state) for packing, state in zip(self.packed[role], states, strict=True))

    def _row_count(self, phase: Phase, spec: MessageSpec) -> int:
        if spec.delivery == "per_slot":
            return self.layout.links[phase.links].slot_rows
        return self.layout.roles[phase.source].order.size

    def _links_now(self, world: World, name: str, t: Array | None) -> LinksNow:
        arrays = world.links[name]
        if isinstance(arrays.graph, tuple) or t is None:
            return LinksNow(tuple(s.links for s in arrays.into), tuple(s.links for s in arrays.out), None, None)
        source, target = (self._there(world, role, t) for role in runtime.link_ends(self.algorithm)[name])
        key = runtime.links_key(world.root, self.links_index[name], t)
        graph = arrays.graph.at(t, key, self.dtype, target, source)
        own = [jnp.ones(graph.self_weight.shape, bool)] if arrays.graph.sources is None else []
        live = jnp.concatenate([graph.live, *own, jnp.zeros(1, bool)])
        own_weight = [graph.self_weight] if arrays.graph.sources is None else []
        weight = jnp.concatenate([graph.edge_weight, *own_weight, jnp.zeros(1, self.dtype)])

        def current(slots: Slots) -> Links:
            assert not isinstance(slots.edge, tuple)
            return Links(slots.links.agent, live[slots.edge], weight[slots.edge])

        sides = tuple(map(current, arrays.into)), tuple(map(current, arrays.out))
        return LinksNow(*sides, graph.present, graph.senders_present)

    def _there(self, world: World, role: str, t: Array) -> Array | None:
        """Who of a role is there, by id in the union; None: all."""
        availability = world.availability.get(role)
        return None if availability is None else availability.present(t, runtime.presence_key(world.root, role, t))

    def _view(self, role: str, name: str, bucket: int, members: Members, now: LinksNow, t: Array) -> View:
        source, target = runtime.link_ends(self.algorithm)[name]
        none = runtime.empty_links((1, members.agent.shape[0]), self.dtype)
        present = jnp.ones(members.agent.shape, bool)
        there = now.present if role == target else now.senders_present
        if there is not None:
            role_layout = self.layout.roles[role]
            present = there[role_layout.order[role_layout.buckets[bucket]]]
        return View(
            members.agent,
            t,
            present,
            members.data_size,
            now.out[bucket] if role == source else none,
            now.into[bucket] if role == target else none,
            members.cluster,
        )
