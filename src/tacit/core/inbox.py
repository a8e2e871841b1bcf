"""Inbox of one agent as arrays: the messages that arrived, laid out entry by entry."""

from __future__ import annotations

from typing import cast

import jax
import jax.numpy as jnp
import numpy as np

from tacit.core.contract import Array, Inbox, Message


@jax.tree_util.register_pytree_node_class
class StackedInbox(Inbox):
    """Entries stacked along a leading axis: all in-slots at age 0, then all at age 1, and so on."""

    def __init__(self, entries: Message, arrived: Array, weight: Array | None, slots: int) -> None:
        self._entries, self.arrived, self.weight, self.slots = entries, arrived, weight, slots
        index = np.arange(arrived.shape[0], dtype=np.int32)  # by NumPy: no operation is dispatched
        self.slot, self.age = cast("Array", index % slots), cast("Array", index // slots)
        if isinstance(arrived, jax.Array):  # else all is on its way to a compiled function, which puts it on the device
            self.slot, self.age = jnp.asarray(self.slot), jnp.asarray(self.age)

    def values(self) -> Message:
        """Every entry; zeros where nothing arrived."""
        return self._entries

    def tree_flatten(self) -> tuple[tuple[Message, Array, Array | None], int]:
        """Split into arrays and the number of slots, for `jax.jit`."""
        return (self._entries, self.arrived, self.weight), self.slots

    @classmethod
    def tree_unflatten(cls, slots: int, children: tuple[Message, Array, Array | None]) -> StackedInbox:
        """Put the pieces together again."""
        inbox = object.__new__(cls)
        inbox._entries, inbox.arrived, inbox.weight = children
        inbox.slots = slots
        if hasattr(inbox.arrived, "shape"):
            index = jnp.arange(inbox.arrived.shape[0], dtype=jnp.int32)
            inbox.slot, inbox.age = index % slots, index // slots
        return inbox
