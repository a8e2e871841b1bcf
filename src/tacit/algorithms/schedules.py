"""Step sizes as functions of the round."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from tacit.core.contract import Array, Schedule, View
from tacit.core.errors import ConfigError

StepSize = float | Callable[[Array], Array | float]
"""A number, or a function of the round t = 1, 2, ..."""


def as_schedule(step: StepSize, name: str = "step") -> Schedule:
    """Take a number as a constant schedule; a function of t = 1, 2, ... is evaluated in the run's precision."""
    if callable(step):
        return lambda t: evaluated(step, t, name)
    if not (isinstance(step, int | float) and 0 < step < float("inf")):
        raise ConfigError(f"{name} is {step!r}; expected a positive number or a function of the round t")
    return lambda t: jnp.asarray(step, _precision())


def as_rate(step: StepSize) -> Callable[[View], Array]:
    """Return a schedule of steps as a function of what an agent sees."""
    schedule = as_schedule(step)
    return lambda view: schedule(view.round)


def evaluated(function: Callable[[Array], Any], t: Array | int, name: str) -> Array:
    """Return what a function of the round gives, a number of any kind, in the run's precision.

    The round is a whole number as wide as the run's floats: the root of a 32-bit one has single precision.
    """
    found = jnp.asarray(function(jnp.asarray(t, jnp.result_type(int))), _precision())
    if found.shape:
        raise ConfigError(f"{name} gives an array of shape {found.shape} for a round; expected one number")
    return found


def _precision() -> jnp.dtype:
    """The floating type of the run: float64 only where it was asked for."""
    return jnp.result_type(float)


def inverse_sqrt(scale: float) -> Schedule:
    """Return scale / sqrt(t), the step of general convex losses."""
    return lambda t: scale / jnp.sqrt(jnp.asarray(t, _precision()))


def inverse(scale: float) -> Schedule:
    """Return scale / t, the step of strongly convex losses."""
    return lambda t: scale / jnp.asarray(t, _precision())


def sum_until(schedule: Schedule, t: Array) -> Array:
    """Return |schedule(1)| + ... + |schedule(t)|: how far steps lead at most."""
    total: Array = jax.lax.fori_loop(
        jnp.int32(1), t + 1, lambda k, total: total + jnp.abs(schedule(k)), jnp.zeros((), _precision())
    )
    return total
