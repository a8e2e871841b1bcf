"""Private learning of nonsmooth objectives by linearised ADMM, zCDP-NFL (001 ch. 3, Alg. 2).

    w_k   = (u_k / eta_t + rho sum_l (u_k + u_l) - f_k'(u_k) - gamma_k) / (1 / eta_t + 2 rho |N_k|)
    u_k   = w_k + noise                                                  released, and all that is ever used again
    gamma_k <- gamma_k + rho sum_l (u_k - u_l)

f_k' is any subgradient, so that neither the loss nor the regulariser needs to be smooth; the step is in closed form.
f_k is the objective: the mean loss of the own records plus the regulariser, the agent's share of it (lambda / K in the
text). `step` is eta_t, which should vanish; `penalty` is rho.

A record enters through its clipped gradient, divided by the denominator of the first line. So one that is replaced
moves w_k by at most 2 c / (D_k (2 rho |N_k| + 1 / eta_t)), (3.12), and noise on w_k is noise on that update: that is
what is released (`perturbs="update"`), since a model's own rounding errors would add to its sensitivity.

`dp_admm` is the text's baseline: the same recursion under noise that is calibrated for (epsilon, delta) round by round
(`tacit.privacy.classic_gaussian`).
"""

from __future__ import annotations

import jax

from tacit.algorithms._parts import multipliers as admm
from tacit.algorithms._parts.descent import gradient_step
from tacit.algorithms._parts.multipliers import State
from tacit.algorithms.registry import register
from tacit.algorithms.schedules import StepSize, as_schedule, inverse_sqrt
from tacit.core.contract import (
    Algorithm,
    Array,
    Batch,
    Inbox,
    Key,
    Mechanism,
    Objective,
    Outbox,
    Params,
    Phase,
    Tree,
    View,
    share,
    unprotected,
)
from tacit.privacy import statement

VANISHING = inverse_sqrt(0.5)
ZCDP_CLAIM = "phi_n-zCDP in round n, (epsilon, delta) of the run by the sum of all phi_n (001 Theorem I and corollary)"
CLASSIC_CLAIM = "(epsilon, delta) of each round by the classic calibration, added up over the rounds (001 section 3.4)"


@register("001 Alg. 2")
def zcdp_admm(
    objective: Objective,
    step: StepSize = VANISHING,
    mechanism: Mechanism = unprotected,
    penalty: float = 1.0,
) -> Algorithm:
    """zCDP-NFL: linearised ADMM over a symmetric graph, for losses and regularisers that need not be smooth."""
    return _linearised("zcdp_admm", ZCDP_CLAIM, objective, step, mechanism, penalty)


@register("001 section 3.4, baseline")
def dp_admm(
    objective: Objective,
    step: StepSize = VANISHING,
    mechanism: Mechanism = unprotected,
    penalty: float = 1.0,
) -> Algorithm:
    """(eps, delta)DP-NFL: zCDP-NFL under noise by the classic calibration (`privacy.classic_gaussian`)."""
    return _linearised("dp_admm", CLASSIC_CLAIM, objective, step, mechanism, penalty)


def _linearised(
    name: str, claim: str, objective: Objective, step: StepSize, mechanism: Mechanism, penalty: float
) -> Algorithm:
    eta, rho = as_schedule(step), admm.validate_penalty(penalty)

    def rate(view: View) -> Array:
        return 1 / (1 / eta(view.round) + 2 * rho * view.into.degree)

    descent = gradient_step(objective, rate, mechanism)

    def start(state: State, view: View) -> Params:
        """Where the step begins: what the released values alone make of w_k."""
        near, scale = 1 / eta(view.round), rate(view)

        def leaf(u: Array, pulled: Array) -> Array:
            return scale.astype(u.dtype) * (near.astype(u.dtype) * u + pulled)

        return jax.tree.map(leaf, state.u, admm.pull(state, rho, view))

    def compute(key: Key, state: State, batch: Batch, view: View) -> tuple[State, Tree]:
        return state, descent.value(state.u, start(state, view), batch, view)

    def emit(state: State, released: Tree, view: View) -> tuple[State, Outbox]:
        u = descent.moved(state.u, start(state, view), released, view)
        return state._replace(u=u), share(u)

    def absorb(key: Key, state: State, inbox: Inbox, view: View) -> State:
        return admm.hear(state, rho, inbox, view)

    return Algorithm(
        name=name,
        objective=objective,
        init={"peer": admm.init},
        phases=(Phase("peers", compute, descent.mechanism, absorb, emit),),
        model=lambda state: state.u,
        requires=admm.NEEDS,
        privacy=statement(mechanism, claim),
    )
