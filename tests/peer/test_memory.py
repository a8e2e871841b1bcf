"""Many machines in one process against the dense transcription and against the simulator."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tacit import graphs, runtime
from tacit.core.contract import Phase, share, unprotected
from tacit.core.errors import RequirementError
from tacit.graphs import Channel, Delay, LinkDrop, OptOut, RandomMatching, Topology
from tacit.peer import run_in_process
from tacit.privacy.noise.unit_noise import noise_words
from tacit.simulator import layout as layout_module
from tacit.simulator import simulate
from tests.daily import some
from tests.simulator import oracle, specimens
from tests.simulator.test_engine import LATE, LOSSY, flickering, given_weights, with_drops

ROUNDS = 4


def assert_same(trajectory, expected, atol=1e-12):
    np.testing.assert_allclose(trajectory.loss, expected.loss[0], rtol=1e-9, atol=atol)
    np.testing.assert_allclose(trajectory.models[-1], expected.models[0], rtol=1e-9, atol=atol)
    np.testing.assert_array_equal(trajectory.messages, expected.messages[0])
    assert trajectory.refused == 0


CASES = {
    "static": (specimens.random_graph(5, 3), Channel()),
    "static, given weights, delay": (given_weights(3), LATE),
    "periodic, sender weights, loss": (flickering(specimens.random_graph(5, 3, weights="sender"), 3), LOSSY),
    "matching": (specimens.random_symmetric(5, 3).with_dynamics(RandomMatching()), Channel()),
    "link drop, given weights, delay": (given_weights(3).with_dynamics(LinkDrop(0.4)), LATE),
    "symmetric drop, loss": (specimens.random_symmetric(5, 3).with_dynamics(LinkDrop(0.4, symmetric=True)), LOSSY),
    "opt out, delay": (specimens.random_graph(5, 3).with_dynamics(OptOut(0.4)), LATE),
}


@pytest.mark.parametrize(
    "case",
    some(
        CASES,
        "the other deliveries, of which each has some of these",
        covered=["static", "static, given weights, delay", "matching", "opt out, delay"],
    ),
)
def test_every_delivery_equals_the_dense_transcription(case):
    graph, channel = CASES[case]
    stream = specimens.targets(5, ROUNDS)
    found = run_in_process(
        specimens.everything(), graph, stream, rounds=ROUNDS, seed=6, channel=channel, dtype="float64"
    )
    batches = stream.chunk(0, ROUNDS).astype(np.float64)
    assert_same(found, oracle.everything(graph, batches, seed=6, channel=channel))


@pytest.mark.covered_by("simulator/test_engine.py, and contract/, where peers equal the simulator")
@pytest.mark.parametrize(
    ("channel", "change"),
    [(Channel(), lambda t: t), (Channel(loss=0.2, delay=Delay(0.4, 1)), with_drops)],
    ids=["static", "link drop, delay"],
)
def test_sampled_cohorts_equal_the_dense_transcription(channel, change):
    algorithm, stream = specimens.federated(), specimens.targets(6, ROUNDS)
    topology = change(specimens.served(6, 3, 2))
    found = run_in_process(algorithm, topology, stream, rounds=ROUNDS, channel=channel, dtype="float64")
    ready = runtime.prepared_topology(algorithm, topology)
    expected = oracle.federated(ready, stream.chunk(0, ROUNDS).astype(np.float64), channel=channel)
    home = [int(topology.links["down"].neighbours_in(c)[0]) for c in range(6)]
    np.testing.assert_allclose(found.loss, expected.loss[0], rtol=1e-9)
    np.testing.assert_allclose(found.models[-1][home], expected.models[0], rtol=1e-9, atol=1e-12)
    np.testing.assert_array_equal(found.messages, expected.messages[0])


def test_keys_noise_and_first_states_are_those_of_the_simulator(monkeypatch):
    """Keys in every function, noise per slot, buckets of other widths, a second repeat beside."""
    monkeypatch.setattr(layout_module, "BUCKET_OVERHEAD", 0)
    monkeypatch.setattr(layout_module, "most_buckets", lambda agents: 2)
    algorithm, stream = specimens.random_walk(), specimens.targets(5, 3)
    settings = {"rounds": 3, "seed": 8, "dtype": "float64"}
    run = simulate(algorithm, specimens.random_graph(5, 3), stream, repeats=2, **settings)
    found = run_in_process(algorithm, specimens.random_graph(5, 3), stream, **settings)
    np.testing.assert_allclose(found.loss, run.per_round["loss"][0], rtol=1e-9)
    np.testing.assert_allclose(found.models[-1], run.models[0], rtol=1e-9)
    np.testing.assert_array_equal(found.messages, run.per_round["messages"][0])
    apart = np.abs(run.models[0, :, : specimens.DIM] - run.models[1, :, : specimens.DIM])
    assert np.all(apart > 1e-6), "repeats draw for themselves"


def test_keys_are_told_apart():
    """Every agent, repeat, round, phase and stage, and every link set and channel, has a key of its own."""
    root = jax.random.key(3)
    keys, words = [], []
    for role, repeat, agent in itertools.product(range(2), range(3), range(3)):
        own = runtime.agent_key(root, role, repeat, agent)
        keys.append(runtime.init_key(own))
        for t, phase in itertools.product((1, 2, 4), range(3)):
            keys.append(runtime.absorb_key(own, t, phase))
            keys.append(runtime.compute_key(own, t, phase))
            words.append(np.array(noise_words(own, t, phase)))
    for index, t in itertools.product(range(3), (1, 2, 4)):
        keys += [runtime.links_key(root, index, t), runtime.channel_key(root, index, t)]
    data = np.array([np.asarray(jax.random.key_data(key)) for key in keys])
    assert len(np.unique(np.concatenate([data, words]), axis=0)) == len(keys) + len(words)


@pytest.mark.parametrize(
    "dynamics",
    [
        pytest.param(None, id="static"),
        pytest.param(LinkDrop(0.5), id="link drop", marks=pytest.mark.covered_by("who opts out")),
        pytest.param(OptOut(0.5), id="opt out"),
    ],
)
def test_first_states_see_what_the_simulator_shows(dynamics):
    def init(key, params, views):
        view = views["peers"]
        sides = [(side.degree, jnp.sum(side.weight), jnp.sum(side.agent * side.live)) for side in (view.out, view.into)]
        parts = jnp.stack(
            [*sides[0], *sides[1], view.round, view.present, view.data_size, view.agent], dtype=params.dtype
        )
        return jnp.concatenate([parts, jnp.zeros(2, params.dtype)])

    algorithm = specimens.algorithm(
        [Phase("peers", lambda k, s, b, v: (s, s), unprotected, lambda k, s, i, v: s)], init, lambda state: state
    )
    graph = specimens.random_graph(6, 1).with_dynamics(dynamics)
    stream = specimens.targets(6, 1)
    found = run_in_process(algorithm, graph, stream, rounds=1, dtype="float64")
    run = simulate(algorithm, graph, stream, rounds=1, dtype="float64")
    np.testing.assert_allclose(found.models[-1], run.models[0], rtol=1e-12)
    assert found.models[-1][:, 0].tolist() == graph.out_degree.tolist()


def test_two_phases_on_one_link_set_reach_those_whom_either_reached():
    """The second phase is addressed to others than the first; who was reached by any of them answers."""

    def one_of(slot):
        return lambda state, released, view: (state, share(released, to=jnp.array([slot])))

    def keep(key, state, inbox, view):
        return state

    def count(key, state, inbox, view):
        return state + jnp.sum(inbox.arrived)

    def ignore(key, state, batch, view):
        return state, state

    algorithm = specimens.algorithm(
        [
            Phase("down", ignore, unprotected, keep, one_of(1), "server", "client"),
            Phase("down", ignore, unprotected, keep, one_of(3), "server", "client"),
            Phase("up", ignore, unprotected, count, source="client", target="server", answers="down"),
        ],
        {"client": lambda k, p, v: jnp.zeros(()), "server": lambda k, p, v: jnp.zeros(())},
        lambda state: specimens.padded(jnp.full(specimens.DIM, state)),
        learner="client",
        predictor="server",
    )
    star = graphs.star_roles(5)
    topology = Topology(star.roles, {"up": star.links["uplink"], "down": star.links["downlink"]})
    stream = specimens.targets(5, 2)
    run = simulate(algorithm, topology, stream, rounds=2)
    found = run_in_process(algorithm, topology, stream, rounds=2)
    assert run.models[0, :, 0].tolist() == [4.0] * 5
    assert found.models[-1][:, 0].tolist() == [4.0]
    assert run.per_round["messages"].tolist() == [[4, 4]]
    assert found.messages.tolist() == [4, 4]


def test_a_role_that_only_listens():
    """It is the source of no phase, keeps a state, and hears what it should."""

    def hear(key, state, inbox, view):
        return state + inbox.sum().private

    algorithm = specimens.algorithm(
        [Phase("reports", lambda k, s, b, v: (s, s), unprotected, hear, source="peer", target="auditor")],
        {"peer": lambda k, p, v: p + v["reports"].agent, "auditor": lambda k, p, v: 0 * p},
        specimens.padded,
        predictor="peer",
    )
    reports = graphs.from_edges(2, [0, 1, 2, 3], [0, 0, 1, 1], sources=4)
    topology = Topology({"peer": 4, "auditor": 2}, {"reports": reports})
    stream = specimens.targets(4, 3)
    found = run_in_process(algorithm, topology, stream, rounds=3)
    assert [float(m.state[0]) for m in found.machines["auditor"]] == [3.0, 15.0]
    run = simulate(algorithm, topology, stream, rounds=3, repeats=2)
    np.testing.assert_array_equal(run.models[1], found.models[-1])
    assert run.per_round["messages"].tolist() == [[4] * 3] * 2


def test_a_role_that_takes_no_part():
    base = specimens.algorithm(
        [Phase("peers", specimens.send_x, unprotected, lambda k, s, i, v: s._replace(x=i.mix().private))],
        {
            "peer": lambda k, p, v: specimens.Federated(p + v["peers"].agent, jnp.int32(0)),
            "bystander": lambda k, p, v: (),
        },
        lambda s: specimens.padded(s.x),
    )
    topology = Topology({"peer": 4, "bystander": 3}, {"peers": graphs.complete(4)})
    stream = specimens.targets(4, 1)
    run = simulate(base, topology, stream, rounds=1)
    np.testing.assert_allclose(run.models[0, :, 0], 1.5)
    found = run_in_process(base, topology, stream, rounds=1)
    np.testing.assert_allclose(found.models[-1][:, 0], 1.5)


def test_what_the_algorithm_cannot_bear_is_refused():
    algorithm = specimens.everything()._replace(requires=frozenset({"reliable"}))
    with pytest.raises(RequirementError, match="requires reliable links"):
        run_in_process(algorithm, graphs.ring(4), specimens.targets(4, 1), rounds=1, channel=LOSSY)


def test_the_trajectory_holds_every_round():
    stream = specimens.targets(4, 3)
    algorithm = specimens.algorithm(
        [Phase("peers", specimens.step, unprotected, lambda k, s, i, v: s._replace(x=i.mix().private))],
        lambda k, p, v: specimens.Federated(p, jnp.int32(0)),
        lambda s: specimens.padded(s.x),
    )
    graph = graphs.ring(4).with_weights("receiver")
    found = run_in_process(algorithm, graph, stream, rounds=3, dtype="float64")
    x, W = np.zeros((4, specimens.DIM)), graph.matrix().toarray()
    for t, batch in enumerate(stream.chunk(0, 3).astype(np.float64)):
        model = np.pad(x, ((0, 0), (0, 3)))
        loss = np.mean(np.sum((model - specimens.CENTRE) ** 2, axis=1) + np.sum(x * batch, axis=1))
        np.testing.assert_allclose(found.loss[t], loss, rtol=1e-12)
        x = W @ (0.9 * x + 0.1 * batch)
        np.testing.assert_allclose(found.models[t][:, : specimens.DIM], x, rtol=1e-12)
    assert found.messages.tolist() == [8, 8, 8]
