"""One algorithm on one layout, before the first round: device arrays, message forms and first states."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tacit import runtime
from tacit.attacks.crew import Crew
from tacit.attacks.kinds import Attack
from tacit.core import limits
from tacit.core.contract import Algorithm, Array, Batch, Links, Memory, Params, Phase, View
from tacit.core.errors import ConfigError, ContractError
from tacit.graphs import Channel, masking_pairs
from tacit.privacy.noise.fixed_point import GRID_TYPES, fixed_point_step
from tacit.runtime.convolutions import convolves, one_by_one
from tacit.simulator.inbox import Packed, Packing
from tacit.simulator.layout import Halo, InTable, Layout, OutTable
from tacit.simulator.loop_state import (
    Called,
    InFlight,
    LinkArrays,
    LinksNow,
    LoopState,
    Masks,
    Members,
    Network,
    OutSlots,
    PackedState,
    Slots,
    agent_keys,
    fixed_weights,
)
from tacit.simulator.shards.exchange import with_halo

# Axes over which the functions of one agent are vectorised: slots come first in slot tables, agents elsewhere.
LINK_AXES: Any = Links(agent=1, live=1, weight=1)  # type: ignore[arg-type]
VIEW_AXES: Any = View(0, None, 0, 0, out=LINK_AXES, into=LINK_AXES, cluster=0, fresh=None)  # type: ignore[arg-type]


@dataclass(frozen=True)
class PhaseContext:
    """A phase of a round under way."""

    index: int
    phase: Phase
    network: Network
    links: LinksNow
    """The phase's own link set in this round."""
    working: Mapping[str, Array]
    """Role -> which of its agents do not rest, by position; a role of which none ever does is not there."""

    def taking_part(self, reached: Array | None) -> Array | None:
        """Return which sources take part, given those that a call has reached where it takes one; None: all."""
        working = self.working.get(self.phase.source)
        if reached is None or working is None:
            return working if reached is None else reached
        return reached & working


class Setup:
    """One algorithm on one layout, ready to start."""

    def __init__(
        self,
        algorithm: Algorithm,
        layout: Layout,
        channel: Channel,
        dtype: jnp.dtype,
        params: Params,
        batch: Batch,
        liars: Mapping[int, Attack],
    ) -> None:
        """Find out what each phase sends, for first parameters and the shapes of one learner's batch."""
        self.algorithm = runtime.self_contained(algorithm)
        self.layout, self.channel, self.dtype, self.liars = layout, channel, dtype, liars
        self.ends = runtime.link_ends(algorithm)
        self._role_index = {role: k for k, role in enumerate(algorithm.init)}
        self._links_index = {name: k for k, name in enumerate(layout.links)}
        self.varying = {
            name: links.graph.dynamics is not None
            or any(layout.roles[role].availability is not None for role in self.ends[name])
            or (links.graph.weights is not None and links.graph.weights.period is not None)
            for name, links in layout.links.items()
        }
        lying = {number: attack for number, attack in liars.items() if attack.lie is not None}
        self.crews = {
            name: Crew(lying, layout.links[name].into, layout.roles[source].agents, source == target)
            for name, (source, target) in self.ends.items()
            if lying and source == algorithm.learner
        }
        """Link set -> the liars that send over it."""
        views = {
            role: {links: self._abstract_view(role, links) for links, pair in self.ends.items() if role in pair}
            for role in self.algorithm.init
        }
        self.specs = runtime.settle(self.algorithm, params, batch, views)
        self.in_turn = convolves(self.algorithm, params, batch, views)
        """Whether learners work one after the other."""
        lied_to = [phase.links in self.crews for phase in self.algorithm.phases]
        self.packings = tuple(map(Packing, self.specs, lied_to))

    def _abstract_view(self, role: str, name: str) -> View:
        layout = self.layout.links[name]
        source, target = self.ends[name]

        def side(tables: Sequence[InTable | OutTable], mine: bool) -> Links:
            return runtime.empty_links((tables[0].live.shape[0] if mine else 1,), self.dtype)

        view: View = jax.eval_shape(
            lambda: runtime.make_view(
                agent=0, round=0, out=side(layout.out, role == source), into=side(layout.into, role == target)
            )
        )
        return view

    def network(self, seed: int, data_size: np.ndarray, called: tuple[Called | None, ...]) -> Network:
        """Return the arrays of the layout, on the host, with the tables of phases that call cohorts."""
        root = jax.random.key(seed)
        members = {}
        for role, role_layout in self.layout.roles.items():
            if role not in self._role_index:
                continue
            ids = role_layout.order
            agent, repeat = ids % role_layout.agents, ids // role_layout.agents
            size = data_size[ids] if role == self.algorithm.learner else np.zeros(ids.size, np.int32)
            columns = [agent, repeat, size, role_layout.cluster[ids]]
            columns += [] if role_layout.real is None else [role_layout.real]
            parts = [[role_layout.in_bucket(column, b) for column in columns] for b in role_layout.buckets]
            who, of = (np.concatenate([part[k] for part in parts]) for k in (0, 1))
            keys = agent_keys(root, self._role_index[role], of, who, tuple(part[0].size for part in parts))
            members[role] = tuple(Members(key, *part) for key, part in zip(keys, parts, strict=True))
        links = {name: self._link_arrays(name) for name in self.layout.links}
        masks = tuple(self._masks(phase) for phase in self.algorithm.phases)
        there = {role: found.availability for role, found in self.layout.roles.items()}
        available = {role: a for role, a in there.items() if a is not None}
        order: Any = {role: self.layout.roles[role].order for role in members}
        position: Any = self.layout.roles[self.algorithm.learner].position.reshape(self.layout.repeats, -1)
        return Network(root, members, links, masks, called, self._served_by(), available, order, position)

    def without_tables(self) -> Layout:
        """Return the layout with the shapes of its slot tables alone: they are large, and on the device by then."""
        if self.crews:  # liars look at them in every trace
            return self.layout

        def shapes(tables: Any) -> Any:
            return jax.tree.map(lambda column: jax.ShapeDtypeStruct(column.shape, column.dtype), tables)

        links = {}
        for name, one in self.layout.links.items():
            into = tuple(t._replace(sends=None) if isinstance(t, InTable) else t for t in one.into)
            links[name] = one._replace(into=shapes(into), out=shapes(one.out))
        return self.layout._replace(links=links)

    def _masks(self, phase: Phase) -> Masks | None:
        if phase.mechanism.spread != "masked":
            return None
        layout = self.layout.links[phase.links]
        # In each shard, rows of other shards' messages are beyond the last, so that writing there does nothing.
        row: Any = np.full((self.layout.shards, layout.graph.edges), np.iinfo(np.int32).max, np.int32)
        for table in layout.out:
            slot, column = np.nonzero(table.live & (table.edge < layout.graph.edges))
            shard = column * self.layout.shards // table.live.shape[1]
            row[shard, table.edge[slot, column]] = table.row[slot, column]
        pairs = masking_pairs(layout.graph)
        mechanism = phase.mechanism
        scale: Any = {
            name: np.asarray(mechanism.mask_scale / fixed_point_step(mechanism, name), self.dtype)
            for name in GRID_TYPES
        }
        return Masks(row[:, pairs.adds].reshape(-1), row[:, pairs.subtracts].reshape(-1), scale)

    def _link_arrays(self, name: str) -> LinkArrays:
        layout = self.layout.links[name]
        varying = self.varying[name]
        needs_edge = varying or not self.channel.on(name).reliable
        at_first = np.zeros(0, self.dtype)
        if not varying:
            edge, own = fixed_weights(layout.graph, self.dtype)
            others = [own, [0.0]] if layout.graph.sources is None else [[0.0]]
            at_first = np.concatenate([edge, *others], dtype=self.dtype, casting="same_kind")

        def links(table: Any) -> Links:
            weight: Any = np.zeros(table.edge.shape, self.dtype) if varying else at_first.take(table.edge)
            return Links(table.agent, table.live, weight)

        crew, by_slot = self.crews.get(name), self._needs_slot_rows(name)
        lies = [None] * len(layout.into) if crew is None else [p.number for p in crew.places]

        def edge_of(table: Any) -> Any:
            return table.edge if needs_edge else None

        def into(table: Any, lie: Any) -> Slots:
            return Slots(links(table), table.row, edge_of(table), table.slot_row if by_slot else None, lie)

        def sends(halo: Halo | None) -> Any:
            return () if halo is None else halo.sends

        return LinkArrays(
            tuple(map(into, layout.into, lies)),
            tuple(OutSlots(links(table), edge_of(table)) for table in layout.out),
            layout.graph if varying else None,
            sends(layout.halo),
            sends(layout.slot_halo) if by_slot else (),
        )

    def _needs_slot_rows(self, links: str) -> bool:
        phases = zip(self.algorithm.phases, self.specs, strict=True)
        return any(p.links == links and (s.delivery == "per_slot" or s.addressed) for p, s in phases)

    def _served_by(self) -> Any:
        learner, predictor = self.algorithm.learner, self.algorithm.predictor
        if learner == predictor:
            return None
        phase = self.serving()
        layout = self.layout.links[phase.links]
        if np.any(layout.graph.in_degree == 0):
            lonely = int(np.argmin(layout.graph.in_degree)) % self.layout.roles[learner].agents
            raise ConfigError(
                f"{learner} {lonely} hears no {predictor} on {phase.links!r}, so that no model speaks for it; "
                "link it to one"
            )
        rows = [table.row[1].reshape(self.layout.shards, -1) for table in layout.into]
        return np.concatenate(rows, axis=1).reshape(-1)

    def serving(self) -> Phase:
        """Return the phase in which predictors speak to learners."""
        learner, predictor = self.algorithm.learner, self.algorithm.predictor
        for phase in self.algorithm.phases:
            if (phase.source, phase.target) == (predictor, learner):
                return phase
        raise ContractError(
            f"algorithm {self.algorithm.name!r}: no phase leads from predictor {predictor!r} to learner {learner!r}"
        )

    def start(self, network: Network, params: Params, own: Params | None = None) -> LoopState:
        """First states of all agents, and empty channels; `own` are the learners' own parameters, (agents, ...)."""
        links = {name: self.links_now(network, name, None) for name in network.links}
        states: dict[str, tuple[PackedState, ...]] = {}
        for role, init in self.algorithm.init.items():
            names = [name for name, pair in self.ends.items() if role in pair]
            per_bucket = []
            for b, members in enumerate(network.members[role]):
                views = {name: self.view(role, links[name], b, members) for name in names}
                keys = jax.vmap(runtime.init_key)(members.key)
                given, axis = params, None
                if own is not None and role == self.algorithm.learner:
                    given, axis = jax.tree.map(lambda leaf, who=members.agent: leaf[who], own), 0
                make = jax.vmap(init, in_axes=(0, axis, dict.fromkeys(names, VIEW_AXES)))
                per_bucket.append(PackedState.of(make(keys, given, views), {}))
            states[role] = tuple(per_bucket)
        phases = range(len(self.specs))
        return LoopState(
            jnp.int32(0),
            states,
            tuple(map(self._nothing_in_flight, phases)),
            tuple(map(self._no_memories, phases)),
            tuple(map(self._nothing_kept, phases)),
        )

    def _nothing_kept(self, index: int) -> Packed | None:
        crew = self.crews.get(self.algorithm.phases[index].links)
        if crew is None or not crew.keeps:
            return None
        return self.packings[index].empty(crew.links)

    def _no_memories(self, index: int) -> tuple[Memory, ...] | None:
        """Return the empty memories of a phase's sources; None where draws are independent."""
        empty = self.specs[index].release.memory()
        if empty is None:
            return None
        role = self.layout.roles[self.algorithm.phases[index].source]
        limits.refuse_beyond(
            role.order.size * sum(leaf.nbytes for leaf in jax.tree.leaves(empty)), "the memory of correlated noise"
        )

        def of(bucket: slice) -> Memory:
            count = bucket.stop - bucket.start
            found: Memory = jax.tree.map(lambda leaf: jnp.zeros((count, *leaf.shape), leaf.dtype), empty)
            return found

        return tuple(map(of, role.buckets))

    def _nothing_in_flight(self, index: int) -> InFlight | None:
        links = self.algorithm.phases[index].links
        rounds = self.channel.on(links).longest_delay + 1
        if rounds == 1:
            return None
        spec, layout, shards = self.specs[index], self.layout.links[links], self.layout.shards
        count, packing = self.buffer_rows(index, read=True), self.packings[index]
        count += self.crews[links].links if links in self.crews else 0
        slots = sum(table.live.size for table in layout.into)
        limits.refuse_beyond(
            rounds * (shards * count * packing.bytes + 8 * slots), f"messages that are up to {rounds - 1:,} rounds late"
        )
        if rounds * count > np.iinfo(np.int32).max:
            raise ConfigError(f"{rounds:,} rounds of {count:,} messages under way: their rows are numbered in 32 bits")
        shapes = [(rounds, t.live.shape[0], t.live.shape[1] // shards) for t in layout.into]
        return InFlight(
            packing.empty(rounds * count),
            tuple(jnp.full(shape, -1, jnp.int32) for shape in shapes),
            tuple(jnp.zeros(shape, self.dtype) for shape in shapes)
            if self.varying[links] and spec.delivery == "push"
            else None,
        )

    def row_count(self, index: int) -> int:
        """Return the rows of the array of a phase's messages."""
        phase = self.algorithm.phases[index]
        if self.specs[index].delivery == "per_slot":
            return self.layout.links[phase.links].slot_rows
        return self.layout.roles[phase.source].rows

    def with_halo(self, network: Network, links: str, rows: Array, per_slot: bool = False) -> Array:
        """Return messages, or what goes with them, followed by those that are read of other shards."""
        layout, arrays = self.layout.links[links], network.links[links]
        halo, sends = (layout.slot_halo, arrays.slot_halo) if per_slot else (layout.halo, arrays.halo)
        own = layout.slot_rows if per_slot else self.layout.roles[self.ends[links][0]].rows
        return with_halo(halo, sends, self.layout.shards, rows, own)

    def halo(self, index: int) -> Halo | None:
        """Return what a phase's messages are read of other shards."""
        layout = self.layout.links[self.algorithm.phases[index].links]
        return layout.slot_halo if self.specs[index].delivery == "per_slot" else layout.halo

    def buffer_rows(self, index: int, read: bool = False) -> int:
        """Return the rows of the array into which a phase's messages are written, or from which they are `read`."""
        halo = self.halo(index)
        return self.row_count(index) + (0 if halo is None or (halo.whole and not read) else halo.rows)

    def links_now(self, network: Network, name: str, t: Array | None) -> LinksNow:
        """Return a link set in round t; None: at first, when every link is there."""
        arrays = network.links[name]
        if arrays.graph is None or t is None:
            into, out = tuple(s.links for s in arrays.into), tuple(s.links for s in arrays.out)
            return LinksNow(name, 0 if t is None else t, into, out, None, None)
        source, target = (self.there(network, role, t) for role in self.ends[name])
        key = runtime.links_key(network.root, self._links_index[name], t)
        graph = arrays.graph.at(t, key, self.dtype, target, source)
        own = [jnp.ones(graph.self_weight.shape, bool)] if arrays.graph.sources is None else []
        live = jnp.concatenate([graph.live, *own, jnp.zeros(1, bool)])
        own_weight = [graph.self_weight] if arrays.graph.sources is None else []
        weight = jnp.concatenate([graph.edge_weight, *own_weight, jnp.zeros(1, self.dtype)])

        def current(slots: Slots | OutSlots) -> Links:
            assert slots.edge is not None
            return Links(slots.links.agent, live[slots.edge], weight[slots.edge])

        sides = tuple(map(current, arrays.into)), tuple(map(current, arrays.out))
        return LinksNow(name, t, *sides, graph.present, graph.senders_present)

    def mapped(self, role: str, one: Callable[..., Any], in_axes: Any) -> Callable[..., Any]:
        """Return the function of all agents of a role, given that of one."""
        return (one_by_one if self.in_turn and role == self.algorithm.learner else jax.vmap)(one, in_axes)

    def there(self, network: Network, role: str, t: Array) -> Array | None:
        """Who of a role is there, by id in the union; None: all."""
        availability = network.availability.get(role)
        return None if availability is None else availability.present(t, runtime.presence_key(network.root, role, t))

    def working(self, network: Network, t: Array) -> dict[str, Array]:
        """Return, of each role whose agents rest where they are away, which do not in round t, by position."""
        there = {role: self.there(network, role, t) for role in network.members if self.rests(role)}
        return {role: who[network.order[role]] for role, who in there.items() if who is not None}

    def rests(self, role: str) -> bool:
        """Whether agents of a role rest where they are away."""
        availability = self.layout.roles[role].availability
        return availability is not None and availability.rests

    def view(self, role: str, links: LinksNow, bucket: int, members: Members, chosen: Array | None = None) -> View:
        """Return the views of a bucket's agents; `members` may be those `chosen`, by their places in the bucket."""
        source, target = self.ends[links.name]

        def side(tables: tuple[Links, ...], mine: bool) -> Links:
            if not mine:
                return runtime.empty_links((1, members.agent.shape[0]), self.dtype)
            if chosen is None:
                return tables[bucket]
            return Links(*(leaf.at[:, chosen].get(mode="clip") for leaf in tables[bucket]))

        present = links.present if role == target else links.senders_present
        if present is not None:
            assert chosen is None  # links that vary have no cohorts
            present = present[members.agent + members.repeat * self.layout.roles[role].agents]
        return runtime.make_view(
            agent=members.agent,
            round=links.round,
            present=present,
            data_size=members.data_size,
            out=side(links.out, role == source),
            into=side(links.into, role == target),
            cluster=members.cluster,
        )
