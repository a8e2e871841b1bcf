"""Push-sum by running totals, beyond the OPS paper: loss, repetition and reordering are healed by the next message.

Agent i sends to j the *running total* T_ji of all (z, m) parts it has ever had for j:

    z'_i = z_i - gamma grad f_it(x_i)
    T_ji <- T_ji + W_ji (z'_i, m_i) for every out-link;   keep W_ii (z'_i, m_i)
    j:  (z_j, m_j) <- kept part + sum_i (T_ji received - T_ji last heard)

Totals are told apart by the round in which they were sent, and kept to twice the digits (`running_totals`). What is
held plus what is under way is conserved under any pattern of loss. Without loss this is OPS.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import jax
import jax.numpy as jnp

from tacit.algorithms._parts.descent import gradient_step
from tacit.algorithms._parts.running_totals import Total, along, growth, increased, no_totals
from tacit.algorithms.local_step import LocalStep, optimised, rate_of
from tacit.algorithms.push_sum.online_push_sum import LEAST_MASS, members, ratio, unless_passing_on, vacant
from tacit.algorithms.push_sum.online_push_sum import State as Parts
from tacit.algorithms.registry import register
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
    per_slot,
    unprotected,
)
from tacit.privacy import statement


class State(NamedTuple):
    """State of a peer."""

    held: Parts
    sent: Total
    """Per out-slot."""
    heard: Total
    """Per in-slot, the newest that arrived."""
    heard_round: Array
    """Per in-slot, the round in which that one was sent."""
    fresh: Array
    """Whether anything new was heard since the last push."""


@register("beyond the OPS paper: running totals", title="Loss-tolerant push-sum")
def loss_tolerant_push_sum(
    objective: Objective,
    step: LocalStep = 0.1,
    mechanism: Mechanism = unprotected,
) -> Algorithm:
    """Push-sum by running totals: lost, repeated or reordered messages are healed by the next one.

    Online push-sum loses the mass of every message that does not arrive. Here an agent sends each out-neighbour the sum
    of all parts that it has ever had for it, and the receiver adds what that sum has grown by since the newest one that
    it has heard. An agent that has heard nothing new since its last push, or has less than 1/64 of an agent's mass,
    keeps what it has and repeats its sums: pushing on would shrink its mass round by round, and its steps would grow as
    much. So it is where a neighbour is away.

    Args:
      objective: Loss and regulariser, e.g. `tacit.objectives.logistic(l2=1e-4)`.
      step: Step size above 0, a number or a function of the round t = 1, 2, ..., or an optimiser such as
        `optax.adam(1e-3)`; 0.1 by default.
      mechanism: Noise, its place and its account, e.g. `tacit.privacy.laplace(1.0, clip=1.0)`; none by default.

    Returns:
      An algorithm for `tacit.simulate`, a peer or an audit.

    Example:
      >>> import tacit
      >>> tolerant = tacit.algorithms.loss_tolerant_push_sum(tacit.objectives.logistic(), step=0.3)
      >>> sorted(tolerant.requires)  # links may be unreliable
      ['sender_normalised', 'strongly_connected']

    References:
      OPS paper (ICLR 2021 submission), Alg. 1, of which this is an extension.
    """
    descent = gradient_step(objective, rate_of(step), mechanism)

    def init(key: Key, params: Params, views: Mapping[str, View]) -> State:
        view = views["peers"]
        held = Parts(params, jnp.ones((), view.out.weight.dtype))
        out, into = view.out.live.shape[0], view.into.live.shape[0]
        sent, heard = no_totals(out, held), no_totals(into, held)
        return State(held, sent, heard, jnp.zeros(into, jnp.int32), jnp.asarray(True))

    def compute(key: Key, state: State, batch: Batch, view: View) -> tuple[State, Tree]:
        return state, descent.value(ratio(state.held), state.held.z, batch, view, key)

    def emit(state: State, released: Tree, view: View) -> tuple[State, Outbox]:
        leaves = (view.out.weight[0] == 0) & (view.into.degree == 0)  # for good: it keeps nothing, however little
        pushes = leaves | (state.fresh & (state.held.mass >= LEAST_MASS))
        share = jnp.where(pushes, view.out.weight, 0).at[0].set(0)
        moved = descent.moved(ratio(state.held), state.held.z, released, view)
        leaving = Parts(unless_passing_on(view, state.held.mass, moved, state.held.z), state.held.mass)
        parts = jax.tree.map(lambda leaf: along(share, leaf[None]).astype(leaf.dtype) * leaf, leaving)
        total = increased(state.sent, parts)
        kept = jnp.where(pushes, view.out.weight[0], 1)
        held = jax.tree.map(lambda leaf: kept.astype(leaf.dtype) * leaf, leaving)
        outbox = per_slot((total.high.z, total.low.z), (total.high.mass, total.low.mass))
        return state._replace(held=held, sent=total), outbox

    def absorb(key: Key, state: State, inbox: Inbox, view: View) -> State:
        newest, found = inbox.newest()
        hits = inbox.arrived & (inbox.slot == jnp.arange(inbox.slots)[:, None])
        sent_in = view.round - jnp.min(jnp.where(hits, inbox.age, view.round), axis=1)
        # A total that was overtaken on the way says less than the one already heard. One heard in a round that is yet
        # to come is of a time before this peer was put back to an earlier round.
        newer = (sent_in > state.heard_round) | (state.heard_round > view.round)
        news = found & newer & (jnp.arange(inbox.slots) > 0)
        (high_z, low_z), (high_mass, low_mass) = newest.private, newest.public
        total = Total(Parts(high_z, high_mass), Parts(low_z, low_mass))
        heard = jax.tree.map(lambda new, old: jnp.where(along(news, new), new, old), total, state.heard)
        gained = growth(heard, state.heard)
        return State(
            jax.tree.map(lambda h, g: h + jnp.sum(g, axis=0), state.held, gained),
            state.sent,
            heard,
            jnp.where(news, sent_in, state.heard_round),
            jnp.sum(gained.mass) > 0,
        )

    made = Algorithm(
        name="loss_tolerant_push_sum",
        objective=objective,
        init={"peer": init},
        phases=(Phase("peers", compute, descent.mechanism, absorb, emit),),
        model=lambda state: ratio(state.held),
        requires=frozenset({"strongly_connected", "sender_normalised"}),
        privacy=statement(mechanism),
        weights="sender",
        missing="totals",
        membership=members(lambda state: state.held.mass, lambda state: state._replace(held=vacant(state.held))),
    )
    return optimised(made, descent, lambda state: ratio(state.held))
