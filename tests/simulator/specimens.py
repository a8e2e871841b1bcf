"""Small algorithms that use every part of the contract, and streams and graphs to run them on."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from tacit import streams
from tacit.core.contract import (
    Algorithm,
    Mechanism,
    Objective,
    Phase,
    PrivacyStatement,
    per_slot,
    push,
    share,
    unprotected,
)
from tacit.graphs import Graph, Topology

DIM = 9
"""Wide enough for rows to be padded."""
CENTRE = np.cos(np.arange(DIM + 3))
"""Where the loss of a specimen's model is zero: a generic point, so that the loss tells all entries apart."""


def fixed(data, **others):
    """A stream of given batches (rounds, agents, ...)."""
    return streams.from_function(lambda a, b: data[a:b], agents=data.shape[1], rounds=len(data), data_size=3, **others)


def targets(agents, rounds, seed=0):
    """A stream of vectors; single precision, so that both precisions see the same numbers."""
    return fixed(np.random.default_rng(seed).normal(size=(rounds, agents, DIM)).astype(np.float32))


def padded(x):
    """A model of the length that the loss expects."""
    return jnp.concatenate([x, jnp.zeros(len(CENTRE) - DIM, x.dtype)])


def random_graph(agents, seed, density=0.4, weights="receiver"):
    """A random digraph, not necessarily connected."""
    draw = np.random.default_rng(seed).random((agents, agents)) < density
    np.fill_diagonal(draw, False)
    receivers, senders = np.nonzero(draw)
    graph = Graph.from_edges(agents, senders, receivers, name=f"random {seed}")
    return graph if weights is None else graph.with_weights(weights)


def random_symmetric(agents, seed, density=0.4):
    """A random symmetric graph with Metropolis weights."""
    draw = np.triu(np.random.default_rng(seed).random((agents, agents)) < density, 1)
    receivers, senders = np.nonzero(draw | draw.T)
    return Graph.from_edges(agents, senders, receivers, name=f"symmetric {seed}").with_weights("metropolis")


class Everything(NamedTuple):
    """State of `everything`."""

    x: jax.Array
    mass: jax.Array
    heard: jax.Array
    memory: jax.Array


def loss(params, batch):
    return jnp.sum((params - CENTRE.astype(params.dtype)) ** 2) + jnp.sum(batch * params[:DIM])


def objective(initial=None):
    return Objective("distance", loss, initial or (lambda spec: jnp.zeros(spec.shape)))


def algorithm(phases, init, model, name="specimen", **others):
    return Algorithm(
        name,
        others.pop("objective", objective()),
        init if isinstance(init, dict) else {"peer": init},
        tuple(phases),
        model,
        others.pop("requires", frozenset()),
        PrivacyStatement.none(),
        **others,
    )


def noisy(per_slot=False):
    return Mechanism(
        "gaussian",
        "gaussian",
        sensitivity=lambda view, extent: jnp.float32(1.0),
        scale=lambda view, sensitivity: jnp.float32(0.1),
        spread="per_edge" if per_slot else "common",
    )


def send_x(key, state, batch, view):
    return state, state.x


def step(key, state, batch, view):
    moved = state.x - 0.1 * (state.x - batch)
    return state._replace(x=moved), moved


def everything(deliveries=4):
    """Every delivery and every way to read an inbox, one after another on the same links.

    `oracle.everything` says the same in loops over dense arrays. The first few of them compile faster.
    """

    def init(key, params, views):
        view = views["peers"]
        x = params + 0.1 * view.agent
        return Everything(
            x, jnp.ones((), x.dtype), jnp.int32(0), jnp.zeros(view.into.live.shape[0], view.into.weight.dtype)
        )

    def share_x(state, released, view):
        return state, share(released, public=view.round + 10 * view.agent)

    def absorb_mix(key, state, inbox, view):
        return state._replace(x=inbox.mix().private, heard=(state.heard + inbox.sum().public) % 997)

    def push_all(state, released, view):
        return state, push(released, public=state.mass)

    def absorb_push(key, state, inbox, view):
        parts, raw = inbox.mix(), inbox.values()
        return state._replace(
            x=parts.private, mass=0.1 + 0.9 * parts.public + 0.01 * jnp.sum(jnp.sin(raw.public) * (1 + inbox.age))
        )

    def emit_per_slot(state, released, view):
        own_way = 1 + 0.1 * view.out.agent + view.out.weight
        return state, per_slot(own_way[:, None] * released, public=jnp.where(view.out.live, view.out.agent, 77))

    def absorb_raw(key, state, inbox, view):
        # sin(0) = 0: entries that did not arrive read as zeros, or this shows it.
        raw = jnp.sin(inbox.values().private) * ((1 + inbox.age) * (2 + view.into.agent[inbox.slot]))[:, None]
        weighted = inbox.sum(1 / (2.0 + view.into.agent)).private
        right = jnp.sum(jnp.where(inbox.arrived, inbox.values().public == view.agent, 0), dtype=jnp.int32)
        return state._replace(
            x=0.5 * jnp.tanh(state.x + weighted + 0.1 * jnp.sum(raw, axis=0)), heard=state.heard + right
        )

    def address(state, released, view):
        neighbours = jnp.sum(view.out.agent[1:] >= 0)
        first = 1 + (view.round + view.agent) % jnp.maximum(neighbours, 1)
        second = jnp.where(view.round % 2 == 0, -1, 1)
        return state, share(released, to=jnp.stack([first, second]))

    def absorb_newest(key, state, inbox, view):
        message, found = inbox.newest()
        memory = jnp.where(found, message.private[:, 1], state.memory)
        return state._replace(x=0.5 * state.x + 0.01 * view.into.degree + 0.02 * view.out.degree, memory=memory)

    def model(state):
        parts = jnp.stack([state.mass, state.heard.astype(state.x.dtype) / 997, jnp.sum(state.memory)])
        return jnp.concatenate([state.x, parts])

    phases = (
        Phase("peers", step, unprotected, absorb_mix, share_x),
        Phase("peers", send_x, unprotected, absorb_push, push_all),
        Phase("peers", send_x, unprotected, absorb_raw, emit_per_slot),
        Phase("peers", send_x, unprotected, absorb_newest, address),
    )
    return algorithm(phases[:deliveries], init, model, name="everything")


def random_walk():
    """Uses every key there is: first states, computing, noise per slot, absorbing."""

    def drawn(key, x):
        return x + jax.random.normal(key, x.shape, x.dtype)

    def init(key, params, views):
        return Federated(drawn(key, params), jnp.int32(0))

    def walk(key, state, batch, view):
        moved = drawn(key, state.x)
        return state._replace(x=moved), moved

    def absorb(key, state, inbox, view):
        return state._replace(x=drawn(key, inbox.sum().private))

    phase = Phase("peers", walk, noisy(per_slot=True), absorb, lambda s, released, v: (s, per_slot(released)))
    return algorithm([phase], init, lambda state: padded(state.x))


class Federated(NamedTuple):
    """State of a client or server of `federated`."""

    x: jax.Array
    count: jax.Array


def federated(cohort=2):
    """Several servers: each picks a cohort by turns, which answers; then the servers mix. Servers predict."""

    def init_client(key, params, views):
        return Federated(params + 0.01 * views["up"].agent, jnp.int32(0))

    def init_server(key, params, views):
        return Federated(params + 0.1 * (1 + views["among"].agent), jnp.int32(0))

    def pick(state, released, view):
        neighbours = jnp.maximum(jnp.sum(view.out.agent[1:] >= 0), 1)
        slots = 1 + (view.round + jnp.arange(cohort)) % neighbours
        return state, share(released, public=view.round, to=jnp.where(jnp.arange(cohort) < neighbours, slots, -1))

    def take_model(key, state, inbox, view):
        got = jnp.any(inbox.arrived)
        heard = inbox.sum()
        number = jnp.maximum(jnp.sum(inbox.arrived), 1)
        return Federated(jnp.where(got, heard.private / number, state.x), state.count + heard.public)

    def local(key, state, batch, view):
        moved = state.x - 0.3 * (state.x - batch)
        return Federated(moved, state.count + 100 * view.data_size), moved

    def answer(state, released, view):
        return state, share(released, public=state.count)

    def take_answers(key, state, inbox, view):
        number = jnp.sum(inbox.arrived, dtype=jnp.int32)
        mean = inbox.sum().private / jnp.maximum(number, 1)
        raw = jnp.sum(jnp.sin(inbox.values().private), axis=0)
        counts = inbox.sum().public
        return Federated(jnp.where(number > 0, mean + 0.01 * raw, state.x), state.count + number + counts)

    def mix(key, state, inbox, view):
        return Federated(inbox.mix().private, state.count)

    def model(state):
        return padded(state.x).at[DIM].set(state.count.astype(state.x.dtype) / 1000)

    return algorithm(
        (
            Phase("down", send_x, unprotected, take_model, pick, "server", "client"),
            Phase("up", local, unprotected, take_answers, answer, "client", "server", answers="down"),
            Phase("among", send_x, unprotected, mix, source="server", target="server"),
        ),
        {"client": init_client, "server": init_server},
        model,
        name="federated",
        learner="client",
        predictor="server",
    )


def served(clients, servers, seed=0):
    """Clients of uneven servers, some clients heard by two of them, and a graph among the servers."""
    generator = np.random.default_rng(seed)
    home = np.concatenate([np.arange(servers), generator.integers(servers, size=clients - servers)])
    pairs = {(int(c), int(s)) for c, s in enumerate(home)} | {
        (int(c), int((home[c] + 1) % servers)) for c in range(0, clients, 3)
    }
    client, server = (np.array(side) for side in zip(*sorted(pairs), strict=True))
    among = (
        Graph.from_edges(servers, np.arange(servers), (np.arange(servers) + 1) % servers)
        if servers > 1
        else (Graph.from_edges(1, [], []))
    )
    return Topology(
        {"client": clients, "server": servers},
        {
            "up": Graph.from_edges(servers, client, server, sources=clients, name="up"),
            "down": Graph.from_edges(clients, server, client, sources=servers, name="down"),
            "among": among,
        },
    )
