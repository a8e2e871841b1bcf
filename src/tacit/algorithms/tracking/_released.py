"""Gradient of a round as it was released, for methods that go on using it: momentum, trackers, corrections.

Wherever the mechanism puts its noise, what comes of it here is made of the released value, and so is every sum of such
gradients: a record is charged for the release of its round, however long a buffer remembers it. A step from the origin
is the step itself, so that noise on the model is noise on the step.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from tacit.algorithms._parts.descent import gradient_step
from tacit.algorithms.schedules import StepSize, as_rate
from tacit.core.contract import Array, Batch, Key, Mechanism, Objective, Params, Tree, View

ONE_RATE = (
    "its correction cancels what agents' data differ by only where all of them step by the same multiple of their "
    "gradients, and an optimiser scales each agent's own; gradient_tracking takes one, which steps along the tracker"
)
"""Why methods with a correction take no optimiser."""


class ReleasedGradient(NamedTuple):
    """A gradient around a mechanism."""

    mechanism: Mechanism
    """With the sensitivity of what is released."""
    rate: Callable[[View], Array]
    """Step size of the round."""
    value: Callable[[Params, Batch, View, Key], Tree]
    """(where it is taken, batch, view, key) -> what is to be released."""
    step: Callable[[Params, Tree, View], Params]
    """(where it was taken, what was released, view) -> rate * gradient."""
    gradient: Callable[[Params, Tree, View], Params]
    """(where it was taken, what was released, view) -> the gradient, the regulariser's part included."""

    def taken_at(self, place: Callable[[Any], Params]) -> Callable[[Key, Any, Batch, View], tuple[Any, Tree]]:
        """Return the compute of a phase that releases the gradient at a place of the state, and leaves the state."""
        return lambda key, state, batch, view: (state, self.value(place(state), batch, view, key))


def released_gradient(objective: Objective, step: StepSize, mechanism: Mechanism) -> ReleasedGradient:
    """Return the gradient of a batch, with noise on it, on the step that it makes or on where that leads."""
    if mechanism.distribution is None:
        mechanism = mechanism._replace(perturbs="gradient")
    rate = as_rate(step)
    descent = gradient_step(objective, rate, mechanism)

    def value(at: Params, batch: Batch, view: View, key: Key) -> Tree:
        return descent.value(at, nothing(at), batch, view, key)

    def stepped(at: Params, released: Tree, view: View) -> Params:
        return jax.tree.map(jnp.negative, descent.moved(at, nothing(at), released, view))

    def gradient(at: Params, released: Tree, view: View) -> Params:
        if mechanism.perturbs == "gradient":
            return descent.whole(at, released)
        return divided(stepped(at, released, view), rate(view))

    return ReleasedGradient(descent.mechanism, rate, value, stepped, gradient)


def nothing(like: Params) -> Params:
    """Return zeros of the same shapes."""
    return jax.tree.map(jnp.zeros_like, like)


def divided(step: Params, rate: Array) -> Params:
    """Return step / rate, and nothing in a round whose rate is 0."""
    factor = jnp.where(rate == 0, 0, 1 / jnp.where(rate == 0, 1, rate))
    return jax.tree.map(lambda leaf: factor.astype(leaf.dtype) * leaf, step)


def minus(start: Params, rate: Array, direction: Params) -> Params:
    """Return start - rate * direction."""
    return jax.tree.map(lambda x, d: x - rate.astype(x.dtype) * d, start, direction)
