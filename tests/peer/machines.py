"""One agent among three neighbours, and envelopes for it."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tacit import runtime
from tacit.core.contract import Links, Message, Phase, View, share, unprotected
from tacit.core.errors import MessageRefused
from tacit.peer import AgentFunctions, Envelope, RoundMachine
from tests.simulator import specimens

ME, NEIGHBOURS, STRANGER = 3, (1, 4, 6), 5
W = np.array([0.4, 0.1, 0.2, 0.3], np.float32)


class Seen(NamedTuple):
    """Everything that came in, in a form that depends on neither order nor place."""

    x: jax.Array
    """Numbers mixed in by weight, phase by phase."""
    ages: jax.Array
    tickets: jax.Array


def links(agents=(ME, *NEIGHBOURS), live=(True, True, True, True), weight=W):
    return Links(jnp.array(agents, jnp.int32), jnp.array(live), jnp.array(weight, jnp.float32))


def view(t, into=None, out=None, agent=ME):
    return View(jnp.int32(agent), jnp.int32(t), jnp.array(True), jnp.int32(0), out or links(), into or links())


def absorb(key, state, inbox, view):
    seen = jnp.where(inbox.arrived, inbox.age + 1, 0)
    return Seen(
        state.x + inbox.mix().private,
        state.ages + jnp.sum(seen, dtype=jnp.int32),
        state.tickets * 3 + inbox.sum().public,
    )


def send(key, state, batch, view):
    return state, state.x


def two_phases():
    """x is shared with a ticket, twice on the same links."""
    return specimens.algorithm(
        [
            Phase("peers", send, unprotected, absorb, lambda s, released, v: (s, share(released, public=v.round)))
            for _ in range(2)
        ],
        lambda key, params, views: Seen(jnp.ones(2), jnp.int32(0), jnp.int32(0)),
        lambda state: state.x,
    )


def functions_of(algorithm, views):
    specs = runtime.settle(algorithm, jnp.zeros(2), jnp.zeros(2), views)
    return AgentFunctions(algorithm, specs)


FUNCTIONS = functions_of(two_phases(), {"peer": {"peers": view(0)}})


def machine(longest_delay=0, functions=FUNCTIONS):
    return RoundMachine(functions, "peer", ME, jax.random.key(0), jnp.zeros(2), {"peers": view(0)}, longest_delay)


def begin(one, **changes):
    return one.begin(jnp.zeros(2), {"peers": view(one.round + 1, **changes)})


def envelope(sender=1, phase=0, t=1, value=1.0, ticket=5, **others):
    message = Message(np.full(2, value, np.float32), np.asarray(ticket, np.int32))
    return Envelope(**{"links": "peers", "phase": phase, "round": t, "sender": sender, "receiver": ME, "message": message, **others})  # fmt: skip


def numbers(one):
    return [np.asarray(leaf).tolist() for leaf in jax.tree.leaves(one.state)]


def refuse(one, reason, what):
    before = numbers(one), one.waiting_for(), one.round
    with pytest.raises(MessageRefused, match=f"refused \\({reason}\\)") as caught:
        one.receive(what)
    assert caught.value.reason == reason
    assert (numbers(one), one.waiting_for(), one.round) == before


def federated():
    """Servers ask two clients; who was asked answers; then the servers tell those who answered."""

    def ask(state, released, view):
        return state, share(released, public=view.round, to=jnp.array([1, 3]))

    def client(key, params, views):
        return Seen(jnp.ones(2), jnp.int32(0), jnp.int32(0))

    def plain(state, released, view):
        return state, share(released, public=view.round)

    return specimens.algorithm(
        [
            Phase("down", send, unprotected, absorb, ask, "server", "client"),
            Phase("up", send, unprotected, absorb, plain, "client", "server", answers="down"),
            Phase("told", send, unprotected, absorb, plain, "server", "client", answers="up"),
            Phase("gossip", send, unprotected, absorb, plain, "client", "client", answers="down"),
        ],
        {"client": client, "server": client},
        lambda state: state.x,
        learner="client",
        predictor="client",
    )


NOBODY = links((-1,), (False,), (0.0,))
OTHERS = links((-1, *NEIGHBOURS), (False, True, True, True))
SENDS, HEARS = view(0, out=OTHERS, into=NOBODY), view(0, out=NOBODY, into=OTHERS)
FEDERATED_VIEWS = {
    "server": {"down": SENDS, "up": HEARS, "told": SENDS},
    "client": {"down": HEARS, "up": SENDS, "told": HEARS, "gossip": view(0)},
}
