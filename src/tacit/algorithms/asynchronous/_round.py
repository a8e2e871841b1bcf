"""Round of a server and clients that come and go, both of which share windows of their models (Gauthier (2023), ch. 4).

    server:  sends M_k w to the clients that are there, or to those of them that it calls           "downlink"
    client:  v = M_k w + (I - M_k) w_k where it was heard from, else w_k;  w_k <- v - mu grad(v)    (4.9)-(4.12)
             sends S_k w_k if it heard the server in this round                                     "uplink"
    server:  w <- w + sum over l of alpha_l mean over those that come after l rounds of S_k (w_k - w)  (4.13)-(4.14)

A client that is away, or is not called, may go on learning alone ("autonomous"). A round that brings it no data leaves
its model as it is.

Noise goes on a client's step; its model is made of what was released, so that a record is charged once, for the round
that read it, whether the client was there or not and however often what it learnt is sent afterwards.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp

from tacit.algorithms._parts.descent import Step, gradient_step
from tacit.algorithms._parts.per_client import around_one_server
from tacit.algorithms.asynchronous._stability import steps_within
from tacit.algorithms.asynchronous._windows import Sharing, flat, gathered, shaped
from tacit.algorithms.local_step import LocalStep, optimised, rate_of
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
    share,
    unprotected,
)
from tacit.privacy import statement


class Server(NamedTuple):
    """State of the server."""

    w: Params
    called: Array
    """Slots of the clients that it calls in this round; empty where it calls all that are there."""


class Client(NamedTuple):
    """State of a client."""

    w: Params
    heard: Array
    """Whether the server's message of this round came."""


def around_windows(
    name: str,
    objective: Objective,
    step: LocalStep,
    mechanism: Mechanism,
    sharing: Sharing,
    unstable: Literal["refuse", "allow"],
    answers: bool = False,
) -> Algorithm:
    """Return the method that shares so. `answers`: a client that the server does not reach has no part in the round."""
    descent, sharing = gradient_step(objective, rate_of(step), mechanism), sharing.validated()
    made = Algorithm(
        name=name,
        objective=objective,
        init={"client": _client_init, "server": _server_init},
        phases=_rounds(descent, sharing, answers),
        model=lambda state: state.w,
        requires=frozenset(),
        privacy=statement(mechanism, "no guarantee is claimed (Gauthier (2023), ch. 4, adds no noise)"),
        topology=around_one_server,
        learner="client",
        predictor="server",
        missing="renormalise",
        check_data=steps_within(objective, step, mechanism, unstable),
    )
    return optimised(
        made, descent, lambda state: state.w, phase=1, learns=lambda state, view: state.heard | sharing.autonomous
    )


def _client_init(key: Key, params: Params, views: Mapping[str, View]) -> Client:
    return Client(params, jnp.asarray(False))


def _server_init(key: Key, params: Params, views: Mapping[str, View]) -> Server:
    return Server(params, jnp.full(views["downlink"].out.live.shape, -1, jnp.int32))


def _rounds(step: Step, sharing: Sharing, answers: bool) -> tuple[Phase, Phase]:
    down, up = sharing.down, sharing.up
    calls_all = sharing.fraction == 1

    def offer(key: Key, state: Server, batch: Batch, view: View) -> tuple[Server, Tree]:
        if calls_all:
            return state, flat(state.w)
        slots = jnp.arange(view.out.live.shape[0], dtype=jnp.int32)
        chosen = jax.random.uniform(key, slots.shape, jnp.float32) < sharing.fraction
        return state._replace(called=jnp.where(chosen & view.out.live, slots, -1)), flat(state.w)

    def send(state: Server, released: Tree, view: View) -> tuple[Server, Outbox]:
        to = None if calls_all else state.called
        if down.share is None or down.coordinated:
            return state, share(down.taken(released, view.agent, view.round), to=to)
        parts = jax.vmap(lambda client: down.taken(released, client, view.round))(view.out.agent)
        return state, per_slot(parts, to=to)

    def take_in(key: Key, state: Client, inbox: Inbox, view: View) -> Client:
        heard = jnp.any(inbox.arrived)
        w = flat(state.w)
        where = down.places(view.agent, view.round, w.size)
        part: Array = inbox.sum().private
        found = w.at[where].set(jnp.where(heard, part, w[where])) if down.share else jnp.where(heard, part, w)
        return Client(shaped(found, state.w), heard)

    def learn(key: Key, state: Client, batch: Batch, view: View) -> tuple[Client, Tree]:
        return state, step.value(state.w, state.w, batch, view, key)

    def answer(state: Client, released: Tree, view: View) -> tuple[Client, Outbox]:
        learns = jnp.asarray(view.fresh) & (state.heard | sharing.autonomous)
        moved = step.moved(state.w, state.w, released, view)
        w = jax.tree.map(lambda new, old: jnp.where(learns, new, old), moved, state.w)
        part = up.taken(flat(w), view.agent, _sent_window(view.round))
        return Client(w, state.heard), share(part, to=None if answers else jnp.where(state.heard, 1, -1)[None])

    def collect(key: Key, state: Server, inbox: Inbox, view: View) -> Server:
        w = flat(state.w)
        sent = lambda agent, t: up.places(agent, _sent_window(t), w.size)  # noqa: E731
        return state._replace(w=shaped(gathered(inbox, w, view, sent, sharing.late), state.w))

    def _sent_window(t: Array) -> Array:
        return t + 1 if sharing.answer == "next" else t

    return (
        Phase("downlink", offer, unprotected, take_in, send, source="server", target="client"),
        Phase("uplink", learn, step.mechanism, collect, answer, "client", "server", "downlink" if answers else None),
    )
