"""Private online mirror descent over links that come and go, with members that opt out at will (000 ch. 5).

    y_i = sum_j W_t[i, j] x_j;   x_i <- argmin_{x in X} <ghat_i(y_i), x> + B_R(x, y_i) / eta_t

W_t is rebuilt from who is present; who is absent neither talks nor steps. A peer predicts with y_i, at which its
gradient is taken. With y as the state this is `mirror_descent` with its rounds cut elsewhere: what the text calls
W_{t+1} acts at the end of our round t, and W_1 mixes equal starts. Every B rounds in a row must connect everybody
(000 Assumption 3); `window` says B.

Errata. The text takes W_t as column-stochastic, which leaves X; it is read as receiver-normalised. Then the limit is
weighted by who is heard most; `unbiased=True` is the push-sum form. The bound (5.25) has a term linear in T, 2 T L^2 V
eta_0 (2 + C V / (1 - lambda)), for a fixed first step: sublinear dynamic regret follows from it only where eta_0 falls
with T, as in eta = c / sqrt(T).
"""

from __future__ import annotations

from tacit.algorithms._parts.mixing import IfMissing
from tacit.algorithms._parts.validation import whole_number
from tacit.algorithms.mirror.mirror_descent import EUCLIDEAN, mirror_descent
from tacit.algorithms.registry import register
from tacit.algorithms.schedules import StepSize, inverse_sqrt
from tacit.core.contract import Algorithm, Mechanism, Objective, unprotected
from tacit.objectives import MirrorMap

TEXT_CLAIMS = "eps-local differential privacy of every gradient, one of its components changing (000 ch. 5 Theorem 1)"
ONE_OVER_SQRT_T = inverse_sqrt(1.0)


@register("000 ch. 5 (5.12)-(5.13)")
def dynamic_mirror_descent(
    objective: Objective,
    step: StepSize = ONE_OVER_SQRT_T,
    mechanism: Mechanism = unprotected,
    mirror: MirrorMap = EUCLIDEAN,
    unbiased: bool = False,
    window: int | None = None,
    missing: IfMissing = "wait",
) -> Algorithm:
    """Mirror descent on links that come and go: weights are rebuilt from who is present, the absent keep their state.

    `window` is B: the links of every B rounds in a row must connect everybody, or the run is refused.
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
