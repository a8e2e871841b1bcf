"""Lower bounds of a convex loss over a set, proved by one gradient."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp

from tacit.core.contract import Array
from tacit.metrics.blocks import Vector, Vectors
from tacit.objectives import ConvexSet


class LowerBound(NamedTuple):
    """A convex loss f is nowhere in the set less than f(x) + least(x, grad f(x)).

    A value, so that a compiled program is found again. Points are vectors.
    """

    vectors: Vectors
    within: ConvexSet | None
    l2: float
    """f minus (l2/2) ||x||^2 is still convex."""

    def nearest(self, x: Array | Vector) -> Array:
        """Return the nearest point of the set."""
        found: Array = _nearest(self, x)
        return found

    def least(self, x: Array | Vector, slope: Array | Vector) -> Array:
        """Return min over v in the set of <slope, v - x> + (l2/2) ||v - x||^2; -inf: no bound."""
        found: Array = _least(self, x, slope)
        return found


@partial(jax.jit, static_argnums=0)
def _nearest(floor: LowerBound, x: Array) -> Array:
    vectors, within = floor.vectors, floor.within
    return jnp.asarray(x) if within is None else vectors.traced(within(vectors.tree(x)))


@partial(jax.jit, static_argnums=0)
def _least(floor: LowerBound, x: Array, slope: Array) -> Array:
    vectors, within, l2 = floor
    if l2:  # the minimum is where the gradient step of length 1 / l2 is projected to
        away = _nearest(floor, x - slope / l2) - x
        return jnp.dot(slope, away) + l2 / 2 * jnp.dot(away, away)
    if within is None:
        return jnp.asarray(-jnp.inf)
    away = vectors.traced(within.lowest(vectors.tree(slope))) - x
    # A set without bounds has corners at infinity, which do not matter where there is no slope.
    return jnp.sum(jnp.where(slope == 0, 0, slope * jnp.where(slope == 0, 0, away)))
