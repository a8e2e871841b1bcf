"""Round of federated methods: a server calls some of its clients, these train on their own data, and it averages.

    server:  calls L of its clients, or all, and sends them w                               "downlink"
    client:  trains from w on: `tacit.algorithms._parts.local_steps`
    server:  w <- mean of what the called clients came to                                   "uplink", answers "downlink"

Where nothing arrives, a server and a client keep what they have.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from tacit.algorithms._parts.local_steps import Training
from tacit.algorithms._parts.sampling import uniform_cohort
from tacit.algorithms._parts.validation import whole_number
from tacit.core.contract import Array, Batch, Inbox, Key, Outbox, Params, Phase, Tree, View, share, unprotected


class Server(NamedTuple):
    """State of a server."""

    w: Params
    called: Array
    """(L,) slots of the clients that it calls in this round; (0,) where it calls all of them."""


def server_init(cohort: int | None) -> Callable[[Key, Params, Mapping[str, View]], Server]:
    """Return what makes a server's first state."""
    return lambda key, params, views: Server(params, jnp.zeros(cohort or 0, jnp.int32))


def average(inbox: Inbox, kept: Params) -> Params:
    """Return the mean of what arrived; without any, what there is."""
    heard = jnp.any(inbox.arrived)
    found: Params = jax.tree.map(lambda new, old: jnp.where(heard, new, old), inbox.mean().private, kept)
    return found


def called_rounds(training: Training, cohort: int | None) -> tuple[Phase, Phase]:
    """Return the two phases of a round around a server: a uniform cohort is called, or all are, and it answers."""
    if cohort is not None:
        whole_number("cohort", cohort, "how many clients a server calls")

    def call(key: Key, state: Any, batch: Batch, view: View) -> tuple[Any, Tree]:
        if cohort is None:
            return state, state.w
        return state._replace(called=1 + uniform_cohort(key, view.out.degree, cohort)), state.w

    def send(state: Any, released: Tree, view: View) -> tuple[Any, Outbox]:
        return state, share(released, to=None if cohort is None else state.called)

    def download(key: Key, state: Params, inbox: Inbox, view: View) -> Params:
        return average(inbox, state)

    def train(key: Key, state: Params, batch: Batch, view: View) -> tuple[Params, Tree]:
        return state, training.value(key, state, batch, view)

    def upload(state: Params, released: Tree, view: View) -> tuple[Params, Outbox]:
        return state, share(training.moved(state, released, view))

    def collect(key: Key, state: Server, inbox: Inbox, view: View) -> Server:
        return state._replace(w=average(inbox, state.w))

    return (
        Phase("downlink", call, unprotected, download, send, source="server", target="client"),
        Phase("uplink", train, training.mechanism, collect, upload, "client", "server", answers="downlink"),
    )
