"""Online push-sum, OPS (OPS paper, Alg. 1).

State (z_i, m_i), z = first parameters, m = 1; prediction x_i = z_i / m_i. In each round

    z'_i = z_i - gamma grad f_it(x_i)
    to every out-neighbour j, itself included: (W_ji z'_i, W_ji m_i)
    z_i = sum of the z-parts received, m_i = sum of the m-parts

With doubly stochastic W the mass stays 1, and OPS is decentralised online gradient descent.

Errata: the text writes W_ij for "i sends to j" with rows that sum to 1; here W[i, j] is what i makes of j's message, so
its columns do. A lost message takes its mass along for good, hence `reliable`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import jax
import jax.numpy as jnp

from tacit.algorithms._parts.descent import descent_of
from tacit.algorithms.local_step import LocalStep, optimised
from tacit.algorithms.registry import register
from tacit.core.contract import (
    Algorithm,
    Array,
    Batch,
    Inbox,
    Key,
    Mechanism,
    Membership,
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
    """State of a peer."""

    z: Params
    mass: Array


LEAST_MASS = 2.0**-6
"""Mass from which on an agent learns from its own data, where 1 is the mean of all agents."""


AMPLE_MASS = 0.5
"""Mass from which on an agent shares it while members come and go: noise in a model grows as 1 / mass."""


def ratio(state: State) -> Params:
    """Return x = z / m, and z where there is no mass yet."""
    mass = jnp.where(state.mass > 0, state.mass, 1)
    return jax.tree.map(lambda leaf: leaf / mass, state.z)


def passes_on(view: View, mass: Array) -> Array:
    """Return whether an agent without data only joins or leaves.

    Its step would be noise alone, under a mass that may be next to nothing.
    """
    return jnp.logical_not(view.fresh) & ((mass < LEAST_MASS) | (view.out.weight[0] == 0))


def unless_passing_on(view: View, mass: Array, moved: Params, held: Params) -> Params:
    """Return what a step came to, and what was held where an agent only passes on what it holds."""
    idle = passes_on(view, mass)
    return jax.tree.map(lambda after, before: jnp.where(idle, before, after), moved, held)


def vacant(state: Tree) -> Tree:
    """Return the state of an agent that joins: no mass, and nothing under it."""
    return jax.tree.map(jnp.zeros_like, state)


def members(mass: Callable[[Tree], Array], empty: Callable[[Tree], Tree] = vacant) -> Membership:
    """Return how agents come and go where a state has a mass."""
    return Membership(empty, lambda state: mass(state) >= LEAST_MASS, lambda state: mass(state) >= AMPLE_MASS)


@register("OPS paper, Alg. 1", title="Online push-sum (OPS)")
def online_push_sum(
    objective: Objective,
    step: LocalStep = 0.1,
    mechanism: Mechanism = unprotected,
    local_steps: int = 1,
    batch_size: int | None = None,
    local_epochs: int | None = None,
) -> Algorithm:
    """Online push-sum (OPS): learning over one-way links.

    In a round each agent takes a gradient step on its batch, splits the outcome and a scalar mass among its
    out-neighbours and itself, and adds up what it receives. It predicts with the ratio of the two. The sender splits,
    so no agent needs to know which others hear it; the mass undoes the bias of one-way links, carries no data and gets
    no noise. An agent's own share is made of the released value too, so that each record enters the run through the one
    release of its round.

    Args:
      objective: Loss and regulariser, e.g. `tacit.objectives.logistic(l2=1e-4)`.
      step: Step size above 0, a number or a function of the round t = 1, 2, ..., or an optimiser such as
        `optax.adam(1e-3)`; 0.1 by default.
      mechanism: Noise, its place and its account, e.g. `tacit.privacy.laplace(1.0, clip=1.0)`; none by default.
      local_steps: Gradient steps of an agent in a round, from 1 on, each by that part of `step`; 1 by default.
      batch_size: Records drawn for each step, without replacement, from 1 on; by default the batch as it comes.
      local_epochs: Passes through all records that a round brings, shuffled, `batch_size` of them at a time, in the
        place of `local_steps`; none by default.

    Returns:
      An algorithm for `tacit.simulate`, a peer or an audit.

    Example:
      >>> import tacit
      >>> ops = tacit.algorithms.online_push_sum(tacit.objectives.logistic(), step=0.3)
      >>> sorted(ops.requires)
      ['reliable', 'sender_normalised', 'strongly_connected']
      >>> stream = tacit.streams.logistic_drift(8, 5, seed=0)
      >>> run = tacit.simulate(ops, tacit.graphs.directed_ring(8), stream, rounds=20, seed=0)
      >>> run.models.shape[-2:]
      (8, 5)

    References:
      OPS paper (ICLR 2021 submission), Alg. 1.
    """
    descent = descent_of(objective, step, mechanism, local_steps, batch_size, local_epochs)

    def init(key: Key, params: Params, views: Mapping[str, View]) -> State:
        return State(params, jnp.ones((), views["peers"].out.weight.dtype))

    def compute(key: Key, state: State, batch: Batch, view: View, memory: Tree = ()) -> tuple[State, Tree]:
        return state, descent.value(ratio(state), state.z, batch, view, key, memory)

    def emit(state: State, released: Tree, view: View) -> tuple[State, Outbox]:
        moved = descent.moved(ratio(state), state.z, released, view)
        return state, push(private=unless_passing_on(view, state.mass, moved, state.z), public=state.mass)

    def absorb(key: Key, state: State, inbox: Inbox, view: View) -> State:
        parts = inbox.mix()
        return State(parts.private, parts.public)

    made = Algorithm(
        name="online_push_sum",
        objective=objective,
        init={"peer": init},
        phases=(Phase("peers", compute, descent.mechanism, absorb, emit),),
        model=ratio,
        requires=frozenset({"strongly_connected", "sender_normalised", "reliable"}),
        privacy=statement(
            mechanism, "models instead of gradients are exchanged, which the OPS paper, sec. 4.4, calls protection"
        ),
        weights="sender",
        membership=members(lambda state: state.mass),
    )
    return optimised(made, descent, ratio, trains=compute)
