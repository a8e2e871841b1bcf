"""Sending and combining released values: one for all, one per link, or shares on a grid; and the round made of it.

    z_i = the step from x_i;   x_i = sum_j W[i, j] z_j

is the round of peers whose state is their model (`averaged_step`). A peer that does not wait for late messages takes
the mean over those that arrived instead, by their weights.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import jax.numpy as jnp

from tacit.algorithms._parts.descent import Step
from tacit.core.contract import (
    Batch,
    Inbox,
    Key,
    Mechanism,
    Outbox,
    Params,
    Phase,
    Requirement,
    Tree,
    View,
    per_slot,
    share,
)
from tacit.privacy import from_grid

IfMissing = Literal["wait", "renormalise"]
"""Of the contract's ways to deal with a message that is late, those that an average has."""


def first_model(key: Key, params: Params, views: Mapping[str, View]) -> Params:
    """Return the first state of an agent that carries its model and nothing else."""
    return params


def averaged_step(descent: Step, missing: IfMissing) -> Phase:
    """Return the one phase of the round."""

    def compute(key: Key, state: Params, batch: Batch, view: View) -> tuple[Params, Tree]:
        return state, descent.value(state, state, batch, view, key)

    def emit(state: Params, released: Tree, view: View) -> tuple[Params, Outbox]:
        return state, share(descent.moved(state, state, released, view))

    def absorb(key: Key, state: Params, inbox: Inbox, view: View) -> Params:
        return (inbox.mix() if missing == "wait" else inbox.mean()).private

    return Phase("peers", compute, descent.mechanism, absorb, emit)


def link_requirements(missing: IfMissing) -> frozenset[Requirement]:
    """Return what an average asks of the links: one that waits for every message needs every message."""
    return frozenset({"reliable"}) if missing == "wait" else frozenset()


def outbox(mechanism: Mechanism, released: Tree) -> Outbox:
    """Return the messages that a released value goes out in."""
    return per_slot(released) if mechanism.per_slot else share(released)


def empty_outbox() -> Outbox:
    """Return no message, for a phase in which an agent works by itself."""
    return share((), to=jnp.full(1, -1, jnp.int32))


def combined(mechanism: Mechanism, inbox: Inbox) -> Tree:
    """Return sum_j W[i, j] times what j released, whether sender or receiver has applied the weights."""
    return from_grid(mechanism, inbox.sum().private) if mechanism.spread == "masked" else inbox.mix().private
