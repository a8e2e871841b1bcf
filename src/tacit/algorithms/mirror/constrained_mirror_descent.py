"""Private online mirror descent with long-term constraints: a saddle point (Dissertation, ch. 3).

L = f + <lambda_i, c> - (gamma eta_t / 2) ||lambda_i||^2, mirror descent in x and gradient ascent in lambda_i >= 0:

    ghat_i = clipped grad_x [f_it + <lambda_i, c_it>](x_i) + noise
    grad R(y) = grad R(x_i) - eta_t ghat_i;   z_i = argmin_{x in X} B_R(x, y);   x_i = sum_j W[i, j] z_j
    lambda_i <- max(0, lambda_i + eta_t (c_it(x_i) - gamma eta_t lambda_i))

with c taken at the x_i of before the step.

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
from tacit.core.checks import nonnegative
from tacit.core.contract import Algorithm, Array, Mechanism, Objective, Schedule, View, unprotected
from tacit.core.errors import ConfigError
from tacit.objectives import Constraint, Euclidean, MirrorMap, spending_limit

EUCLIDEAN = Euclidean()
ONE_OVER_SQRT_T = inverse_sqrt(1.0)
TEXT_CLAIMS = "eps-local differential privacy of the run by noise on the gradient alone (Dissertation, ch. 3)"


class SaddleConstants(NamedTuple):
    """The text's step size and damping."""

    step: Schedule
    damping: float


def saddle_constants(divergence: float, value: float, slope: float, convexity: float = 1.0) -> SaddleConstants:
    """Step size and damping of `constrained_mirror_descent` from bounds on the problem.

    eta_t = sqrt(b / (t (D^2 + G^2 / alpha))) and gamma = 2 G^2 / alpha.

    Args:
      divergence: b, bound of the Bregman divergence between two points of the set, above 0.
      value: D, bound of the constraints' absolute values, above 0.
      slope: G, bound of the gradients of loss and constraints in the dual norm, above 0.
      convexity: alpha, strong convexity of the mirror map, above 0.

    Returns:
      `step` and `damping`.

    Example:
      >>> import tacit
      >>> tacit.algorithms.saddle_constants(divergence=2.0, value=1.0, slope=1.0)
      SaddleConstants(step=inverse_sqrt(1), damping=2.0)

    References:
      Dissertation on private online optimisation, ch. 3.
    """
    if not min(divergence, value, slope, convexity) > 0:
        raise ConfigError(
            f"divergence = {divergence}, value = {value}, slope = {slope}, convexity = {convexity}: expected bounds "
            "above 0"
        )
    scale = math.sqrt(divergence / (value**2 + slope**2 / convexity))
    return SaddleConstants(inverse_sqrt(scale), 2 * slope**2 / convexity)


@register("Dissertation, ch. 3, Alg. 1", {"constraints": spending_limit(1.0)}, title="Constrained mirror descent")
def constrained_mirror_descent(
    objective: Objective,
    constraints: Constraint | Sequence[Constraint],
    step: StepSize = ONE_OVER_SQRT_T,
    damping: float = 2.0,
    mechanism: Mechanism = unprotected,
    mirror: MirrorMap = EUCLIDEAN,
    dual: Dual = "private",
) -> Algorithm:
    """Online mirror descent that keeps constraints in the long run.

    In a round each agent takes a mirror step along the noisy gradient of its loss plus its multipliers times the
    constraints, sends the outcome and averages what it hears; then each multiplier grows by the step size times the
    violation, less a damping. Multipliers stay with the agent, but were made of data: `dual` says how that is charged.
    Compare with points that keep every round's constraint (`run.regret(window=1)`).

    Args:
      objective: Loss and regulariser, e.g. `tacit.objectives.logistic(l2=1e-4)`.
      constraints: One or several `tacit.objectives.Constraint`, each to be at most 0 in the long run.
      step: Step size above 0, a number or a function of the round t = 1, 2, ...; `inverse_sqrt(1)` by default.
      damping: gamma, how fast multipliers shrink, from 0 on; see `saddle_constants`.
      mechanism: Noise, its place and its account, e.g. `tacit.privacy.laplace(1.0, clip=1.0)`; none by default.
      mirror: Geometry and set X of the step, e.g. `tacit.objectives.entropy()`; Euclidean and unbounded by default.
      dual: "private" keeps dual variables from the mechanism, and every release is charged to every record;
        "released" sends constraints through it too, and each record is charged once.

    Returns:
      An algorithm for `tacit.simulate`, a peer or an audit.

    Example:
      >>> import tacit
      >>> limit = tacit.objectives.spending_limit(1.0)
      >>> algorithm = tacit.algorithms.constrained_mirror_descent(tacit.objectives.logistic(), limit)
      >>> list(algorithm.constraints)
      ['spending at most 1']

    References:
      Dissertation on private online optimisation, ch. 3, Alg. 1.
    """
    nonnegative("damping", damping, "the gamma of the text")
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
