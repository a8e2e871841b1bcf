"""What shards tell each other inside a compiled round: rows, sums and largest values."""

from __future__ import annotations

from collections.abc import Sequence

import jax
import jax.numpy as jnp

from tacit.core.contract import Array
from tacit.simulator.layout import Halo

AXIS = "shards"
"""Name of the axis of devices."""


def with_halo(halo: Halo | None, sends: Sequence[Array], shards: int, rows: Array) -> Array:
    """Return a shard's rows followed by those that it reads of others; `sends` is its part of `Halo.sends`."""
    if halo is None:
        return rows
    parts = [rows]
    for offset, table in zip(halo.offsets, sends, strict=True):
        moves = [(shard, (shard + offset) % shards) for shard in range(shards)]
        parts.append(jax.lax.ppermute(rows[table[0]], AXIS, moves))
    return jnp.concatenate(parts)


def total(values: Array, shards: int) -> Array:
    """Return sums over the shards."""
    found: Array = values if shards == 1 else jax.lax.psum(values, AXIS)
    return found


def largest(value: Array, shards: int) -> Array:
    """Return the largest value of all shards."""
    found: Array = value if shards == 1 else jax.lax.pmax(value, AXIS)
    return found
