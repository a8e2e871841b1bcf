"""An algorithm of your own: gossip with momentum. docs/own-algorithm.md explains it.

Run it with `tacit --with examples/own_algorithm.py run examples/own-algorithm.toml`.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from tacit.algorithms import register
from tacit.core.contract import Algorithm, Mechanism, Objective, Params, Phase, share
from tacit.privacy import clipped_gradient, statement, unprotected


class State(NamedTuple):
    model: Params
    velocity: Params


@register("my own")
def gossip_with_momentum(
    objective: Objective,
    step: float = 0.1,
    momentum: float = 0.9,
    mechanism: Mechanism = unprotected,
) -> Algorithm:
    """Heavy-ball steps, averaged over the neighbours."""
    mechanism = mechanism._replace(perturbs="gradient")
    gradient = clipped_gradient(objective, mechanism.clip)

    def init(key, params, views):
        return State(params, jax.tree.map(jnp.zeros_like, params))

    def compute(key, state, batch, view):  # the only function that sees data
        return state, gradient(state.model, batch, key)

    def emit(state, released, view):  # what was released has its noise
        velocity = jax.tree.map(lambda v, g: momentum * v + g, state.velocity, released)
        moved = jax.tree.map(lambda x, v: x - step * v, state.model, velocity)
        return State(state.model, velocity), share(moved)

    def absorb(key, state, inbox, view):  # mix: the sum of W[i, j] times what j shared
        return State(inbox.mix().private, state.velocity)

    return Algorithm(
        name="gossip_with_momentum",
        objective=objective,
        init={"peer": init},
        phases=(Phase("peers", compute, mechanism, absorb, emit),),
        model=lambda state: state.model,
        requires=frozenset({"strongly_connected", "doubly_stochastic", "reliable"}),
        privacy=statement(mechanism),
        weights="metropolis",
    )
