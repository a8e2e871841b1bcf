"""Online push-sum, OPS: learning over one-sided trust (003 Alg. 1).

State (z_i, m_i), z = first parameters, m = 1; prediction x_i = z_i / m_i. In each round

    z'_i = z_i - gamma grad f_it(x_i)
    to every out-neighbour j, itself included: (W_ji z'_i, W_ji m_i)
    z_i = sum of the z-parts received, m_i = sum of the m-parts

The sender splits what it has, so each column of W sums to 1 and nobody needs to know who hears whom. The mass m
undoes the bias of W: with doubly stochastic W it stays 1 and OPS is decentralised online gradient descent. The mass
carries no data, so it is public and gets no noise.

Private OPS: z'_i is released with noise on z alone, and the agent's own share is made of the released value too, so
that each record enters the run through the one release of its round.

Errata: the text writes W_ij for "i sends to j" with rows that sum to 1; here W[i, j] is what i makes of j's message, so
its columns do. A lost message takes its mass along for good, hence `reliable`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import jax
import jax.numpy as jnp

from tacit.algorithms._parts.descent import gradient_step
from tacit.algorithms.registry import register
from tacit.algorithms.schedules import StepSize, as_rate
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
    push,
    unprotected,
)
from tacit.privacy import statement


class State(NamedTuple):
    """What a peer holds."""

    z: Params
    mass: Array


def ratio(state: State) -> Params:
    """Return x = z / m."""
    return jax.tree.map(lambda leaf: leaf / state.mass, state.z)


@register("003 Alg. 1")
def online_push_sum(
    objective: Objective,
    step: StepSize = 0.1,
    mechanism: Mechanism = unprotected,
) -> Algorithm:
    """Online push-sum (OPS): senders split their model and a mass; one-sided links are enough."""
    descent = gradient_step(objective, as_rate(step), mechanism)

    def init(key: Key, params: Params, views: Mapping[str, View]) -> State:
        return State(params, jnp.ones((), views["peers"].out.weight.dtype))

    def compute(key: Key, state: State, batch: Batch, view: View) -> tuple[State, Tree]:
        return state, descent.value(ratio(state), state.z, batch, view)

    def emit(state: State, released: Tree, view: View) -> tuple[State, Outbox]:
        return state, push(private=descent.moved(ratio(state), state.z, released, view), public=state.mass)

    def absorb(key: Key, state: State, inbox: Inbox, view: View) -> State:
        parts = inbox.mix()
        return State(parts.private, parts.public)

    return Algorithm(
        name="online_push_sum",
        objective=objective,
        init={"peer": init},
        phases=(Phase("peers", compute, descent.mechanism, absorb, emit),),
        model=ratio,
        requires=frozenset({"strongly_connected", "sender_normalised", "reliable"}),
        privacy=statement(mechanism, "models instead of gradients are exchanged, which 003 4.4 calls protection"),
        weights="sender",
    )
