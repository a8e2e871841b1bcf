"""Push-sum that survives loss: running totals instead of increments (beyond 003).

OPS loses the mass of every message that does not arrive. Here agent i sends to j the *running total* T_ji of all (z, m)
parts it has ever had for j, and j adds what the total has grown by since the last one that it heard:

    z'_i = z_i - gamma grad f_it(x_i)
    T_ji <- fl(T_ji + W_ji (z'_i, m_i))               per out-link
    keep for itself (z'_i, m_i) - sum_j (growth of T_ji)
    j:  (z_j, m_j) <- kept part + sum_i (T_ji received - T_ji last heard)

A lost message is healed by the next one; a repeated or overtaken one changes nothing, since totals are told apart by age.
What is held plus what is under way is conserved under any pattern of loss. That holds in floating point too: what rounding
takes off a total's growth stays with the sender instead of vanishing (T grows without end, so its last digits coarsen).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import jax
import jax.numpy as jnp

from tacit.algorithms.registry import register
from tacit.algorithms.schedules import as_schedule
from tacit.contract import (
    Algorithm, Array, Batch, Inbox, Key, Mechanism, Objective, Outbox, Params, Phase, PrivacyStatement, Tree, View, per_slot,
    unprotected,
)  # fmt: skip


class Parts(NamedTuple):
    """A share of model and mass."""

    z: Params
    mass: Array


class State(NamedTuple):
    """What a peer holds; totals have a leading axis over slots."""

    held: Parts
    sent: Parts
    """Running total per out-slot."""
    heard: Parts
    """Last total per in-slot."""
    heard_round: Array
    """Round in which the last total of each in-slot was sent."""


def ratio(state: State) -> Params:
    """Return x = z / m."""
    return jax.tree.map(lambda leaf: leaf / state.held.mass, state.held.z)


def mass_under_way(sent: State, heard: State, out_slot: int, in_slot: int) -> Array:
    """Mass that one agent has sent on a link and the other one has not heard of yet."""
    return sent.sent.mass[out_slot] - heard.heard.mass[in_slot]


def _over_slots(values: Array, leaf: Array) -> Array:
    return values.reshape(values.shape + (1,) * leaf.ndim).astype(leaf.dtype)


@register("beyond 003: running totals")
def loss_tolerant_push_sum(
    objective: Objective,
    step: float | Callable[[Array], Array] = 0.1,
    mechanism: Mechanism = unprotected,
) -> Algorithm:
    """Push-sum by running totals: lost, repeated or reordered messages are healed by the next one."""
    schedule = as_schedule(step)

    def init(key: Key, params: Params, views: Mapping[str, View]) -> State:
        view = views["peers"]
        mass = jnp.ones((), view.out.weight.dtype)
        held = Parts(params, mass)

        def blank(slots: int) -> Parts:
            return jax.tree.map(lambda leaf: jnp.zeros((slots, *leaf.shape), leaf.dtype), held)

        heard_round = jnp.zeros(view.into.live.shape, jnp.int32)
        return State(held, blank(view.out.live.shape[0]), blank(view.into.live.shape[0]), heard_round)

    def compute(key: Key, state: State, batch: Batch, view: View) -> tuple[State, Params]:
        gradient = jax.grad(objective.loss)(ratio(state), batch)
        gamma = schedule(view.round)
        z = jax.tree.map(lambda a, g: a - (gamma * g).astype(a.dtype), state.held.z, gradient)
        return state._replace(held=Parts(z, state.held.mass)), z

    def emit(state: State, released: Tree, view: View) -> tuple[State, Outbox]:
        leaving = Parts(released, state.held.mass)
        share = view.out.weight.at[0].set(0)
        total = jax.tree.map(lambda t, leaf: t + _over_slots(share, leaf) * leaf, state.sent, leaving)
        kept = jax.tree.map(lambda h, new, old: h - jnp.sum(new - old, axis=0), state.held, total, state.sent)
        return state._replace(held=kept, sent=total), per_slot(private=total.z, public=total.mass)

    def absorb(key: Key, state: State, inbox: Inbox, view: View) -> State:
        newest, found = inbox.newest()
        age = jnp.min(
            jnp.where(
                inbox.arrived & (inbox.slot == jnp.arange(inbox.slots)[:, None]), inbox.age, view.round
            ),
            axis=1,
        )
        sent_in = view.round - age
        # A total that was overtaken on the way says less than the one already heard.
        news = found & (sent_in > state.heard_round) & (jnp.arange(inbox.slots) > 0)
        total = Parts(newest.private, newest.public)

        def latest(new: Array, old: Array) -> Array:
            return jnp.where(news.reshape(news.shape + (1,) * (new.ndim - 1)), new, old)

        heard = jax.tree.map(latest, total, state.heard)
        held = jax.tree.map(lambda h, new, old: h + jnp.sum(new - old, axis=0), state.held, heard, state.heard)
        return State(held, state.sent, heard, jnp.where(news, sent_in, state.heard_round))

    return Algorithm(
        name="loss_tolerant_push_sum",
        objective=objective,
        init={"peer": init},
        phases=(Phase("peers", compute, mechanism, absorb, emit),),
        model=ratio,
        requires=frozenset({"strongly_connected", "sender_normalised"}),
        privacy=PrivacyStatement.none(),
        weights="sender",
    )
