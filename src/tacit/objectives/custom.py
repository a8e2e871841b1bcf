"""Objectives from a user's own loss."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp

from tacit.core.contract import Array, Batch, Objective, Params
from tacit.core.errors import ConfigError


def from_loss(
    loss: Callable[[Params, Batch], Array],
    initial: Params | Callable[[Batch], Params],
    name: str = "custom",
    score: Callable[[Params, Batch], Array] | None = None,
    score_name: str = "score",
    predict: Callable[[Params, Array], Array] | None = None,
) -> Objective:
    """Objective of any loss over any pytree of parameters.

    Args:
      loss: (params, batch) -> scalar, the mean over the batch's samples. A regulariser can be part of it, or be added
        with `regularised`.
      initial: First parameters, or a function from the shapes of one agent's batch to them.
      name: Name in tables and messages.
      score: (params, batch) -> a figure to report besides the loss; None: no score.
      score_name: Name of the score in tables.
      predict: (params, x) -> prediction, for peers, which are asked for predictions; None: there is none.

    Example:
      >>> import jax.numpy as jnp, tacit
      >>> def quartic(params, batch):
      ...     return jnp.mean((batch.x @ params - batch.y) ** 4)
      >>> tacit.objectives.from_loss(quartic, initial=jnp.zeros(5), name="quartic")
      Objective(quartic)
    """
    if not callable(loss):
        raise ConfigError(
            f"loss = {loss!r}: expected a function loss(params, batch) -> scalar; pass the function itself"
        )
    if callable(initial):
        return Objective(name, loss, initial, score, score_name, predict=predict)
    if not jax.tree.leaves(initial):
        raise ConfigError(
            f"initial = {initial!r}: expected a pytree with at least one array, or a function of the batch; "
            "give the first parameters"
        )
    first = jax.tree.map(jnp.asarray, initial)
    return Objective(name, loss, lambda batch: first, score, score_name, predict=predict)
