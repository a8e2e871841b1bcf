"""One round of any algorithm, vectorised over the agents of all repeats.

The engine knows phases, links and channels; it never names an algorithm. Repeats are a disjoint union of graphs, so
that they are nothing but more agents.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from tacit import runtime
from tacit.core.contract import Array, Batch, Key, Params, Phase, State, View
from tacit.privacy.noise import noise_words
from tacit.privacy.noise.fixed_point import mask_draws
from tacit.simulator.cohorts import Calls, Cohort, Pick
from tacit.simulator.delivery import Carriage
from tacit.simulator.inbox import GatheredInbox, Packed
from tacit.simulator.loop_state import (
    Carry,
    Desks,
    Entries,
    Flight,
    LinksNow,
    Masks,
    World,
    fixed_weights,
    joined,
    slices,
    where,
)
from tacit.simulator.setup import VIEW_AXES


class Tally(NamedTuple):
    """What was sent and released in a round."""

    messages: Array
    """(phases, repeats)."""
    cohort: Cohort | None
    """The learners that were called, where these are run by themselves."""
    ratios: Array
    """(phases,) of the dearest release by any agent, its sensitivity in units of its noise's scale; 0 where none was
    added."""
    took_part: tuple[Array, ...]
    """Per phase that answers and is booked: which learners took part, by position, or the positions of a cohort."""


def _in_scales(declared: runtime.Declared | None, dtype: jnp.dtype) -> Array:
    """Return what one agent's release costs, as in `Tally`.

    A release counts even if nobody is sent it in this round: it goes into the agent's state, and leaves with it later.
    """
    if declared is None:
        return jnp.zeros((), dtype)
    # A value that no record can move (a step of size 0) costs nothing, with noise or without.
    free = declared.sensitivity == 0
    # The quotient of the very numbers that were declared: a compiler would make one formula of all three.
    sensitivity, scale = jax.lax.optimization_barrier((declared.sensitivity, jnp.where(free, 1, declared.scale)))
    return jnp.asarray(sensitivity / scale, dtype)


class _Round:
    """A round under way."""

    def __init__(self, states: dict[str, tuple[State, ...]], tails: dict[str, Sequence[Packed]]) -> None:
        self.states, self.tails = states, tails
        self.reached: dict[str, Array] = {}
        """Links -> which agents a phase on them has reached."""
        self.cohorts: dict[str, tuple[str, Cohort]] = {}
        """Links -> the role and who of it was called on them."""
        self.desks: list[Packed] = []
        self.ratios: list[Array] = []
        self.took_part: list[Array] = []
        self.flights: list[Flight | tuple[()]] = []
        self.sent: list[Array] = []

    def note(self, desk: Packed, ratio: Array, flight: Flight | tuple[()], sent: Array) -> None:
        """Note what a phase leaves behind."""
        self.desks.append(desk)
        self.ratios.append(ratio)
        self.flights.append(flight)
        self.sent.append(sent)


class Engine(Calls, Carriage):
    """The round of one algorithm on one layout, compiled once."""

    def models(self, world: World, carry: Carry) -> list[Params]:
        """Parameters with which the learners of each bucket predict."""
        states = self.states(self.algorithm.predictor, carry)
        models = [jax.vmap(self.algorithm.model)(state) for state in states]
        if isinstance(world.served_by, tuple):
            return models
        serving = jax.tree.map(lambda m: m[world.served_by], joined(models))
        return [slices(serving, bucket) for bucket in self.layout.roles[self.algorithm.learner].buckets]

    def states(self, role: str, carry: Carry) -> tuple[State, ...]:
        """States of a role's agents, bucket by bucket."""
        return self._unpack(role, carry.states[role])

    def models_of(self, world: World, carry: Carry, cohort: Cohort) -> Params:
        """Parameters with which the learners of a cohort predict."""
        states = joined(list(self.states(self.algorithm.predictor, carry)))
        who = cohort.position
        if not isinstance(world.served_by, tuple):
            who = world.served_by.at[who].get(mode="clip")
        mine = jax.tree.map(lambda leaf: leaf.at[who].get(mode="clip"), states)
        return jax.vmap(self.algorithm.model)(mine)

    def desks(self) -> Desks:
        """Room for the messages of each phase, to be written in place round after round."""
        return tuple(
            {name: jnp.zeros((self._row_count(phase, spec), width), name) for name, width in packing.widths.items()}
            for phase, spec, packing in zip(self.algorithm.phases, self.specs, self.packings, strict=True)
        )

    def books_answers(self, index: int) -> bool:
        """Whether it has to be known who took part in a phase: learners that answer, and something is promised."""
        phase = self.algorithm.phases[index]
        promised = self.algorithm.privacy.private and self.specs[index].release.from_data
        return phase.answers is not None and phase.source == self.algorithm.learner and promised

    @property
    def counts_vary(self) -> bool:
        """Whether the number of messages differs from round to round."""
        answers = any(phase.answers is not None for phase in self.algorithm.phases)
        return any(self.varying.values()) or any(s.addressed for s in self.specs) or answers

    def round(
        self, world: World, carry: Carry, batch: Batch, desks: Desks, pick: Pick | None = None
    ) -> tuple[Carry, Desks, Tally]:
        """Run every phase once. Returns the desks with this round's messages, and what was sent and released.

        `pick` gives the batches of some learners by their positions, without touching those of all.
        """
        if pick is None:
            pick = lambda position: jax.tree.map(lambda leaf: leaf[position], batch)  # noqa: E731
        t = carry.round + 1
        under_way = _Round(
            {role: self._unpack(role, packed) for role, packed in carry.states.items()},
            {role: [{}] * len(packed) for role, packed in carry.states.items()},
        )
        now = {name: self._links_now(world, name, t) for name in world.links}
        for index, phase in enumerate(self.algorithm.phases):
            links, desk = now[phase.links], desks[index]
            if phase.answers in under_way.cohorts:
                self._run_answer(world, index, phase, under_way, pick, links, t, desk)
            elif self.calls(index):
                self._run_call(world, index, phase, under_way, batch, links, t, desk)
            else:
                self._run_phase(world, index, phase, under_way, batch, links, t, desk, carry.flights[index])
        packed = {role: self._pack(role, state, under_way.tails[role]) for role, state in under_way.states.items()}
        cohorts = [cohort for role, cohort in under_way.cohorts.values() if role == self.algorithm.learner]
        tally = Tally(
            jnp.stack(under_way.sent),
            cohorts[-1] if cohorts else None,
            jnp.stack(under_way.ratios),
            tuple(under_way.took_part),
        )
        return Carry(t, packed, tuple(under_way.flights)), tuple(under_way.desks), tally

    def _run_phase(
        self,
        world: World,
        index: int,
        phase: Phase,
        under_way: _Round,
        batch: Batch,
        links: LinksNow,
        t: Array,
        desk: Packed,
        flight: Flight | tuple[()],
    ) -> None:
        """Run a phase for all agents of its roles."""
        states = under_way.states
        takes_part = None if phase.answers is None else under_way.reached[phase.answers]
        if takes_part is not None and self.books_answers(index):
            under_way.took_part.append(takes_part)
        rows, sent, states[phase.source], cost, _ = self._send(
            world, index, phase, states[phase.source], batch, links, t, takes_part, desk
        )
        departures = self._depart(world, index, phase, links, sent, takes_part, t)
        flight, entries = self._fly(index, rows, departures, flight, world, links, t)
        under_way.note(rows, cost, flight, self._count_sent(world, phase, departures))
        states[phase.target], under_way.tails[phase.target] = self._absorb(
            world, index, phase, states[phase.target], entries, links, t
        )
        if any(p.answers == phase.links for p in self.algorithm.phases):
            now_reached = joined([jnp.any(e.arrived[1:], axis=0) for e in entries.buckets])
            before = under_way.reached.get(phase.links, jnp.zeros((), bool))
            under_way.reached[phase.links] = before | now_reached

    def _run_call(
        self,
        world: World,
        index: int,
        phase: Phase,
        under_way: _Round,
        batch: Batch,
        links: LinksNow,
        t: Array,
        desk: Packed,
    ) -> None:
        """Run a phase that calls a cohort."""
        states = under_way.states
        rows, _, states[phase.source], cost, to = self._send(
            world, index, phase, states[phase.source], batch, links, t, None, desk
        )
        cohort = self.cohort(world, phase, index, to)
        under_way.cohorts[phase.links] = phase.target, cohort
        (state,) = states[phase.target]
        states[phase.target] = (self.absorb_call(world, index, phase, state, rows, cohort, links, t),)
        under_way.note(rows, cost, (), cohort.called_in(self.layout.repeats))

    def _run_answer(
        self,
        world: World,
        index: int,
        phase: Phase,
        under_way: _Round,
        pick: Pick,
        links: LinksNow,
        t: Array,
        desk: Packed,
    ) -> None:
        """Run a phase in which a cohort answers."""
        states = under_way.states
        assert phase.answers is not None
        _, cohort = under_way.cohorts[phase.answers]
        (state,) = states[phase.source]
        rows, state, ratios = self.answer(
            world, phase, state, pick, cohort, links, t, partial(self._one_sends, phase, index)
        )
        states[phase.source] = (state,)
        states[phase.target] = self.absorb_answers(world, index, phase, states[phase.target], rows, cohort, links, t)
        if self.books_answers(index):
            under_way.took_part.append(cohort.position)
        ratio = jnp.max(jnp.where(cohort.called, ratios, 0))
        under_way.note(desk, ratio, (), cohort.called_in(self.layout.repeats))

    def _one_sends(
        self, phase: Phase, index: int, key: Key, state: State, batch: Batch, view: View
    ) -> tuple[State, Packed, Array, Array, Array]:
        """One agent's state, message, addressed slots, cost, and the outbox's own list of addresses."""
        ready = runtime.prepare(phase, index, key, state, batch, view)
        packed = self.packings[index].pack(ready.outbox.message)
        to = jnp.zeros(0, jnp.int32) if ready.outbox.to is None else ready.outbox.to
        return ready.state, packed, ready.addressed, _in_scales(ready.declared, self.dtype), to

    def _send(
        self,
        world: World,
        index: int,
        phase: Phase,
        states: tuple[State, ...],
        batch: Batch,
        now: LinksNow,
        t: Array,
        takes_part: Array | None,
        desk: Packed,
    ) -> tuple[Packed, Array | None, tuple[State, ...], Array, Array]:
        """Compute, release and emit for every source agent.

        Returns all messages, which slots were addressed, new states, the cost of the dearest release, and the lists of
        addresses.
        """
        spec = self.specs[index]
        role = self.layout.roles[phase.source]
        new_states, addressed, costs, lists = [], [], [], []
        rows = dict(desk)
        first = 0

        one = partial(self._one_sends, phase, index)
        for b, (members, state) in enumerate(zip(world.members[phase.source], states, strict=True)):
            part = slices(batch, role.buckets[b]) if phase.source == self.algorithm.learner else ()
            view = self._view(phase.source, phase.links, b, members, now, t)
            new, message, sent, cost, to = jax.vmap(one, in_axes=(0, 0, 0, VIEW_AXES))(members.key, state, part, view)
            if takes_part is not None:
                cost = jnp.where(takes_part[role.buckets[b]], cost, 0)
            costs.append(jnp.max(cost))
            if takes_part is not None:
                new = where(takes_part[role.buckets[b]], new, state)
            new_states.append(new)
            if spec.delivery == "per_slot":
                message = jax.tree.map(lambda m: m.reshape(m.shape[0] * m.shape[1], m.shape[2]), message)
            # Written in place, bucket by bucket: a concatenation would be recomputed or copied.
            for name, part in message.items():
                rows[name] = jax.lax.dynamic_update_slice(rows[name], part, (first, 0)) if len(states) > 1 else part
            first += next(iter(message.values())).shape[0] if message else 0
            addressed.append(sent.reshape(-1))
            lists.append(to)
        masks = world.masks[index]
        if isinstance(masks, Masks):
            rows = dict(self._masked(index, rows, masks, world, t))
        addresses = joined(addressed) if spec.addressed else None
        return rows, addresses, tuple(new_states), jnp.max(jnp.stack(costs)), joined(lists)

    def _masked(self, index: int, rows: Packed, masks: Masks, world: World, t: Array) -> Packed:
        """Add each pair's mask to one message and take it from the other: their sum stays what it was, to the bit."""
        words = noise_words(runtime.masks_key(world.root), t, index)
        masked = {}
        for name, values in rows.items():
            draw = mask_draws(words, masks.scale[name], (masks.adds.size, values.shape[1]), values.dtype)
            masked[name] = values.at[masks.adds].add(draw).at[masks.subtracts].add(-draw)
        return masked

    def _absorb(
        self,
        world: World,
        index: int,
        phase: Phase,
        states: tuple[State, ...],
        entries: Entries,
        now: LinksNow,
        t: Array,
    ) -> tuple[tuple[State, ...], list[Packed]]:
        totals = self._everyone(phase, entries)
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
                    self.channel.on(phase.links).ages,
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
            if runtime.is_answered(self.algorithm, index):
                new = where(jnp.any(entry.arrived[1:], axis=0), new, state)
            result.append(new)
            tails.append(tail)
        return tuple(result), tails

    def _everyone(self, phase: Phase, entries: Entries) -> Packed | None:
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
