"""Private online mirror descent with long-term constraints (000 ch. 3): a saddle point, per-round benchmark.

L = f + <lambda_i, c> - (gamma eta_t / 2) ||lambda_i||^2, mirror descent in x and gradient ascent in lambda_i >= 0:

    ghat_i = clipped grad_x [f_it + <lambda_i, c_it>](x_i) + noise
    grad R(y) = grad R(x_i) - eta_t ghat_i;   z_i = argmin_{x in X} B_R(x, y);   x_i = sum_j W[i, j] z_j
    lambda_i <- max(0, lambda_i + eta_t (c_it(x_i) - gamma eta_t lambda_i))

with c taken at the x_i of before the step. eta_t = sqrt(b / (t (D^2 + G^2 / alpha))) and gamma = 2 G^2 / alpha, where b
bounds the divergence, D the constraints, G their and the loss's gradients and alpha is R's strong convexity:
`saddle_constants`. Regret is taken against points that keep every round's constraint (`run.regret(window=1)`).
The lambda_i are private: see `duals` for what that means for privacy, and for `dual="released"`.

Erratum: the text's regret bound, O(V T / (eps max W_uu)), is linear in T; what is measured here grows more slowly.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import jax.numpy as jnp

from tacit.algorithms.mirror._duals import primal_dual
from tacit.algorithms.mirror._observations import Dual
from tacit.algorithms.registry import register
from tacit.algorithms.schedules import StepSize, as_schedule, inverse_sqrt
from tacit.core.contract import Algorithm, Array, Mechanism, Objective, Schedule, View, unprotected
from tacit.core.errors import ConfigError
from tacit.objectives import Constraint, Euclidean, MirrorMap, spending_limit

EUCLIDEAN = Euclidean()
ONE_OVER_SQRT_T = inverse_sqrt(1.0)
TEXT_CLAIMS = "eps-local differential privacy of the run by noise on the gradient alone (000 ch. 3)"


class SaddleConstants(NamedTuple):
    """The text's step size and damping."""

    step: Schedule
    damping: float


def saddle_constants(divergence: float, value: float, slope: float, convexity: float = 1.0) -> SaddleConstants:
    """Return eta_t and gamma from bounds: b of the divergence, D of |c|, G of gradients in the dual norm, and alpha."""
    if not min(divergence, value, slope, convexity) > 0:
        raise ConfigError(
            f"divergence = {divergence}, value = {value}, slope = {slope}, convexity = {convexity}: expected bounds "
            "above 0"
        )
    scale = math.sqrt(divergence / (value**2 + slope**2 / convexity))
    return SaddleConstants(inverse_sqrt(scale), 2 * slope**2 / convexity)


@register("000 ch. 3 Alg. 1", example={"constraints": spending_limit(1.0)})
def constrained_mirror_descent(
    objective: Objective,
    constraints: Constraint | Sequence[Constraint],
    step: StepSize = ONE_OVER_SQRT_T,
    damping: float = 2.0,
    mechanism: Mechanism = unprotected,
    mirror: MirrorMap = EUCLIDEAN,
    dual: Dual = "private",
) -> Algorithm:
    """Mirror descent that keeps constraints in the long run: a multiplier per constraint grows while it is violated."""
    if not (isinstance(damping, int | float) and 0 <= damping < math.inf):
        raise ConfigError(f"damping = {damping!r}: expected a finite number from 0 on, the gamma of the text")
    eta = as_schedule(step)

    def ascend(duals: Array, values: Array, changes: Array, view: View) -> Array:
        rate = eta(view.round)
        return jnp.maximum(0, duals + rate * (values - damping * rate * duals))

    return primal_dual(
        "constrained_mirror_descent",
        objective,
        constraints,
        mechanism,
        mirror,
        dual,
        step=eta,
        weigh=lambda duals: duals,
        ascend=ascend,
        needs_slopes=False,
        text_claims=TEXT_CLAIMS,
    )
