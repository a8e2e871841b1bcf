"""Losses of linear models record by record, for local problems that are solved to the end."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from tacit.algorithms._parts.newton import LocalProblem
from tacit.core.contract import Array, Batch, Clip, Objective
from tacit.core.errors import ConfigError
from tacit.objectives import MeanLoss, PenalisedLoss, Regulariser, linear, squared_loss
from tacit.objectives.losses import linear_loss, logistic_loss


class Factored(NamedTuple):
    """A batch with what its local problem needs in every round."""

    x: Array
    y: Array
    weight: Array | None
    gram: Array
    """(n, n) <x_i, x_j>."""
    vectors: Array | None
    """Squares only: eigenvectors of sqrt(p_i p_j) <x_i, x_j>, and"""
    values: Array | None
    """its eigenvalues."""
    validation: Any = None
    """Records for choosing settings, where the stream has some."""

    def solved(self, local: LocalProblem, z0: Array, m: Array) -> Array:
        """Return the alpha of squares: the solution of a linear system whose eigenvectors are known."""
        assert self.vectors is not None  # prepared so
        assert self.values is not None
        root = jnp.sqrt(local.share)
        inner = (self.vectors.T @ (root * local.slope(z0))) / (1 + jnp.maximum(self.values, 0) / m)
        return root * (self.vectors @ inner)


def factored(batch: Batch, gram: Array, share: Array | None) -> Factored:
    """Return a batch with its factors; of squares, each record's share of the mean is given."""
    vectors = values = None
    if share is not None:
        root = jnp.sqrt(share)
        values, vectors = jnp.linalg.eigh(root[:, None] * gram * root)
    return Factored(batch.x, batch.y, batch.weight, gram, vectors, values, getattr(batch, "validation", None))


def smooth_linear(objective: Objective, name: str) -> tuple[Callable[[Array, Array], Array], float]:
    """Return the loss of one prediction and the l2 coefficient, or say why the step cannot be solved to the end."""
    loss = objective.loss
    known = isinstance(loss, PenalisedLoss) and isinstance(loss.data, MeanLoss) and loss.data.predict is linear
    if not known:
        raise ConfigError(
            f"objective {objective.name!r}: {name!r} solves its local problems to the end, which it can for losses of "
            "a linear model (squared, logistic); use zcdp_admm, which needs a gradient only"
        )
    assert isinstance(loss, PenalisedLoss)
    assert isinstance(loss.data, MeanLoss)
    penalty = loss.regulariser
    if loss.data.smooth is not None or not isinstance(penalty, Regulariser) or penalty.l1 > 0:
        raise ConfigError(
            f"objective {objective.name!r} is not smooth (l1 = {getattr(penalty, 'l1', '?')}), but {name!r} solves its "
            "local problems by Newton steps; leave out l1, or use zcdp_admm, which takes any subgradient"
        )
    return loss.data.sample, penalty.l2


def largest_curvature(objective: Objective, name: str) -> Callable[[Array], Array]:
    """Return the largest phi'' of records by their y; refuse a loss of which it is not known, nor how phi' rounds."""
    sample = objective.loss.data.sample  # type: ignore[attr-defined]
    if sample not in (squared_loss, logistic_loss, linear_loss):
        raise ConfigError(
            f"objective {objective.name!r}: under a clip {name!r} has to know how steep a loss can be, as it does of "
            "squared and logistic without class_weight; use one of these, or zcdp_admm, which needs a gradient only"
        )
    return lambda y: jax.vmap(jax.grad(jax.grad(sample)))(jnp.zeros_like(y), y)  # all are steepest at 0


def records_of(batch: Batch, bounded: bool) -> tuple[Array, Array, Array]:
    """Return x (n, d), y (n,) and each record's share of the mean; zeros where there is no record.

    `bounded`: nor where one is not finite, or so large that products of its numbers are not. Such a record says
    nothing, as a gradient that is not finite says nothing to `privacy.clipping.clip`: that is within its bound.
    """
    x, y = jnp.atleast_2d(batch.x), jnp.atleast_1d(batch.y)
    weight = jnp.ones(()) if batch.weight is None else batch.weight
    weight = jnp.broadcast_to(weight, y.shape).astype(x.dtype)
    there = weight > 0
    if bounded:
        size = jnp.maximum(jnp.max(jnp.abs(x), axis=1, initial=0), jnp.abs(y).astype(x.dtype))
        there &= size < largest(x.dtype)
    total = jnp.sum(jnp.where(there, weight, 0))
    share = jnp.where(there, weight, 0) / jnp.where(total > 0, total, 1)
    return jnp.where(there[:, None], x, 0), jnp.where(there, y, 0).astype(x.dtype), share


def largest(dtype: Any) -> float:
    """Return up to where products of four numbers are finite."""
    return math.sqrt(math.sqrt(np.finfo(dtype).max))


def first_predictions(x: Array, v0: Array) -> Array:
    """Return <x_i, v0>, cut off where it is huge and 0 where it is no number: of each record by itself, for any v0."""
    bound = largest(x.dtype)
    return jnp.clip(jnp.nan_to_num(linear(v0, x), nan=0.0), -bound, bound)


def sizes(x: Array) -> Array:
    """Return the norm of each record, also of one whose squares are no numbers any more."""
    top = jnp.max(jnp.abs(x), axis=1, initial=0)
    scale = jnp.where(top > 0, top, 1)
    return top * jnp.sqrt(jnp.sum(jnp.square(x / scale[:, None]), axis=1))


def slope_limit(size: Array, clip: Clip) -> Array:
    """Return the bound on each record's phi' that keeps its gradient phi' x within the clip."""
    return jnp.where(size > 0, clip.bound / jnp.where(size > 0, size, 1), 0)
