"""Networked ADMM whose local problems are solved to the end, P-ADMM (Gauthier (2023), sec. 3.4, baseline).

    w_k = argmin f_k(w) + <gamma_k, w> + rho sum_l ||w - (u_k + u_l) / 2||^2;   u_k = w_k + noise      (3.4)
    gamma_k <- gamma_k + rho sum_l (u_k - u_l)

Without noise it is networked federated learning of one model for all, NFL of ch. 6.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import jax.numpy as jnp

from tacit.algorithms._parts import multipliers as admm
from tacit.algorithms._parts import proximal
from tacit.algorithms.registry import register
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


class State(NamedTuple):
    """State of an agent."""

    shared: admm.State
    residual: Array
    """Of its last local problem; of models sent with noise it is not kept."""


@register("Gauthier (2023), sec. 3.4, baseline", title="Private ADMM (P-ADMM)")
def private_admm(
    objective: Objective,
    mechanism: Mechanism = unprotected,
    penalty: float = 1.0,
    newton_steps: int = proximal.NEWTON_STEPS,
) -> Algorithm:
    """Private ADMM (P-ADMM): local problems solved to the end, for the smooth losses of linear models.

    In a round each agent minimises its loss plus a multiplier term and the squared distances to the midpoints between
    its own and its neighbours' last released models, releases the minimiser with noise, hears its neighbours' and moves
    its multiplier by the disagreement. The sensitivity of a minimiser is bounded in the l2 norm, so clips are l2.

    Args:
      objective: Squared or logistic loss of a linear model, without l1, e.g. `tacit.objectives.squared(l2=0.01)`.
      mechanism: Noise, its place and its account, e.g. `tacit.privacy.laplace(1.0, clip=1.0)`; none by default.
      penalty: rho above 0, how hard neighbours are pulled together.
      newton_steps: Newton steps of a local problem without noise, from 1 on; under noise as many as it takes.

    Returns:
      An algorithm for `tacit.simulate`, a peer or an audit.

    Example:
      >>> import tacit
      >>> algorithm = tacit.algorithms.private_admm(tacit.objectives.squared(l2=0.01), penalty=0.5)
      >>> sorted(algorithm.requires)
      ['fixed', 'reliable', 'strongly_connected', 'symmetric']

    References:
      Gauthier (2023), thesis, NTNU, sec. 3.4, (3.4).
    """
    rho = admm.validate_penalty(penalty)

    def curvature(view: View) -> Array:
        return 2 * rho * view.into.degree

    step = proximal.proximal_step(objective, mechanism, curvature, "private_admm", newton_steps)

    def init(key: Key, params: Params, views: Mapping[str, View]) -> State:
        return State(admm.init(key, params, views), jnp.zeros((), jnp.result_type(float)))

    def compute(key: Key, state: State, batch: Batch, view: View) -> tuple[State, Tree]:
        pull, mu = admm.pull(state.shared, rho, view), curvature(view)
        solution = step.solve(pull, mu, batch, view)
        residual = proximal.residual_to_store(mechanism, state.residual, solution)
        return state._replace(residual=residual), step.value(mu, solution)

    def emit(state: State, released: Tree, view: View) -> tuple[State, Outbox]:
        u = step.moved(admm.pull(state.shared, rho, view), curvature(view), released)
        return state._replace(shared=state.shared._replace(u=u)), share(u)

    def absorb(key: Key, state: State, inbox: Inbox, view: View) -> State:
        return state._replace(shared=admm.hear(state.shared, rho, inbox, view))

    return Algorithm(
        name="private_admm",
        objective=objective,
        init={"peer": init},
        phases=(Phase("peers", compute, step.mechanism, absorb, emit),),
        model=lambda state: state.shared.u,
        requires=admm.NEEDS,
        privacy=statement(
            mechanism,
            "phi_n-zCDP in round n for losses of bounded gradient (Gauthier (2023), sec. 3.4, after its reference 39)",
            "parallel",
            proximal.ASSUMPTIONS,
        ),
        prepare=step.prepare,
        diagnostics={"residual": lambda state: state.residual},
        continuation={
            "peer": lambda state, views: state._replace(shared=admm.continued(state.shared, views["peers"])),
        },
    )
