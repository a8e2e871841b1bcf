"""EXTRA (Shi, Ling, Wu and Yin (2015), Alg. 1): descent over the average of neighbours, corrected by the round before.

    x_1+ = W x_1 - gamma g(x_1)
    x_t+ = (I + W) x_t - (I + W) / 2 x_t- - gamma (g(x_t) - g(x_t-)),    x_t-: of the round before, x_t+: of the next

With h_t = (x_t + W x_t) / 2, h_0 = x_1 and g of round 0 zero, both are

    x_t+ = 2 h_t - h_t- - (u_t - u_t-),   u_t = gamma g(x_t)

so that a round sends one model. The steps u are those that were released. Where the step size changes, u_t- is the step
that was taken, so that the mean of all models moves by the mean of the steps u_t.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import jax

from tacit.algorithms.local_step import refuse_optimiser
from tacit.algorithms.registry import register
from tacit.algorithms.schedules import StepSize
from tacit.algorithms.tracking._released import ONE_RATE, nothing, released_gradient
from tacit.core.contract import (
    Algorithm,
    Inbox,
    Key,
    Mechanism,
    Objective,
    Outbox,
    Params,
    Phase,
    Requirement,
    Tree,
    View,
    share,
    unprotected,
)
from tacit.privacy import statement

NEEDS: frozenset[Requirement] = frozenset({"strongly_connected", "symmetric", "doubly_stochastic", "fixed", "reliable"})
"""The correction is made of what the same neighbours said in the round before, with the same weights."""


class State(NamedTuple):
    """State of an agent."""

    x: Params
    before: Params
    """h of the round before; while the neighbours' models are under way h_t- + u_t - u_t-."""
    step: Params
    """u of the last round, as it was released."""


@register("Shi et al. (2015), Alg. 1", title="EXTRA")
def extra(objective: Objective, step: StepSize = 0.1, mechanism: Mechanism = unprotected) -> Algorithm:
    """EXTRA: descent over averaged models, with the difference of two rounds as a correction.

    In a round an agent sends its model, and moves by what it hears, by what it heard in the round before, and by the
    change of its gradient. With exact gradients of fixed data a constant step reaches the common optimum. Messages are
    as long as models, half as long as those of `gradient_tracking`. Links have to be the same in every round. The
    gradients that are remembered are released ones.

    Args:
      objective: Loss and regulariser, e.g. `tacit.objectives.logistic(l2=1e-4)`.
      step: Step size above 0, a number or a function of the round t = 1, 2, ...; 0.1 by default.
      mechanism: Noise, its place and its account, e.g. `tacit.privacy.laplace(1.0, clip=1.0)`; none by default.

    Returns:
      An algorithm for `tacit.simulate`, a peer or an audit.

    Example:
      >>> import tacit
      >>> method = tacit.algorithms.extra(tacit.objectives.logistic(l2=0.1), step=0.3)
      >>> stream = tacit.streams.logistic_drift(8, 5, heterogeneity=1.0, repeat_every=1, seed=0)
      >>> run = tacit.simulate(method, tacit.graphs.ring(8), stream, rounds=200, seed=0)
      >>> bool(run.models.std(axis=1).max() < 0.01)
      True

    References:
      Shi, Ling, Wu and Yin (2015), Alg. 1.
    """
    refuse_optimiser(step, "extra", ONE_RATE)
    taken = released_gradient(objective, step, mechanism)

    def first(params: Params) -> State:
        return State(params, params, nothing(params))

    def init(key: Key, params: Params, views: Mapping[str, View]) -> State:
        return first(params)

    def emit(state: State, released: Tree, view: View) -> tuple[State, Outbox]:
        step = taken.step(state.x, released, view)
        before = jax.tree.map(lambda h, new, old: h + (new - old), state.before, step, state.step)
        return State(state.x, before, step), share(state.x)

    def absorb(key: Key, state: State, inbox: Inbox, view: View) -> State:
        half = jax.tree.map(lambda own, heard: (own + heard) / 2, state.x, inbox.mix().private)
        return State(jax.tree.map(lambda h, before: 2 * h - before, half, state.before), half, state.step)

    return Algorithm(
        name="extra",
        objective=objective,
        init={"peer": init},
        phases=(Phase("peers", taken.taken_at(lambda state: state.x), taken.mechanism, absorb, emit),),
        model=lambda state: state.x,
        requires=NEEDS,
        privacy=statement(mechanism),
        weights="metropolis",
        continuation={"peer": lambda state, views: first(state.x)},
    )
