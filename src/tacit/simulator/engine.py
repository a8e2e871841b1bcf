"""One round of any algorithm, vectorised over the agents of all repeats.

The engine knows phases, links and channels; it never names an algorithm. Repeats are a disjoint union of graphs, so
that they are nothing but more agents.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from types import MappingProxyType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tacit import runtime
from tacit.attacks.kinds import Attack
from tacit.core.contract import Algorithm, Array, Batch, Key, Memory, Params, Phase, State, Tree, View
from tacit.graphs import Channel
from tacit.runtime.convolutions import one_by_one
from tacit.simulator.cohorts import Cohort, Cohorts, OneSent, Pick, Tally, in_scales
from tacit.simulator.delivery import Delivery, Memories, Sent
from tacit.simulator.inbox import GatheredInbox, Packed, over_agents
from tacit.simulator.layout import Layout
from tacit.simulator.loop_state import (
    Entries,
    InFlight,
    LoopState,
    Network,
    PackedState,
    SendBuffers,
    joined,
    slices,
    where,
)
from tacit.simulator.setup import VIEW_AXES, PhaseContext, Setup
from tacit.simulator.shards.exchange import total

AGENTS = "agents of a bucket"
"""Axis over which a phase's maxima are taken."""
Look = Callable[[Params, Batch], Tree]
"""What is to be seen of one learner's model and batch."""


@dataclass
class RoundContext:
    """A round under way: what it reads, and what its phases have made so far."""

    batch: Batch
    pick: Pick
    """Positions of learners -> their batches, without touching those of all."""
    look: Look | None
    states: dict[str, tuple[State, ...]]
    padding: dict[str, Sequence[Packed]]
    """Role -> padding columns of its packed states, bucket by bucket: see `PackedState`."""
    reached: dict[str, Array] = field(default_factory=dict)
    """Links -> which agents a phase on them has reached."""
    cohorts: dict[str, tuple[str, Cohort]] = field(default_factory=dict)
    """Links -> the role and who of it was called on them."""
    buffers: list[Packed] = field(default_factory=list)
    ratios: list[Array] = field(default_factory=list)
    took_part: list[Array] = field(default_factory=list)
    in_flight: list[InFlight | None] = field(default_factory=list)
    messages: list[Array] = field(default_factory=list)
    memories: list[Memories] = field(default_factory=list)
    sizes: list[Array] = field(default_factory=list)
    lies: list[Packed | None] = field(default_factory=list)
    seen: tuple[Tree, ...] = ()

    def note(self, buffer: Packed, ratio: Array, in_flight: InFlight | None, messages: Array, after: Memories) -> None:
        """Note what a phase leaves behind."""
        self.buffers.append(buffer)
        self.memories.append(after)
        self.ratios.append(ratio)
        self.in_flight.append(in_flight)
        self.messages.append(messages)


class Engine:
    """The round of one algorithm on one layout, compiled once."""

    def __init__(
        self, algorithm: Algorithm, layout: Layout, channel: Channel, dtype: jnp.dtype, params: Params, batch: Batch,
        liars: Mapping[int, Attack] = MappingProxyType({}),
    ) -> None:  # fmt: skip
        """Make it ready for first parameters and batches of these shapes; refuse a method that breaks its promises."""
        self.setup = Setup(algorithm, layout, channel, dtype, params, batch, liars)
        self.cohorts, self.delivery = Cohorts(self.setup), Delivery(self.setup)
        self.algorithm, self.layout, self.specs = self.setup.algorithm, layout, self.setup.specs

    def of(self, algorithm: Algorithm) -> Engine:
        """Return the round of a method that differs from this one's in numbers alone, on the same layout."""
        made = copy.copy(self)
        made.setup = copy.copy(self.setup)
        made.setup.algorithm = made.algorithm = algorithm
        made.cohorts, made.delivery = Cohorts(made.setup), Delivery(made.setup)
        return made

    def network(self, seed: int, data_size: np.ndarray, put: Callable[[Network], Network] | None = None) -> Network:
        """Put agents and links on the device; `data_size` counts the samples of each learner, by id in the union."""
        made: Network = (put or jax.device_put)(self.setup.network(seed, data_size, self.cohorts.tables()))
        return made

    def forget_tables(self) -> None:
        """Free the slot tables of the host; there can be no other network then."""
        self.layout = self.setup.layout = self.setup.without_tables()

    def start(self, network: Network, params: Params, own: Params | None = None) -> LoopState:
        """First states of all agents, and empty channels; `own` are the learners' own parameters, (agents, ...)."""
        return self.setup.start(network, params, own)

    def send_buffers(self) -> SendBuffers:
        """Room for the messages of each phase, to be written in place round after round."""
        phases = range(len(self.specs))
        return tuple(
            packing.empty(rows)
            for packing, rows in zip(self.setup.packings, map(self.setup.buffer_rows, phases), strict=True)
        )

    def states(self, role: str, loop: LoopState) -> tuple[State, ...]:
        """States of a role's agents, bucket by bucket."""
        return tuple(packed.unpack() for packed in loop.states[role])

    def models(self, network: Network, loop: LoopState) -> list[Params]:
        """Parameters with which the learners of each bucket predict."""
        states = self.states(self.algorithm.predictor, loop)
        models = [jax.vmap(self.algorithm.model)(state) for state in states]
        if network.served_by is None:
            return models
        links = self.setup.serving().links
        reached = jax.tree.map(lambda m: self.setup.with_halo(network, links, m), joined(models))
        serving = jax.tree.map(lambda m: m[network.served_by], reached)
        return [slices(serving, bucket) for bucket in self.layout.roles[self.algorithm.learner].buckets]

    def models_of(self, network: Network, loop: LoopState, cohort: Cohort) -> Params:
        """Parameters with which the learners of a cohort predict."""
        states = joined(list(self.states(self.algorithm.predictor, loop)))
        who = cohort.position
        if network.served_by is not None:
            who = network.served_by.at[who].get(mode="clip")
        mine = jax.tree.map(lambda leaf: leaf.at[who].get(mode="clip"), states)
        return jax.vmap(self.algorithm.model)(mine)

    def books_answers(self, index: int) -> bool:
        """Whether it has to be known who took part in a phase: learners that answer or rest, where it is promised."""
        phase, learner = self.algorithm.phases[index], self.algorithm.learner
        promised = self.algorithm.privacy.private and self.specs[index].release.from_data
        return phase.source == learner and promised and (phase.answers is not None or self.setup.rests(learner))

    @property
    def counts_vary(self) -> bool:
        """Whether the number of messages differs from round to round."""
        answers = any(phase.answers is not None for phase in self.algorithm.phases)
        return any(self.setup.varying.values()) or any(s.addressed for s in self.specs) or answers

    @property
    def looks(self) -> bool:
        """Whether a round can look at its learners while they work: before anything else, one after the other."""
        algorithm = self.algorithm
        return self.setup.in_turn and algorithm.predictor == algorithm.learner == algorithm.phases[0].source

    def round(
        self, network: Network, loop: LoopState, batch: Batch, buffers: SendBuffers, pick: Pick | None = None,
        look: Look | None = None,
    ) -> tuple[LoopState, SendBuffers, Tally]:  # fmt: skip
        """Run every phase once. Returns the buffers with this round's messages, and what was sent and released.

        `pick` gives the batches of some learners by their positions, without touching those of all; `look` looks at
        learners as they come into the round, where that can be (`looks`).
        """
        if pick is None:
            pick = lambda position: jax.tree.map(lambda leaf: leaf[position], batch)  # noqa: E731
        t = loop.round + 1
        context = RoundContext(
            batch,
            pick,
            look,
            {role: self.states(role, loop) for role in loop.states},
            {role: [{}] * len(packed) for role, packed in loop.states.items()},
            lies=[None] * len(self.specs),
        )
        links = {name: self.setup.links_now(network, name, t) for name in network.links}
        working = self.setup.working(network, t)
        for index, phase in enumerate(self.algorithm.phases):
            at = PhaseContext(index, phase, network, links[phase.links], working)
            memories = loop.memories[index]
            if phase.answers in context.cohorts:
                self._run_answer(at, context, buffers[index], memories)
            elif self.cohorts.calls(index):
                self._run_call(at, context, buffers[index], memories)
            else:
                self._run_phase(at, context, buffers[index], memories, loop)
        packed = {
            role: tuple(map(PackedState.of, states, context.padding[role])) for role, states in context.states.items()
        }
        called = [cohort for role, cohort in context.cohorts.values() if role == self.algorithm.learner]
        tally = Tally(
            jnp.stack(context.messages),
            called[-1] if called else None,
            jnp.stack(context.ratios),
            tuple(context.took_part),
            sum(context.sizes, jnp.zeros((2, self.layout.repeats), self.setup.dtype)),
            context.seen,
        )
        after = LoopState(t, packed, tuple(context.in_flight), tuple(context.memories), tuple(context.lies))
        return after, tuple(context.buffers), tally

    def _run_phase(
        self, at: PhaseContext, context: RoundContext, buffer: Packed, memories: Memories, loop: LoopState
    ) -> None:
        """Run a phase for all agents of its roles."""
        phase, states = at.phase, context.states
        takes_part = at.taking_part(None if phase.answers is None else context.reached[phase.answers])
        if takes_part is not None and self.books_answers(at.index):
            context.took_part.append(takes_part)
        look = context.look if at.index == 0 else None
        sent = self._send(at, states[phase.source], context.batch, buffer, memories, takes_part, look)
        states[phase.source], context.seen = sent.states, context.seen or sent.seen
        in_turn = len(sent.states) == 1 and self.layout.shards == 1
        repeat = None if in_turn else joined([members.repeat for members in at.network.members[phase.source]])
        self._note_sizes(at, context, sent.sizes, repeat)
        departures = self.delivery.departures(at, sent.addressed, takes_part)
        rows, buffer = self.delivery.exchanged(at, sent.rows)
        heard, context.lies[at.index] = self.delivery.told(at, rows, loop.lies[at.index])
        in_flight, entries = self.delivery.arrivals(at, heard, departures, loop.in_flight[at.index])
        context.note(buffer, sent.cost, in_flight, self.delivery.count_sent(at, departures), sent.memories)
        states[phase.target], context.padding[phase.target] = self._absorb(at, states[phase.target], entries)
        if any(p.answers == phase.links for p in self.algorithm.phases):
            now_reached = joined([jnp.any(e.arrived[1:], axis=0) for e in entries.buckets])
            before = context.reached.get(phase.links, jnp.zeros((), bool))
            context.reached[phase.links] = before | now_reached

    def _run_call(self, at: PhaseContext, context: RoundContext, buffer: Packed, memories: Memories) -> None:
        """Run a phase that calls a cohort."""
        phase, states = at.phase, context.states
        sent = self._send(at, states[phase.source], context.batch, buffer, memories)
        states[phase.source] = sent.states
        cohort = self.cohorts.called(at, sent.to)
        context.cohorts[phase.links] = phase.target, cohort
        (state,) = states[phase.target]
        states[phase.target] = (self.cohorts.absorb_call(at, state, sent.rows, cohort),)
        context.note(sent.rows, sent.cost, None, cohort.called_in(self.layout.repeats), sent.memories)

    def _run_answer(self, at: PhaseContext, context: RoundContext, buffer: Packed, memories: Memories) -> None:
        """Run a phase in which a cohort answers."""
        phase, states = at.phase, context.states
        assert phase.answers is not None
        _, cohort = context.cohorts[phase.answers]
        (state,) = states[phase.source]
        one = partial(self._one_sends, phase, at.index)
        memory = None if memories is None else memories[0]
        rows, state, memory, sent = self.cohorts.answer(at, state, context.pick, cohort, one, memory)
        states[phase.source] = (state,)
        states[phase.target] = self.cohorts.absorb_answers(at, states[phase.target], rows, cohort)
        if self.books_answers(at.index):
            context.took_part.append(cohort.position)
        ratio = jnp.max(jnp.where(cohort.called, sent.cost, 0))
        counted = jax.tree.map(lambda size: jnp.where(cohort.called, size, 0), sent.sizes)
        self._note_sizes(at, context, counted, cohort.repeat)
        after = None if memory is None else (memory,)
        context.note(buffer, ratio, None, cohort.called_in(self.layout.repeats), after)

    def _note_sizes(
        self, at: PhaseContext, context: RoundContext, sizes: runtime.Sizes | None, repeat: Array | None
    ) -> None:
        """Add up the sizes of the learners' releases in each repeat; None: repeat after repeat."""
        if sizes is None or at.phase.source != self.algorithm.learner:
            return
        both, repeats = jnp.stack(sizes).astype(self.setup.dtype), self.layout.repeats
        if repeats == 1 or repeat is None:
            summed = jnp.sum(both.reshape(2, repeats, -1), axis=2)
        else:
            summed = jax.ops.segment_sum(both.T, repeat, repeats).T
        context.sizes.append(total(summed, self.layout.shards))

    def _one_sends(
        self, phase: Phase, index: int, key: Key, state: State, batch: Batch, view: View, memory: Memory | None
    ) -> OneSent:
        ready = runtime.prepare(phase, index, key, state, batch, view, memory)
        packed = self.setup.packings[index].pack(ready.outbox.message)
        to = jnp.zeros(0, jnp.int32) if ready.outbox.to is None else ready.outbox.to
        cost = in_scales(ready.declared, self.setup.dtype)
        return OneSent(ready.state, packed, ready.addressed, cost, to, ready.memory, ready.sizes)

    def _send(
        self,
        at: PhaseContext,
        states: tuple[State, ...],
        batch: Batch,
        buffer: Packed,
        memories: Memories,
        takes_part: Array | None = None,
        look: Look | None = None,
    ) -> Sent:
        """Compute, release and emit for every source agent; those that do not take part keep their state."""
        source, spec = at.phase.source, self.specs[at.index]
        role = self.layout.roles[source]
        new_states, addressed, costs, lists, sizes = [], [], [], [], []
        after: list[Any] = []
        seen: list[Any] = []
        in_turn = self.setup.in_turn and source == self.algorithm.learner
        rows = dict(buffer)
        first = 0

        def one(
            key: Key, state: State, batch: Batch, view: View, memory: Memory | None, *counts: Array | None
        ) -> tuple[OneSent, Array, Tree]:
            what = None if look is None else look(self.algorithm.model(state), batch)
            sent = self._one_sends(at.phase, at.index, key, state, batch, view, memory)
            cost = sent.cost
            for counted in counts:
                cost = cost if counted is None else jnp.where(counted, cost, 0)
            # What is the same for all is not spread over the agents for its maximum: a compiler would fold that.
            return sent, cost if in_turn else jax.lax.pmax(cost, AGENTS), what

        for b, (members, state) in enumerate(zip(at.network.members[source], states, strict=True)):
            part = slices(batch, role.buckets[b]) if source == self.algorithm.learner else ()
            view = self.setup.view(source, at.links, b, members)
            memory = None if memories is None else memories[b]
            mine = None if takes_part is None else takes_part[role.buckets[b]]
            axes = (0, 0, 0, VIEW_AXES, 0, 0, 0)
            if in_turn:
                each = one_by_one(one, axes)
            else:
                each = jax.vmap(one, axes, (0, None, None), axis_name=AGENTS)
            sent, cost, what = each(members.key, state, part, view, memory, mine, members.real)
            seen.append(what)
            new, message, kept = sent.state, sent.message, sent.memory
            if mine is not None:
                new, kept = where(mine, new, state), where(mine, kept, memory)
                sent = sent._replace(sizes=jax.tree.map(lambda size, mine=mine: jnp.where(mine, size, 0), sent.sizes))
            after.append(kept)
            counted = members.counted(sent.sizes)
            costs.append(jnp.max(cost) if in_turn else cost)
            new_states.append(new)
            if spec.delivery == "per_slot":
                message = jax.tree.map(lambda m: m.reshape(m.shape[0] * m.shape[1], m.shape[2]), message)
            # Written in place, bucket by bucket: a concatenation would be recomputed or copied.
            for name, part in message.items():
                apart = part.shape[0] < rows[name].shape[0]
                rows[name] = jax.lax.dynamic_update_slice(rows[name], part, (first, 0)) if apart else part
            first += next(iter(message.values())).shape[0] if message else 0
            addressed.append(sent.addressed.reshape(-1))
            lists.append(sent.to)
            sizes.append(counted)
        masks = at.network.masks[at.index]
        if masks is not None:
            rows = dict(self.delivery.masked(at, rows, masks))
        addresses = joined(addressed) if spec.addressed else None
        later = None if memories is None else tuple(after)
        cost = jnp.max(jnp.stack(costs))
        looked = () if look is None else tuple(seen)
        return Sent(rows, addresses, tuple(new_states), cost, joined(lists), later, joined(sizes), looked)

    def _absorb(
        self, at: PhaseContext, states: tuple[State, ...], entries: Entries
    ) -> tuple[tuple[State, ...], list[Packed]]:
        """Return the receivers' next states, and the padding columns of their mixes."""
        index, target = at.index, at.phase.target
        totals, ages = self.delivery.everyone(at, entries), self.setup.channel.on(at.phase.links).ages
        result, padding = [], []
        for b, (members, state) in enumerate(zip(at.network.members[target], states, strict=True)):
            entry = entries.buckets[b]

            def one(
                key: Key, state: State, view: View, place: Array, arrived: Array, pushed: Array, repeat: Array,
                complete: bool = entry.complete,
            ) -> tuple[State, GatheredInbox]:  # fmt: skip
                inbox = GatheredInbox(
                    self.setup.packings[index],
                    entries.rows,
                    place,
                    arrived,
                    view.into.weight,
                    pushed,
                    ages,
                    complete=complete,
                    everyone=None if totals is None else {name: v[repeat] for name, v in totals.items()},
                )
                return runtime.absorb(self.algorithm, index, key, state, inbox, view), inbox

            view = self.setup.view(target, at.links, b, members)
            arguments = (members.key, state, view, entry.place, entry.arrived, entry.weight, members.repeat)
            raw = entry.place.size * self.setup.packings[index].bytes
            new, columns = over_agents(one, (0, 0, VIEW_AXES, 1, 1, 1, 0), arguments, raw)
            if runtime.is_answered(self.algorithm, index):
                new = where(jnp.any(entry.arrived[1:], axis=0), new, state)
            if target in at.working:
                new = where(at.working[target][self.layout.roles[target].buckets[b]], new, state)
            result.append(new)
            padding.append(columns)
        return tuple(result), padding
