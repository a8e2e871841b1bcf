"""Sending and combining whatever the mechanism makes of a value: one for all, one per link, or shares on a grid."""

from __future__ import annotations

import jax.numpy as jnp

from tacit.core.contract import Inbox, Mechanism, Outbox, Tree, per_slot, share
from tacit.privacy import from_grid


def outbox(mechanism: Mechanism, released: Tree) -> Outbox:
    """Return the messages that a released value goes out in."""
    return per_slot(released) if mechanism.per_slot else share(released)


def silence() -> Outbox:
    """Return messages to nobody: of a phase in which an agent works by itself."""
    return share((), to=jnp.full(1, -1, jnp.int32))


def combined(mechanism: Mechanism, inbox: Inbox) -> Tree:
    """Return sum_j W[i, j] times what j released, whoever has applied the weights."""
    return from_grid(mechanism, inbox.sum().private) if mechanism.spread == "masked" else inbox.mix().private
