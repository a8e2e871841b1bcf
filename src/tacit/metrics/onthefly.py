"""Figures of one round: pure functions of the agents' parameters and batches, stacked (n, ...)."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from tacit.core.contract import Array, Batch, Objective, Params
from tacit.core.errors import ConfigError


def consensus_distance(params: Params) -> Array:
    """Mean over the agents of ||x_i - mean of all x||^2."""

    def spread(leaf: Array) -> Array:
        return jnp.sum(jnp.square(leaf - jnp.mean(leaf, axis=0))) / leaf.shape[0]

    return sum((spread(leaf) for leaf in jax.tree.leaves(params)), start=jnp.zeros(()))


def network_loss(objective: Objective, params: Params, batches: Batch) -> Array:
    """Sum over the agents i of f_it(x_i)."""
    return jnp.sum(jax.vmap(objective.loss)(params, batches))


def node_loss(objective: Objective, node_params: Params, batches: Batch) -> Array:
    """Sum over the agents i of f_it(x) for one node's x."""
    return jnp.sum(jax.vmap(objective.loss, (None, 0))(node_params, batches))


def network_score(objective: Objective, params: Params, batches: Batch) -> Array:
    """Mean score over the agents; those whose batch has no sample this round (weight 0) do not count.

    With nobody to count it is NaN: there is no score, which a reader must not mistake for a bad one.
    """
    if objective.score is None:
        raise ConfigError(
            f"objective {objective.name!r} has no score: expected one to report; "
            "give `score` when making the objective, or record the loss only"
        )
    scores = jax.vmap(objective.score)(params, batches)
    weight = getattr(batches, "weight", None)
    if weight is None:
        return jnp.mean(scores)
    present = jnp.any(weight.reshape(weight.shape[0], -1) > 0, axis=1)
    return jnp.sum(jnp.where(present, scores, 0)) / jnp.sum(present)
