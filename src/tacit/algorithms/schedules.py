"""Step sizes as functions of the round."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
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


@dataclass(frozen=True, repr=False)
class _Falling:
    """A step that falls as 1 / t or 1 / sqrt(t), with a name that can be read."""

    scale: float
    rooted: bool

    def __call__(self, t: Array) -> Array:
        rounds = jnp.asarray(t, _precision())
        return self.scale / (jnp.sqrt(rounds) if self.rooted else rounds)

    def __repr__(self) -> str:
        return f"{'inverse_sqrt' if self.rooted else 'inverse'}({self.scale:g})"


def inverse_sqrt(scale: float) -> Schedule:
    """Step size scale / sqrt(t), for general convex losses.

    Args:
      scale: Step of the first round, above 0.

    Returns:
      A function of the round t = 1, 2, ..., for any parameter `step`.

    Example:
      >>> from tacit.algorithms import inverse_sqrt
      >>> inverse_sqrt(0.5), float(inverse_sqrt(0.5)(4))
      (inverse_sqrt(0.5), 0.25)
    """
    return _Falling(scale, rooted=True)


def inverse(scale: float) -> Schedule:
    """Step size scale / t, for strongly convex losses.

    Args:
      scale: Step of the first round, above 0; 1 / lambda for losses of curvature lambda.

    Returns:
      A function of the round t = 1, 2, ..., for any parameter `step`.

    Example:
      >>> from tacit.algorithms import inverse
      >>> inverse(1.0), float(inverse(1.0)(4))
      (inverse(1), 0.25)
    """
    return _Falling(scale, rooted=False)


def sum_until(schedule: Schedule, t: Array) -> Array:
    """Return |schedule(1)| + ... + |schedule(t)|: how far steps lead at most."""
    total: Array = jax.lax.fori_loop(
        jnp.int32(1), t + 1, lambda k, total: total + jnp.abs(schedule(k)), jnp.zeros((), _precision())
    )
    return total
