"""Step sizes as functions of the round."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp

from tacit.contract import Array, Schedule, View
from tacit.errors import ConfigError

StepSize = float | Callable[[Array], Array]
"""A number, or a function of the round t = 1, 2, ..."""


def as_schedule(step: StepSize, name: str = "step") -> Schedule:
    """Take a number as a constant schedule; a function of t = 1, 2, ... as it is."""
    if callable(step):
        return step
    if not (isinstance(step, int | float) and 0 < step < float("inf")):
        raise ConfigError(f"{name} is {step!r}; expected a positive number or a function of the round t")
    return lambda t: jnp.asarray(step, _precision())


def as_rate(step: StepSize) -> Callable[[View], Array]:
    """Return a schedule of steps as a function of what an agent sees."""
    schedule = as_schedule(step)
    return lambda view: schedule(view.round)


def _precision() -> jnp.dtype:
    """The floating type of the run: float64 only where it was asked for."""
    return jnp.result_type(float)


def inverse_sqrt(scale: float) -> Schedule:
    """Return scale / sqrt(t), the step of general convex losses."""
    return lambda t: scale / jnp.sqrt(t.astype(_precision()))


def inverse(scale: float) -> Schedule:
    """Return scale / t, the step of strongly convex losses."""
    return lambda t: scale / t.astype(_precision())


def sum_until(schedule: Schedule, t: Array) -> Array:
    """Return schedule(1) + ... + schedule(t)."""
    total: Array = jax.lax.fori_loop(
        jnp.int32(1), t + 1, lambda k, total: total + schedule(k), jnp.zeros((), _precision())
    )
    return total
