"""Local problem of a round: an agent's records, and the point around which the problem is posed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from tacit.algorithms._parts import contraction
from tacit.algorithms._parts.batches import counted
from tacit.algorithms._parts.linear_records import (
    Factored,
    factored,
    first_predictions,
    largest_curvature,
    records_of,
    sizes,
    slope_limit,
)
from tacit.algorithms._parts.newton import LocalProblem
from tacit.core.contract import Array, Batch, Clip, Objective, Params, View
from tacit.objectives import linear, squared_loss


class Bounded(NamedTuple):
    """A local problem, where its search starts, and what is known of it beforehand."""

    local: LocalProblem
    z0: Array
    bounds: contraction.Bounds | None
    """Where there is a clip."""


class LocalProblems:
    """Local problems of one objective under one clip, or under none."""

    def __init__(self, objective: Objective, sample: Callable[..., Any], clip: Clip | None, name: str) -> None:
        self.closed = sample is squared_loss and clip is None
        self._squared, self._clip = sample is squared_loss, clip
        self._first = jax.vmap(jax.grad(sample))
        self._bend = None if clip is None else largest_curvature(objective, name)

    def prepared(self, batch: Batch) -> Factored:
        """Return a batch with what all problems on it have in common."""
        x, _, share = records_of(batch, self._clip is not None)
        return factored(batch, x @ x.T, share if self.closed else None)

    def around(self, batch: Factored, v0: Params, m: Array, view: View) -> Bounded:
        """Return the problem around v0 with curvature m."""
        x, y, share = records_of(batch, self._clip is not None)
        if self._clip is None or self._bend is None:
            slope = lambda z: self._first(z, y)  # noqa: E731
            return Bounded(LocalProblem(x, batch.gram, slope, share), linear(v0, x), None)
        z0 = first_predictions(x, v0)
        if self._squared:  # of the difference alone, which is small where it counts
            z0, y = z0 - y, jnp.zeros_like(y)
        records = counted(batch, view).astype(x.dtype)
        share = (share > 0) / records
        size = sizes(x)
        limit = slope_limit(size, self._clip)
        delta = contraction.blur(x.shape[1], contraction.unit(x.dtype))
        factor, kappa = contraction.flattened(self._bend(y), size, records, m, delta)
        slope = lambda z: jnp.clip(factor * self._first(z, y), -limit, limit)  # noqa: E731
        off = delta * self._clip.bound / m
        bounds = contraction.bounds(share, size, limit, kappa, self._clip.bound, records, off)
        return Bounded(LocalProblem(x, batch.gram, slope, share), z0, bounds)
