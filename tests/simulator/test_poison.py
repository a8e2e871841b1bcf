"""What did not arrive is invisible: NaN spreads exactly to those who heard it, whichever way they read their inbox."""

import jax.numpy as jnp
import numpy as np
import pytest

from tacit.core.contract import Phase, per_slot, push, share, unprotected
from tacit.graphs import Channel, Delay, Graph, LinkDrop, Topology
from tacit.simulator import layout as layout_module
from tacit.simulator import simulate
from tests.daily import some
from tests.simulator import oracle, specimens

ROUNDS = 3
READS = 4
"""mix, weighted sum, raw entries, newest."""


def read_every_way(inbox, view):
    """One number per way of reading; each of them NaN if, and only if, that way saw NaN in its own column."""
    nowhere = jnp.where(view.into.agent >= 0, 0.5, jnp.nan)  # a weight that no message may ever meet
    newest, _ = inbox.newest()
    return jnp.stack(
        [
            inbox.mix().private[0],
            inbox.sum(nowhere).private[1],
            jnp.sum(inbox.values().private[:, 2]),
            jnp.sum(newest.private[:, 3]),
        ]
    )


def to_first(outbox):
    """Address the first neighbour only."""
    return lambda state, released, view: (state, outbox(released, to=jnp.array([1, -1])))


def to_each(state, released, view):
    # A slot that is not live may hold anything.
    values = jnp.where(view.out.live[:, None], released, jnp.nan)
    return state, per_slot(values)


DELIVERIES = (
    lambda state, released, view: (state, share(released)),
    lambda state, released, view: (state, push(released)),
    to_each,
    to_first(share),
)


def flags(state):
    return jnp.where(jnp.isnan(state), 1.0, 0.0).reshape(-1)


def poisoned(patients):
    """State (deliveries, READS); the patients' are NaN from the start."""

    def phase(row, emit):
        return Phase(
            "peers",
            lambda key, state, batch, view: (state, state[row]),
            unprotected,
            lambda key, state, inbox, view: state.at[row].set(read_every_way(inbox, view)),
            emit,
        )

    def init(key, params, views):
        sick = jnp.isin(views["peers"].agent, jnp.array(patients))
        return jnp.where(sick, jnp.nan, jnp.ones((len(DELIVERIES), READS)))

    return specimens.algorithm(
        [phase(row, emit) for row, emit in enumerate(DELIVERIES)],
        init,
        flags,
        objective=specimens.objective()._replace(loss=lambda params, batch: jnp.sum(params)),
    )


def spread(graph, patients, channel):
    """Who is NaN after each round, per delivery: (rounds + 1, deliveries, agents)."""
    links = oracle.Links(graph, 0, 0, double=False)
    posts = [oracle.Post(links, k, channel) for k in range(len(DELIVERIES))]
    sick = np.zeros((len(DELIVERIES), graph.agents), bool)
    sick[:, list(patients)] = True
    history = [sick]
    for t in range(1, ROUNDS + 1):
        live, W = links.at(t)
        new = np.zeros_like(sick)
        for row, post in enumerate(posts):
            left = live.copy()
            if row == 3:
                first = np.array([np.flatnonzero(links.exists[:, j])[:1].sum() for j in range(graph.agents)])
                left &= (np.arange(graph.agents)[:, None] == first) | np.eye(graph.agents, dtype=bool)
            post.send(t, left, W, lambda i, j, row=row, sick=sick: sick[row, j])
            for i, mine in post.arriving(t).items():
                new[row, i] = any(value for _, _, value, _ in mine)
        sick = new
        history.append(sick)
    return np.array(history)


CASES = {
    "static, buckets": (lambda g: g, Channel()),
    "link drop, delay": (lambda g: g.with_dynamics(LinkDrop(0.4)), Channel(loss=0.2, delay=Delay(0.4, 1))),
}


@pytest.mark.parametrize("case", some(CASES, "links that drop, and messages under way", daily=["link drop, delay"]))
def test_nan_spreads_to_those_who_heard_it(case, monkeypatch):
    change, channel = CASES[case]
    if channel.reliable:
        monkeypatch.setattr(layout_module, "BUCKET_OVERHEAD", 0)
    # A chain with a hub at its end, so that the distance from the patient matters, and agents of every in-degree.
    senders, receivers = [0, 1, 2, 3, 4, 5, 1, 2, 6], [1, 2, 3, 4, 5, 6, 6, 6, 0]
    graph = change(Graph.from_edges(8, senders, receivers).with_weights("receiver"))
    patients = (2, 7)
    run = simulate(poisoned(patients), graph, specimens.targets(8, ROUNDS), rounds=ROUNDS, channel=channel)
    expected = spread(graph, patients, channel)
    assert not expected[-1].all()
    assert expected[-1].sum() > expected[0].sum()
    found = run.models[0].reshape(8, len(DELIVERIES), READS)
    np.testing.assert_array_equal(found, np.repeat(expected[-1].T[:, :, None], READS, axis=2))
    # The loss of a round counts the flags before its update.
    np.testing.assert_allclose(run.per_round["loss"][0], READS * expected[:-1].sum(axis=1).mean(axis=1), rtol=1e-6)


def test_a_patient_of_another_role_is_heard_only_through_its_links():
    """Between two roles padding and slot 0 belong to nobody; client 0, whose row they point at, is the patient."""

    def client(key, params, views):
        return jnp.where(views["up"].agent == 0, jnp.nan, jnp.ones(READS))

    def server(key, params, views):
        return jnp.zeros(READS)

    def absorb(key, state, inbox, view):
        return read_every_way(inbox, view)

    algorithm = specimens.algorithm(
        [
            Phase("up", lambda k, s, b, v: (s, s), unprotected, absorb, source="client", target="server"),
            Phase("down", lambda k, s, b, v: (s, s), unprotected, absorb, source="server", target="client"),
        ],
        {"client": client, "server": server},
        flags,
        objective=specimens.objective()._replace(loss=lambda params, batch: jnp.sum(params)),
        learner="client",
        predictor="client",
    )
    home = np.array([1, 1, 2, 2, 2, 0])
    clients, count = np.arange(6), 4  # nobody goes to server 3
    topology = Topology(
        {"client": 6, "server": count},
        {
            "up": Graph.from_edges(count, clients, home, sources=6),
            "down": Graph.from_edges(6, home, clients, sources=count),
        },
    )
    run = simulate(algorithm, topology, specimens.targets(6, 1), rounds=1)
    np.testing.assert_array_equal(run.models[0], np.repeat((home == 1)[:, None], READS, axis=1))


def test_who_was_not_asked_does_not_answer_with_what_it_holds():
    """NaN in clients outside the cohort reaches no server."""
    base = specimens.federated(cohort=1)

    def client(key, params, views):
        return specimens.Federated(jnp.full_like(params, jnp.nan), jnp.int32(0))

    def heal(key, state, inbox, view):
        got = jnp.any(inbox.arrived)
        return specimens.Federated(jnp.where(got, inbox.sum().private, state.x), state.count)

    down, up, among = base.phases
    algorithm = base._replace(init={**base.init, "client": client}, phases=(down._replace(absorb=heal), up, among))
    topology = specimens.served(7, 2, 0)
    pairs = [len(topology.links["up"].neighbours_in(s)) for s in range(2)]
    assert min(pairs) > 2, "some are never asked"
    run = simulate(algorithm, topology, specimens.targets(7, 2), rounds=2)
    assert np.isfinite(run.models).all()
    assert np.isfinite(run.per_round["loss"]).all()
