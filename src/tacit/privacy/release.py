"""The one place where a mechanism's declaration is drawn from, in simulation."""

from __future__ import annotations

import jax

from tacit.contract import Array, Key, Mechanism, Tree, View

_UNIT_DRAWS = {"laplace": jax.random.laplace, "gaussian": jax.random.normal}


def release(mechanism: Mechanism, key: Key, value: Tree, view: View) -> Tree:
    """Apply a mechanism to one agent's value: value + scale * unit noise, as declared for this round and view."""
    if mechanism.noise is None:
        return value
    noise = mechanism.noise(view)
    slots = view.out.live.shape if mechanism.per_slot else ()
    leaves, structure = jax.tree_util.tree_flatten(value)

    def perturbed(leaf: Array, leaf_key: Key) -> Array:
        unit = _UNIT_DRAWS[noise.distribution](leaf_key, slots + leaf.shape, leaf.dtype)
        return leaf + noise.scale.astype(leaf.dtype) * unit

    keys = jax.random.split(key, len(leaves))
    noisy = [perturbed(leaf, k) for leaf, k in zip(leaves, keys, strict=True)]
    return jax.tree_util.tree_unflatten(structure, noisy)
