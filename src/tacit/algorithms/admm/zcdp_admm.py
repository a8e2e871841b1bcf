"""Private learning of nonsmooth objectives by linearised ADMM, zCDP-NFL (Gauthier (2023), ch. 3, Alg. 2).

    w_k   = (u_k / eta_t + rho sum_l (u_k + u_l) - f_k'(u_k) - gamma_k) / (1 / eta_t + 2 rho |N_k|)
    u_k   = w_k + noise                                                  released, and all that is ever used again
    gamma_k <- gamma_k + rho sum_l (u_k - u_l)

f_k' is any subgradient. f_k is the objective: the mean loss of the own records plus the regulariser, the agent's share
of it (lambda / K in the text).

A record enters through its clipped gradient, divided by the denominator of the first line. So one that is replaced
moves w_k by at most 2 c / (D_k (2 rho |N_k| + 1 / eta_t)), (3.12), and noise on w_k is noise on that update: that is
what is released (`perturbs="update"`), since a model's own rounding errors would add to its sensitivity.
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
ZCDP_CLAIM = "phi_n-zCDP in round n, (epsilon, delta) of the run by the sum of all phi_n (Gauthier (2023), Theorem I)"
CLASSIC_CLAIM = (
    "(epsilon, delta) of each round by the classic calibration, added up over the rounds (Gauthier (2023), sec. 3.4)"
)


@register("Gauthier (2023), Alg. 2", title="Linearised ADMM under zCDP (zCDP-NFL)")
def zcdp_admm(
    objective: Objective,
    step: StepSize = VANISHING,
    mechanism: Mechanism = unprotected,
    penalty: float = 1.0,
) -> Algorithm:
    """Linearised ADMM under zCDP (zCDP-NFL), for losses and regularisers that need not be smooth.

    In a round each agent moves its last released model by a subgradient, its multiplier and the pull towards its
    neighbours, in closed form; releases the outcome with noise; hears its neighbours' models; and moves its multiplier
    by the disagreement. All that is ever used again was released.

    Args:
      objective: Loss and regulariser, e.g. `tacit.objectives.logistic(l2=1e-4)`.
      step: eta_t above 0, a number or a function of the round, which should vanish; `inverse_sqrt(0.5)` by default.
      mechanism: Noise, its place and its account, e.g. `tacit.privacy.laplace(1.0, clip=1.0)`; none by default.
      penalty: rho above 0, how hard neighbours are pulled together.

    Returns:
      An algorithm for `tacit.simulate`, a peer or an audit.

    Example:
      >>> import tacit
      >>> lasso = tacit.objectives.squared(l1=0.01)
      >>> sorted(tacit.algorithms.zcdp_admm(lasso, penalty=0.5).requires)
      ['fixed', 'reliable', 'strongly_connected', 'symmetric']

    References:
      Gauthier (2023), thesis, NTNU, ch. 3, Alg. 2.
    """
    return _linearised("zcdp_admm", ZCDP_CLAIM, objective, step, mechanism, penalty)


@register("Gauthier (2023), sec. 3.4, baseline", title="Linearised ADMM, classic noise (DP-NFL)")
def dp_admm(
    objective: Objective,
    step: StepSize = VANISHING,
    mechanism: Mechanism = unprotected,
    penalty: float = 1.0,
) -> Algorithm:
    """Linearised ADMM under noise calibrated for (epsilon, delta) round by round (DP-NFL): a baseline.

    Rounds are those of `zcdp_admm`; the noise is meant to be `tacit.privacy.classic_gaussian`.

    Args:
      objective: Loss and regulariser, e.g. `tacit.objectives.logistic(l2=1e-4)`.
      step: eta_t above 0, a number or a function of the round, which should vanish; `inverse_sqrt(0.5)` by default.
      mechanism: Noise, its place and its account, e.g. `tacit.privacy.laplace(1.0, clip=1.0)`; none by default.
      penalty: rho above 0, how hard neighbours are pulled together.

    Returns:
      An algorithm for `tacit.simulate`, a peer or an audit.

    Example:
      >>> import tacit
      >>> noise = tacit.privacy.classic_gaussian(0.5, 1e-5, clip=1.0)
      >>> tacit.algorithms.dp_admm(tacit.objectives.logistic(), mechanism=noise).privacy.private
      True

    References:
      Gauthier (2023), thesis, NTNU, sec. 3.4.
    """
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
        return state, descent.value(state.u, start(state, view), batch, view, key)

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
        continuation={"peer": lambda state, views: admm.continued(state, views["peers"])},
    )
