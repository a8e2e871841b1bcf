"""Private online mirror descent over a digraph (Dissertation, ch. 2, Alg. 1-3).

State x_i in X, for a mirror map R on X (`tacit.objectives.entropy()`: exponentiated gradient on the simplex). A round:

    ghat_i = clipped grad f_it(x_i) + noise          what leaves is computed from this alone
    grad R(y) = grad R(x_i) - eta_t ghat_i;   z_i = argmin_{x in X} B_R(x, y)
    x_i = sum_j W_t[i, j] z_j

Rows of W sum to 1, so that x_i stays in X. But then all agree on the minimiser of sum_i q_i f_i, q the Perron vector of
W: biased, unless W is doubly stochastic. `unbiased=True` mixes in the dual with the mass of push-sum (1.1), columns of
W sum to 1, and every agent counts the same:

    (s_i, m_i), s = grad R(start), m = 1;   x_i = argmin_{x in X} R(x) - <s_i / m_i, x>
    s'_i = s_i - eta_t ghat_i;   s_i = sum_j W[i, j] s'_j;   m_i = sum_j W[i, j] m_j

Errata. The text's noise counts one component of the gradient that changes (adjacency `component`); a record moves all
of them, which is the default here. The normalised gradient of Alg. 3 is biased, and its noise is bounded: no pure eps
(`bounded_laplace` says so). W is read as receiver-normalised throughout: the column-stochastic reading leaves X.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import jax
import jax.numpy as jnp

from tacit.algorithms._parts.descent import Step, gradient_step
from tacit.algorithms._parts.mixing import IfMissing, averaged_step, first_model, link_requirements
from tacit.algorithms.local_step import LocalStep, optimised, rate_of
from tacit.algorithms.push_sum.online_push_sum import members, unless_passing_on
from tacit.algorithms.registry import register
from tacit.algorithms.schedules import inverse
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
    Requirement,
    State,
    Tree,
    View,
    push,
    same_state,
    share,
    unprotected,
)
from tacit.core.errors import ConfigError
from tacit.objectives import Euclidean, MirrorMap
from tacit.privacy import statement

TEXT_CLAIMS = (
    "eps-local differential privacy of the run, one component of one gradient changing (Dissertation, ch. 2, Theorem 2)"
)
EUCLIDEAN = Euclidean()
ONE_OVER_T = inverse(1.0)


class DualState(NamedTuple):
    """State of a peer of the unbiased form."""

    dual: Tree
    """s_i."""
    mass: Array


class Form(NamedTuple):
    """Parts in which the two forms differ."""

    descent: Step

    init: Callable[[Key, Params, Mapping[str, View]], State]
    phase: Phase
    model: Callable[[State], Params]


@register("Dissertation, ch. 2, Alg. 1-3", title="Mirror descent")
def mirror_descent(
    objective: Objective,
    step: LocalStep = ONE_OVER_T,
    mechanism: Mechanism = unprotected,
    mirror: MirrorMap = EUCLIDEAN,
    unbiased: bool = False,
    missing: IfMissing = "wait",
) -> Algorithm:
    """Online mirror descent on a fixed digraph: step in the geometry of a mirror map, then average.

    In a round each agent takes a mirror step along the clipped, noisy gradient of its batch, sends the outcome, and
    averages what it hears. Weights sum to 1 over the neighbours that an agent hears, so that its model stays in X; on a
    digraph agents that are heard more then count more. With `unbiased` agents send dual vectors and a mass instead.
    The text's noise is Laplace on each component, or bounded (`tacit.privacy.bounded_laplace`).

    Args:
      objective: Loss and regulariser, e.g. `tacit.objectives.logistic(l2=1e-4)`.
      step: Step size above 0, a number or a function of the round t = 1, 2, ..., or an optimiser such as
        `optax.adam(1e-3)`; `inverse(1)` by default.
      mechanism: Noise, its place and its account, e.g. `tacit.privacy.laplace(1.0, clip=1.0)`; none by default.
      mirror: Geometry and set X of the step, e.g. `tacit.objectives.entropy()`; Euclidean and unbounded by default.
      unbiased: Whether every agent counts the same on a digraph (push-sum in the dual); biased by default.
      missing: "wait" for every message of a round, or "renormalise" over those that arrived.

    Returns:
      An algorithm for `tacit.simulate`, a peer or an audit.

    Example:
      >>> import tacit
      >>> mirror = tacit.objectives.entropy()
      >>> algorithm = tacit.algorithms.mirror_descent(tacit.objectives.logistic(), mirror=mirror, unbiased=True)
      >>> sorted(algorithm.requires)
      ['reliable', 'sender_normalised', 'strongly_connected']

    References:
      Dissertation on private online optimisation, ch. 2, Alg. 1-3.
    """
    if unbiased and missing != "wait":
        raise ConfigError(
            f"missing = {missing!r} with unbiased = true: a lost message takes its mass along for good; use "
            "missing = 'wait', or unbiased = false"
        )
    form = (
        _in_the_dual(objective, step, mechanism, mirror)
        if unbiased
        else _in_the_set(objective, step, mechanism, mirror, missing)
    )
    normalised: Requirement = "sender_normalised" if unbiased else "receiver_normalised"
    made = Algorithm(
        name="mirror_descent",
        objective=objective,
        init={"peer": form.init},
        phases=(form.phase,),
        model=form.model,
        requires=link_requirements(missing) | {"strongly_connected", normalised},
        privacy=statement(mechanism, TEXT_CLAIMS),
        weights="sender" if unbiased else "receiver",
        missing=missing,
        domain=mirror,
        membership=members(lambda state: state.mass) if unbiased else None,
        continuation={"peer": same_state},
    )
    return optimised(made, form.descent, form.model)


def _in_the_set(
    objective: Objective, step: LocalStep, mechanism: Mechanism, mirror: MirrorMap, missing: IfMissing
) -> Form:
    descent = gradient_step(objective, rate_of(step), mechanism, mirror)

    def emit(state: Params, released: Tree, view: View) -> tuple[Params, Outbox]:
        return state, share(if_present(view, descent.moved(state, state, released, view), state))

    return Form(descent, first_model, averaged_step(descent, missing)._replace(emit=emit), lambda state: state)


def _in_the_dual(objective: Objective, step: LocalStep, mechanism: Mechanism, mirror: MirrorMap) -> Form:
    descent = gradient_step(objective, rate_of(step), mechanism)

    def init(key: Key, params: Params, views: Mapping[str, View]) -> DualState:
        return DualState(mirror.to_dual(params), jnp.ones((), views["peers"].out.weight.dtype))

    def model(state: DualState) -> Params:
        mass = jnp.where(state.mass > 0, state.mass, 1)
        return mirror.from_dual(jax.tree.map(lambda leaf: leaf / mass, state.dual))

    def compute(key: Key, state: DualState, batch: Batch, view: View) -> tuple[DualState, Tree]:
        return state, descent.value(model(state), state.dual, batch, view, key)

    def emit(state: DualState, released: Tree, view: View) -> tuple[DualState, Outbox]:
        moved = if_present(view, descent.moved(model(state), state.dual, released, view), state.dual)
        return state, push(private=unless_passing_on(view, state.mass, moved, state.dual), public=state.mass)

    def absorb(key: Key, state: DualState, inbox: Inbox, view: View) -> DualState:
        parts = inbox.mix()
        return DualState(parts.private, parts.public)

    return Form(descent, init, Phase("peers", compute, descent.mechanism, absorb, emit), model)


def if_present(view: View, new: Tree, old: Tree) -> Tree:
    """Return what a peer that takes part in the round came to, and what an absent one had."""
    return jax.tree.map(lambda after, before: jnp.where(view.present, after, before), new, old)
