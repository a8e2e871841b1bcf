"""Stability of a step size: the bounds of Gauthier (2023), Theorems 4.1 and 4.2, checked on data before a run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np

from tacit.algorithms.local_step import LocalStep, is_optimiser
from tacit.algorithms.schedules import as_schedule
from tacit.core.contract import Array, Batch, Mechanism, Objective, Separable
from tacit.core.errors import ConfigError
from tacit.objectives import MeanLoss, squared_loss

POWER_STEPS = 40


def steps_within(
    objective: Objective, step: LocalStep, mechanism: Mechanism, unstable: Literal["refuse", "allow"]
) -> Callable[[Batch], None] | None:
    """Return the check of a step size against the data's curvature, or None where there is nothing to check.

    The theorems speak of least squares; a clip keeps any step from growing beyond bounds.
    """
    if unstable not in ("refuse", "allow"):
        raise ConfigError(f"unstable = {unstable!r}: expected 'refuse' or 'allow'")
    if is_optimiser(step):  # of which the theorems say nothing
        return None
    schedule = as_schedule(step)  # type: ignore[arg-type]
    loss = objective.loss.data if isinstance(objective.loss, Separable) else objective.loss
    squares = isinstance(loss, MeanLoss) and loss.sample is squared_loss
    if unstable == "allow" or mechanism.clip is not None or not squares:
        return None

    def check(batches: Batch) -> None:
        largest = float(np.max(jax.vmap(schedule)(jnp.arange(1, 1001))))
        curvature = largest_curvature(objective, batches)
        agent = int(np.argmax(curvature))
        bound = 1 / float(curvature[agent])
        if largest > bound:
            raise ConfigError(
                f"step = {largest:g} is above {bound:.4g}, the inverse of the largest eigenvalue of agent {agent}'s "
                f"E[z z'] (Theorem 4.2; above {2 * bound:.4g} the mean diverges, Theorem 4.1): take a smaller one, "
                "or force it with unstable='allow'"
            )

    return check


def largest_curvature(objective: Objective, batches: Batch) -> np.ndarray[Any, Any]:
    """Return (agents,) the largest eigenvalue of the Hessian of each agent's mean loss, of least squares E[z z'].

    `batches` have leading axes (rounds, agents). By power iteration from below: short of the truth by little where
    the largest eigenvalue stands apart, as that of positive features does.
    """
    samples = jnp.ndim(batches.y) - 2  # 1 where a round brings several

    def own(leaf: Array) -> Array:
        by_agent = jnp.moveaxis(jnp.asarray(leaf), 0, 1)
        return by_agent.reshape(by_agent.shape[0], -1, *by_agent.shape[2 + samples :])

    def of_agent(batch: Batch) -> Array:
        at = objective.initial(batch)
        slope = jax.grad(lambda params: objective.loss(params, batch))

        def turn(_: Array, direction: Array) -> Array:
            curved = jax.jvp(slope, (at,), (direction,))[1]
            turned: Array = curved / jnp.maximum(jnp.linalg.norm(curved), 1e-30)
            return turned

        start = jax.random.normal(jax.random.key(0), at.shape, at.dtype)
        top = jax.lax.fori_loop(0, POWER_STEPS, turn, start / jnp.linalg.norm(start))
        found: Array = jnp.vdot(top, jax.jvp(slope, (at,), (top,))[1])
        return found

    found = jax.jit(lambda stacked: jax.lax.map(of_agent, stacked, batch_size=32))(jax.tree.map(own, batches))
    return np.maximum(np.asarray(found, np.float64), 1e-30)
