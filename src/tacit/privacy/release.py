"""The one place where a mechanism's declaration is drawn from, in simulation."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from tacit.contract import Array, Extent, Mechanism, Noise, Tree, View
from tacit.errors import ContractError
from tacit.privacy.unit_noise import NoiseWords, unit_gaussian, unit_laplace

_UNIT_DRAWS = {"laplace": unit_laplace, "gaussian": unit_gaussian, "bounded_laplace": unit_laplace}


def release(
    mechanism: Mechanism, words: NoiseWords, value: Tree, view: View, records: int = 1
) -> tuple[Tree, Noise | None]:
    """Apply a mechanism to one agent's value, a mean over `records`: value + scale * unit noise, as declared.

    `words` seed the noise of this agent, round and phase. Also returns the declaration that was drawn from, which is
    what the accounts are kept of.
    """
    leaves, structure = jax.tree_util.tree_flatten(value)
    noise = mechanism.noise(view, Extent(sum(leaf.size for leaf in leaves), records)) if leaves else None
    if noise is None:
        return value, None
    for leaf in leaves:
        if not jnp.issubdtype(leaf.dtype, jnp.floating):
            raise ContractError(
                f"mechanism {mechanism.name!r} got a leaf of type {leaf.dtype}, to which no noise can be added: "
                "release floating numbers, or send what does not depend on data as public"
            )
    slots = view.out.live.shape if mechanism.per_slot else ()

    def perturbed(index: int, leaf: Array) -> Array:
        unit = _UNIT_DRAWS[noise.distribution](words, index, slots + leaf.shape, leaf.dtype)
        drawn = noise.scale.astype(leaf.dtype) * unit
        if noise.bound is not None:
            bound = noise.bound.astype(leaf.dtype)
            drawn = jnp.where(jnp.abs(drawn) <= bound, drawn, bound / 2)
        return leaf + drawn

    noisy = jax.tree_util.tree_unflatten(structure, [perturbed(k, leaf) for k, leaf in enumerate(leaves)])
    return (noisy if mechanism.finish is None else mechanism.finish(noisy, noise)), noise
