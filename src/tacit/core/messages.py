"""Messages of one agent: its view of the network, what it sends, and what it hears."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp

from tacit.core.errors import ContractError

Array = jax.Array
"""A JAX array."""
Key = jax.Array
"""A JAX random key."""
Tree = Any
"""A pytree of arrays."""
State = Tree
"""What an agent keeps between rounds."""
Params = Tree
"""Parameters of a model."""
Batch = Tree
"""Records of one agent in one round."""
Schedule = Callable[[Array], Array]
"""A step size or strength as a function of the round t = 1, 2, ..."""


class Links(NamedTuple):
    """One side of an agent's links in a phase, slot by slot.

    Slot 0 is the agent itself: it hears what it shares with itself, and that is never sent. (Between two roles there is
    no self, and slot 0 is not live.) Slots keep their meaning over the rounds, so that a state may hold one memory per
    slot. What is not live in this round (padding, a link that is down, an absent neighbour) has weight 0.

    Args:
      agent: (S,) int32, id of the neighbour within its role; -1 where there is none.
      live: (S,) bool, whether the link can be used in this round.
      weight: (S,) W[receiver, sender] of that link in this round.
    """

    agent: Array
    live: Array
    weight: Array

    @property
    def degree(self) -> Array:
        """Number of live neighbours, itself not counted."""
        return jnp.sum(self.live[1:])


class View(NamedTuple):
    """Knowledge of one agent in a phase: all that an algorithm may use of the network.

    Args:
      agent: Own id within the role.
      round: t = 1, 2, ... as in the texts.
      present: Whether this agent takes part in the round; an absent one has no live links but may still learn alone.
      data_size: Number of own samples; 0 for an endless stream.
      out: Links to those it sends to in this phase.
      into: Links from those it hears in this phase.
      cluster: Its cluster, counted from 0; 0 where there are none.
      fresh: In compute and emit of a learner: whether this round brings it data. (How many there are is no secret.)
    """

    agent: Array
    round: Array
    present: Array
    data_size: Array
    out: Links
    into: Links
    cluster: Array | int = 0
    fresh: Array | bool = True


class Message(NamedTuple):
    """A message along one link.

    Args:
      private: Computed from data; passed through the phase's mechanism before it gets here.
      public: Must not depend on data (push-sum mass, coordinate window, counts): no noise, no charge. Checked.
    """

    private: Tree
    public: Tree


Delivery = Literal["share", "push", "per_slot"]
"""Weighed by the receiver, weighed by the sender, or one value for each neighbour."""


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Outbox:
    """All that an agent sends in a phase. Make it with `share`, `push` or `per_slot`.

    Args:
      message: One for all, or with a leading axis over the out-slots.
      to: (L,) out-slots that are addressed in this round, -1 for none; None addresses every live slot.
      delivery: "share": the receiver weighs it; "push": the sender; "per_slot": one value for each slot.
    """

    message: Message
    to: Array | None
    delivery: Delivery = field(metadata={"static": True})


def share(private: Tree, public: Tree = (), to: Array | None = None) -> Outbox:
    """Send one value to every neighbour; the receiver weighs it.

    Args:
      private: Pytree of arrays, made of what the mechanism released.
      public: Pytree of arrays that do not depend on data.
      to: (L,) out-slots to address, -1 for none; None: every live one.

    Returns:
      The outbox that `emit` returns beside the state.

    Example:
      >>> import jax.numpy as jnp
      >>> share(jnp.zeros(3)).delivery
      'share'
    """
    return Outbox(Message(private, public), to, "share")


def push(private: Tree, public: Tree = (), to: Array | None = None) -> Outbox:
    """Send one value to every neighbour, split by the sender: receiver i gets W[i, j] times the value.

    Args:
      private: Pytree of floating arrays, made of what the mechanism released.
      public: Pytree of floating arrays that do not depend on data, push-sum mass for instance.
      to: (L,) out-slots to address, -1 for none; None: every live one.

    Returns:
      The outbox that `emit` returns beside the state.
    """
    return Outbox(Message(private, public), to, "push")


def per_slot(private: Tree, public: Tree = (), to: Array | None = None) -> Outbox:
    """Send to each neighbour a value of its own.

    Args:
      private: Pytree of arrays with a leading axis over the out-slots (slot 0: to the agent itself), made of what the
        mechanism released.
      public: Likewise, of what does not depend on data.
      to: (L,) out-slots to address, -1 for none; None: every live one.

    Returns:
      The outbox that `emit` returns beside the state.
    """
    return Outbox(Message(private, public), to, "per_slot")


class Inbox(ABC):
    """Messages that an agent hears in a phase: A entries, each one message that was sent to it.

    With no delay there is one entry per in-slot. With delays up to l rounds there are l + 1 per slot, since several
    messages of one neighbour may arrive together or out of order. What did not arrive reads as zeros, whatever the
    buffers hold. Entry `a` came through in-slot `slot[a]`; entries are in the order of their age, then of their slot.

    Attributes:
      slot: (A,) int32.
      arrived: (A,) bool.
      age: (A,) int32: rounds since it was sent.
      weight: (S,) W[i, j] still to be applied here; None where the sender has applied it (`push`).
      slots: Number of in-slots S.
    """

    slot: Array
    arrived: Array
    age: Array
    weight: Array | None
    slots: int

    @abstractmethod
    def values(self) -> Message:
        """Return every entry, stacked along a leading axis of length A."""

    def sum(self, weight: Array | None = None) -> Message:
        """Return the sum of what arrived, each entry times `weight[its slot]`.

        Args:
          weight: (S,) one per in-slot; None: 1 each.
        """
        scale = jnp.ones(self.arrived.shape) if weight is None else weight[self.slot]
        total: Message = jax.tree.map(
            lambda leaf: jnp.tensordot(jnp.where(self.arrived, scale, 0).astype(leaf.dtype), leaf, axes=1),
            self.values(),
        )
        return total

    def mix(self) -> Message:
        """Return the sum of W[i, j] times what j sent, over what arrived, at whichever end W is applied."""
        return self.sum(self.weight)

    def mean(self) -> Message:
        """Return `mix` with the weights of what arrived scaled to sum to one: a constant is kept when some are away."""
        if self.weight is None:
            raise ContractError(
                "a mean over what arrived needs the weights, but the sender has applied them; use `share`"
            )
        heard = jnp.sum(jnp.where(self.arrived, self.weight[self.slot], 0))
        scale = 1 / jnp.where(heard > 0, heard, 1)
        scaled: Message = jax.tree.map(lambda leaf: leaf * scale.astype(leaf.dtype), self.mix())
        return scaled

    def fold(self, function: Callable[[Tree, Message, Array, Array], Tree], first: Tree) -> Tree:
        """Go through what arrived, the youngest first and of one age by slot.

        It costs what arrived, not what could have. Use it where messages are not simply added up.

        Args:
          function: (so far, message, slot, age) -> the next value of `so far`.
          first: The value to begin with.

        Returns:
          The last value.
        """
        return self._over_arrived(
            lambda so_far, entry: function(so_far, self._entry(entry), self.slot[entry], self.age[entry]), first
        )

    def _over_arrived(self, function: Callable[[Tree, Array], Tree], first: Tree) -> Tree:
        """Go through the numbers of the entries that arrived."""
        upto = jnp.cumsum(self.arrived, dtype=jnp.int32)

        def step(k: Array, so_far: Tree) -> Tree:
            return function(so_far, jnp.searchsorted(upto, k + 1).astype(jnp.int32))

        return jax.lax.fori_loop(0, upto[-1], step, first)

    def _entry(self, entry: Array) -> Message:
        """Return one entry that arrived."""
        found: Message = jax.tree.map(lambda leaf: leaf[entry], self.values())
        return found

    def newest(self) -> tuple[Message, Array]:
        """Return the youngest entry of each in-slot, leaves (S, ...), and whether there was one, (S,)."""
        hit = self.arrived & (self.slot == jnp.arange(self.slots)[:, None])
        age = jnp.where(hit, self.age, 2**31 - 1)
        entry = jnp.argmin(age, axis=1)
        found = hit.any(axis=1)

        def pick(leaf: Array) -> Array:
            mask = found.reshape(found.shape + (1,) * (leaf.ndim - 1))
            return jnp.where(mask, leaf[entry], jnp.zeros((), leaf.dtype))

        return jax.tree.map(pick, self.values()), found
