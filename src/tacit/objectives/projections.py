"""Euclidean projections on convex sets. A pytree of parameters is taken as one vector."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree

from tacit.contract import Array, Params
from tacit.errors import ConfigError
from tacit.objectives.checks import bound, positive

Projection = Callable[[Params], Params]
"""Parameters -> the nearest ones in the set."""


@dataclass(frozen=True)
class Ball:
    """The ball ||w||_2 <= radius around 0."""

    radius: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "radius", positive("radius", self.radius, "leave the projection out for no bound"))

    def __call__(self, params: Params) -> Params:
        """Return the nearest point of the ball."""
        leaves = jax.tree.leaves(params)
        largest = jnp.max(jnp.stack([jnp.max(jnp.abs(leaf), initial=0) for leaf in leaves]))
        # Squares are taken relative to the largest entry: those of a diverging run would overflow to 0.
        unit = jnp.maximum(largest, self.radius)
        squares = [jnp.sum(jnp.square(leaf / unit)) for leaf in leaves]
        norm = jnp.sqrt(jnp.sum(jnp.stack(squares)))
        limit = self.radius / unit
        outside = norm > limit
        scale = jnp.where(outside, limit / jnp.where(outside, norm, 1), 1)
        return jax.tree.map(lambda leaf: (leaf * scale).astype(leaf.dtype), params)


@dataclass(frozen=True)
class Box:
    """The box low <= w_c <= high in every coordinate c; an infinite end is no bound."""

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


@dataclass(frozen=True)
class Simplex:
    """The simplex w_c >= 0, sum of all w_c = total."""

    total: float = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "total", positive("total", self.total, "1 gives the probability simplex"))

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
