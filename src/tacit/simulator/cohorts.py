"""Sampled cohorts: a round that calls L of K agents costs O(L).

A phase *calls* if its outbox names whom it is for (`to=`) and a later phase `answers` it: only those who were called
work, and their answers are all that the callers hear. Here these agents are gathered, run and written back, instead of
running everybody and masking. It is done on one device where every agent has one caller on fixed links over a reliable
channel, and nobody lies; elsewhere the engine runs everybody, which gives the same trajectory.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from tacit import runtime
from tacit.core.contract import Array, Batch, Key, Memory, Phase, State, Tree, View
from tacit.simulator.inbox import CalledInbox, Packed
from tacit.simulator.loop_state import Called, Members
from tacit.simulator.setup import VIEW_AXES, PhaseContext, Setup

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


class OneSent(NamedTuple):
    """One agent's side of sending in a phase."""

    state: State
    message: Packed
    addressed: Array
    """Which out-slots are sent to."""
    cost: Array
    """Of its release, as in `Tally.ratios`."""
    to: Array
    """The outbox's own list of addresses; empty where it has none."""
    memory: Memory | None
    """Of its noise, where that is correlated."""
    sizes: runtime.Sizes | None


class Tally(NamedTuple):
    """What was sent and released in a round."""

    messages: Array
    """(phases, repeats)."""
    cohort: Cohort | None
    """The learners that were called, where these are run by themselves."""
    ratios: Array
    """(phases,) of the dearest release by any agent of a shard, its sensitivity in units of its noise's scale; 0 where
    none was added."""
    took_part: tuple[Array, ...]
    """Per phase that answers and is booked: which learners took part, by position, or the positions of a cohort."""
    sizes: Array
    """(2, repeats) sums over the learners' releases with noise: squared norms of the values, and of the noise."""
    seen: tuple[Tree, ...] = ()
    """What was looked at of each bucket's learners, where a look was asked for."""


def in_scales(declared: runtime.Declared | None, dtype: jnp.dtype) -> Array:
    """Return what one agent's release costs, as in `Tally.ratios`.

    A release counts even if nobody is sent it in this round: it goes into the agent's state, and leaves with it later.
    """
    if declared is None:
        return jnp.zeros((), dtype)
    # A value that no record can move (a step of size 0) costs nothing, with noise or without.
    free = declared.sensitivity == 0
    # The quotient of the very numbers that were declared: a compiler would make one formula of all three.
    sensitivity, scale = jax.lax.optimization_barrier((declared.sensitivity, jnp.where(free, 1, declared.scale)))
    return jnp.asarray(sensitivity / scale, dtype)


class Cohorts:
    """Agents that are called in a round, run by themselves."""

    def __init__(self, setup: Setup) -> None:
        self.setup = setup

    def tables(self) -> tuple[Called | None, ...]:
        """Return the tables of each phase; None where it calls no cohort."""
        phases = enumerate(self.setup.algorithm.phases)
        return tuple(self._table(phase) if self.calls(index) else None for index, phase in phases)

    @property
    def of_learners(self) -> bool:
        """Whether the learners of a round are called, and run by themselves."""
        algorithm = self.setup.algorithm
        phases = enumerate(algorithm.phases)
        return any(self.calls(index) for index, phase in phases if phase.target == algorithm.learner)

    def calls(self, index: int) -> bool:
        """Whether a phase calls a cohort that is run by itself."""
        setup, algorithm = self.setup, self.setup.algorithm
        phase, spec = algorithm.phases[index], setup.specs[index]
        answers = [(k, p) for k, p in enumerate(algorithm.phases) if p.answers == phase.links]
        same_links = [p for p in algorithm.phases if p.links == phase.links]
        return (
            bool(answers)
            and setup.layout.shards == 1
            and not setup.liars
            and spec.addressed
            and len(same_links) == 1
            and phase.source != phase.target
            and setup.channel.on(phase.links).reliable
            and all(setup.channel.on(p.links).reliable for _, p in answers)
            and len(setup.layout.roles[phase.target].buckets) == 1
            and spec.delivery == "share"
            and not setup.varying[phase.links]
            and bool(np.all(setup.layout.links[phase.links].graph.in_degree == 1))
            and all(self._answerable(phase, k, p) for k, p in answers)
        )

    def _answerable(self, call: Phase, index: int, answer: Phase) -> bool:
        """Whether those who were called answer the one who called them and nobody else."""
        setup = self.setup
        if (answer.source, answer.target) != (call.target, call.source) or setup.varying[answer.links]:
            return False
        down, up = setup.layout.links[call.links].graph, setup.layout.links[answer.links].graph
        same = np.array_equal(up.senders[np.argsort(up.senders)], np.arange(up.columns))
        home = np.empty(up.columns, np.int64)
        home[down.receivers] = down.senders
        return same and np.array_equal(up.receivers, home[up.senders]) and setup.specs[index].delivery == "share"

    def _table(self, phase: Phase) -> Called:
        """Put the tables of a phase that calls on the device."""
        layout = self.setup.layout
        callers, agents = layout.roles[phase.source], layout.roles[phase.target]
        graph = layout.links[phase.links].graph
        degree = graph.out_degree
        order = np.argsort(graph.senders, kind="stable")
        slot = np.empty(graph.edges, np.int64)
        slot[order] = np.arange(graph.edges) - np.concatenate([[0], np.cumsum(degree)])[graph.senders[order]] + 1
        table = np.full((callers.order.size, int(degree.max()) + 1), agents.order.size, np.int32)
        table[callers.position[graph.senders], slot] = agents.position[graph.receivers]
        home = np.empty(agents.order.size, np.int32)
        home[agents.position[graph.receivers]] = callers.position[graph.senders]
        answer = next(p for p in self.setup.algorithm.phases if p.answers == phase.links)
        up = layout.links[answer.links].graph
        first = np.concatenate([[0], np.cumsum(up.in_degree)])
        heard_at = np.empty(agents.order.size, np.int32)
        heard_at[agents.position[up.senders]] = np.arange(up.edges) - first[up.receivers] + 1
        return Called(jnp.asarray(table), jnp.asarray(heard_at), jnp.asarray(home))

    def called(self, at: PhaseContext, to: Array) -> Cohort:
        """Return the agents called by outboxes (callers, places); one that is named twice is called once."""
        table = at.network.called[at.index]
        assert table is not None
        slots = jnp.sort(to, axis=1)
        again = jnp.concatenate([jnp.zeros((to.shape[0], 1), bool), slots[:, 1:] == slots[:, :-1]], axis=1)
        named = (slots > 0) & (slots < table.agent.shape[1]) & ~again
        nobody = self.setup.layout.roles[at.phase.target].order.size
        position = jnp.take_along_axis(table.agent, jnp.where(named, slots, 0), axis=1)
        position = jnp.where(named, position, nobody).reshape(-1)
        repeat = jnp.concatenate([m.repeat for m in at.network.members[at.phase.source]])
        return Cohort(position, position < nobody, jnp.repeat(repeat, to.shape[1]))

    def absorb_call(self, at: PhaseContext, states: State, rows: Packed, cohort: Cohort) -> State:
        """Let those who were called take the message in; the others keep their state."""
        table = at.network.called[at.index]
        assert table is not None
        members, view, kept = self._gathered(at, at.phase.target, states, cohort)
        place = table.caller[jnp.minimum(cohort.position, table.caller.size - 1)]

        def one(key: Key, state: State, view: View, place: Array, called: Array) -> State:
            slot = jnp.ones(1, jnp.int32)
            return self._absorbed(at.index, rows, key, state, view, place[None], called[None], slot)

        new = jax.vmap(one, in_axes=(0, 0, VIEW_AXES, 0, 0))(members.key, kept, view, place, cohort.called)
        return _written(states, cohort, new)

    def answer(
        self,
        at: PhaseContext,
        states: State,
        pick: Pick,
        cohort: Cohort,
        one: Callable[[Key, State, Batch, View, Memory | None], OneSent],
        memory: Memory | None,
    ) -> tuple[Packed, State, Memory | None, OneSent]:
        """Compute, release and emit for a cohort: its messages, everybody's states and memories, and what each sent."""
        setup, source = self.setup, at.phase.source
        members, view, (kept, before) = self._gathered(at, source, (states, memory), cohort)
        last = setup.layout.roles[source].order.size - 1
        batch = pick(jnp.minimum(cohort.position, last)) if source == setup.algorithm.learner else ()
        each = setup.mapped(source, one, (0, 0, 0, VIEW_AXES, 0))
        sent = each(members.key, kept, batch, view, before)
        after = _written((states, memory), cohort, (sent.state, sent.memory))
        return sent.message, after[0], after[1], sent

    def absorb_answers(
        self, at: PhaseContext, states: tuple[State, ...], rows: Packed, cohort: Cohort
    ) -> tuple[State, ...]:
        """Let each caller hear those whom it called."""
        setup, target = self.setup, at.phase.target
        call = next(k for k, p in enumerate(setup.algorithm.phases) if p.links == at.phase.answers)
        table = at.network.called[call]
        assert table is not None
        places = cohort.position.size // table.agent.shape[0]
        heard_at = table.heard_at.at[cohort.position].get(mode="clip").reshape(-1, places)
        called = cohort.called.reshape(-1, places)
        one = partial(self._absorbed, at.index, rows)
        result = []
        for b, (members, state) in enumerate(zip(at.network.members[target], states, strict=True)):
            mine = setup.layout.roles[target].buckets[b]
            place = jnp.arange(cohort.position.size).reshape(-1, places)[mine]
            view = setup.view(target, at.links, b, members)
            each = jax.vmap(one, in_axes=(0, 0, VIEW_AXES, 0, 0, 0))
            result.append(each(members.key, state, view, place, called[mine], heard_at[mine]))
        return tuple(result)

    def _absorbed(
        self,
        index: int,
        rows: Packed,
        key: Key,
        state: State,
        view: View,
        place: Array,
        called: Array,
        slot: Array,
    ) -> State:
        """One agent's next state, of entries in these rows and in-slots."""
        slots = view.into.weight.shape[0]
        inbox = CalledInbox(self.setup.packings[index], rows, place, called, slot, view.into.weight, slots)
        return runtime.absorb(self.setup.algorithm, index, key, state, inbox, view)

    def _gathered(self, at: PhaseContext, role: str, states: State, cohort: Cohort) -> tuple[Members, View, State]:
        """Take the members of a cohort out of everybody: keys and ids, views, states."""
        (everyone,) = at.network.members[role]
        position = cohort.position
        members: Members = jax.tree.map(lambda leaf: leaf.at[position].get(mode="clip"), everyone)
        view = self.setup.view(role, at.links, 0, members, position)
        return members, view, jax.tree.map(lambda leaf: leaf.at[position].get(mode="clip"), states)


def _written(states: Tree, cohort: Cohort, new: Tree) -> Tree:
    """Put a cohort's states back in their places."""
    return jax.tree.map(lambda old, leaf: old.at[cohort.position].set(leaf, mode="drop"), states, new)
