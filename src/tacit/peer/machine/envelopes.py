"""Envelopes: messages on their way along one link, how they are made and how they are stacked for absorption."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, cast

import jax
import numpy as np

from tacit import runtime
from tacit.core.contract import Algorithm, Array, Links, Message, Outbox, View
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


class Ends:
    """One side of an agent's links, read from the device once."""

    def __init__(self, links: Links) -> None:
        self.links = links
        self.agents: list[int] = np.asarray(links.agent).tolist()
        self.live: list[bool] = np.asarray(links.live).tolist()
        self.slot_of = {agent: slot for slot, agent in reversed([*enumerate(self.agents)][1:]) if agent >= 0}
        """Neighbour -> its slot; -1 is what padding is called."""


class EndsRead:
    """Sides of an agent's links; those that stay from round to round are read once."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, str], Ends] = {}

    def of(self, side: str, name: str, links: Links) -> Ends:
        """Return a side ("into" or "out") of a link set."""
        found = self._found.get((side, name))
        if found is None or found.links is not links:
            found = self._found[side, name] = Ends(links)
        return found


class Form:
    """Structure, shapes and types of the messages of one phase."""

    def __init__(self, spec: Message) -> None:
        self.structure: Any = jax.tree.structure(spec)
        self._leaves = [(leaf.shape, np.dtype(leaf.dtype)) for leaf in jax.tree.leaves(spec)]

    def fits(self, message: Message) -> bool:
        """Whether a message from outside has this form."""
        leaves, structure = jax.tree.flatten(message)
        return structure == self.structure and all(
            isinstance(leaf, np.ndarray | np.generic) and (leaf.shape, leaf.dtype) == expected
            for leaf, expected in zip(leaves, self._leaves, strict=True)
        )

    def stacked(self, found: Mapping[int, Message], entries: int) -> Message:
        """Return messages side by side, zeros where there is none; `found`: entry -> message."""
        rows = {entry: jax.tree.leaves(message) for entry, message in found.items()}
        stacks = []
        for place, (shape, dtype) in enumerate(self._leaves):
            stack = np.empty((entries, *shape), dtype)
            for entry in range(entries):
                stack[entry] = rows[entry][place] if entry in rows else 0
            stacks.append(stack)
        side_by_side: Message = jax.tree.unflatten(self.structure, stacks)
        return side_by_side


def by_slot(outbox: Outbox, slots: Sequence[int], view: View) -> dict[int, Message]:
    """Return the message through each out-slot, as it is sent; where several are alike, they are one object."""
    leaves, structure = jax.tree.flatten(outbox.message)
    whole = [np.asarray(leaf) for leaf in leaves]

    def made(parts: Iterable[Any]) -> Any:
        return jax.tree.unflatten(structure, parts)

    if outbox.delivery == "per_slot":
        return {slot: made(np.asarray(leaf[slot]) for leaf in whole) for slot in slots}
    if outbox.delivery != "push":
        return dict.fromkeys(slots, made(whole))
    weights = np.asarray(view.out.weight)
    shares: dict[float, Message] = {}
    for slot in slots:
        weight = weights[slot]
        if weight not in shares:
            shares[weight] = made(leaf * weight.astype(leaf.dtype) for leaf in whole)
    return {slot: shares[weights[slot]] for slot in slots}


def stacked(
    spec: runtime.MessageSpec, form: Form, found: Mapping[int, Message], view: View, longest_delay: int
) -> StackedInbox:
    """Return messages as a phase absorbs them; `found`: entry -> message, `slots` entries for each round of delay."""
    slots = view.into.live.shape[0]
    entries = slots * (longest_delay + 1)
    arrived = np.zeros(entries, np.bool_)
    arrived[list(found)] = True
    weight = None if spec.delivery == "push" else view.into.weight
    return StackedInbox(form.stacked(found, entries), cast("Array", arrived), weight, slots)
