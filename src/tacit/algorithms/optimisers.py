"""Optimisers as local steps: any `optax.GradientTransformation`, with its memory in the agent's state.

    g           what is released of the gradient, with the regulariser's part
    u, m <- optimiser(g, m, x)
    the step leads from `start` to start + u            instead of start - step * g

The memory m is made of released gradients alone, so that account, composition and sensitivity are those of the plain
step at the same mechanism: what an optimiser does is post-processing. It is the agent's own and is never sent. In a
round that brings an agent no data, or in which it is away, it takes no step and its memory stays.

optax is not imported here but by the named constructors, which a file uses; whoever has an optimiser has imported it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp

from tacit.algorithms.local_step import Optimiser
from tacit.algorithms.schedules import StepSize, as_schedule
from tacit.core.checks import positive, proportion
from tacit.core.contract import Algorithm, Array, Batch, Key, Outbox, Params, State, Tree, View
from tacit.core.errors import ConfigError
from tacit.core.extras import require
from tacit.core.lifted import Carrying, lift


def with_memory(
    algorithm: Algorithm,
    optimiser: Optimiser,
    whole: Callable[[Params, Tree], Tree],
    at: Callable[[State], Params],
    phase: int,
    learns: Callable[[State, View], Array] | None,
    trains: Callable[..., tuple[State, Tree]] | None = None,
) -> Algorithm:
    """Return `tacit.algorithms.local_step.optimised` of a method that was made with an optimiser."""
    role, made = algorithm.phases[phase].source, algorithm.phases[phase].emit
    lifted = lift(algorithm, role, lambda state, views: optimiser.init(at(state)))

    def emit(carrying: Carrying, released: Tree, view: View) -> tuple[Carrying, Outbox]:
        steps = jnp.asarray(view.fresh) & view.present
        if learns is not None:
            steps &= learns(carrying.state, view)
        here = at(carrying.state)
        update, memory = updated(optimiser, whole(here, released), carrying.carried, here)
        memory = jax.tree.map(lambda new, old: jnp.where(steps, new, old), memory, carrying.carried)
        update = jax.tree.map(lambda leaf: jnp.where(steps, leaf, 0), update)
        state, outbox = made(carrying.state, update, view)
        return Carrying(state, memory), outbox

    def compute(key: Key, carrying: Carrying, batch: Batch, view: View) -> tuple[Carrying, Tree]:
        assert trains is not None
        state, value = trains(key, carrying.state, batch, view, carrying.carried)
        return Carrying(state, carrying.carried), value

    phases = list(lifted.phases)
    whole_phase = phases[phase]
    phases[phase] = whole_phase._replace(emit=emit, compute=whole_phase.compute if trains is None else compute)
    return lifted._replace(phases=tuple(phases))


def updated(optimiser: Optimiser, gradient: Tree, memory: Tree, params: Params) -> tuple[Params, Tree]:
    """Return what to add to the parameters, and the memory, both of the types that they had."""
    update, after = optimiser.update(gradient, memory, params)
    return jax.tree.map(_as, update, params), jax.tree.map(_as, after, memory)


def _as(new: Array, old: Array) -> Array:
    return jnp.asarray(new, jnp.result_type(old))


def _of_count(rate: StepSize) -> Any:
    """Return a rate as optax has it: a function of the steps that were taken, counted from 0."""
    schedule = as_schedule(rate, "rate")
    return (lambda count: schedule(count + 1)) if callable(rate) else rate


def _made(name: str, rate: StepSize, clip_norm: float | None, **settings: Any) -> Optimiser:
    optax = require("optax", "networks", f"optimiser {name!r}")
    try:
        made = getattr(optax, name)(_of_count(rate), **settings)
    except (TypeError, ValueError) as error:
        raise ConfigError(f"optimiser {name!r}: {error}") from error
    if clip_norm is None:
        return made  # type: ignore[no-any-return]
    positive("clip_norm", clip_norm, "none for no clipping")
    return optax.chain(optax.clip_by_global_norm(clip_norm), made)  # type: ignore[no-any-return]


def sgd(
    rate: StepSize, momentum: float | None = None, nesterov: bool = False, clip_norm: float | None = None
) -> Optimiser:
    """Gradient descent with momentum, as `optax.sgd`.

    Args:
      rate: Step size above 0, a number or a function of the steps taken, counted from 1.
      momentum: Share of the last direction that is kept, from 0 to below 1; None: no momentum.
      nesterov: Whether the momentum is Nesterov's.
      clip_norm: Norm that a whole gradient is cut to before the step; None: it is not. It is no clip for privacy.
    """
    if momentum is not None:
        proportion("momentum", momentum, "e.g. 0.9", zero=True)
    return _made("sgd", rate, clip_norm, momentum=momentum, nesterov=nesterov)


def adam(
    rate: StepSize, b1: float = 0.9, b2: float = 0.999, eps: float = 1e-8, clip_norm: float | None = None
) -> Optimiser:
    """Adam, as `optax.adam`.

    Args:
      rate: Step size above 0, a number or a function of the steps taken, counted from 1.
      b1: Share of the mean gradient that is kept, from 0 to below 1.
      b2: Share of the mean square that is kept, from 0 to below 1.
      eps: Added to the root of the mean square.
      clip_norm: Norm that a whole gradient is cut to before the step; None: it is not. It is no clip for privacy.
    """
    shares = {"b1": proportion("b1", b1, zero=True), "b2": proportion("b2", b2, zero=True)}
    return _made("adam", rate, clip_norm, eps=eps, **shares)


def adamw(
    rate: StepSize,
    weight_decay: float = 1e-4,
    b1: float = 0.9,
    b2: float = 0.999,
    eps: float = 1e-8,
    clip_norm: float | None = None,
) -> Optimiser:
    """Adam with decoupled weight decay, as `optax.adamw`.

    Args:
      rate: Step size above 0, a number or a function of the steps taken, counted from 1.
      weight_decay: By how much of themselves, times the rate, parameters shrink in a step.
      b1: Share of the mean gradient that is kept, from 0 to below 1.
      b2: Share of the mean square that is kept, from 0 to below 1.
      eps: Added to the root of the mean square.
      clip_norm: Norm that a whole gradient is cut to before the step; None: it is not. It is no clip for privacy.
    """
    shares = {"b1": proportion("b1", b1, zero=True), "b2": proportion("b2", b2, zero=True)}
    return _made("adamw", rate, clip_norm, weight_decay=weight_decay, eps=eps, **shares)


def rmsprop(
    rate: StepSize,
    decay: float = 0.9,
    eps: float = 1e-8,
    momentum: float | None = None,
    clip_norm: float | None = None,
) -> Optimiser:
    """RMSProp, as `optax.rmsprop`.

    Args:
      rate: Step size above 0, a number or a function of the steps taken, counted from 1.
      decay: Share of the mean square that is kept, from 0 to below 1.
      eps: Added to the root of the mean square.
      momentum: Share of the last direction that is kept; None: no momentum.
      clip_norm: Norm that a whole gradient is cut to before the step; None: it is not. It is no clip for privacy.
    """
    return _made("rmsprop", rate, clip_norm, decay=proportion("decay", decay, zero=True), eps=eps, momentum=momentum)


def adagrad(rate: StepSize, eps: float = 1e-7, clip_norm: float | None = None) -> Optimiser:
    """Adagrad, as `optax.adagrad`.

    Args:
      rate: Step size above 0, a number or a function of the steps taken, counted from 1.
      eps: Added to the sum of squares.
      clip_norm: Norm that a whole gradient is cut to before the step; None: it is not. It is no clip for privacy.
    """
    return _made("adagrad", rate, clip_norm, eps=eps)


OPTIMISERS: Mapping[str, Callable[..., Optimiser]] = {
    "sgd": sgd, "adam": adam, "adamw": adamw, "rmsprop": rmsprop, "adagrad": adagrad,
}  # fmt: skip
"""Kind of an optimiser in a file -> its constructor; all of them are optax's."""
