"""Running totals of what push-sum sends, one per slot, which grow without end while their increments do not.

So a total is kept as a sum of two numbers (48 binary digits in single precision); with one, the increments drown within
some hundred rounds.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from tacit.core.contract import Array, Tree


class Total(NamedTuple):
    """Running totals as sums high + low, with a leading axis over slots."""

    high: Any
    low: Any


def no_totals(slots: int, like: Tree) -> Total:
    """Return the totals of slots to which nothing was sent yet."""
    zeros = jax.tree.map(lambda leaf: jnp.zeros((slots, *leaf.shape), leaf.dtype), like)
    return Total(zeros, zeros)


def increased(total: Total, part: Tree) -> Total:
    """Add to a total without losing the low digits."""
    pairs = jax.tree.map(two_sum, total.high, total.low, part)
    outer, inner = jax.tree.structure(part), jax.tree.structure((0, 0))
    return Total(*jax.tree.transpose(outer, inner, pairs))


def two_sum(high: Array, low: Array, x: Array) -> tuple[Array, Array]:
    """Return high + low + x as a sum of two numbers."""
    rough = high + x
    lost = (high - (rough - (rough - high))) + (x - (rough - high))
    rest = low + lost
    return rough + rest, rest - ((rough + rest) - rough)


def growth(new: Total, old: Total) -> Any:
    """Return what a total has grown by."""
    return jax.tree.map(lambda nh, oh, nl, ol: (nh - oh) + (nl - ol), new.high, old.high, new.low, old.low)


def along(slots: Array, leaf: Array) -> Array:
    """Give a vector over slots the axes that it takes to meet a leaf with a slot axis."""
    return slots.reshape(slots.shape + (1,) * (leaf.ndim - 1))
