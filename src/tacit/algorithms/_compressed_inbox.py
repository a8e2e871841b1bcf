"""Inboxes of compressed messages: what is mixed of them, and what is not made of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, NoReturn

import jax
import jax.numpy as jnp

from tacit.core.contract import Array, Inbox, Message, Tree
from tacit.core.errors import ConfigError


class Said(NamedTuple):
    """What an agent carries for a phase in which agents of its role hear each other."""

    own: Tree
    """Between emit and absorb: x - q; with memories x itself."""
    memory: Tree
    """h, what its neighbours know of it; empty without memories."""
    heard: Tree
    """sum_j W[i, j] h_j; empty without memories."""


class CompressedInbox(Inbox):
    """An inbox of rounded messages, whose mix and mean put back what was taken off the own one."""

    def __init__(self, inbox: Inbox, own: Tree, what: str) -> None:
        self._inbox, self._own, self._what = inbox, own, what
        self.slot, self.age, self.weight, self.slots = inbox.slot, inbox.age, inbox.weight, inbox.slots
        self.arrived = inbox.arrived

    def mix(self) -> Message:
        """Return the sum of W[i, j] times what j sent, with what was taken off the own message."""
        scale = jnp.ones(()) if self.weight is None else arrived_weight(self)
        return self._restored(self._inbox.mix(), scale)

    def mean(self) -> Message:
        """Return `mix` with weights of sum one."""
        return self._restored(self._inbox.mean(), jnp.ones(()))

    def values(self) -> Message:
        """Return every entry; the own one as it was before it was rounded."""
        message = self._inbox.values()
        mine = (self.slot == 0) & (self.age == 0) & self.arrived
        return message._replace(private=_with_own(message.private, self._own, mine))

    def newest(self) -> tuple[Message, Array]:
        """Return the youngest entry of each in-slot; the own one as it was before it was rounded."""
        message, found = self._inbox.newest()
        mine = (jnp.arange(self.slots) == 0) & found
        return message._replace(private=_with_own(message.private, self._own, mine)), found

    def sum(self, weight: Array | None = None) -> Message:
        """Refuse: in a sum by other weights nothing says what the own message's rest is worth."""
        self._refuse("sum")

    def fold(self, function: Callable[[Tree, Message, Array, Array], Tree], first: Tree) -> Tree:
        """Refuse, as for a sum."""
        self._refuse("fold")

    def _restored(self, mixed: Message, scale: Array) -> Message:
        private = jax.tree.map(lambda m, e: m + scale.astype(m.dtype) * e, mixed.private, self._own)
        return mixed._replace(private=private)

    def _refuse(self, how: str) -> NoReturn:
        raise ConfigError(
            f"{self._what} takes messages in one by one (`inbox.{how}`): what it makes of a neighbour's rounded model "
            "and of its own would no longer cancel; use a method that mixes models, e.g. adapt_then_combine"
        )


class RememberedInbox(Inbox):
    """An inbox of differences, which mixes the models that are known by them."""

    def __init__(self, inbox: Inbox, said: Said, gamma: float, what: str) -> None:
        self._said, self._gamma, self._what = said, gamma, what
        self.slot, self.age, self.weight, self.slots = inbox.slot, inbox.age, inbox.weight, inbox.slots
        self.arrived = inbox.arrived
        mixed = inbox.mix()
        self.heard = jax.tree.map(jnp.add, said.heard, mixed.private)
        """The neighbours' memories with this round's differences, weighed."""
        self._public = mixed.public

    def mix(self) -> Message:
        """Return the own model moved towards those that the neighbours are known by."""
        scale = arrived_weight(self)

        def moved(own: Array, heard: Array, memory: Array) -> Array:
            all_of_it = scale.astype(own.dtype)
            return all_of_it * own + self._gamma * (heard - all_of_it * memory)

        return Message(jax.tree.map(moved, self._said.own, self.heard, self._said.memory), self._public)

    def mean(self) -> Message:
        """Return `mix` over the weights' sum: every message is here, since links are fixed and reliable."""
        scale = arrived_weight(self)
        mean: Message = jax.tree.map(lambda leaf: leaf / scale.astype(leaf.dtype), self.mix())
        return mean

    def values(self) -> Message:
        """Refuse: only the neighbours' weighed sum is known."""
        self._refuse("values")

    def newest(self) -> tuple[Message, Array]:
        """Refuse: only the neighbours' weighed sum is known."""
        self._refuse("newest")

    def sum(self, weight: Array | None = None) -> Message:
        """Refuse: only the sum by the links' own weights is known."""
        self._refuse("sum")

    def fold(self, function: Callable[[Tree, Message, Array, Array], Tree], first: Tree) -> Tree:
        """Refuse: only the neighbours' weighed sum is known."""
        self._refuse("fold")

    def _refuse(self, how: str) -> NoReturn:
        raise ConfigError(
            f"{self._what} takes messages in one by one (`inbox.{how}`), but of compressed differences only their "
            "weighed sum is kept; use a method that mixes models without a robust rule, e.g. adapt_then_combine, or "
            'kind = "int8" without memories'
        )


def arrived_weight(inbox: Inbox) -> Array:
    """Return the sum of the weights of what arrived."""
    assert inbox.weight is not None  # a receiver that weighs
    return jnp.sum(jnp.where(inbox.arrived, inbox.weight[inbox.slot], 0))


def _with_own(entries: Tree, rest: Tree, mine: Array) -> Tree:
    def added(leaf: Array, e: Array) -> Array:
        return leaf + jnp.where(mine.reshape(-1, *[1] * e.ndim), e, jnp.zeros((), e.dtype))

    return jax.tree.map(added, entries, rest)
