"""Records of a batch taken some at a time, so that memory does not grow with their number."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from tacit.core.contract import Array, Tree

ROOM = 2**20
"""Numbers that are kept at once for gradients, and for patches of images, of single records."""

WIDE = 2**24
"""Numbers up to which what is formed for each record of a batch stands in memory all at once."""


def records_at_once(formed: Tree) -> int:
    """Return for how many records a value like this may stand in memory."""
    return max(1, WIDE // max(1, sum(math.prod(jnp.shape(leaf)) for leaf in jax.tree.leaves(formed))))


def mapped(function: Callable[[Any], Array], of: Tree, at_once: int) -> Array:
    """Apply a function of one record to all, so many at a time."""
    if at_once >= jax.tree.leaves(of)[0].shape[0]:
        every: Array = jax.vmap(function)(of)
        return every
    blocks: Array = jax.lax.map(function, of, batch_size=at_once)
    return blocks


def in_blocks(function: Callable[[Tree], Tree], batch: Tree, size: int) -> Tree:
    """Add up a function of some records over all of a batch, so many of them at a time."""
    places = max(leaf.shape[0] for leaf in jax.tree.leaves(batch) if jnp.ndim(leaf))
    if size >= places:
        return function(batch)

    def part(first: Any, count: int) -> Tree:
        return jax.tree.map(
            lambda leaf: jax.lax.dynamic_slice_in_dim(leaf, first, count) if jnp.ndim(leaf) else leaf, batch
        )

    whole, left = divmod(places, size)
    start = function(part(whole * size, left)) if left else None
    if start is None:
        start = jax.tree.map(lambda s: jnp.zeros(s.shape, s.dtype), jax.eval_shape(function, part(0, size)))

    def add(k: Array, so_far: Tree) -> Tree:
        return jax.tree.map(jnp.add, so_far, function(part(k * size, size)))

    return jax.lax.fori_loop(0, whole, add, start)


def spread(weight: Array, axes: int) -> Array:
    """Return a number for each record as an array of so many axes, the records' first."""
    return weight.reshape(weight.shape + (1,) * (axes - 1))
