"""Newton steps for the local problem of `tacit.algorithms._parts.proximal`, in the records' coordinates.

    alpha_i = p_i phi'(z_i),   z = z0 - X X' alpha / m

As many numbers are looked for as there are records. A step is as long as is best along its direction.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp

from tacit.core.contract import Array

HALVINGS = 20
"""Of the interval in which the best length of a Newton step is looked for."""
MOST_STEPS = 200


class LocalProblem(NamedTuple):
    """A local problem in the records' coordinates."""

    x: Array
    gram: Array
    slope: Callable[[Array], Array]
    """Predictions -> phi', clipped where that is asked for."""
    share: Array
    """p."""


def newton(
    local: LocalProblem, z0: Array, m: Array, steps: int, solved: Callable[[Array], Array] | None = None
) -> Array:
    """Return alpha after Newton steps, each as long as is best along its direction: a fixed number of them.

    With a test of what is `solved`, as many as that takes, up to `MOST_STEPS`.

    From w the step leads by -X' d / m to predictions z - t u / m with u = X X' d. The derivative of the objective along
    it is <alpha + t d - p phi'(z - t u / m), u> / m, which rises with t: it is zero where the step should end.
    """
    slope, share, gram = local.slope, local.share, local.gram

    def step(alpha: Array) -> Array:
        z = z0 - gram @ alpha / m
        at, bend = jax.jvp(slope, (z,), (jnp.ones_like(z),))  # each slope is its own prediction's
        bend = share * bend
        matrix = jnp.eye(z.size, dtype=z.dtype) + bend[:, None] * gram / m
        d = jnp.linalg.solve(matrix, share * at + bend * (z0 - z)) - alpha
        u = gram @ d

        def too_long(t: Array) -> Array:
            slack: Array = alpha + t * d - share * slope(z - t * u / m)
            return jnp.dot(slack, u) > 0

        def halve(_: int, ends: tuple[Array, Array]) -> tuple[Array, Array]:
            low, high = ends
            middle = (low + high) / 2
            beyond = too_long(middle)
            return jnp.where(beyond, low, middle), jnp.where(beyond, middle, high)

        one = jnp.ones((), z.dtype)
        low, _ = jax.lax.fori_loop(0, HALVINGS, halve, (0 * one, one))
        longer: Array = alpha + jnp.where(too_long(one), low, one) * d
        return longer

    start = share * slope(z0)
    if solved is None:
        return jnp.asarray(jax.lax.fori_loop(0, steps, lambda _, alpha: step(alpha), start))
    done = solved

    def unsolved(state: tuple[Array, Array]) -> Array:
        count, alpha = state
        return (count < MOST_STEPS) & jnp.all(jnp.isfinite(alpha)) & ~done(alpha)

    _, alpha = jax.lax.while_loop(unsolved, lambda s: (s[0] + 1, step(s[1])), (jnp.zeros((), jnp.int32), start))
    return jnp.asarray(alpha)
