"""Objectives from a user's own loss."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import jax
import jax.numpy as jnp

from tacit.core.contract import Array, Batch, Objective, Params
from tacit.core.errors import ConfigError


@dataclass(frozen=True)
class OfBatches:
    """A loss that gets a single record as a batch of one.

    Args:
      loss: (params, batch with a leading axis) -> mean over its records.
    """

    loss: Callable[[Params, Batch], Array]

    def __call__(self, params: Params, batch: Batch) -> Array:
        """Return the mean loss of a batch, or the loss of a record."""
        if jnp.ndim(batch.y) == 0:
            batch = jax.tree.map(lambda leaf: jnp.asarray(leaf)[None], batch)
        return self.loss(params, batch)


def from_loss(
    loss: Callable[[Params, Batch], Array],
    initial: Params | Callable[[Batch], Params],
    name: str = "custom",
    score: Callable[[Params, Batch], Array] | None = None,
    score_name: str = "score",
    predict: Callable[[Params, Array], Array] | None = None,
    batched: bool = False,
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
      batched: Whether the loss needs a batch: a single record, as where each record's gradient is clipped, then comes
        as a batch of one. (`from_model` does so by itself.)

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
    loss = OfBatches(loss) if batched else loss
    if callable(initial):
        return Objective(name, loss, initial, score, score_name, predict=predict)
    if not jax.tree.leaves(initial):
        raise ConfigError(
            f"initial = {initial!r}: expected a pytree with at least one array, or a function of the batch; "
            "give the first parameters"
        )
    first = jax.tree.map(jnp.asarray, initial)
    return Objective(name, loss, lambda batch: first, score, score_name, predict=predict)
