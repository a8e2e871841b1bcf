"""Convex sets: the nearest point, the point that lies farthest down a direction, and whether a point is inside.

A pytree of parameters is taken as one vector.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from tacit.core.checks import SINGLE, bound, positive
from tacit.core.contract import Array, Params
from tacit.core.errors import ConfigError

Projection = Callable[[Params], Params]
"""Parameters -> the nearest ones in the set."""
ROUNDINGS = 64
"""A point counts as inside if it is off by no more than this many roundings of its own precision."""


@runtime_checkable
class ConvexSet(Protocol):
    """A closed convex set of parameters: the protocol of projections."""

    def __call__(self, params: Params) -> Params:
        """Return the nearest point of the set."""

    def lowest(self, direction: Params) -> Params:
        """Return a point of the set at which <direction, .> is least; the set must be bounded that way.

        Args:
          direction: A pytree like the parameters.
        """

    def fault(self, params: Params) -> str | None:
        """Return why parameters are outside the set; None where they are in it.

        Args:
          params: Parameters, numbers and not traced ones.
        """


@dataclass(frozen=True)
class Ball(ConvexSet):
    """Ball ||w||_2 <= radius around 0.

    Args:
      radius: Radius, above 0.

    Example:
      >>> import jax.numpy as jnp, tacit
      >>> tacit.objectives.Ball(5.0)(jnp.array([6.0, 8.0])).tolist()
      [3.0, 4.0]
    """

    radius: float

    def __post_init__(self) -> None:
        remedy = "leave the projection out for no bound"
        object.__setattr__(self, "radius", positive("radius", self.radius, remedy, most=SINGLE))

    def __call__(self, params: Params) -> Params:
        """Return the nearest point of the ball."""
        leaves = jax.tree.leaves(params)
        largest = jnp.max(jnp.stack([jnp.max(jnp.abs(leaf), initial=0) for leaf in leaves]))
        # Squares are taken relative to the largest entry: those of a diverging run would overflow to 0.
        most = np.finfo(jnp.promote_types(largest.dtype, jnp.float32)).max  # beyond it no number is outside
        radius = min(self.radius, float(most))
        unit = jnp.maximum(largest, radius)
        squares = [jnp.sum(jnp.square(leaf / unit)) for leaf in leaves]
        norm = jnp.sqrt(jnp.sum(jnp.stack(squares)))
        limit = radius / unit
        outside = norm > limit
        scale = jnp.where(outside, limit / jnp.where(outside, norm, 1), 1)
        return jax.tree.map(lambda leaf: (leaf * scale).astype(leaf.dtype), params)

    def lowest(self, direction: Params) -> Params:
        """Return the point of the sphere against the direction; 0 where it has none."""
        vector, unravel = ravel_pytree(direction)
        largest = jnp.max(jnp.abs(vector), initial=0)
        scaled = vector / jnp.where(largest > 0, largest, 1)
        norm = jnp.linalg.norm(scaled)
        return unravel(-self.radius * scaled / jnp.where(norm > 0, norm, 1))

    def fault(self, params: Params) -> str | None:
        """Return by how much the parameters are too long, or None."""
        vector, spare = _concrete(params)
        norm = float(np.linalg.norm(vector))
        if norm <= self.radius * (1 + spare):
            return None
        return f"their l2 norm is {norm:.6g}, expected at most {self.radius:g}"


@dataclass(frozen=True)
class Box(ConvexSet):
    """Box low <= w_c <= high in every coordinate c.

    Args:
      low: Lower end; -inf: no bound.
      high: Upper end, above `low`; inf: no bound.

    Example:
      >>> import jax.numpy as jnp, tacit
      >>> tacit.objectives.Box(0, 1)(jnp.array([-2.0, 0.5, 2.0])).tolist()
      [0.0, 0.5, 1.0]
    """

    low: float
    high: float

    def __post_init__(self) -> None:
        remedy = "give low < high"
        object.__setattr__(self, "low", bound("low", self.low, remedy))
        object.__setattr__(self, "high", bound("high", self.high, remedy))
        if not self.low < self.high:
            raise ConfigError(
                f"box from low = {self.low} to high = {self.high}: expected low < high; swap or widen them"
            )

    def __call__(self, params: Params) -> Params:
        """Return the nearest point of the box."""
        return jax.tree.map(lambda leaf: jnp.clip(leaf, self.low, self.high), params)

    def lowest(self, direction: Params) -> Params:
        """Return the corner against the direction; where that is 0, the value nearest to 0."""
        middle = min(max(0.0, self.low), self.high)  # an end may be infinite
        return jax.tree.map(
            lambda leaf: jnp.select([leaf > 0, leaf < 0], [self.low, self.high], middle).astype(leaf.dtype), direction
        )

    def fault(self, params: Params) -> str | None:
        """Name a coordinate outside."""
        vector, spare = _concrete(params)
        bounds = np.array([self.low, self.high])
        room = spare * float(np.max(np.abs(bounds[np.isfinite(bounds)]), initial=0))
        outside = ~((vector >= self.low - room) & (vector <= self.high + room))
        if not outside.any():
            return None
        worst = int(np.argmax(outside))
        return f"coordinate {worst} is {vector[worst]:.6g}, expected {self.low:g} to {self.high:g}"


@dataclass(frozen=True)
class Simplex(ConvexSet):
    """Simplex w_c >= 0 with the sum of all w_c = total.

    Args:
      total: Sum of the coordinates, above 0.

    Example:
      >>> import jax.numpy as jnp, tacit
      >>> tacit.objectives.Simplex()(jnp.array([2.0, 0.0])).tolist()
      [1.0, 0.0]
    """

    total: float = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "total", positive("total", self.total, "1 gives the probability simplex", most=SINGLE))

    def __call__(self, params: Params) -> Params:
        """Return the nearest point of the simplex."""
        vector, unravel = ravel_pytree(params)
        return unravel(self._project(vector))

    def _project(self, vector: Array) -> Array:
        # The projection is max(v - threshold, 0). With v sorted downwards, the threshold is the largest over
        # k of (v_1 + ... + v_k - total) / k: it rises with k while v_k lies above it and falls from there on.
        # A shift of all coordinates changes nothing, and v_1 = 0 keeps the sums accurate.
        shifted = vector - jnp.max(vector)
        sums = jnp.cumsum(jnp.sort(shifted, descending=True))
        counts = jnp.arange(1, vector.size + 1, dtype=vector.dtype)
        threshold = jnp.max((sums - self.total) / counts)
        return jnp.maximum(shifted - threshold, 0)

    def lowest(self, direction: Params) -> Params:
        """Return the corner with all of the total where the direction is least."""
        vector, unravel = ravel_pytree(direction)
        return unravel(jnp.zeros_like(vector).at[jnp.argmin(vector)].set(self.total))

    def fault(self, params: Params) -> str | None:
        """Name a negative coordinate, or the sum where it is not the total."""
        vector, spare = _concrete(params)
        below = ~(vector >= 0)
        if below.any():
            worst = int(np.argmax(below))
            return f"coordinate {worst} is {vector[worst]:.6g}, expected no coordinate below 0"
        found = float(vector.sum())
        if not abs(found - self.total) <= self.total * spare:
            return f"they sum to {found:.6g}, expected {self.total:g}"
        return None


def _concrete(params: Params) -> tuple[np.ndarray, float]:
    """Return the parameters as one vector in double precision, and how far relative rounding may have moved a sum."""
    leaves = [np.asarray(leaf) for leaf in jax.tree.leaves(params)]
    coarsest = max(float(np.finfo(leaf.dtype).eps) for leaf in leaves)
    return np.concatenate([leaf.astype(np.float64).ravel() for leaf in leaves]), ROUNDINGS * coarsest
