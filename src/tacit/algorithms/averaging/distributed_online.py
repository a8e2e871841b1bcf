"""Differentially private distributed online learning, DOLA, and its offline version with mini-batches (002 Alg. 1, 2).

    b_i = sum_j W_t[i, j] (w_j + s_j)            everybody's noisy value, its own included
    w_i = Proj(b_i - a_t grad f_it(b_i))         gradients clipped to ||g||_2 <= L
    share w_i + s_i,   s_i ~ Laplace(S(t) / eps) per coordinate,   S(t) = 2 a_t sqrt(d) L

a_t = 1 / (lambda t) for strongly convex losses (regret O(log T)), 1 / (2 sqrt t) otherwise (O(sqrt T)):
`inverse(1 / lambda)` and `inverse_sqrt(0.5)`. With batches of h disjoint examples S(t) is divided by h.

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

from tacit.algorithms._parts.descent import gradient_step
from tacit.algorithms._parts.mixing import IfMissing, averaged_step, first_model, link_requirements
from tacit.algorithms.registry import register
from tacit.algorithms.schedules import StepSize, as_rate, inverse_sqrt
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
    unprotected,
)
from tacit.objectives import euclidean_ball
from tacit.privacy import statement

TEXT_CLAIMS = "eps-differential privacy of the whole run, since every round reads other records (002 Theorems 1 and 3)"
CONVEX_STEP = inverse_sqrt(0.5)
REQUIRES: frozenset[Requirement] = frozenset({"doubly_stochastic", "connected_over_time"})


class State(NamedTuple):
    """What a node of the offline version holds."""

    mixed: Params
    """b_i."""
    average: Params
    """Mean of b_i over the rounds so far."""
    rounds: Array


@register("002 Alg. 1")
def distributed_online(
    objective: Objective,
    step: StepSize = CONVEX_STEP,
    mechanism: Mechanism = unprotected,
    radius: float | None = None,
    missing: IfMissing = "wait",
) -> Algorithm:
    """DOLA: average the neighbours' noisy models, take a projected gradient step, share it with noise."""
    ball = euclidean_ball(radius)
    descent = gradient_step(objective, as_rate(step), mechanism, ball)

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
    )


@register("002 Alg. 2")
def distributed_minibatch(
    objective: Objective,
    step: StepSize = CONVEX_STEP,
    mechanism: Mechanism = unprotected,
    radius: float | None = None,
    missing: IfMissing = "wait",
) -> Algorithm:
    """DOLA offline: disjoint batches of h examples, 1/h of the noise, and the average of the iterates as the model.

    phi is the l2 coefficient of the objective; h is the stream's batch.
    """
    online = distributed_online(objective, step, mechanism, radius, missing)
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

    return online._replace(
        name="distributed_minibatch",
        init={"peer": init},
        phases=(phase._replace(compute=compute, emit=emit, absorb=absorb),),
        model=lambda state: state.average,
    )
