"""Figures of one round: the agents' distance from consensus, and the size of a message."""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp

from tacit.core.contract import Array, Params, Tree


def consensus_distance(params: Params) -> Array:
    """Mean over the agents of ||x_i - mean of all x||^2.

    Args:
      params: Parameters of all agents, a pytree whose leaves are (agents, ...).

    Example:
      >>> import jax.numpy as jnp, tacit
      >>> float(tacit.metrics.consensus_distance(jnp.array([[0.0], [2.0]])))
      1.0
    """

    def spread(leaf: Array) -> Array:
        return jnp.sum(jnp.square(leaf - jnp.mean(leaf, axis=0))) / leaf.shape[0]

    return sum((spread(leaf) for leaf in jax.tree.leaves(params)), start=jnp.zeros(()))


def message_bits(message_spec: Tree) -> int:
    """Payload of a message in bits; a boolean takes one.

    Args:
      message_spec: Pytree of arrays, or of their shapes and types.

    Example:
      >>> import jax.numpy as jnp, tacit
      >>> tacit.metrics.message_bits({"model": jnp.zeros(5), "mass": jnp.zeros(())})
      192
    """
    return sum(math.prod(leaf.shape) * _bits(jnp.dtype(leaf.dtype)) for leaf in jax.tree.leaves(message_spec))


def _bits(dtype: jnp.dtype) -> int:
    if jnp.issubdtype(dtype, jnp.bool_):
        return 1
    if jnp.issubdtype(dtype, jnp.integer):  # by iinfo, for some types are narrower than a byte
        return int(jnp.iinfo(dtype).bits)  # type: ignore[no-untyped-call]
    if jnp.issubdtype(dtype, jnp.floating):
        return int(jnp.finfo(dtype).bits)  # type: ignore[no-untyped-call]
    return 8 * int(dtype.itemsize)
