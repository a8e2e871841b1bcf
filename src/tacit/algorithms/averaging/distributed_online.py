"""Differentially private distributed online learning, DOLA, and its offline version (Li et al., Alg. 1 and 2).

    b_i = sum_j W_t[i, j] (w_j + s_j)            every neighbour's noisy value, and its own
    w_i = Proj(b_i - a_t grad f_it(b_i))         gradients clipped to ||g||_2 <= L
    share w_i + s_i,   s_i ~ Laplace(S(t) / eps) per coordinate,   S(t) = 2 a_t sqrt(d) L

Privacy: a record is read in one round, and everything later is computed from noisy values, so records compose in
parallel: eps per record for the whole run. It would fail if a node's next step used its own w without noise; the state
here is b, which is made of noisy values only. The node predicts with b for the same reason.

Errata. Lemma 1 uses that a projection does not expand l1 distances, which is false; the bound holds through the l2 norm
(||.||_1 <= sqrt(d) ||.||_2), so that an l2 clip is required where the projected model is noised. With
`perturbs="update"` the projection comes after the noise and takes some of it away: that is post-processing, hence free.
Algorithm 2 decays the node's own w without noise (phi w_i): its records would no longer compose in parallel, so here
phi multiplies b, as the gradient of (phi/2) ||.||^2 at b does.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import jax
import jax.numpy as jnp

from tacit.algorithms._parts.descent import Step, gradient_step
from tacit.algorithms._parts.mixing import IfMissing, averaged_step, first_model, link_requirements
from tacit.algorithms.local_step import LocalStep, optimised, rate_of
from tacit.algorithms.registry import register
from tacit.algorithms.schedules import inverse_sqrt
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
    Requirement,
    Tree,
    View,
    same_state,
    unprotected,
)
from tacit.objectives import Euclidean, euclidean_ball
from tacit.privacy import statement

TEXT_CLAIMS = (
    "eps-differential privacy of the whole run, since every round reads other records (Li et al., Theorems 1 and 3)"
)
CONVEX_STEP = inverse_sqrt(0.5)
REQUIRES: frozenset[Requirement] = frozenset({"doubly_stochastic", "connected_over_time"})


class State(NamedTuple):
    """State of a node of the offline version."""

    mixed: Params
    """b_i."""
    average: Params
    """Mean of b_i over the rounds so far."""
    rounds: Array


@register("Li et al., Alg. 1", title="Private distributed online learning (DOLA)")
def distributed_online(
    objective: Objective,
    step: LocalStep = CONVEX_STEP,
    mechanism: Mechanism = unprotected,
    radius: float | None = None,
    missing: IfMissing = "wait",
) -> Algorithm:
    """Private distributed online learning (DOLA): average noisy models, take a projected step, share it with noise.

    In a round each agent steps from the average b that it holds along the clipped gradient of its batch, projects, and
    shares the outcome with noise; the next b is the average of what it hears and of its own noisy value, with which it
    also predicts. Steps 1 / (lambda t) suit losses of curvature lambda (regret O(log T)), 1 / (2 sqrt t) others
    (O(sqrt T)). Each record is read in one round only, so that its epsilon is that of one release.

    Args:
      objective: Loss and regulariser, e.g. `tacit.objectives.logistic(l2=1e-4)`.
      step: Step size above 0, a number or a function of the round t = 1, 2, ..., or an optimiser such as
        `optax.adam(1e-3)`; `inverse_sqrt(0.5)` by default.
      mechanism: Noise, its place and its account, e.g. `tacit.privacy.laplace(1.0, clip=1.0)`; none by default.
      radius: Radius of the l2 ball that models are projected on; no projection by default.
      missing: "wait" for every message of a round, or "renormalise" over those that arrived.

    Returns:
      An algorithm for `tacit.simulate`, a peer or an audit.

    Example:
      >>> import tacit
      >>> noise = tacit.privacy.laplace(1.0, clip=1.0)
      >>> dola = tacit.algorithms.distributed_online(tacit.objectives.logistic(), mechanism=noise, radius=5.0)
      >>> sorted(dola.requires)
      ['connected_over_time', 'doubly_stochastic', 'reliable']

    References:
      Li, Zhou, Chen and Jiang, Differentially private distributed online learning, Alg. 1.
    """
    ball = euclidean_ball(radius)
    descent = gradient_step(objective, rate_of(step), mechanism, ball)
    return optimised(_online(objective, descent, mechanism, ball, missing), descent, lambda state: state)


def _online(
    objective: Objective, descent: Step, mechanism: Mechanism, ball: Euclidean, missing: IfMissing
) -> Algorithm:
    return Algorithm(
        name="distributed_online",
        objective=objective,
        init={"peer": first_model},
        phases=(averaged_step(descent, missing),),
        model=lambda state: state,
        requires=REQUIRES | link_requirements(missing),
        privacy=statement(mechanism, TEXT_CLAIMS),
        weights="metropolis",
        missing=missing,
        domain=ball,
        continuation={"peer": same_state},
    )


@register("Li et al., Alg. 2", title="Private learning by mini-batches (DOLA offline)")
def distributed_minibatch(
    objective: Objective,
    step: LocalStep = CONVEX_STEP,
    mechanism: Mechanism = unprotected,
    radius: float | None = None,
    missing: IfMissing = "wait",
) -> Algorithm:
    """DOLA offline: disjoint mini-batches of h examples, 1/h of the noise, and the mean of all iterates as the model.

    Rounds are those of `distributed_online`; h is the stream's batch, and the text's phi the l2 coefficient of the
    objective.

    Args:
      objective: Loss and regulariser, e.g. `tacit.objectives.logistic(l2=1e-4)`.
      step: Step size above 0, a number or a function of the round t = 1, 2, ..., or an optimiser such as
        `optax.adam(1e-3)`; `inverse_sqrt(0.5)` by default.
      mechanism: Noise, its place and its account, e.g. `tacit.privacy.laplace(1.0, clip=1.0)`; none by default.
      radius: Radius of the l2 ball that models are projected on; no projection by default.
      missing: "wait" for every message of a round, or "renormalise" over those that arrived.

    Returns:
      An algorithm for `tacit.simulate`, a peer or an audit.

    Example:
      >>> import tacit
      >>> offline = tacit.algorithms.distributed_minibatch(tacit.objectives.logistic(l2=0.01), step=0.2)
      >>> offline.weights, offline.missing
      ('metropolis', 'wait')

    References:
      Li, Zhou, Chen and Jiang, Differentially private distributed online learning, Alg. 2.
    """
    ball = euclidean_ball(radius)
    descent = gradient_step(objective, rate_of(step), mechanism, ball)
    online = _online(objective, descent, mechanism, ball, missing)
    phase = online.phases[0]

    def init(key: Key, params: Params, views: Mapping[str, View]) -> State:
        return State(params, params, jnp.zeros((), jnp.int32))

    def compute(key: Key, state: State, batch: Batch, view: View) -> tuple[State, Tree]:
        return state, phase.compute(key, state.mixed, batch, view)[1]

    def emit(state: State, released: Tree, view: View) -> tuple[State, Outbox]:
        return state, phase.emit(state.mixed, released, view)[1]

    def absorb(key: Key, state: State, inbox: Inbox, view: View) -> State:
        mixed = phase.absorb(key, state.mixed, inbox, view)
        rounds = state.rounds + 1
        average = jax.tree.map(lambda old, new: old + (new - old) / rounds.astype(new.dtype), state.average, mixed)
        return State(mixed, average, rounds)

    made = online._replace(
        name="distributed_minibatch",
        init={"peer": init},
        phases=(phase._replace(compute=compute, emit=emit, absorb=absorb),),
        model=lambda state: state.average,
    )
    return optimised(made, descent, lambda state: state.mixed)
