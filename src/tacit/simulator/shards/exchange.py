"""What shards tell each other inside a compiled round: rows, sums and largest values."""

from __future__ import annotations

from collections.abc import Sequence

import jax
import jax.numpy as jnp

from tacit.core.contract import Array
from tacit.simulator.layout import Halo

AXIS = "shards"
"""Name of the axis of devices."""


def with_halo(halo: Halo | None, sends: Sequence[Array], shards: int, rows: Array, own: int) -> Array:
    """Return a shard's own rows and those that it reads of others, as in `Halo`; `sends` is its part of `Halo.sends`.

    Where there is room behind its own, they are written there, in place: twice as fast as a concatenation.
    """
    if halo is None:
        return rows
    if halo.whole:
        everyones: Array = jax.lax.all_gather(rows, AXIS, tiled=True)
        return everyones
    if rows.shape[0] == own:
        rows = jnp.concatenate([rows, jnp.zeros((halo.rows, *rows.shape[1:]), rows.dtype)])
    got = []
    for offset, table in zip(halo.offsets, sends, strict=True):
        moves = [(shard, (shard + offset) % shards) for shard in range(shards)]
        got.append(jax.lax.ppermute(rows.at[table[0]].get(mode="promise_in_bounds"), AXIS, moves))
    first = own
    for block in got:
        rows = jax.lax.dynamic_update_slice_in_dim(rows, block, first, 0)
        first += block.shape[0]
    return rows


def total(values: Array, shards: int) -> Array:
    """Return sums over the shards."""
    found: Array = values if shards == 1 else jax.lax.psum(values, AXIS)
    return found


def largest(value: Array, shards: int) -> Array:
    """Return the largest value of all shards."""
    found: Array = value if shards == 1 else jax.lax.pmax(value, AXIS)
    return found
