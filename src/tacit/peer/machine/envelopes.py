"""Envelopes: messages on their way along one link, how they are made and how they are stacked for absorption."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, cast

import jax
import numpy as np

from tacit import runtime
from tacit.core.contract import Algorithm, Array, Message, Outbox, View
from tacit.core.inbox import StackedInbox


class Envelope(NamedTuple):
    """A message on its way along one link.

    Example:
      >>> import numpy as np
      >>> from tacit.peer import Envelope
      >>> sent = Envelope("links", phase=0, round=1, sender=0, receiver=2, message=np.zeros(2))
      >>> sent._replace(receiver=3)[:5]
      ('links', 0, 1, 0, 3)
    """

    links: str
    """Name of the link set."""
    phase: int
    """Number of the phase, from 0 on."""
    round: int
    """Round in which it was sent."""
    sender: int
    """Id of the sender within its role."""
    receiver: int
    """Id of the receiver within its role."""
    message: Message | None
    """NumPy arrays, to which `push` weights are applied already; None: the receiver is not called in this round."""
    masks: bytes = b""
    """Tags of the sessions that its masks come from; empty where it has none."""


def too_late(envelope: Envelope, round_: int, phase: int | None, algorithm: Algorithm) -> str:
    """Say why a message is stale where the receiver is in a phase of a round (None: the round is over)."""
    several = len(algorithm.phases) > 1
    sent = f"sent in round {envelope.round}" + (f", phase {envelope.phase}" if several else "")
    if envelope.round < 1:
        return f"{sent}: rounds are counted from 1"
    here = f"round {round_} is over" if phase is None else f"it is round {round_}, phase {phase}"
    ended = "phase" if several and phase is not None and envelope.round == round_ else "round"
    hint = "" if algorithm.missing == "wait" else "; a longer [rounds] deadline waits for such messages"
    return f"{sent}, and came when that {ended} had ended here ({here}){hint}"


def misfit(envelope: Envelope, spec: Message) -> str:
    """Say what was sent and what was expected, by types and shapes."""

    def described(message: Message | None) -> str:
        leaves = [(getattr(leaf, "dtype", "a number"), np.shape(leaf)) for leaf in jax.tree.leaves(message)]
        shapes = (f"{dtype} {' x '.join(map(str, shape))}".rstrip() for dtype, shape in leaves)
        return " and ".join(shapes) or "nothing"

    return f"agent {envelope.sender} sent {described(envelope.message)}; expected {described(spec)}"


def fits(message: Message, spec: Message) -> bool:
    """Whether a message from outside has the structure, shapes and types of its phase's spec."""
    if not runtime.same_structure(message, spec):
        return False
    pairs = zip(jax.tree.leaves(message), jax.tree.leaves(spec), strict=True)
    return all(isinstance(a, np.ndarray | np.generic) and (a.shape, a.dtype) == (b.shape, b.dtype) for a, b in pairs)


def by_slot(outbox: Outbox, slots: Sequence[int], view: View) -> dict[int, Message]:
    """Return the message through each out-slot, as it is sent; where several are alike, they are one object."""
    whole: Message = jax.tree.map(np.asarray, outbox.message)

    def part(slot: int) -> Any:
        return jax.tree.map(lambda leaf: np.asarray(leaf[slot]), whole)

    def share(weight: np.generic) -> Any:
        return jax.tree.map(lambda leaf: leaf * weight.astype(leaf.dtype), whole)

    if outbox.delivery == "per_slot":
        return {slot: part(slot) for slot in slots}
    if outbox.delivery != "push":
        return dict.fromkeys(slots, whole)
    weights = np.asarray(view.out.weight)
    shares = {weight: share(weight) for weight in set(weights[list(slots)])}
    return {slot: shares[weights[slot]] for slot in slots}


def stacked(spec: runtime.MessageSpec, found: Mapping[int, Message], view: View, longest_delay: int) -> StackedInbox:
    """Return messages as a phase absorbs them; `found`: entry -> message, `slots` entries for each round of delay."""
    slots = view.into.live.shape[0]
    entries = slots * (longest_delay + 1)
    arrived = np.zeros(entries, np.bool_)
    arrived[list(found)] = True

    def stack(leaf_spec: Any, *leaves: np.ndarray) -> np.ndarray:
        result = np.zeros((entries, *leaf_spec.shape), leaf_spec.dtype)
        for entry, leaf in zip(found, leaves, strict=True):
            result[entry] = leaf
        return result

    values = jax.tree.map(stack, spec.message, *found.values())
    weight = None if spec.delivery == "push" else view.into.weight
    return StackedInbox(values, cast("Array", arrived), weight, slots)
