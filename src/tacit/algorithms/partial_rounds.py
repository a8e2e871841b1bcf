"""The round of a server and clients that come and go, in which both sides share windows of their models (001 ch. 4).

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

from tacit.algorithms.descent import Step
from tacit.algorithms.partial_sharing import Late, Windows, flat, gathered, shaped
from tacit.contract import (
    Array,
    Batch,
    Inbox,
    Key,
    Outbox,
    Params,
    Phase,
    Tree,
    View,
    per_slot,
    share,
    unprotected,
)
from tacit.errors import ConfigError


class Server(NamedTuple):
    """What the server carries."""

    w: Params
    called: Array
    """Slots of the clients that it calls in this round; empty where it calls all who are there."""


class Client(NamedTuple):
    """What a client carries."""

    w: Params
    heard: Array
    """Whether the server's message of this round came."""


class Sharing(NamedTuple):
    """What travels in a round, and what comes of it."""

    down: Windows
    up: Windows
    answer: Literal["next", "same"] = "next"
    """Whether clients send the window that the server will send in the next round, or the one that it just sent."""
    late: Late = Late()
    autonomous: bool = True
    """Whether clients that the server does not reach learn on."""
    fraction: float = 1.0
    """Probability with which a client that is there is called."""

    def checked(self) -> Sharing:
        """Refuse settings that mean nothing."""
        if self.answer not in ("next", "same"):
            raise ConfigError(f"answer = {self.answer!r}: expected 'next' or 'same', the window that clients send")
        if not 0 < self.fraction <= 1:
            raise ConfigError(f"fraction = {self.fraction!r}: expected the share of the clients to call, up to 1")
        return self._replace(down=self.down.checked(), up=self.up.checked(), late=self.late.checked())


def client_init(key: Key, params: Params, views: Mapping[str, View]) -> Client:
    """A client begins with the first model."""
    return Client(params, jnp.asarray(False))


def server_init(key: Key, params: Params, views: Mapping[str, View]) -> Server:
    """The server begins with the first model."""
    return Server(params, jnp.full(views["downlink"].out.live.shape, -1, jnp.int32))


def partial_rounds(step: Step, sharing: Sharing, answers: bool = False) -> tuple[Phase, Phase]:
    """Return the two phases of a round. `answers`: whoever the server does not reach has no part in it."""
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
        return state, step.value(state.w, state.w, batch, view)

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
