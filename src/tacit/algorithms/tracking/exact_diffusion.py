"""Exact diffusion (Yuan, Ying, Zhao and Sayed (2018), Alg. 1): adapt, correct, combine.

    psi+_i = w_i - mu g_i(w_i)                                  adapt
    phi_i  = psi+_i + w_i - psi_i                               correct;   psi_i of the round before, at first w_i
    w_i   <- sum_j (I + A)[i, j] / 2 phi_j                      combine

Without the correction it is `adapt_then_combine`, which stays beside the optimum where agents' gradients there are not
zero. psi is made of what was released.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import jax

from tacit.algorithms.local_step import refuse_optimiser
from tacit.algorithms.registry import register
from tacit.algorithms.schedules import StepSize
from tacit.algorithms.tracking._released import ONE_RATE, released_gradient
from tacit.algorithms.tracking.extra import NEEDS
from tacit.core.contract import (
    Algorithm,
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

    w: Params
    """While messages are under way phi."""
    psi: Params


@register("Yuan et al. (2018), Alg. 1", title="Exact diffusion")
def exact_diffusion(objective: Objective, step: StepSize = 0.1, mechanism: Mechanism = unprotected) -> Algorithm:
    """Exact diffusion: adapt, correct by where the last step led, combine.

    In a round an agent steps, adds by how much the last combination moved what its last step had led to, sends the
    outcome, and takes the mean of it and of what it hears on average. With exact gradients of fixed data a constant
    step reaches the common optimum, and by its text larger steps are stable than with `extra`. Messages are as long as
    models. Links have to be the same in every round. The step that is remembered is made of what was released.

    Args:
      objective: Loss and regulariser, e.g. `tacit.objectives.logistic(l2=1e-4)`.
      step: Step size above 0, a number or a function of the round t = 1, 2, ...; 0.1 by default.
      mechanism: Noise, its place and its account, e.g. `tacit.privacy.laplace(1.0, clip=1.0)`; none by default.

    Returns:
      An algorithm for `tacit.simulate`, a peer or an audit.

    Example:
      >>> import tacit
      >>> method = tacit.algorithms.exact_diffusion(tacit.objectives.logistic(l2=0.1), step=0.3)
      >>> stream = tacit.streams.logistic_drift(8, 5, heterogeneity=1.0, repeat_every=1, seed=0)
      >>> run = tacit.simulate(method, tacit.graphs.ring(8), stream, rounds=200, seed=0)
      >>> bool(run.models.std(axis=1).max() < 0.01)
      True

    References:
      Yuan, Ying, Zhao and Sayed (2018), Alg. 1.
    """
    refuse_optimiser(step, "exact_diffusion", ONE_RATE)
    taken = released_gradient(objective, step, mechanism)

    def init(key: Key, params: Params, views: Mapping[str, View]) -> State:
        return State(params, params)

    def emit(state: State, released: Tree, view: View) -> tuple[State, Outbox]:
        psi = jax.tree.map(lambda w, step: w - step, state.w, taken.step(state.w, released, view))
        phi = jax.tree.map(lambda new, w, old: new + (w - old), psi, state.w, state.psi)
        return State(phi, psi), share(phi)

    def absorb(key: Key, state: State, inbox: Inbox, view: View) -> State:
        w = jax.tree.map(lambda own, heard: (own + heard) / 2, state.w, inbox.mix().private)
        return State(w, state.psi)

    return Algorithm(
        name="exact_diffusion",
        objective=objective,
        init={"peer": init},
        phases=(Phase("peers", taken.taken_at(lambda state: state.w), taken.mechanism, absorb, emit),),
        model=lambda state: state.w,
        requires=NEEDS,
        privacy=statement(mechanism),
        weights="metropolis",
        continuation={"peer": lambda state, views: State(state.w, state.w)},
    )
