"""Private online Lagrangian descent with K-benchmark comparators (Dissertation, ch. 4).

A virtual queue Q_i per constraint, T rounds known beforehand, a cautiousness V in (K, T), alpha = max(T, V sqrt T):

    z_i = Proj(x_i - (V grad f_it(x_i) + Q_i grad c_it(x_i) + noise) / (2 alpha));   x_i = sum_j W[i, j] z_j
    Q_i <- max(0, Q_i + c_it(x_i) + <grad c_it(x_i), z_i - x_i>)        x_i of before the step

Errata. The text adds Lap(sensitivity of grad f / eps) to V grad f, whose sensitivity is V times as large. Here what is
clipped and noised is grad f + (Q / V) grad c, and the step is V / (2 alpha) times that. With V below sqrt T, alpha = T
makes the step V / (2 T): so small that regret is linear until far beyond T; the theorem is about V >= sqrt T.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import jax.numpy as jnp

from tacit.algorithms.mirror._duals import primal_dual
from tacit.algorithms.mirror._observations import Dual
from tacit.algorithms.registry import register
from tacit.algorithms.schedules import as_schedule
from tacit.core.checks import positive, whole_number
from tacit.core.contract import Algorithm, Array, Mechanism, Objective, View, unprotected
from tacit.objectives import Constraint, Euclidean, MirrorMap, spending_limit

EUCLIDEAN = Euclidean()
TEXT_CLAIMS = "eps-local differential privacy of the run by noise on the gradient alone (Dissertation, ch. 4)"


@register(
    "Dissertation, ch. 4, Alg. 1", {"constraints": spending_limit(1.0), "rounds": 1000}, title="Lagrangian descent"
)
def lagrangian_descent(
    objective: Objective,
    constraints: Constraint | Sequence[Constraint],
    rounds: int,
    boldness: float | None = None,
    mechanism: Mechanism = unprotected,
    mirror: MirrorMap = EUCLIDEAN,
    dual: Dual = "private",
) -> Algorithm:
    """Online Lagrangian descent: virtual queues of the constraints pull at each step.

    In a round each agent steps along the noisy gradient of its loss plus its queues times the constraints, sends the
    outcome and averages what it hears; each queue grows by the violation that the step leads to, and empties while the
    constraint is kept. Regret is O(K T / (V eps) + sqrt T) against points that keep every window of K rounds
    (`run.regret(window=K)`), violation O(sqrt(V T)).

    Args:
      objective: Loss and regulariser, e.g. `tacit.objectives.logistic(l2=1e-4)`.
      constraints: One or several `tacit.objectives.Constraint`, each to be at most 0 in the long run.
      rounds: T, the length of the run, from 1 on; step sizes are made for it.
      boldness: V above 0, called cautiousness in the text: larger means less regret and more violation; sqrt(T) by
        default.
      mechanism: Noise, its place and its account, e.g. `tacit.privacy.laplace(1.0, clip=1.0)`; none by default.
      mirror: Geometry and set X of the step, e.g. `tacit.objectives.entropy()`; Euclidean and unbounded by default.
      dual: "private" keeps dual variables from the mechanism, and every release is charged to every record;
        "released" sends constraints through it too, and each record is charged once.

    Returns:
      An algorithm for `tacit.simulate`, a peer or an audit.

    Example:
      >>> import tacit
      >>> limit = tacit.objectives.spending_limit(1.0)
      >>> algorithm = tacit.algorithms.lagrangian_descent(tacit.objectives.logistic(), limit, rounds=20)
      >>> algorithm.horizon, sorted(algorithm.requires)
      (20, ['receiver_normalised', 'reliable', 'strongly_connected'])

    References:
      Dissertation on private online optimisation, ch. 4, Alg. 1.
    """
    whole_number("rounds", rounds, "the T that step sizes are made for")
    bold = math.sqrt(rounds) if boldness is None else boldness
    positive("boldness", bold, "the V of the text")
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
