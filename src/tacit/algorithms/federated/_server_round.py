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

from tacit.algorithms._parts.local_steps import Training, locally_optimised
from tacit.algorithms._parts.mixing import IfMissing, first_model, link_requirements
from tacit.algorithms._parts.per_client import around_one_server, with_clients
from tacit.algorithms._parts.sampling import uniform_cohort
from tacit.core.checks import whole_number
from tacit.core.contract import (
    Algorithm,
    Array,
    Batch,
    Inbox,
    Key,
    Objective,
    Outbox,
    Params,
    Phase,
    PrivacyStatement,
    Tree,
    View,
    share,
    unprotected,
)

Init = Callable[[Key, Params, Mapping[str, View]], Any]
Collect = Callable[[Key, Any, Inbox, View], Any]


class Server(NamedTuple):
    """State of a server."""

    w: Params
    called: Array
    """(L,) slots of the clients that it calls in this round; (0,) where it calls all of them."""


def server_init(cohort: int | None) -> Init:
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


def averaging_rounds(
    name: str,
    objective: Objective,
    training: Training,
    privacy: PrivacyStatement,
    missing: IfMissing,
    cohort: int | None,
    server: Init | None = None,
    collect: Collect | None = None,
) -> Algorithm:
    """Return the method of such rounds, whose server averages unless `collect` does otherwise."""
    down, up = called_rounds(training, cohort)
    made = Algorithm(
        name=name,
        objective=objective,
        init={"client": first_model, "server": server or server_init(cohort)},
        phases=(down, up if collect is None else up._replace(absorb=collect)),
        model=lambda state: state.w,
        requires=link_requirements(missing),
        privacy=privacy,
        topology=with_clients(around_one_server, **training.settings),
        learner="client",
        missing=missing,
        predictor="server",
    )
    return locally_optimised(made, training)
