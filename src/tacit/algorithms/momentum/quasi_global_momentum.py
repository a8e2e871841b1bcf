"""Quasi-global momentum, QG-DSGDm and QG-DSGDm-N (Lin et al. (2021), Alg. 1).

    m_i  = beta b_i + g_i(x_i)
    x'_i = x_i - gamma m_i                    heavy ball;   Nesterov: x_i - gamma (g_i + beta m_i)
    x+_i = sum_j W[i, j] x'_j
    b_i <- mu b_i + (1 - mu) (x_i - x+_i) / gamma,   x_i <- x+_i

The buffer follows the way that the averaged model went, not the agent's own gradients, so that it points where the
network goes. It costs no message more than momentum that stays local.
"""

from __future__ import annotations

import jax

from tacit.algorithms._parts.mixing import IfMissing, link_requirements
from tacit.algorithms.local_step import refuse_optimiser
from tacit.algorithms.momentum.local_momentum import IS_MOMENTUM, REQUIRES, State, first_state, length, pushed
from tacit.algorithms.registry import register
from tacit.algorithms.schedules import StepSize
from tacit.algorithms.tracking._released import divided, minus, released_gradient
from tacit.core.checks import proportion
from tacit.core.contract import (
    Algorithm,
    Inbox,
    Key,
    Mechanism,
    Objective,
    Outbox,
    Phase,
    Tree,
    View,
    same_state,
    share,
    unprotected,
)
from tacit.privacy import statement


@register("Lin et al. (2021), Alg. 1, QG-DSGDm", title="Quasi-global momentum (QG-DSGDm)")
def quasi_global_momentum(
    objective: Objective,
    step: StepSize = 0.1,
    mechanism: Mechanism = unprotected,
    momentum: float = 0.9,
    memory: float | None = None,
    nesterov: bool = False,
    missing: IfMissing = "wait",
) -> Algorithm:
    """Quasi-global momentum (QG-DSGDm): momentum along the way that averaged models went, for agents whose data differ.

    In a round an agent steps along its gradient and its buffer, sends the outcome, and averages what it hears; the
    buffer then takes in by how much the average differs from the model before, in units of the step. Nothing but models
    is sent. Models and buffers are made of released values alone.

    Args:
      objective: Loss and regulariser, e.g. `tacit.objectives.logistic(l2=1e-4)`.
      step: Step size above 0, a number or a function of the round t = 1, 2, ...; 0.1 by default. In a round whose step
        is 0 the buffer takes in nothing.
      mechanism: Noise, its place and its account, e.g. `tacit.privacy.laplace(1.0, clip=1.0)`; none by default.
      momentum: beta, the weight of the buffer in a step, from 0 on and below 1; 0.9 by default.
      memory: mu, the share of the buffer that is kept, from 0 on and below 1; by default that of `momentum`.
      nesterov: Whether steps look ahead (Nesterov) instead of following the buffer (heavy ball).
      missing: "wait" for every message of a round, or "renormalise" over those that arrived.

    Returns:
      An algorithm for `tacit.simulate`, a peer or an audit.

    Example:
      >>> import tacit
      >>> method = tacit.algorithms.quasi_global_momentum(tacit.objectives.logistic(), step=0.1, nesterov=True)
      >>> stream = tacit.streams.logistic_drift(8, 5, heterogeneity=1.0, seed=0)
      >>> run = tacit.simulate(method, tacit.graphs.ring(8), stream, rounds=20, seed=0)
      >>> run.recorded["momentum"].shape[-1]
      8

    References:
      Lin, Karimireddy, Stich and Jaggi (2021), Alg. 1.
    """
    beta = proportion("momentum", momentum, "the weight of the buffer in a step", zero=True)
    mu = beta if memory is None else proportion("memory", memory, "the share of the buffer that is kept", zero=True)
    refuse_optimiser(step, "quasi_global_momentum", IS_MOMENTUM)
    taken = released_gradient(objective, step, mechanism)

    def emit(state: State, released: Tree, view: View) -> tuple[State, Outbox]:
        gradient = taken.gradient(state.x, released, view)
        direction = pushed(state.buffer, gradient, beta)
        if nesterov:
            direction = pushed(direction, gradient, beta)
        return state, share(minus(state.x, taken.rate(view), direction))

    def absorb(key: Key, state: State, inbox: Inbox, view: View) -> State:
        x = (inbox.mix() if missing == "wait" else inbox.mean()).private
        way = divided(jax.tree.map(lambda before, after: before - after, state.x, x), taken.rate(view))
        return State(x, jax.tree.map(lambda b, d: mu * b + (1 - mu) * d, state.buffer, way))

    return Algorithm(
        name="quasi_global_momentum",
        objective=objective,
        init={"peer": first_state},
        phases=(Phase("peers", taken.taken_at(lambda state: state.x), taken.mechanism, absorb, emit),),
        model=lambda state: state.x,
        requires=REQUIRES | link_requirements(missing),
        privacy=statement(mechanism),
        weights="metropolis",
        missing=missing,
        diagnostics={"momentum": lambda state: length(state.buffer)},
        continuation={"peer": same_state},
    )
