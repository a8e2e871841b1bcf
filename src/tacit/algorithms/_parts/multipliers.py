"""Multipliers of alternating directions over a graph, made of released values.

Every agent keeps its own released value u_k, the sum of its neighbours' and a multiplier gamma_k. After a round

    gamma_k <- gamma_k + rho sum_{l in N_k} (u_k - u_l)

so that all multipliers together always sum to zero. A local step is around the point

    centre_k = (rho sum_{l in N_k} (u_k + u_l) - gamma_k) / (2 rho |N_k|)

of curvature 2 rho |N_k|. All of it is made of what was released: data enter through the local step alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import jax
import jax.numpy as jnp

from tacit.core.checks import positive
from tacit.core.contract import Array, Inbox, Key, Params, Requirement, Tree, View

NEEDS: frozenset[Requirement] = frozenset({"symmetric", "strongly_connected", "fixed", "reliable"})


class State(NamedTuple):
    """State of an agent."""

    u: Params
    """Its own value, as it was released."""
    others: Params
    """Sum of its neighbours' values."""
    gamma: Params
    """The multiplier."""


def init(key: Key, params: Params, views: Mapping[str, View]) -> State:
    """Start as if all agents had released the same."""
    return started(params, views["peers"])


def started(params: Params, view: View) -> State:
    """Return the first state of an agent: nothing pulls yet."""
    degree = view.into.degree
    others = jax.tree.map(lambda leaf: degree.astype(leaf.dtype) * leaf, params)
    return State(params, others, jax.tree.map(jnp.zeros_like, params))


def continued(state: State, view: View) -> State:
    """Return the first state on other links: the own value stays, multipliers begin anew and so sum to zero again."""
    return started(state.u, view)


def validate_penalty(penalty: float) -> float:
    """Return a penalty; refuse one that would not hold agents together."""
    return positive("penalty", penalty, "how hard neighbours are pulled together")


def pull(state: State, penalty: float, view: View) -> Params:
    """Return rho sum_l (u_k + u_l) - gamma_k, the centre times its curvature."""
    degree = view.into.degree

    def leaf(u: Array, others: Array, gamma: Array) -> Array:
        return penalty * (degree.astype(u.dtype) * u + others) - gamma

    return jax.tree.map(leaf, state.u, state.others, state.gamma)


def hear(state: State, penalty: float, inbox: Inbox, view: View) -> State:
    """Take in what the neighbours released, and move the multiplier."""
    degree = view.into.degree
    others: Tree = inbox.sum((jnp.arange(inbox.slots) > 0).astype(jnp.result_type(float))).private

    def dual(gamma: Array, u: Array, total: Array) -> Array:
        return gamma + penalty * (degree.astype(u.dtype) * u - total)

    return state._replace(others=others, gamma=jax.tree.map(dual, state.gamma, state.u, others))
