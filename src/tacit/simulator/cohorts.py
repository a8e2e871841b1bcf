"""Sampled cohorts: a round that calls L of K agents costs O(L).

A phase *calls* if its outbox names whom it is for (`to=`) and a later phase `answers` it: only those who were called
work, and their answers are all that the callers hear. Here these agents are gathered, run and written back, instead of
running everybody and masking. It is done where every agent has one caller on fixed links over a reliable channel;
elsewhere the engine runs everybody, which gives the same trajectory.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from tacit import runtime
from tacit.core.contract import Array, Batch, Key, Links, Phase, State, Tree, View
from tacit.simulator.inbox import CalledInbox, Packed
from tacit.simulator.loop_state import LinksNow, Members, World
from tacit.simulator.setup import VIEW_AXES, Stage

Pick = Callable[[Array], Batch]
"""Positions of learners -> their batches."""


class Cohort(NamedTuple):
    """Who was called: one entry per caller and place in its outbox, in the order of the callers."""

    position: Array
    """Of the agent called; beyond the last one where a place is empty, so that writing there does nothing."""
    called: Array
    """Whether the place is taken."""
    repeat: Array

    def called_in(self, repeats: int) -> Array:
        """Return how many were called in each repeat."""
        return jnp.zeros(repeats, jnp.int32).at[self.repeat].add(self.called.astype(jnp.int32))


class Called(NamedTuple):
    """A compiled-for cohort's tables on the device."""

    agent: Array
    """(callers, out-slots) position of the agent at the end of each of a caller's links."""
    heard_at: Array
    """(agents,) in-slot at which an agent's caller hears its answer."""
    caller: Array
    """(agents,) position of an agent's caller."""


class Calls(Stage):
    """The part of the engine that runs cohorts."""

    def _called(self) -> tuple[Any, ...]:
        phases = enumerate(self.algorithm.phases)
        return tuple(self.called_table(phase) if self.calls(index) else () for index, phase in phases)

    @property
    def has_cohorts(self) -> bool:
        """Whether the learners of a round are called, and run by themselves."""
        phases = enumerate(self.algorithm.phases)
        return any(self.calls(index) for index, phase in phases if phase.target == self.algorithm.learner)

    def calls(self, index: int) -> bool:
        """Whether a phase calls a cohort that is run by itself."""
        phase, spec = self.algorithm.phases[index], self.specs[index]
        answers = [(k, p) for k, p in enumerate(self.algorithm.phases) if p.answers == phase.links]
        same_links = [p for p in self.algorithm.phases if p.links == phase.links]
        return (
            bool(answers)
            and spec.addressed
            and len(same_links) == 1
            and phase.source != phase.target
            and self.channel.on(phase.links).reliable
            and all(self.channel.on(p.links).reliable for _, p in answers)
            and len(self.layout.roles[phase.target].buckets) == 1
            and spec.delivery == "share"
            and not self.varying[phase.links]
            and bool(np.all(self.layout.links[phase.links].graph.in_degree == 1))
            and all(self._answerable(phase, k, p) for k, p in answers)
        )

    def _answerable(self, call: Phase, index: int, answer: Phase) -> bool:
        """Whether those who were called answer the one who called them and nobody else."""
        if (answer.source, answer.target) != (call.target, call.source) or self.varying[answer.links]:
            return False
        down, up = self.layout.links[call.links].graph, self.layout.links[answer.links].graph
        same = np.array_equal(up.senders[np.argsort(up.senders)], np.arange(up.columns))
        home = np.empty(up.columns, np.int64)
        home[down.receivers] = down.senders
        return same and np.array_equal(up.receivers, home[up.senders]) and self.specs[index].delivery == "share"

    def called_table(self, phase: Phase) -> Called:
        """Put the tables of a phase that calls on the device."""
        callers, agents = self.layout.roles[phase.source], self.layout.roles[phase.target]
        graph = self.layout.links[phase.links].graph
        degree = graph.out_degree
        order = np.argsort(graph.senders, kind="stable")
        slot = np.empty(graph.edges, np.int64)
        slot[order] = np.arange(graph.edges) - np.concatenate([[0], np.cumsum(degree)])[graph.senders[order]] + 1
        table = np.full((callers.order.size, int(degree.max()) + 1), agents.order.size, np.int32)
        table[callers.position[graph.senders], slot] = agents.position[graph.receivers]
        home = np.empty(agents.order.size, np.int32)
        home[agents.position[graph.receivers]] = callers.position[graph.senders]
        answer = next(p for p in self.algorithm.phases if p.answers == phase.links)
        up = self.layout.links[answer.links].graph
        first = np.concatenate([[0], np.cumsum(up.in_degree)])
        heard_at = np.empty(agents.order.size, np.int32)
        heard_at[agents.position[up.senders]] = np.arange(up.edges) - first[up.receivers] + 1
        return Called(jnp.asarray(table), jnp.asarray(heard_at), jnp.asarray(home))

    def cohort(self, world: World, phase: Phase, index: int, to: Array) -> Cohort:
        """Return who is called by outboxes (callers, places); whoever is named twice is called once."""
        table = world.called[index]
        assert isinstance(table, Called)
        slots = jnp.sort(to, axis=1)
        again = jnp.concatenate([jnp.zeros((to.shape[0], 1), bool), slots[:, 1:] == slots[:, :-1]], axis=1)
        named = (slots > 0) & (slots < table.agent.shape[1]) & ~again
        nobody = self.layout.roles[phase.target].order.size
        position = jnp.take_along_axis(table.agent, jnp.where(named, slots, 0), axis=1)
        position = jnp.where(named, position, nobody).reshape(-1)
        repeat = jnp.concatenate([m.repeat for m in world.members[phase.source]])
        return Cohort(position, position < nobody, jnp.repeat(repeat, to.shape[1]))

    def absorb_call(
        self,
        world: World,
        index: int,
        phase: Phase,
        states: State,
        rows: Packed,
        cohort: Cohort,
        now: LinksNow,
        t: Array,
    ) -> State:
        """Let those who were called take the message in; the others keep their state."""
        table = world.called[index]
        assert isinstance(table, Called)
        members, view, kept = self._gathered(world, phase.target, phase.links, states, cohort, now, t)
        place = table.caller[jnp.minimum(cohort.position, table.caller.size - 1)]

        def one(key: Key, state: State, view: View, place: Array, called: Array) -> State:
            slots = view.into.weight.shape[0]
            inbox = CalledInbox(
                self.packings[index], rows, place[None], called[None], jnp.ones(1, jnp.int32), view.into.weight, slots
            )
            after = phase.absorb(runtime.absorb_key(key, view.round, index), state, inbox, view)
            runtime.check_state(self.algorithm, index, phase.target, state, after)
            return after

        new = jax.vmap(one, in_axes=(0, 0, VIEW_AXES, 0, 0))(members.key, kept, view, place, cohort.called)
        return _written(states, cohort, new)

    def _gathered(
        self, world: World, role: str, links: str, states: State, cohort: Cohort, now: LinksNow, t: Array
    ) -> tuple[Members, View, State]:
        """Take the members of a cohort out of everybody: keys and ids, views, states."""
        (everyone,) = world.members[role]
        position = cohort.position
        members = Members(*(leaf.at[position].get(mode="clip") for leaf in everyone))

        def columns(side: Links) -> Links:
            return Links(*(leaf.at[:, position].get(mode="clip") for leaf in side))

        source, target = runtime.link_ends(self.algorithm)[links]
        none = runtime.empty_links((1, position.size), self.dtype)
        view = View(
            members.agent,
            t,
            jnp.ones(position.shape, bool),
            members.data_size,
            columns(now.out[0]) if role == source else none,
            columns(now.into[0]) if role == target else none,
            members.cluster,
        )
        return members, view, jax.tree.map(lambda leaf: leaf.at[position].get(mode="clip"), states)

    def answer(
        self,
        world: World,
        phase: Phase,
        states: State,
        pick: Pick,
        cohort: Cohort,
        now: LinksNow,
        t: Array,
        one: Callable[[Key, State, Batch, View], tuple[State, Packed, Array, Array, Array]],
    ) -> tuple[Packed, State, Array]:
        """Compute, release and emit for a cohort: its messages, everybody's states, and what each release costs."""
        members, view, kept = self._gathered(world, phase.source, phase.links, states, cohort, now, t)
        last = self.layout.roles[phase.source].order.size - 1
        batch = pick(jnp.minimum(cohort.position, last)) if phase.source == self.algorithm.learner else ()
        new, rows, _, cost, _ = jax.vmap(one, in_axes=(0, 0, 0, VIEW_AXES))(members.key, kept, batch, view)
        return rows, _written(states, cohort, new), cost

    def absorb_answers(
        self,
        world: World,
        index: int,
        phase: Phase,
        states: tuple[State, ...],
        rows: Packed,
        cohort: Cohort,
        now: LinksNow,
        t: Array,
    ) -> tuple[State, ...]:
        """Let each caller hear those whom it called."""
        call = next(k for k, p in enumerate(self.algorithm.phases) if p.links == phase.answers)
        table = world.called[call]
        assert isinstance(table, Called)
        places = cohort.position.size // table.agent.shape[0]
        heard_at = table.heard_at.at[cohort.position].get(mode="clip").reshape(-1, places)
        called = cohort.called.reshape(-1, places)
        result = []

        def one(key: Key, state: State, view: View, place: Array, called: Array, slot: Array) -> State:
            slots = view.into.weight.shape[0]
            inbox = CalledInbox(self.packings[index], rows, place, called, slot, view.into.weight, slots)
            after = phase.absorb(runtime.absorb_key(key, view.round, index), state, inbox, view)
            runtime.check_state(self.algorithm, index, phase.target, state, after)
            return after

        for b, (members, state) in enumerate(zip(world.members[phase.target], states, strict=True)):
            mine = self.layout.roles[phase.target].buckets[b]
            place = jnp.arange(cohort.position.size).reshape(-1, places)[mine]
            view = self._view(phase.target, phase.links, b, members, now, t)
            result.append(
                jax.vmap(one, in_axes=(0, 0, VIEW_AXES, 0, 0, 0))(
                    members.key, state, view, place, called[mine], heard_at[mine]
                )
            )
        return tuple(result)


def _written(states: Tree, cohort: Cohort, new: Tree) -> Tree:
    """Put a cohort's states back in their places."""
    return jax.tree.map(lambda old, leaf: old.at[cohort.position].set(leaf, mode="drop"), states, new)
