"""How much a message weighs."""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp

from tacit.core.contract import Tree


def message_bits(message_spec: Tree) -> int:
    """Return the payload in bits of a message with leaves of these shapes and types; a boolean takes one."""
    return sum(math.prod(leaf.shape) * _bits(jnp.dtype(leaf.dtype)) for leaf in jax.tree.leaves(message_spec))


def _bits(dtype: jnp.dtype) -> int:
    if jnp.issubdtype(dtype, jnp.bool_):
        return 1
    if jnp.issubdtype(dtype, jnp.integer):  # by iinfo, for some types are narrower than a byte
        return int(jnp.iinfo(dtype).bits)  # type: ignore[no-untyped-call]
    if jnp.issubdtype(dtype, jnp.floating):
        return int(jnp.finfo(dtype).bits)  # type: ignore[no-untyped-call]
    return 8 * int(dtype.itemsize)
