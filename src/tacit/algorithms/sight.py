"""How a round looks at data under constraints: what leaves through the mechanism, what stays, and what both say.

Two ways, see `tacit.algorithms.duals`: the constraints stay with the peer, or leave as the gradient does.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp

from tacit.contract import Array, Batch, Clip, Params, Tree
from tacit.privacy import clipped_mean

Values = Callable[[Params, Batch], Array]


class Observation(NamedTuple):
    """What a round says of the constraints."""

    values: Array
    """(k,) c(x)."""
    slopes: Tree
    """grad c(x), leading axis k; () where nobody asks."""

    def changes(self, x: Params, z: Params) -> Array:
        """Return (k,) <grad c(x), z - x>."""

        def dot(slopes: Array, before: Array, after: Array) -> Array:
            return jnp.sum((slopes * (after - before)).reshape(slopes.shape[0], -1), axis=1)

        nothing = jnp.zeros_like(self.values)
        return sum(jax.tree.leaves(jax.tree.map(dot, self.slopes, x, z)), start=nothing)


class Release(NamedTuple):
    """What goes through the mechanism where the dual is released."""

    gradient: Params
    observation: Observation


class Sight(NamedTuple):
    """How data are looked at: what may leave, and what is known of loss and constraints afterwards."""

    look: Callable[[Params, Array, Batch], tuple[Observation | tuple[()], Tree]]
    """Model, weights and batch -> what stays, and what goes through the mechanism."""
    read: Callable[[Array, Tree, Observation | tuple[()]], tuple[Params, Observation]]
    """Weights, what was released and what stayed -> gradient of the loss plus the weighted constraints, and these."""


def constraints_kept(data: Values, c: Values, clip: Clip | None, needs_slopes: bool) -> Sight:
    """Look at the constraints, which stay; the gradient of loss and weighted constraints leaves."""

    def look(model: Params, weights: Array, batch: Batch) -> tuple[Observation, Tree]:
        def composite(params: Params, batch: Batch) -> Array:
            return data(params, batch) + jnp.dot(weights, c(params, batch))

        gradient = jax.grad(composite) if clip is None else clipped_mean(jax.grad(composite), clip)
        seen = Observation(c(model, batch), jax.jacrev(c)(model, batch) if needs_slopes else ())
        return seen, gradient(model, batch)

    return Sight(look, lambda weights, released, seen: (released, seen))  # type: ignore[return-value, arg-type]


def constraints_released(data: Values, c: Values, clip: Clip | None) -> Sight:
    """Send everything that is looked at through the mechanism, of each record as one vector."""

    def of_one(params: Params, batch: Batch) -> Release:
        return Release(jax.grad(data)(params, batch), Observation(c(params, batch), jax.jacrev(c)(params, batch)))

    function = of_one if clip is None else clipped_mean(of_one, clip)

    def read(weights: Array, released: Release, seen: tuple[()]) -> tuple[Params, Observation]:
        pull = jax.tree.map(lambda slopes: jnp.tensordot(weights, slopes, axes=1), released.observation.slopes)
        return jax.tree.map(jnp.add, released.gradient, pull), released.observation

    return Sight(lambda model, weights, batch: ((), function(model, batch)), read)  # type: ignore[arg-type]
