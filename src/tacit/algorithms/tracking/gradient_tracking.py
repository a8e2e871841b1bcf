"""Gradient tracking: DSGT (Pu and Nedic (2020), (4)-(5)) and DIGing (Nedic, Olshevsky and Shi (2017), Alg. 1).

State (x_i, y_i): a model and a tracker of the network's gradient, y_i = g_i(x_i) in the first round. In each round

    x_i+ = sum_j W[i, j] (x_j - gamma y_j)                       DSGT
    x_i+ = sum_j W[i, j] x_j - gamma y_i                         DIGing
    y_i+ = sum_j W[i, j] y_j + g_i+(x_i+) - g_i(x_i)

The columns of W sum to 1, hence sum_i y_i = sum_i g_i(x_i) in every round. The gradients are those that were released:
the same g_i is subtracted that was added, so that old noise leaves the sum again with its gradient, and a record is
charged for one release, though it is in two differences.

With an optimiser (GTAdam of Carnevale et al. (2022), where that is Adam) -gamma y_i is its update for the gradient y_i.
Its memory is the agent's own. Where agents agree, so do their trackers, and no agent's own gradient is scaled: constant
steps still lead to the common optimum.

A round is y (made of the gradient and of what was heard in the round before), one message (x, y), and the averages.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp

from tacit.algorithms.local_step import LocalStep, before_optimiser, is_optimiser
from tacit.algorithms.registry import register
from tacit.algorithms.schedules import StepSize
from tacit.algorithms.tracking._released import minus, nothing, released_gradient
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
from tacit.core.errors import ConfigError
from tacit.privacy import statement

Combine = Literal["after", "before"]
"""Where models are averaged: after the step along the tracker (DSGT) or before it (DIGing)."""


class State(NamedTuple):
    """State of an agent."""

    x: Params
    tracker: Params
    """Of the messages: y; between rounds the average of the neighbours'."""
    gradient: Params
    """The last one that is in the tracker, as it was released."""
    memory: Any = ()
    """Of the optimiser."""


def first_state(params: Params, memory: Any = ()) -> State:
    """Return a state whose tracker begins with the next gradient."""
    return State(params, nothing(params), nothing(params), memory)


def tracked(tracker: Params, gradient: Params, last: Params) -> Params:
    """Return tracker + gradient - last."""
    return jax.tree.map(lambda y, new, old: y + (new - old), tracker, gradient, last)


@register("Pu and Nedic (2020), (4)-(5)", title="Gradient tracking (DSGT, DIGing)")
def gradient_tracking(
    objective: Objective, step: LocalStep = 0.1, mechanism: Mechanism = unprotected, combine: Combine = "after"
) -> Algorithm:
    """Gradient tracking (DSGT, DIGing): agents follow the network's gradient, so that differing data do not bias them.

    In a round an agent replaces its last gradient in its tracker by the new one, and sends its model and its tracker;
    both are averaged over what it hears. With exact gradients of fixed data a constant step reaches the common optimum,
    where plain averaging stays beside it. Messages are twice as long as models. Trackers are made of released
    gradients, and a record is charged for the release of its round alone. When an epoch begins trackers begin anew,
    since the gradients of those who left would stay in their sum.

    Args:
      objective: Loss and regulariser, e.g. `tacit.objectives.logistic(l2=1e-4)`.
      step: Step size above 0, a number or a function of the round t = 1, 2, ..., or an optimiser such as
        `optax.adam(1e-3)`, which steps along the tracker in every round; 0.1 by default.
      mechanism: Noise, its place and its account, e.g. `tacit.privacy.laplace(1.0, clip=1.0)`; none by default.
      combine: "after" averages models after the step along the tracker (DSGT), "before" before it (DIGing, made for
        links that change).

    Returns:
      An algorithm for `tacit.simulate`, a peer or an audit.

    Example:
      >>> import tacit
      >>> method = tacit.algorithms.gradient_tracking(tacit.objectives.logistic(l2=0.1), step=0.2)
      >>> stream = tacit.streams.logistic_drift(8, 5, heterogeneity=1.0, repeat_every=1, seed=0)
      >>> run = tacit.simulate(method, tacit.graphs.ring(8), stream, rounds=200, seed=0)
      >>> bool(run.models.std(axis=1).max() < 0.01)  # all agree, though their data differ
      True

    References:
      Nedic, Olshevsky and Shi (2017), Alg. 1; Pu and Nedic (2020), (4)-(5); with Adam Carnevale et al. (2022).
    """
    if combine not in ("after", "before"):
        raise ConfigError(f"combine = {combine!r}: expected 'after' (DSGT) or 'before' (DIGing)")
    optimiser = step if is_optimiser(step) else None
    rate: StepSize = 1.0 if is_optimiser(step) else step  # type: ignore[assignment]
    taken = released_gradient(objective, rate, before_optimiser(step, mechanism))

    def first(params: Params) -> State:
        return first_state(params, () if optimiser is None else optimiser.init(params))

    def init(key: Key, params: Params, views: Mapping[str, View]) -> State:
        return first(params)

    def along(state: State, start: Params, y: Params, view: View) -> tuple[Params, Any]:
        """Return where the step along a tracker leads, and the optimiser's next memory."""
        if optimiser is None:
            return minus(start, taken.rate(view), y), ()
        from tacit.algorithms.optimisers import updated

        update, memory = updated(optimiser, y, state.memory, state.x)
        return jax.tree.map(jnp.add, start, update), memory

    def emit(state: State, released: Tree, view: View) -> tuple[State, Outbox]:
        gradient = taken.gradient(state.x, released, view)
        y = tracked(state.tracker, gradient, state.gradient)
        if combine == "before":
            return state._replace(tracker=y, gradient=gradient), share((state.x, y))
        x, memory = along(state, state.x, y, view)
        return State(state.x, y, gradient, memory), share((x, y))

    def absorb(key: Key, state: State, inbox: Inbox, view: View) -> State:
        x, y = inbox.mix().private
        moved, memory = (x, state.memory) if combine == "after" else along(state, x, state.tracker, view)
        return State(moved, y, state.gradient, memory)

    return Algorithm(
        name="gradient_tracking",
        objective=objective,
        init={"peer": init},
        phases=(Phase("peers", taken.taken_at(lambda state: state.x), taken.mechanism, absorb, emit),),
        model=lambda state: state.x,
        requires=frozenset({"doubly_stochastic", "connected_over_time", "reliable"}),
        privacy=statement(mechanism),
        weights="metropolis",
        continuation={"peer": lambda state, views: first(state.x)},
    )
