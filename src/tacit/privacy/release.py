"""The one place where a mechanism's declaration is drawn from, in simulation; and the grid on which sums are exact."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tacit.core.contract import Array, Extent, Mechanism, Noise, Tree, View
from tacit.core.errors import ContractError
from tacit.privacy.noise.unit_noise import NoiseWords, unit_gaussian, unit_laplace

_UNIT_DRAWS = {"laplace": unit_laplace, "gaussian": unit_gaussian, "bounded_laplace": unit_laplace}
_GRIDS = {"float32": ("int32", 2.0**-20), "float64": ("int64", 2.0**-40)}
"""Precision -> the integers that stand for it, and the step that they count unless a mechanism says otherwise."""

GRID_TYPES = tuple(whole for whole, _ in _GRIDS.values())
DEFAULT_STEPS = tuple(step for _, step in _GRIDS.values())


def release(
    mechanism: Mechanism, words: NoiseWords, value: Tree, view: View, records: int = 1
) -> tuple[Tree, Noise | None]:
    """Apply a mechanism to one agent's value, a mean over `records`: value + scale * unit noise, as declared.

    `words` seed the noise of this agent, round and phase. Also returns the declaration that was drawn from, which is
    what the accounts are kept of.
    """
    if mechanism.spread == "masked":
        # Masks belong to pairs of senders: the runtime adds them to the message as it leaves.
        return jax.tree.map(lambda leaf: _weighed(leaf, view.out.weight, mechanism.grid), value), None
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
    slots = view.out.live.shape if mechanism.spread == "per_edge" else ()
    share = _draw_per_slot(mechanism, view)

    def perturbed(index: int, leaf: Array) -> Array:
        unit = _UNIT_DRAWS[noise.distribution](words, index, slots + leaf.shape, leaf.dtype)
        drawn = noise.scale.astype(leaf.dtype) * unit
        if noise.bound is not None:
            bound = noise.bound.astype(leaf.dtype)
            drawn = jnp.where(jnp.abs(drawn) <= bound, drawn, bound / 2)
        if slots:  # a link that is down is not charged: its copy is the agent's own
            drawn = jnp.where(view.out.live.reshape(slots + (1,) * leaf.ndim), drawn, drawn[0])
        if share is not None:
            drawn = share.reshape(share.shape + (1,) * leaf.ndim).astype(leaf.dtype) * drawn
        return leaf + drawn

    noisy = jax.tree_util.tree_unflatten(structure, [perturbed(k, leaf) for k, leaf in enumerate(leaves)])
    return (noisy if mechanism.finish is None else mechanism.finish(noisy, noise)), noise


def _draw_per_slot(mechanism: Mechanism, view: View) -> Array | None:
    """Return the factor with which each out-slot carries a draw that is common to them; None where there is none."""
    if mechanism.own_share is None:
        return None
    return jnp.ones(view.out.live.shape, jnp.result_type(float)).at[0].set(mechanism.own_share(view))


def grid_step(mechanism: Mechanism, integers: Any) -> float:
    """Return the step of the grid whose multiples are counted by integers of this type."""
    own = dict(_GRIDS.values())[jnp.dtype(integers).name]
    return own if mechanism.grid is None else mechanism.grid


def _weighed(leaf: Array, weight: Array, step: float | None) -> Array:
    """Each out-slot's share W[receiver, sender] x as a whole number of steps, saturated at half of what the type holds.

    Half, because the sum over a receiver's senders must not wrap. Masks may make single messages wrap: they cancel
    modulo the type's range all the same.
    """
    whole, own = _GRIDS[leaf.dtype.name]
    largest = float(np.iinfo(whole).max // 2)
    shares = weight.reshape(weight.shape + (1,) * leaf.ndim).astype(leaf.dtype) * (leaf / (step or own))
    return jnp.clip(jnp.round(shares), -largest, largest).astype(whole)


def from_grid(mechanism: Mechanism, total: Tree) -> Tree:
    """Return the numbers that sums of shares on the grid stand for, in the precision that they came from."""
    precision = {whole: name for name, (whole, _) in _GRIDS.items()}

    def number(leaf: Array) -> Array:
        return leaf.astype(precision[leaf.dtype.name]) * grid_step(mechanism, leaf.dtype)

    return jax.tree.map(number, total)


def mask_draws(words: NoiseWords, scale: Array, shape: tuple[int, int], integers: Any) -> Array:
    """Draw one mask per pair of senders and number: Laplace draws, in steps of the grid (simulation only)."""
    precision = {whole: name for name, (whole, _) in _GRIDS.items()}[jnp.dtype(integers).name]
    unit = unit_laplace(words, 0, shape, jnp.dtype(precision))
    return jnp.round(scale.astype(precision) * unit).astype(integers)
