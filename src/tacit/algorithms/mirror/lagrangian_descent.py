"""Private online Lagrangian descent with K-benchmark comparators (000 ch. 4).

A virtual queue Q_i per constraint, T rounds known beforehand, a cautiousness V in (K, T), alpha = max(T, V sqrt T):

    z_i = Proj(x_i - (V grad f_it(x_i) + Q_i grad c_it(x_i) + noise) / (2 alpha));   x_i = sum_j W[i, j] z_j
    Q_i <- max(0, Q_i + c_it(x_i) + <grad c_it(x_i), z_i - x_i>)        x_i of before the step

Regret O(K T / (V eps) + sqrt T) against points that keep every window of K rounds (`run.regret(window=K)`), violation
O(sqrt(V T)): a larger V is bolder. Other mirror maps than the Euclidean one replace the projection by a mirror step.
The Q_i are private: see `duals` for what that means for privacy, and for `dual="released"`.

Errata. The text adds Lap(sensitivity of grad f / eps) to V grad f, whose sensitivity is V times as large. Here what is
clipped and noised is grad f + (Q / V) grad c, and the step is V / (2 alpha) times that. With V below sqrt T, alpha = T
makes the step V / (2 T): so small that regret is linear until far beyond T; the theorem is about V >= sqrt T.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import jax.numpy as jnp

from tacit.algorithms._parts.validation import whole_number
from tacit.algorithms.mirror._duals import primal_dual
from tacit.algorithms.mirror._observations import Dual
from tacit.algorithms.registry import register
from tacit.algorithms.schedules import as_schedule
from tacit.core.contract import Algorithm, Array, Mechanism, Objective, View, unprotected
from tacit.core.errors import ConfigError
from tacit.objectives import Constraint, Euclidean, MirrorMap, spending_limit

EUCLIDEAN = Euclidean()
TEXT_CLAIMS = "eps-local differential privacy of the run by noise on the gradient alone (000 ch. 4)"


@register("000 ch. 4 Alg. 1", example={"constraints": spending_limit(1.0), "rounds": 1000})
def lagrangian_descent(
    objective: Objective,
    constraints: Constraint | Sequence[Constraint],
    rounds: int,
    boldness: float | None = None,
    mechanism: Mechanism = unprotected,
    mirror: MirrorMap = EUCLIDEAN,
    dual: Dual = "private",
) -> Algorithm:
    """Online Lagrangian descent: virtual queues of the constraints pull at each step; V trades regret for violation.

    `rounds` is T, `boldness` the text's cautiousness V (default: sqrt T).
    """
    whole_number("rounds", rounds, "the T that step sizes are made for")
    bold = math.sqrt(rounds) if boldness is None else boldness
    if not (isinstance(bold, int | float) and 0 < bold < math.inf):
        raise ConfigError(f"boldness = {boldness!r}: expected a number above 0, the V of the text")
    alpha = max(rounds, bold * math.sqrt(rounds))

    def ascend(queues: Array, values: Array, changes: Array, view: View) -> Array:
        return jnp.maximum(0, queues + values + changes)

    made = primal_dual(
        "lagrangian_descent",
        objective,
        constraints,
        mechanism,
        mirror,
        dual,
        step=as_schedule(bold / (2 * alpha)),
        weigh=lambda queues: queues / bold,
        ascend=ascend,
        needs_slopes=True,
        text_claims=TEXT_CLAIMS,
    )
    return made._replace(horizon=rounds)
