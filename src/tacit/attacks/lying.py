"""Liars that are real peers: a method of which some agents send what an attack makes of their messages.

A simulated liar may know all honest messages of the round. A real one knows what neighbours have sent to it, and who
lies as well; it sends before it hears the round's messages. So an attack's scene is made of the newest message of each
honest neighbour, which is that of the round before:

    mean, deviation    of these messages
    own                the receiver's among them; the mean where it is not heard, or lies itself
    pull               sum_k (x_k - x_i) / (number of liars heard, itself counted), over these messages, as if the
                       receiver i heard the same neighbours and all with one weight

Before it has heard any, it takes its own message for theirs. What it hears of itself stays honest.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from tacit.attacks.kinds import Attack, Scene
from tacit.core.contract import Algorithm, Array, Inbox, Key, Message, Outbox, Phase, State, Tree, View
from tacit.core.errors import ConfigError
from tacit.core.inbox import StackedInbox
from tacit.core.lifted import Carrying, lift
from tacit.core.messages import Delivery


class Sent(NamedTuple):
    """What a phase sends, settled before the run."""

    message: Message
    """ShapeDtypeStruct of each leaf as it lies on the wire."""
    delivery: Delivery


class Memory(NamedTuple):
    """Knowledge of a liar in one phase."""

    heard: Message
    """Newest message of each neighbour, leading axis over the in-slots."""
    known: Array
    """(S,) whether there was one."""
    kept: Message
    """Own earlier messages, as `Attack.keeps` says, leading axis over the out-slots."""


def lying(algorithm: Algorithm, sends: Sequence[Sent], attack: Attack, liars: Collection[int]) -> Algorithm:
    """Let some of a method's learners lie, with what a real peer knows.

    Messages have the types and shapes of the method, and honest agents do what they did. In a real liar's process it
    takes the method's place; in the simulator it gives the trajectory of honest and lying peers together.

    Args:
      algorithm: The method.
      sends: Of each of its phases, in order.
      attack: How they lie; one that only changes labels leaves the method as it is.
      liars: Their numbers.

    Returns:
      The same method on states that carry what a liar knows.

    Raises:
      ConfigError: The attack needs messages that no learner hears, or messages are whole numbers or have noise that
        cancels.

    Example:
      >>> import jax, jax.numpy as jnp, tacit
      >>> from tacit.attacks.lying import Sent, lying
      >>> from tacit.core.contract import Message
      >>> method = tacit.algorithms.distributed_online(tacit.objectives.logistic(), step=0.3)
      >>> model = jax.ShapeDtypeStruct((3,), jnp.float32)
      >>> false = lying(method, [Sent(Message(model, ()), "share")], tacit.attacks.sign_flip(), [1])
      >>> tacit.simulate(false, tacit.graphs.complete(4), tacit.streams.logistic_drift(4, 3), rounds=5).agents
      4
    """
    if attack.lie is None:
        return algorithm
    role, numbers = algorithm.learner, np.array(sorted(liars), np.int32)
    _check(algorithm, sends, attack)

    def first(state: State, views: Mapping[str, View]) -> tuple[Memory | None, ...]:
        return tuple(
            _nothing(sent.message, views[phase.links]) if phase.source == role else None
            for phase, sent in zip(algorithm.phases, sends, strict=True)
        )

    lifted = lift(algorithm, role, first)
    phases = enumerate(zip(lifted.phases, sends, strict=True))
    return lifted._replace(
        phases=tuple(
            _lying(phase, k, sent, phase.target == role, partial(_told, attack, numbers), attack.keeps)
            if phase.source == role
            else phase
            for k, (phase, sent) in phases
        )
    )


def _check(algorithm: Algorithm, sends: Sequence[Sent], attack: Attack) -> None:
    role = algorithm.learner
    for phase, sent in zip(algorithm.phases, sends, strict=True):
        if phase.source != role:
            continue
        if attack.hears and phase.target != role:
            raise ConfigError(
                f"attack = {attack.name!r}: it is made of honest messages, but in {algorithm.name!r} a real {role} "
                f"hears none, since all go to {phase.target}s; use sign_flip, large_values, stale_replay or "
                "label_flip, or `tacit run`, which simulates it"
            )
        floating = any(jnp.issubdtype(leaf.dtype, jnp.floating) for leaf in jax.tree.leaves(sent.message))
        if not floating or phase.mechanism.spread == "homomorphic":
            why = "noise that cancels" if floating else "whole numbers, as under masks,"
            raise ConfigError(
                f"attack = {attack.name!r}: {algorithm.name!r} sends {why} over {phase.links!r}, of which a real liar "
                "makes no other message; use label_flip"
            )


def _nothing(message: Message, view: View) -> Memory:
    def rows(slots: int) -> Message:
        found: Message = jax.tree.map(lambda leaf: jnp.zeros((slots, *leaf.shape), leaf.dtype), message)
        return found

    heard = view.into.live.shape[0]
    return Memory(rows(heard), jnp.zeros(heard, bool), rows(view.out.live.shape[0]))


def _lying(phase: Phase, index: int, sent: Sent, hears: bool, told: Callable[..., Array], keeps: int) -> Phase:
    pushed = sent.delivery == "push"

    def emit(carrying: Carrying, released: Tree, view: View) -> tuple[Carrying, Outbox]:
        carrying, outbox = phase.emit(carrying, released, view)
        memory: Memory = carrying.carried[index]
        truth = outbox.message
        if sent.delivery != "per_slot":
            slots = view.out.live.shape[0]
            truth = jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (slots, *leaf.shape)), truth)
        kept = jax.tree.map(lambda new, old: jnp.where(view.round <= keeps, new, old), truth, memory.kept)
        message = jax.tree.map(partial(told, view, memory.known), truth, kept, memory.heard)
        if pushed:
            message = jax.tree.map(lambda leaf: leaf * _along(view.out.weight, leaf), message)
        return _noted(carrying, index, memory._replace(kept=kept)), Outbox(message, outbox.to, "per_slot")

    def absorb(key: Key, state: State, inbox: Inbox, view: View) -> State:
        if pushed:  # by the sender, as above
            inbox = StackedInbox(inbox.values(), inbox.arrived, None, inbox.slots)
        after = phase.absorb(key, state, inbox, view)
        if not hears:
            return after
        message, found = inbox.newest()
        if pushed:
            weight = jnp.where(view.into.weight > 0, view.into.weight, 1)
            message = jax.tree.map(lambda leaf: leaf / _along(weight, leaf), message)
        memory: Memory = after.carried[index]
        heard = jax.tree.map(lambda new, old: jnp.where(_along(found, new), new, old), message, memory.heard)
        return _noted(after, index, memory._replace(heard=heard, known=memory.known | found))

    return phase._replace(emit=emit, absorb=absorb)


def _noted(carrying: Carrying, index: int, memory: Memory) -> Carrying:
    kept = carrying.carried
    return carrying._replace(carried=(*kept[:index], memory, *kept[index + 1 :]))


def _along(values: Array, leaf: Array) -> Array:
    """Return one value per slot, to be combined with a leaf whose leading axis is over slots."""
    typed = values if values.dtype == bool else values.astype(leaf.dtype)
    return typed.reshape(-1, *[1] * (leaf.ndim - 1))


def _told(
    attack: Attack, liars: np.ndarray, view: View, known: Array, truth: Array, kept: Array, heard: Array
) -> Array:
    """Return what leaves through each out-slot, of one leaf of the messages."""
    if attack.lie is None or not jnp.issubdtype(truth.dtype, jnp.floating):
        return truth
    slots, rows = len(truth), heard.reshape(len(heard), -1)
    sent, lied = truth.reshape(slots, -1), jnp.isin(view.into.agent, liars)
    honest = known & ~lied
    count = jnp.sum(honest).astype(rows.dtype)

    def average(values: Array) -> Array:
        return jnp.sum(jnp.where(honest[:, None], values, 0), axis=0) / jnp.maximum(count, 1)

    middle = average(rows)
    mean = jnp.where(count > 0, middle, sent)
    deviation = jnp.broadcast_to(jnp.sqrt(average(jnp.square(rows - middle))), sent.shape)
    same = honest & (view.into.agent == view.out.agent[:, None])
    own = jnp.where(same.any(axis=1)[:, None], rows[jnp.argmax(same, axis=1)], mean)
    pull = count * (mean - own) / jnp.maximum(jnp.sum(lied), 1).astype(rows.dtype)
    lie = attack.lie(Scene(view.round, sent, kept.reshape(sent.shape), own, mean, deviation, pull))
    false = jnp.isin(view.agent, liars) & (jnp.arange(slots) > 0)
    return jnp.where(_along(false, truth), lie.astype(truth.dtype).reshape(truth.shape), truth)
