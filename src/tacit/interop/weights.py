"""Weights of rows: an objective in which each record's loss is multiplied by a weight of its own.

The weight is part of the loss, so that a clip bounds a record's gradient after it was multiplied: with noise, a record
moves a release by the clip at most whatever its weight, and a weight above 1 only acts as far as the clip lets it.
(`Batch.weight` is another thing: it says which places of a batch hold a record, and a mean over one record ignores it.)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from tacit.core.contract import Array, Batch, Objective, Params
from tacit.core.errors import ConfigError, DataError
from tacit.objectives import balanced
from tacit.objectives.losses import MeanLoss, PenalisedLoss
from tacit.streams.learnt import Learnt

Weights = NDArray[np.float64]


class FitError(DataError, ValueError):
    """Data that an estimator cannot learn from; scikit-learn expects a ValueError."""


class WeightedBatch(NamedTuple):
    """A batch whose records have weights: `importance` beside the fields of `tacit.streams.Batch`."""

    x: Any
    y: Any
    weight: Any
    importance: Any


@dataclass(frozen=True)
class WeightedMean:
    """Mean over a batch's present records of their losses, each multiplied by its importance.

    Args:
      of: The loss without weights.
    """

    of: MeanLoss

    def __call__(self, params: Params, batch: Batch) -> Array:
        """Return the mean loss of a `WeightedBatch`."""
        there = jnp.asarray(batch.weight) > 0
        x, y = jnp.where(there[..., None], batch.x, 0), jnp.where(there, batch.y, 0)
        values = jnp.where(there, batch.importance, 0) * self.of.sample(self.of.predict(params, x), y)
        return jnp.sum(values) / jnp.maximum(jnp.sum(there), 1)


def weighted(objective: Objective) -> Objective:
    """Return the objective for batches with weights.

    Args:
      objective: One whose loss is a mean over records, as of all linear models.

    Example:
      >>> import jax.numpy as jnp, tacit
      >>> twice = WeightedBatch(jnp.ones(2), jnp.ones(()), jnp.ones(()), jnp.full((), 2.0))
      >>> round(float(weighted(tacit.objectives.logistic()).loss(jnp.zeros(2), twice)), 4)
      1.3863
    """
    loss, smoothed = objective.loss, objective.smoothed
    if not isinstance(loss, PenalisedLoss) or not isinstance(loss.data, MeanLoss):
        raise ConfigError(
            f"objective {objective.name!r} is no mean of losses of records, so that rows have no weights there; leave "
            "sample_weight and class_weight out, or use one of tacit's linear objectives"
        )

    def with_weights(loss: Any) -> PenalisedLoss:
        return PenalisedLoss(WeightedMean(loss.data), loss.regulariser)

    return objective._replace(
        loss=with_weights(loss), smoothed=None if smoothed is None else lambda mu: with_weights(smoothed(mu))
    )


COUNTED = Learnt("class_weight", "how often each class occurs", "numbers: class_weight={class: weight, ...}")
"""What "balanced" learns from all rows."""


def of_classes(
    class_weight: Mapping[Any, float] | str | None, classes: NDArray[Any], number: NDArray[np.int64]
) -> Weights | None:
    """Return the weight of each row by its class.

    Args:
      class_weight: Class -> weight, 1 for one that is left out; "balanced"; or None for no weights.
      classes: All classes in their order.
      number: Class of each row, as its place among them.
    """
    if class_weight is None:
        return None
    if isinstance(class_weight, str):
        if class_weight != "balanced":
            raise ConfigError(f"class_weight={class_weight!r}: expected 'balanced', or {{class: weight, ...}}")
        return np.asarray(balanced(number, len(classes)))[number]
    strange = [name for name in class_weight if name not in classes.tolist()]
    if strange:
        raise ConfigError(f"class_weight names the class {strange[0]!r}, which is not among {classes.tolist()}")
    each = np.array([class_weight.get(name, 1.0) for name in classes.tolist()], np.float64)
    if not (np.isfinite(each).all() and (each >= 0).all()):
        raise ConfigError(f"class_weight={dict(class_weight)!r}: expected finite numbers of 0 or more")
    return each[number]


def checked(sample_weight: Any, rows: int) -> Weights | None:
    """Return one finite weight of 0 or more per row, or refuse what is not; None: no weights.

    Args:
      sample_weight: One number per row, one number for all, or None.
      rows: Number of rows.
    """
    if sample_weight is None:
        return None
    given = np.asarray(sample_weight, np.float64)
    given = np.full(rows, float(given)) if given.ndim == 0 else given
    if given.shape != (rows,):
        raise FitError(f"sample_weight of shape {given.shape} for {rows} rows; expected one number per row")
    bad = ~(np.isfinite(given) & (given >= 0))
    if bad.any():
        row = int(np.argmax(bad))
        raise FitError(f"sample_weight is {given[row]} in row {row} (counted from 0); expected a finite number >= 0")
    if not given.any():
        raise FitError("sample_weight is zero in every row; expected at least one above zero")
    return given


def product(one: Weights | None, other: Weights | None) -> Weights | None:
    """Return the weights of both kinds together.

    Args:
      one: Weights of rows, or None.
      other: Weights of rows, or None.
    """
    if one is None or other is None:
        return other if one is None else one
    return one * other
