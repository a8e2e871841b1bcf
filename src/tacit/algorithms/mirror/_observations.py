"""Observations of loss and constraints: the part that leaves through the mechanism, and the part that stays.

The constraints stay with the peer, or leave as the gradient does, see `_duals`. Constraints that read no data are
observed apart from these: nothing of them is clipped or noised.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, NamedTuple, get_args

import jax
import jax.numpy as jnp

from tacit.core.checks import one_of
from tacit.core.contract import Array, Batch, Clip, Mechanism, Params, Tree
from tacit.core.errors import ConfigError
from tacit.privacy import clipped_mean

Dual = Literal["private", "released"]
Values = Callable[[Params, Batch], Array]


class Observation(NamedTuple):
    """Values and slopes of the constraints in a round."""

    values: Array
    """(k,) c(x)."""
    slopes: Tree
    """grad c(x), leading axis k; None where they are not used."""

    def changes(self, x: Params, z: Params) -> Array:
        """Return (k,) <grad c(x), z - x>."""

        def dot(slopes: Array, before: Array, after: Array) -> Array:
            return jnp.sum((slopes * (after - before)).reshape(slopes.shape[0], -1), axis=1)

        nothing = jnp.zeros_like(self.values)
        return sum(jax.tree.leaves(jax.tree.map(dot, self.slopes, x, z)), start=nothing)

    def pull(self, weights: Array) -> Params:
        """Return <weights, grad c(x)>."""
        pulled: Params = jax.tree.map(lambda slopes: jnp.tensordot(weights, slopes, axes=1), self.slopes)
        return pulled


class Both(NamedTuple):
    """Something of the constraints that read data, and of those that do not; None where there are none."""

    reading: Any
    free: Any


def of_both(function: Callable[..., Any], *parts: Both) -> Both:
    """Apply a function to what each kind of constraints has."""
    return Both(*(None if own[0] is None else function(*own) for own in zip(*parts, strict=True)))


class Release(NamedTuple):
    """Value that goes through the mechanism where the dual is released."""

    gradient: Params
    observation: Observation


class DualObservation(NamedTuple):
    """Observation of data: what may leave, and what is known of loss and constraints afterwards."""

    observe: Callable[[Params, Array, Batch, Array], tuple[Observation | None, Tree]]
    """Model, weights, batch and how many records means are over -> what stays, and what goes through the mechanism."""
    read: Callable[[Array, Tree, Observation | None], tuple[Params, Observation | None]]
    """Weights, what was released and what stayed -> gradient of the loss plus the weighted constraints, and these."""


def nothing(count: int, params: Params, dtype: Any, slopes: bool) -> Observation:
    """Return an observation of so many constraints that says nothing."""
    none = jax.tree.map(lambda leaf: jnp.zeros((count, *leaf.shape), leaf.dtype), params)
    return Observation(jnp.zeros(count, dtype), none if slopes else None)


def observed(c: Values, model: Params, batch: Batch, slopes: bool = True) -> Observation:
    """Return what a batch says of constraints."""
    return Observation(c(model, batch), jax.jacrev(c)(model, batch) if slopes else None)


def dual_observation(
    data: Values, reading: Values | None, clip: Clip | None, dual: Dual, needs_slopes: bool
) -> DualObservation:
    """Return the observation of the loss and of the constraints that read data, if there are any."""
    if reading is None:
        return loss_alone(data, clip)
    if dual == "private":
        return constraints_kept(data, reading, clip, needs_slopes)
    return constraints_released(data, reading, clip)


def loss_alone(data: Values, clip: Clip | None) -> DualObservation:
    """Observe the loss, where no constraint reads data."""
    gradient = _mean(jax.grad(data), clip)
    return DualObservation(
        lambda model, weights, batch, over: (None, gradient(model, batch, over)),
        lambda weights, released, seen: (released, None),
    )


def _mean(of_batch: Callable[[Params, Batch], Tree], clip: Clip | None) -> Callable[[Params, Batch, Array], Tree]:
    """Return the mean over so many records, each clipped if there is a clip."""
    return clipped_mean(of_batch, clip) if clip is not None else lambda params, batch, over: of_batch(params, batch)


def constraints_kept(data: Values, c: Values, clip: Clip | None, needs_slopes: bool) -> DualObservation:
    """Observe the constraints, which stay; the gradient of loss and weighted constraints leaves."""

    def observe(model: Params, weights: Array, batch: Batch, over: Array) -> tuple[Observation, Tree]:
        def composite(params: Params, batch: Batch) -> Array:
            return data(params, batch) + jnp.dot(weights, c(params, batch))

        return observed(c, model, batch, needs_slopes), _mean(jax.grad(composite), clip)(model, batch, over)

    return DualObservation(observe, lambda weights, released, seen: (released, seen))


def constraints_released(data: Values, c: Values, clip: Clip | None) -> DualObservation:
    """Send all that is observed through the mechanism, of each record as one vector."""

    def of_one(params: Params, batch: Batch) -> Release:
        return Release(jax.grad(data)(params, batch), observed(c, params, batch))

    function = _mean(of_one, clip)

    def read(weights: Array, released: Release, seen: None) -> tuple[Params, Observation]:
        pull = released.observation.pull(weights)
        return jax.tree.map(jnp.add, released.gradient, pull), released.observation

    return DualObservation(lambda model, weights, batch, over: (None, function(model, batch, over)), read)  # type: ignore[arg-type]


def validate_noise(name: str, mechanism: Mechanism, dual: Dual, kinds: Both) -> None:
    """Refuse noise that cannot go where the method puts it."""
    one_of("dual", dual, get_args(Dual))
    if mechanism.distribution is not None and mechanism.perturbs == "model":
        raise ConfigError(
            f"mechanism {mechanism.name!r} noises the model, but {name} releases what it learns of loss and "
            "constraints; say perturbs='gradient'"
        )
    if mechanism.finish is not None and dual == "released" and kinds.reading is not None:
        raise ConfigError(
            f"mechanism {mechanism.name!r} reshapes what it noises, which the values of constraints do not survive; "
            "use laplace or gaussian noise, or dual = 'private'"
        )
