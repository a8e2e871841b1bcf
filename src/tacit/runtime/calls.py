"""One agent's calls in a phase: from data to outbox, and from inbox to the next state."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from tacit.core.contract import (
    Algorithm,
    Array,
    Batch,
    Extent,
    Inbox,
    Key,
    Memory,
    Noise,
    Outbox,
    Phase,
    State,
    Tree,
    View,
)  # fmt: skip
from tacit.core.errors import ContractError
from tacit.privacy import records_in
from tacit.runtime.keys import absorb_key, compute_key


def self_contained(algorithm: Algorithm) -> Algorithm:
    """Return the algorithm with its preparation of a batch as part of `compute`, for data as they come."""
    prepare = algorithm.prepare
    if prepare is None:
        return algorithm

    def preparing(phase: Phase) -> Phase:
        work = phase.compute
        return phase._replace(compute=lambda key, state, batch, view: work(key, state, prepare(batch), view))

    phases = (preparing(phase) if phase.source == algorithm.learner else phase for phase in algorithm.phases)
    return algorithm._replace(prepare=None, phases=tuple(phases))


class Declared(NamedTuple):
    """The numbers of the declaration that a release was drawn from; its words are in the phase's `ReleaseSpec`."""

    sensitivity: Array
    scale: Array
    bound: Array
    """Infinite for noise without one."""


class Sizes(NamedTuple):
    """Squared norms of a release in simulation: they depend on data, so that a peer takes none."""

    signal: Array
    """Of the value before the noise."""
    noise: Array
    """Of the noise, expected."""


class Prepared(NamedTuple):
    """What one agent has ready to send in a phase."""

    state: State
    outbox: Outbox
    addressed: Array
    """Which out-slots are sent to, slot 0 included."""
    declared: Declared | None
    """None where nothing was added."""
    memory: Memory | None = None
    """Of correlated noise, for the next round: the runtime's, which no method sees."""
    sizes: Sizes | None = None
    """None where nothing was added, and in a peer."""


def prepare(
    phase: Phase, index: int, key: Key, state: State, batch: Batch, view: View, memory: Memory | None = None
) -> Prepared:
    """One agent's side of sending, with simulated noise: compute, release, emit."""
    view, batch = with_data(view, batch)
    state, value = compute(phase, index, key, state, batch, view)
    if phase.mechanism.changes_nothing:
        return emit(phase, state, value, view, None)._replace(memory=memory)
    from tacit.privacy.draws import release  # no peer draws so, nor loads it, unless what it does is not booked
    from tacit.privacy.noise import noise_words

    words = noise_words(key, view.round, index)
    released = release(phase.mechanism, words, value, view, records_in(batch), memory)
    noise = released.noise
    if noise is None:
        return emit(phase, state, released.value, view, None)._replace(memory=released.memory)
    ready = emit(phase, state, released.value, view, _declared(noise))
    return ready._replace(memory=released.memory, sizes=_sizes(value, noise))


def with_data(view: View, batch: Batch) -> tuple[View, Batch]:
    """Return the view of a round that brings this batch, and the batch as a method sees it.

    A record that cannot be used (a weight below 0) counts as none to the method, but the round has brought data:
    whether it did must not tell what a record holds.
    """
    weight = getattr(batch, "weight", None)
    if weight is None:
        return view, batch
    return view._replace(fresh=jnp.any(weight != 0)), batch._replace(weight=jnp.maximum(weight, 0))


def compute(phase: Phase, index: int, key: Key, state: State, batch: Batch, view: View) -> tuple[State, Tree]:
    """Do the private work: one agent's next state and the value to release."""
    return phase.compute(compute_key(key, view.round, index), state, batch, view)


def declare(phase: Phase, value: Tree, records: int, view: View) -> Declared | None:
    """Return the declaration from which the noise on a value must be drawn; None where the mechanism adds nothing."""
    leaves = jax.tree.leaves(value)
    noise = phase.mechanism.noise(view, Extent(sum(leaf.size for leaf in leaves), records)) if leaves else None
    return None if noise is None else _declared(noise)


def finish(phase: Phase, noisy: Tree, declared: Declared | None) -> Tree:
    """Apply the post-processing that belongs to the mechanism to a value that has its noise."""
    mechanism = phase.mechanism
    if mechanism.finish is None or mechanism.distribution is None or declared is None:
        return noisy
    return mechanism.finish(noisy, Noise(mechanism.distribution, declared.scale, declared.sensitivity, declared.bound))


def emit(phase: Phase, state: State, released: Tree, view: View, declared: Declared | None) -> Prepared:
    """Make messages of what was released."""
    state, outbox = phase.emit(state, released, view)
    return Prepared(state, outbox, _addressed(outbox, view), declared)


def absorb(algorithm: Algorithm, index: int, key: Key, state: State, inbox: Inbox, view: View) -> State:
    """Take in what one agent heard in a phase: its next state, refused if it has another form."""
    phase = algorithm.phases[index]
    after = phase.absorb(absorb_key(key, view.round, index), state, inbox, view)
    check_state(algorithm, index, phase.target, state, after)
    return after


def _declared(noise: Noise) -> Declared:
    bound = jnp.inf if noise.bound is None else noise.bound
    return Declared(*(jnp.asarray(x, jnp.result_type(float)) for x in (noise.sensitivity, noise.scale, bound)))


def _sizes(value: Tree, noise: Noise) -> Sizes:
    leaves = jax.tree.leaves(value)
    signal = sum((jnp.sum(jnp.square(leaf)) for leaf in leaves), jnp.zeros(()))
    variance = jnp.square(noise.scale) * (1 if noise.distribution == "gaussian" else 2)
    return Sizes(signal, jnp.asarray(sum(leaf.size for leaf in leaves) * variance, signal.dtype))


def _addressed(outbox: Outbox, view: View) -> Array:
    live = view.out.live
    if outbox.to is None:
        return live
    slots = live.shape[0]
    # What names no slot (-1) falls on an extra place, or would count from the end.
    chosen = jnp.zeros(slots + 1, bool).at[jnp.where(outbox.to < 0, slots, outbox.to)].set(True)[:-1]
    return live & chosen.at[0].set(True)


def same_structure(a: Tree, b: Tree) -> bool:
    """Whether two pytrees have their leaves in the same places."""
    one: object = jax.tree.structure(a)
    return one == jax.tree.structure(b)


def check_state(algorithm: Algorithm, phase: int, role: str, before: Tree, after: Tree) -> None:
    """Refuse an algorithm whose functions change the structure, shapes or types of a state."""
    if not same_structure(before, after):
        raise ContractError(
            f"algorithm {algorithm.name!r}, phase {phase}, role {role!r}: the state came in as "
            f"{jax.tree.structure(before)} and went out as {jax.tree.structure(after)}; return the same structure"
        )
    for path, (old, new) in zip(
        (p for p, _ in jax.tree_util.tree_leaves_with_path(before)),
        zip(jax.tree.leaves(before), jax.tree.leaves(after), strict=True),
        strict=True,
    ):
        if (old.shape, old.dtype) != (new.shape, new.dtype):
            raise ContractError(
                f"algorithm {algorithm.name!r}, phase {phase}, role {role!r}: state{jax.tree_util.keystr(path)} "
                f"came in as {old.dtype}{list(old.shape)} and went out as {new.dtype}{list(new.shape)}; "
                "keep shapes and types (a Python float times float32 stays float32, jnp.float64 does not)"
            )
