"""The simulator's inbox: it reads neighbours' rows straight from the array of all messages.

Nothing is copied per link unless an algorithm asks for raw entries. `mix` and `sum` unroll over the in-slots: one
gather per slot from an array that stands in memory, which is what XLA compiles best.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
from jax.extend.core import get_opaque_trace_state

from tacit.core.contract import Array, Inbox, Message, Tree
from tacit.runtime import MessageSpec
from tacit.runtime.convolutions import picked

UNROLL = 64
"""In-slots up to which a sum is unrolled; beyond it, a loop over slots keeps the program small."""

BLOCK_BYTES = 2**28
"""Raw entries that are gathered at once, if a method asks for them: those of more agents are taken in by blocks."""

LARGE = 2**16
"""Numbers from which on a leaf of a message stands by itself. To write it beside others would copy it, and to take it
from there once more; a small one is read with its neighbours at no cost of its own."""

Packed = Mapping[str, Array]
"""Group -> every leaf of that group, side by side: those of one element type, and each large leaf by itself."""


def dtype_of(group: str) -> jnp.dtype:
    """Return the element type of a group of packed leaves."""
    return jnp.dtype(group.partition(" ")[0])


def padding_width(width: int) -> int:
    """Columns to add so that a GPU reads rows four numbers at a time: 1.5 times as fast there, but not on a CPU."""
    return -width % 4 if width >= 8 and jax.default_backend() != "cpu" else 0


class Packing:
    """A phase's message as one vector per element type, large leaves by themselves, and back."""

    def __init__(self, spec: MessageSpec, whole: bool = False) -> None:
        """Lay a message out; `whole`: with large leaves beside the others, for what looks at all numbers together."""
        self.spec, whole = spec, whole or spec.release.mechanism.spread == "masked"
        self._leaves, self._structure = jax.tree_util.tree_flatten(spec.message)
        used: dict[str, int] = {}
        sizes = [math.prod(leaf.shape) for leaf in self._leaves]
        self._group = [
            f"{leaf.dtype.name} {k}" if size >= LARGE and not whole else leaf.dtype.name
            for k, (leaf, size) in enumerate(zip(self._leaves, sizes, strict=True))
        ]
        for name, size in zip(self._group, sizes, strict=True):
            used[name] = used.get(name, 0) + size
        self._padding = {name: padding_width(width) for name, width in used.items()}
        self.widths = {name: width + self._padding[name] for name, width in used.items()}
        self.bytes = sum(width * dtype_of(name).itemsize for name, width in self.widths.items())
        """Of one message."""

    def empty(self, rows: int) -> Packed:
        """Return so many messages of zeros."""
        return {name: jnp.zeros((rows, width), dtype_of(name)) for name, width in self.widths.items()}

    def pack(self, message: Message) -> Packed:
        """One agent's message; with a leading axis over slots where these differ."""
        keep = 1 if self.spec.delivery == "per_slot" else 0
        groups: dict[str, list[Array]] = {}
        for name, leaf in zip(self._group, jax.tree.leaves(message), strict=True):
            groups.setdefault(name, []).append(leaf.reshape(*leaf.shape[:keep], -1))
        for name, parts in groups.items():
            parts.append(jnp.zeros((*parts[0].shape[:-1], self._padding[name]), dtype_of(name)))
        return {name: jnp.concatenate(parts, axis=-1) for name, parts in groups.items()}

    def padding(self, packed: Packed) -> Packed:
        """Return the padding columns of packed vectors."""
        return {name: value[..., value.shape[-1] - self._padding[name] :] for name, value in packed.items()}

    def unpack(self, packed: Packed) -> Message:
        """Turn vectors, with any leading axes, back into a message."""
        taken = dict.fromkeys(packed, 0)
        parts = []
        for name, leaf in zip(self._group, self._leaves, strict=True):
            size = math.prod(leaf.shape)
            vector = packed[name][..., taken[name] : taken[name] + size]
            taken[name] += size
            parts.append(vector.reshape(*vector.shape[:-1], *leaf.shape))
        message: Message = jax.tree_util.tree_unflatten(self._structure, parts)
        return message


class GatheredInbox(Inbox):
    """One agent's inbox, inside the vectorised round."""

    def __init__(
        self,
        packing: Packing,
        rows: Packed,
        index: Array,
        arrived: Array,
        weight: Array,
        pushed: Array,
        ages: tuple[int, ...],
        *,
        complete: bool,
        everyone: Packed | None,
    ) -> None:
        """Bind the arrays of all messages (`rows`) and this agent's entries (`index`, `arrived`).

        `pushed` are the sender's weights per entry, `ages` those that entries can have. `complete` says that whatever
        did not arrive is padding, whose weight is 0 and whose row is the agent's own. `everyone` is W-weighted sum
        where all hear all alike.
        """
        self._packing, self._rows, self._index = packing, rows, index
        self.slots = weight.shape[0]
        entries = index.shape[0]
        self.arrived = arrived
        self.slot = jnp.arange(entries, dtype=jnp.int32) % self.slots
        self.age = jnp.repeat(jnp.asarray(ages, jnp.int32), self.slots)
        self._push = packing.spec.delivery == "push"
        self.weight = None if self._push else weight
        self._mixing = pushed if self._push else weight
        self._complete, self._everyone = complete, everyone
        self.gathered = False
        """Whether raw entries were asked for."""
        self.padding: Packed = {}
        """Padding columns of the mix, once it was asked for: see `PackedState`."""
        self._made_in = get_opaque_trace_state(convention="nnx")

    def values(self) -> Message:
        """Gather every entry: one copy per link, only on demand."""
        self.gathered = True

        def gather(rows: Array) -> Array:
            taken = rows.at[self._index].get(mode="promise_in_bounds")
            if self._push:
                taken = taken * self._mixing[:, None].astype(taken.dtype)
            return jnp.where(self.arrived[:, None], taken, jnp.zeros((), taken.dtype))

        return self._packing.unpack({name: gather(rows) for name, rows in self._rows.items()})

    def _entry(self, entry: Array) -> Message:
        """Read one row, and no other."""
        scale = self._mixing[entry] if self._push else None

        def read(rows: Array) -> Array:
            row = rows.at[self._index[entry][None]].get(mode="promise_in_bounds")[0]
            return row if scale is None else row * scale.astype(row.dtype)

        return self._packing.unpack({name: read(rows) for name, rows in self._rows.items()})

    def sum(self, weight: Array | None = None) -> Message:
        """Add up what arrived without copying it."""
        entries = self._index.shape[0]
        scale = None if weight is None else jnp.tile(weight, entries // self.slots)
        if self._push:
            scale = self._mixing if scale is None else scale * self._mixing
        elif scale is None:
            scale = jnp.ones(entries)
        return self._combine(jnp.where(self.arrived, scale, 0), masked=self._complete)

    def mix(self) -> Message:
        """Sum of W[i, j] times what j sent: the fast path."""
        if self._everyone is not None:
            return self._packing.unpack(self._everyone)
        if not self._complete:
            return self.sum(self.weight)
        return self._combine(self._mixing, masked=True)

    def _combine(self, scale: Array, *, masked: bool) -> Message:
        """Sum of scale times row; `masked`: rows under a zero scale are the agent's own and harmless."""
        entries = self._index.shape[0]

        def term(rows: Array, k: Array | int) -> Array:
            row = rows.at[self._index[k][None]].get(mode="promise_in_bounds")[0]
            if not masked:
                row = jnp.where(self.arrived[k], row, jnp.zeros((), row.dtype))
            return scale[k].astype(row.dtype) * row

        def total(rows: Array) -> Array:
            if entries <= UNROLL:
                result = term(rows, 0)
                for k in range(1, entries):
                    result = result + term(rows, k)
                return result
            if masked:
                summed: Array = jax.lax.fori_loop(1, entries, lambda k, acc: acc + term(rows, k), term(rows, 0))
                return summed
            # Of many that could have arrived only those that did: with delays these are few.
            nothing = jnp.zeros(rows.shape[1:], rows.dtype)
            found: Array = self._over_arrived(lambda so_far, entry: so_far + term(rows, entry), nothing)
            return found

        combined = {name: total(rows) for name, rows in self._rows.items()}
        # Under a transformation of the algorithm's own (cond, vmap, grad) they would not outlive it.
        if get_opaque_trace_state(convention="nnx") == self._made_in:
            self.padding = self._packing.padding(combined)
        return self._packing.unpack(combined)


def over_agents(
    one: Callable[..., tuple[Tree, GatheredInbox]], axes: tuple[Any, ...], arguments: tuple[Tree, ...], raw: int
) -> tuple[Tree, Packed]:
    """Let all agents of a bucket take in what they heard: at once, or by blocks where raw entries would be too many.

    `one` returns an agent's state and the inbox that it read; `raw` are the bytes of all raw entries of the bucket,
    which stand in memory some three times while they are worked on.
    """

    def outcome(*own: Tree) -> tuple[Tree, Packed]:
        state, inbox = one(*own)
        asked.append(inbox.gathered)
        return state, inbox.padding

    asked: list[bool] = []
    mapped = jax.vmap(outcome, in_axes=axes)
    if 3 * raw > BLOCK_BYTES:
        jax.eval_shape(mapped, *arguments)
    if not any(asked):
        return mapped(*arguments)

    def of(number: Array) -> tuple[Tree, Packed]:
        return outcome(*picked(number, axes, arguments))

    agents = jax.tree.leaves(arguments[0])[0].shape[0]
    found: tuple[Tree, Packed] = jax.lax.map(
        of, jnp.arange(agents), batch_size=max(1, agents * BLOCK_BYTES // (3 * raw))
    )
    return found


class CalledInbox(Inbox):
    """What passes between a caller and its cohort: one entry per place in the call, not one per link."""

    def __init__(
        self, packing: Packing, rows: Packed, place: Array, arrived: Array, slot: Array, weight: Array, slots: int
    ) -> None:
        """Bind the arrays of all messages and, per entry, its row there, whether it is one, and its in-slot."""
        self._packing, self._rows, self._place = packing, rows, place
        self.arrived, self.slot, self.weight, self.slots = arrived, slot, weight, slots
        self.age = jnp.zeros(slot.shape, jnp.int32)

    def values(self) -> Message:
        """Gather every entry."""

        def gather(rows: Array) -> Array:
            taken = rows.at[self._place].get(mode="promise_in_bounds")
            return jnp.where(self.arrived[:, None], taken, jnp.zeros((), taken.dtype))

        return self._packing.unpack({name: gather(rows) for name, rows in self._rows.items()})
