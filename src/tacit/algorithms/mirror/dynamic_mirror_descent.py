"""Private online mirror descent over links that come and go (Dissertation, ch. 5).

    y_i = sum_j W_t[i, j] x_j;   x_i <- argmin_{x in X} <ghat_i(y_i), x> + B_R(x, y_i) / eta_t

With y as the state this is `mirror_descent` with its rounds cut elsewhere: what the text calls W_{t+1} acts at the end
of our round t, and W_1 mixes equal starts.

Errata. The text takes W_t as column-stochastic, which leaves X; it is read as receiver-normalised. Then the limit is
weighted towards agents that are heard most; `unbiased=True` is the push-sum form. The bound (5.25) has a term linear in
T, 2 T L^2 V eta_0 (2 + C V / (1 - lambda)), for a fixed first step: sublinear dynamic regret follows from it only where
eta_0 falls with T, as in eta = c / sqrt(T).
"""

from __future__ import annotations

from tacit.algorithms._parts.mixing import IfMissing
from tacit.algorithms.local_step import LocalStep
from tacit.algorithms.mirror.mirror_descent import EUCLIDEAN, mirror_descent
from tacit.algorithms.registry import register
from tacit.algorithms.schedules import inverse_sqrt
from tacit.core.checks import whole_number
from tacit.core.contract import Algorithm, Mechanism, Objective, unprotected
from tacit.objectives import MirrorMap

TEXT_CLAIMS = (
    "eps-local differential privacy of every gradient, one of its components changing (Dissertation, ch. 5, Theorem 1)"
)
ONE_OVER_SQRT_T = inverse_sqrt(1.0)


@register("Dissertation, ch. 5, (5.12)-(5.13)", title="Mirror descent on changing links")
def dynamic_mirror_descent(
    objective: Objective,
    step: LocalStep = ONE_OVER_SQRT_T,
    mechanism: Mechanism = unprotected,
    mirror: MirrorMap = EUCLIDEAN,
    unbiased: bool = False,
    window: int | None = None,
    missing: IfMissing = "wait",
) -> Algorithm:
    """Online mirror descent on links that come and go, with agents that stay away at will.

    Rounds are those of `mirror_descent`, with weights rebuilt in every round from the agents that are present; an
    absent one neither sends nor steps, and keeps its state. Every `window` rounds in a row must connect all agents, or
    the run is refused.

    Args:
      objective: Loss and regulariser, e.g. `tacit.objectives.logistic(l2=1e-4)`.
      step: Step size above 0, a number or a function of the round t = 1, 2, ..., or an optimiser such as
        `optax.adam(1e-3)`; `inverse_sqrt(1)` by default.
      mechanism: Noise, its place and its account, e.g. `tacit.privacy.laplace(1.0, clip=1.0)`; none by default.
      mirror: Geometry and set X of the step, e.g. `tacit.objectives.entropy()`; Euclidean and unbounded by default.
      unbiased: Whether every agent counts the same on a digraph (push-sum in the dual); biased by default.
      window: Rounds in a row whose links together connect all agents, from 1 on; by default those of the whole run.
      missing: "wait" for every message of a round, or "renormalise" over those that arrived.

    Returns:
      An algorithm for `tacit.simulate`, a peer or an audit.

    Example:
      >>> import tacit
      >>> algorithm = tacit.algorithms.dynamic_mirror_descent(tacit.objectives.logistic(), window=10)
      >>> sorted(algorithm.requires)
      ['connected_over_time', 'receiver_normalised', 'reliable']

    References:
      Dissertation on private online optimisation, ch. 5, (5.12)-(5.13) and Assumption 3.
    """
    if window is not None:
        whole_number("window", window, "so many rounds in a row; or None for all of them")
    fixed = mirror_descent(objective, step, mechanism, mirror, unbiased, missing)
    return fixed._replace(
        name="dynamic_mirror_descent",
        requires=(fixed.requires - {"strongly_connected"}) | {"connected_over_time"},
        privacy=fixed.privacy._replace(text_claims=TEXT_CLAIMS),
        window=window,
    )
