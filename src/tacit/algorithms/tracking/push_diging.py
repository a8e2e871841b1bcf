"""Push-DIGing: gradient tracking over one-way links (Nedic, Olshevsky and Shi (2017), Alg. 2).

State (u_i, v_i, y_i), v = 1, prediction x_i = u_i / v_i; y_i = g_i(x_i) in the first round. In each round

    u_i+ = sum_j C[i, j] (u_j - gamma y_j),   v_i+ = sum_j C[i, j] v_j
    y_i+ = sum_j C[i, j] y_j + g_i+(x_i+) - g_i(x_i)

The columns of C sum to 1: the sender splits. Hence sum_i y_i = sum_i g_i(x_i) and sum_i v_i = n in every round. The
gradients are those that were released, as in `gradient_tracking`.

Beyond the text: a member that joins has no mass and no gradient in the sum; one that leaves takes its gradient out of
the sum, then hands over all that it holds.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import jax
import jax.numpy as jnp

from tacit.algorithms.local_step import refuse_optimiser
from tacit.algorithms.push_sum.online_push_sum import members, passes_on
from tacit.algorithms.registry import register
from tacit.algorithms.schedules import StepSize
from tacit.algorithms.tracking._released import minus, nothing, released_gradient
from tacit.algorithms.tracking.gradient_tracking import tracked
from tacit.core.contract import (
    Algorithm,
    Array,
    Inbox,
    Key,
    Mechanism,
    Objective,
    Outbox,
    Params,
    Phase,
    Tree,
    View,
    push,
    unprotected,
)
from tacit.privacy import statement


class State(NamedTuple):
    """State of an agent."""

    u: Params
    mass: Array
    """v."""
    tracker: Params
    """Between rounds the sum of what was received; y is that with the new gradient in place of the last one."""
    gradient: Params
    """The last one that is in the tracker, as it was released."""


def ratio(state: State) -> Params:
    """Return x = u / v, and u where there is no mass yet."""
    mass = jnp.where(state.mass > 0, state.mass, 1)
    return jax.tree.map(lambda leaf: leaf / mass, state.u)


@register("Nedic, Olshevsky and Shi (2017), Alg. 2", title="Push-DIGing")
def push_diging(objective: Objective, step: StepSize = 0.1, mechanism: Mechanism = unprotected) -> Algorithm:
    """Push-DIGing: gradient tracking over one-way links, by push-sum.

    In a round an agent replaces its last gradient in its tracker by the new one, and splits its model, stepped along
    the tracker, its mass and its tracker among its out-neighbours and itself; all that is received is added up. It
    predicts with model over mass. With exact gradients of fixed data a constant step reaches the common optimum, where
    `online_push_sum` stays beside it. Messages are twice as long as models. Trackers are made of released gradients.

    Args:
      objective: Loss and regulariser, e.g. `tacit.objectives.logistic(l2=1e-4)`.
      step: Step size above 0, a number or a function of the round t = 1, 2, ...; 0.1 by default.
      mechanism: Noise, its place and its account, e.g. `tacit.privacy.laplace(1.0, clip=1.0)`; none by default.

    Returns:
      An algorithm for `tacit.simulate`, a peer or an audit.

    Example:
      >>> import tacit
      >>> method = tacit.algorithms.push_diging(tacit.objectives.logistic(l2=0.1), step=0.1)
      >>> stream = tacit.streams.logistic_drift(8, 5, heterogeneity=1.0, repeat_every=1, seed=0)
      >>> run = tacit.simulate(method, tacit.graphs.exponential(8), stream, rounds=300, seed=0)
      >>> bool(run.models.std(axis=1).max() < 0.01)
      True

    References:
      Nedic, Olshevsky and Shi (2017), Alg. 2.
    """
    refuse_optimiser(
        step,
        "push_diging",
        "trackers are shares of a sum here, as large as an agent's mass is, which an optimiser's memory would take for "
        "gradients; take gradient_tracking, or online_push_sum with this optimiser",
    )
    taken = released_gradient(objective, step, mechanism)

    def init(key: Key, params: Params, views: Mapping[str, View]) -> State:
        return State(params, jnp.ones((), views["peers"].out.weight.dtype), nothing(params), nothing(params))

    def emit(state: State, released: Tree, view: View) -> tuple[State, Outbox]:
        idle = passes_on(view, state.mass)
        found = taken.gradient(ratio(state), released, view)
        gradient = jax.tree.map(lambda g: jnp.where(idle, 0, g), found)
        y = tracked(state.tracker, gradient, state.gradient)
        rate = jnp.where(idle, 0, taken.rate(view))
        sent = (minus(state.u, rate, y), y)
        return state._replace(gradient=gradient), push(private=sent, public=state.mass)

    def absorb(key: Key, state: State, inbox: Inbox, view: View) -> State:
        parts = inbox.mix()
        return State(parts.private[0], parts.public, parts.private[1], state.gradient)

    return Algorithm(
        name="push_diging",
        objective=objective,
        init={"peer": init},
        phases=(Phase("peers", taken.taken_at(ratio), taken.mechanism, absorb, emit),),
        model=ratio,
        requires=frozenset({"strongly_connected", "sender_normalised", "reliable"}),
        privacy=statement(mechanism),
        weights="sender",
        membership=members(lambda state: state.mass),
    )
