"""Decentralised stochastic gradients with local momentum, DSGDm and DSGDm-N (baselines of Lin et al. (2021), Alg. 1).

    m_i <- beta m_i + g_i(x_i)
    x'_i = x_i - gamma m_i                    heavy ball;   Nesterov: x_i - gamma (g_i + beta m_i)
    x_i <- sum_j W[i, j] x'_j

With beta = 0 it is `adapt_then_combine`. Where agents' data differ each buffer points to its own agent's optimum, and
momentum makes the difference 1 / (1 - beta) times as large: see `quasi_global_momentum` and `gradient_tracking`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import jax
import jax.numpy as jnp

from tacit.algorithms._parts.mixing import IfMissing, link_requirements
from tacit.algorithms.local_step import refuse_optimiser
from tacit.algorithms.registry import register
from tacit.algorithms.schedules import StepSize
from tacit.algorithms.tracking._released import minus, nothing, released_gradient
from tacit.core.checks import proportion
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
    same_state,
    share,
    unprotected,
)
from tacit.privacy import statement

IS_MOMENTUM = "the method is a momentum itself; set `momentum`, or take adapt_then_combine with this optimiser"
REQUIRES: frozenset[Requirement] = frozenset({"doubly_stochastic", "connected_over_time"})


class State(NamedTuple):
    """State of an agent."""

    x: Params
    buffer: Params
    """m: gradients of all rounds, as they were released, the old ones with less weight."""


def first_state(key: Key, params: Params, views: Mapping[str, View]) -> State:
    """Return the first model with an empty buffer."""
    return State(params, nothing(params))


def pushed(buffer: Params, gradient: Params, momentum: float) -> Params:
    """Return momentum * buffer + gradient."""
    return jax.tree.map(lambda m, g: momentum * m + g, buffer, gradient)


@register("Lin et al. (2021), Alg. 1, DSGDm", title="Decentralised SGD with momentum (DSGDm)")
def decentralised_momentum(
    objective: Objective,
    step: StepSize = 0.1,
    mechanism: Mechanism = unprotected,
    momentum: float = 0.9,
    nesterov: bool = False,
    missing: IfMissing = "wait",
) -> Algorithm:
    """Decentralised SGD with momentum (DSGDm): each agent keeps a buffer of its own gradients, and models are averaged.

    In a round an agent adds its gradient to the shrunken buffer, steps along the buffer, sends the outcome, and
    averages what it hears. Buffers stay where they are. It runs on links that change too, one-peer exponential graphs
    among them. A buffer is made of released gradients, so that noise in it is that of old releases and costs nothing
    again.

    Args:
      objective: Loss and regulariser, e.g. `tacit.objectives.logistic(l2=1e-4)`.
      step: Step size above 0, a number or a function of the round t = 1, 2, ...; 0.1 by default. The steps of a
        constant gradient grow to step / (1 - momentum).
      mechanism: Noise, its place and its account, e.g. `tacit.privacy.laplace(1.0, clip=1.0)`; none by default.
      momentum: Share of the buffer that is kept, from 0 on and below 1; 0.9 by default.
      nesterov: Whether steps look ahead (Nesterov) instead of following the buffer (heavy ball).
      missing: "wait" for every message of a round, or "renormalise" over those that arrived.

    Returns:
      An algorithm for `tacit.simulate`, a peer or an audit.

    Example:
      >>> import tacit
      >>> method = tacit.algorithms.decentralised_momentum(tacit.objectives.logistic(), step=0.03, momentum=0.9)
      >>> stream = tacit.streams.logistic_drift(8, 5, seed=0)
      >>> one_peer = tacit.graphs.one_peer_exponential(8).with_weights("receiver")  # doubly stochastic here
      >>> run = tacit.simulate(method, one_peer, stream, rounds=20, seed=0)
      >>> run.models.shape[-2:]
      (8, 5)

    References:
      Lin, Karimireddy, Stich and Jaggi (2021), Alg. 1; graphs of one peer: Ying et al. (2021).
    """
    beta = proportion("momentum", momentum, "the share of the buffer that is kept", zero=True)
    refuse_optimiser(step, "decentralised_momentum", IS_MOMENTUM)
    taken = released_gradient(objective, step, mechanism)

    def emit(state: State, released: Tree, view: View) -> tuple[State, Outbox]:
        gradient = taken.gradient(state.x, released, view)
        buffer = pushed(state.buffer, gradient, beta)
        direction = pushed(buffer, gradient, beta) if nesterov else buffer
        return state._replace(buffer=buffer), share(minus(state.x, taken.rate(view), direction))

    def absorb(key: Key, state: State, inbox: Inbox, view: View) -> State:
        return state._replace(x=(inbox.mix() if missing == "wait" else inbox.mean()).private)

    return Algorithm(
        name="decentralised_momentum",
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


def length(tree: Params) -> jax.Array:
    """Return the l2 norm of all leaves together."""
    return jnp.sqrt(sum((jnp.sum(jnp.square(leaf)) for leaf in jax.tree.leaves(tree)), jnp.zeros(())))
