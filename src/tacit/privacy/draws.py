"""Draws in simulation: from a mechanism's declaration, by one function for all mechanisms, and of pairs' masks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from tacit.core.contract import Array, Correlation, Extent, Mechanism, Memory, Noise, Tree, View
from tacit.core.errors import ContractError
from tacit.privacy.noise import NoiseWords, unit_gaussian, unit_laplace
from tacit.privacy.noise.fixed_point import PRECISIONS, weighed_shares

_UNIT_DRAWS = {"laplace": unit_laplace, "gaussian": unit_gaussian, "bounded_laplace": unit_laplace}


class Released(NamedTuple):
    """What a mechanism made of a value."""

    value: Tree
    noise: Noise | None
    """The declaration that was drawn from, which accounts are kept of; None where nothing was added."""
    memory: Memory | None = None
    """Of correlated noise, for the agent's next release."""


def release(
    mechanism: Mechanism, words: NoiseWords, value: Tree, view: View, records: int = 1, memory: Memory | None = None
) -> Released:
    """Apply a mechanism to one agent's value in a simulation: value + scale * unit noise, as declared.

    Args:
      mechanism: Clip, sensitivity and noise.
      words: Seed of the noise of this agent, round and phase (`tacit.privacy.noise.noise_words`).
      value: The private value, a tree of floating arrays.
      view: The agent's view of the round.
      records: Number of records that the value is a mean over, from 1 on.
      memory: Of noise that is correlated over the agent's releases (`Mechanism.correlation`).

    Returns:
      The released value, the declaration of its noise, and the next memory.

    Example:
      >>> import jax.numpy as jnp
      >>> from tacit.privacy import release, unprotected
      >>> release(unprotected, words=None, value=jnp.ones(2), view=None).value
      Array([1., 1.], dtype=float32)
    """
    if mechanism.spread == "masked":
        # Masks belong to pairs of senders: the runtime adds them to the message as it leaves.
        return Released(jax.tree.map(lambda leaf: weighed_shares(leaf, view.out.weight, mechanism.grid), value), None)
    leaves, structure = jax.tree_util.tree_flatten(value)
    noise = mechanism.noise(view, Extent(sum(leaf.size for leaf in leaves), records)) if leaves else None
    if noise is None:
        return Released(value, None, memory)
    for leaf in leaves:
        if not jnp.issubdtype(leaf.dtype, jnp.floating):
            raise ContractError(
                f"mechanism {mechanism.name!r} got a leaf of type {leaf.dtype}, to which no noise can be added: "
                "release floating numbers, or send what does not depend on data as public"
            )
    slots = view.out.live.shape if mechanism.spread == "per_edge" else ()
    share = _draw_per_slot(mechanism, view)

    def draws() -> list[Array]:
        draw = _UNIT_DRAWS[noise.distribution]
        return [draw(words, k, slots + leaf.shape, leaf.dtype) for k, leaf in enumerate(leaves)]

    if mechanism.correlation is None:
        units = draws()
    else:
        units, memory = _correlated(mechanism.correlation, draws, structure, memory, noise, view.round)

    def perturbed(unit: Array, leaf: Array) -> Array:
        drawn = noise.scale.astype(leaf.dtype) * unit
        if noise.bound is not None:
            bound = noise.bound.astype(leaf.dtype)
            drawn = jnp.where(jnp.abs(drawn) <= bound, drawn, bound / 2)
        if slots:  # a link that is down is not charged: its copy is the agent's own
            drawn = jnp.where(view.out.live.reshape(slots + (1,) * leaf.ndim), drawn, drawn[0])
        if share is not None:
            drawn = share.reshape(share.shape + (1,) * leaf.ndim).astype(leaf.dtype) * drawn
        return leaf + drawn

    noisy = jax.tree_util.tree_unflatten(structure, list(map(perturbed, units, leaves)))
    return Released(noisy if mechanism.finish is None else mechanism.finish(noisy, noise), noise, memory)


def _correlated(
    correlation: Correlation,
    draws: Callable[[], list[Array]],
    structure: Any,
    memory: Memory | None,
    noise: Noise,
    round_: Array,
) -> tuple[list[Array], Memory]:
    """Take from independent draws what past noise asks for; the memory goes on where something was released."""
    if memory is None:
        raise ContractError(f"noise with {correlation!r} needs the memory of the agent's last release; got none")

    def drawn_now() -> Tree:
        units = jax.tree_util.tree_unflatten(structure, draws())
        return jax.tree.map(jnp.subtract, units, correlation.recalled(memory))

    # Rounds count from 1. A branch is computed once, whereas XLA would draw again for the message and for the memory.
    drawn = jax.lax.cond(round_ > 0, drawn_now, lambda: jax.tree.map(jnp.zeros_like, drawn_now()))
    moved = noise.sensitivity > 0  # a value that no record can move (a step of size 0) is no release
    after = jax.tree.map(lambda new, old: jnp.where(moved, new, old), correlation.after(memory, drawn), memory)
    return jax.tree.leaves(drawn), after


def _draw_per_slot(mechanism: Mechanism, view: View) -> Array | None:
    """Return the factor with which each out-slot carries a draw that is common to them; None where there is none."""
    if mechanism.own_share is None:
        return None
    return jnp.ones(view.out.live.shape, jnp.result_type(float)).at[0].set(mechanism.own_share(view))


def mask_draws(words: NoiseWords, scale: Array, shape: tuple[int, int], integers: Any) -> Array:
    """Draw one mask per pair of senders and number: Laplace draws, in steps of the grid (simulation only)."""
    precision = PRECISIONS[jnp.dtype(integers).name]
    unit = unit_laplace(words, 0, shape, jnp.dtype(precision))
    return jnp.round(scale.astype(precision) * unit).astype(integers)
