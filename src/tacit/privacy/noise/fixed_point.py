"""The fixed-point grid of masked messages, on which sums are exact."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tacit.core.contract import Array, Mechanism, Tree

_GRIDS = {"float32": ("int32", 2.0**-20), "float64": ("int64", 2.0**-40)}
"""Precision -> the integers that stand for it, and the step that they count unless a mechanism says otherwise."""

GRID_TYPES = tuple(whole for whole, _ in _GRIDS.values())
DEFAULT_STEPS = tuple(step for _, step in _GRIDS.values())
PRECISIONS = {whole: name for name, (whole, _) in _GRIDS.items()}


def hides(mechanism: Mechanism) -> bool:
    """Whether messages of a mechanism must not leave without masks.

    Args:
      mechanism: Any mechanism; True for `tacit.privacy.local_graph_homomorphic` alone.

    Example:
      >>> from tacit.privacy import local_graph_homomorphic, on_grid
      >>> hides(local_graph_homomorphic(1.0)), hides(on_grid())
      (True, False)
    """
    return mechanism.spread == "masked" and mechanism.mask_scale > 0


def fixed_point_step(mechanism: Mechanism, integers: Any) -> float:
    """Return the step of the grid whose multiples are counted by integers of this type."""
    own = dict(_GRIDS.values())[jnp.dtype(integers).name]
    return own if mechanism.grid is None else mechanism.grid


def weighed_shares(leaf: Array, weight: Array, step: float | None) -> Array:
    """Share W[receiver, sender] x of each out-slot, a whole number of steps, saturated at half of the type's range.

    Half, because the sum over a receiver's senders must not wrap. Masks may make single messages wrap: they cancel
    modulo the type's range all the same.
    """
    whole, own = _GRIDS[leaf.dtype.name]
    largest = float(np.iinfo(whole).max // 2)
    shares = weight.reshape(weight.shape + (1,) * leaf.ndim).astype(leaf.dtype) * (leaf / (step or own))
    return jnp.clip(jnp.round(shares), -largest, largest).astype(whole)


def from_grid(mechanism: Mechanism, total: Tree) -> Tree:
    """Convert sums of shares on the grid back to numbers, in the precision that they came from.

    Args:
      mechanism: A masked one, or `on_grid`; its `grid` is the step.
      total: Tree of int32 or int64 arrays.

    Returns:
      The tree in float32 or float64.

    Example:
      >>> import jax.numpy as jnp
      >>> from tacit.privacy import from_grid, on_grid
      >>> from_grid(on_grid(grid=0.25), jnp.asarray([2, -1], "int32"))
      Array([ 0.5 , -0.25], dtype=float32)
    """

    def number(leaf: Array) -> Array:
        return leaf.astype(PRECISIONS[leaf.dtype.name]) * fixed_point_step(mechanism, leaf.dtype)

    return jax.tree.map(number, total)
