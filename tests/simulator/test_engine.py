"""The simulator against loops over dense arrays, for every delivery on every kind of graph and channel."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tacit import graphs, runtime
from tacit.core.contract import Phase, per_slot, push, share, unprotected
from tacit.graphs import Channel, Delay, Graph, LinkDrop, OptOut, Periodic, RandomMatching, Topology
from tacit.simulator import inbox as inbox_module
from tacit.simulator import layout as layout_module
from tacit.simulator import simulate
from tests.daily import some
from tests.simulator import oracle, specimens

ROUNDS = 5
LATE = Channel(loss=0.15, delay=Delay(0.5, 2))
LOSSY = Channel(loss=0.3)


def flickering(graph, seed, period=3):
    return graph.with_dynamics(Periodic(np.random.default_rng(seed).random((period, graph.edges)) < 0.6))


def given_weights(seed):
    """Sender-normalised by given numbers: who is down leaves its weight with the sender."""
    graph = specimens.random_graph(5, seed)
    W = np.random.default_rng(seed).random((5, 5)) * graph.matrix().toarray() + np.eye(5)
    return graph.with_weights(W / W.sum(axis=0))


CASES = {
    "static": (lambda s: specimens.random_graph(5, s), Channel()),
    "static, given weights, delay": (given_weights, LATE),
    "link drop, given weights, delay": (lambda s: given_weights(s).with_dynamics(LinkDrop(0.4)), LATE),
    "opt out, loss": (lambda s: specimens.random_graph(5, s).with_dynamics(OptOut(0.4)), LOSSY),
}
IN_BUCKETS = {"static", "link drop, given weights, delay"}
CHANGES = {
    "periodic": lambda s: flickering(specimens.random_graph(5, s, weights="sender"), s),
    "matching": lambda s: specimens.random_symmetric(5, s).with_dynamics(RandomMatching()),
    "symmetric drop": lambda s: specimens.random_symmetric(5, s).with_dynamics(LinkDrop(0.4, symmetric=True)),
}


def batches_of(streams):
    """What all repeats see, side by side as in the union of their graphs."""
    return np.concatenate([s.chunk(0, s.rounds) for s in streams], axis=1).astype(np.float64)


def assert_same(run, expected):
    np.testing.assert_allclose(run.per_round["loss"], expected.loss, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(run.models, expected.models, rtol=1e-10, atol=1e-12)
    np.testing.assert_array_equal(run.per_round["messages"], expected.messages)


def compare(make, channel, deliveries=4, repeats=2, seed=3):
    """Run repeats with graphs and data of their own, all rounds in one go."""

    def stream(s):
        return specimens.targets(5, ROUNDS, s)

    run = simulate(
        specimens.everything(deliveries),
        make,
        stream,
        rounds=ROUNDS,
        repeats=repeats,
        seed=seed,
        channel=channel,
        dtype="float64",
        record_every=ROUNDS,
    )
    seeds = range(seed, seed + repeats)
    union = Graph.union([make(s) for s in seeds])
    data = batches_of([stream(s) for s in seeds])
    expected = oracle.everything(union, data, repeats=repeats, seed=seed, channel=channel, deliveries=deliveries)
    assert_same(run, expected)


@pytest.fixture
def buckets(monkeypatch):
    """Force two buckets, the larger one of which sums its inboxes in a loop."""
    monkeypatch.setattr(layout_module, "BUCKET_OVERHEAD", 0)
    monkeypatch.setattr(layout_module, "most_buckets", lambda agents: 2)
    monkeypatch.setattr(inbox_module, "UNROLL", 3)


@pytest.mark.parametrize(
    "case",
    some(CASES, "the other cases", covered=["static", "static, given weights, delay", "opt out, loss"]),
)
def test_every_delivery_equals_the_dense_transcription(case, request):
    if case in IN_BUCKETS:
        request.getfixturevalue("buckets")
    compare(*CASES[case])


@pytest.mark.parametrize("change", CHANGES)
def test_graphs_that_change_equal_the_dense_transcription(change):
    compare(CHANGES[change], Channel(), deliveries=2)


def mixing(delivery=share, links=("peers",), start=lambda views: next(iter(views.values())).agent):
    """x <- what the agent makes of what it hears, on one link set after another."""
    return specimens.algorithm(
        [
            Phase(
                name, specimens.send_x, unprotected,
                lambda k, s, inbox, v: s._replace(x=inbox.mix().private[0]),
                lambda s, released, v: (s, delivery((released, jnp.int32(7)) if delivery is share else (released,))),
            )
            for name in links
        ],
        lambda key, params, views: specimens.Federated(params + start(views), jnp.int32(0)),
        lambda state: specimens.padded(state.x),
    )  # fmt: skip


@pytest.mark.parametrize("delivery", [share, push], ids=["share", "push"])
@pytest.mark.parametrize("agents", [3, 70], ids=["3", "more than the unrolled slots"])
def test_a_complete_graph_mixes_by_one_sum_per_repeat(delivery, agents):
    graph = graphs.complete(agents).with_weights("receiver")
    run = simulate(mixing(delivery), graph, specimens.targets(agents, 1), rounds=1, repeats=3, dtype="float64")
    np.testing.assert_allclose(run.models[..., 0], (agents - 1) / 2, rtol=1e-12)


def test_a_complete_graph_with_uneven_weights_does_not():
    W = np.random.default_rng(0).random((4, 4))
    graph = graphs.complete(4).with_weights(W)
    run = simulate(mixing(), graph, specimens.targets(4, 1), rounds=1, repeats=2, dtype="float64")
    np.testing.assert_allclose(run.models[..., 0], np.tile(W @ np.arange(4), (2, 1)), rtol=1e-12)


@pytest.mark.usefixtures("buckets")
def test_a_complete_graph_beside_one_that_reorders_the_agents():
    hub = Graph.from_edges(4, [1, 2, 3], [0, 0, 0]).with_weights("receiver")
    topology = Topology({"peer": 4}, {"all": graphs.complete(4).with_weights("receiver"), "hub": hub})

    def start(views):
        return views["all"].agent ** 2

    run = simulate(
        mixing(links=("all", "hub"), start=start),
        topology,
        specimens.targets(4, 1),
        rounds=1,
        repeats=2,
        dtype="float64",
    )
    np.testing.assert_allclose(run.models[..., 0], 14 / 4, rtol=1e-12)


def with_drops(topology):
    return Topology(topology.roles, {name: g.with_dynamics(LinkDrop(0.4)) for name, g in topology.links.items()})


@pytest.mark.covered_by("test_calls.py, and the dense transcriptions in algorithms/test_federated.py")
@pytest.mark.parametrize(
    ("channel", "change"),
    [
        pytest.param(Channel(), lambda topology: topology, id="static, buckets"),
        pytest.param(Channel(loss=0.2, delay=Delay(0.4, 1)), with_drops, id="link drop, delay"),
    ],
)
def test_sampled_cohorts_equal_the_dense_transcription(channel, change, request):
    """Two roles, addressed messages, answers, models of several servers, links among these."""
    if channel.reliable:
        request.getfixturevalue("buckets")
    algorithm = specimens.federated()

    def stream(s):
        return specimens.targets(7, ROUNDS, s)

    def topology(s):
        return change(specimens.served(7, 3, s))

    run = simulate(
        algorithm,
        topology,
        stream,
        rounds=ROUNDS,
        repeats=2,
        seed=5,
        channel=channel,
        dtype="float64",
        record_every=ROUNDS,
    )
    union = Topology.union([runtime.prepared_topology(algorithm, topology(s)) for s in (5, 6)])
    data = batches_of([stream(5), stream(6)])
    assert_same(run, oracle.federated(union, data, repeats=2, seed=5, channel=channel))


def answering():
    """Everybody is asked, and who heard answers: nothing is addressed, so that only loss makes counts differ."""
    base = specimens.federated()
    down, up, _ = base.phases
    return base._replace(phases=(down._replace(emit=lambda s, r, v: (s, share(r, public=v.round))), up))


def test_answers_are_counted_round_by_round_under_loss():
    init = {role: lambda key, params, views: specimens.Federated(params, jnp.int32(0)) for role in ("client", "server")}
    algorithm = answering()._replace(init=init)
    topology = graphs.star_roles(6)
    topology = Topology(topology.roles, {"up": topology.links["uplink"], "down": topology.links["downlink"]})
    channel, rounds = Channel(loss=0.5), 8
    stream = specimens.targets(6, rounds)
    run = simulate(algorithm, topology, stream, rounds=rounds, channel=channel, record_every=rounds)
    root = jax.random.key(0)
    expected = [
        6 + int(6 - np.asarray(channel.draw(runtime.channel_key(root, 0, t), 6)[0]).sum()) for t in range(1, rounds + 1)
    ]
    assert len(set(expected)) > 1
    assert run.per_round["messages"][0].tolist() == expected
    size = 32 * (specimens.DIM + 1)  # x and the round come down, x and a count go up
    assert run.per_round["bits"][0].tolist() == [size * count for count in expected]


def test_integers_and_flags_travel_unharmed():
    """Leaves of several types, read raw, summed without weights, and sent per slot."""

    def init(key, params, views):
        return {"i": views["peers"].agent, "b": views["peers"].agent == 1, "u": jnp.zeros(3, jnp.uint8), "x": params}

    def emit(state, released, view):
        message = {"id": view.agent + 100 * view.out.agent, "flag": jnp.broadcast_to(state["b"], view.out.live.shape)}
        return state, per_slot((), public=message)

    def absorb(key, state, inbox, view):
        raw, total = inbox.values().public, inbox.sum().public
        agents = jnp.where(inbox.arrived, 100 * view.agent + view.into.agent[inbox.slot], 0)
        right = jnp.all(raw["id"] == agents)
        return {
            "i": total["id"],
            "b": state["b"],
            "u": state["u"].at[0].set(right).at[1].set(jnp.sum(raw["flag"], dtype=jnp.uint8)),
            "x": state["x"],
        }

    algorithm = specimens.algorithm(
        [Phase("peers", lambda k, s, b, v: (s, ()), unprotected, absorb, emit)],
        init,
        lambda s: specimens.padded(s["x"]).at[:2].set(s["u"][:2]).at[2].set(s["i"]),
    )
    graph = specimens.random_graph(6, 8)
    run = simulate(algorithm, graph, specimens.targets(6, 1), rounds=1, dtype="float64")
    heard = graph.matrix().toarray() > 0
    assert run.models[0, :, 0].tolist() == [1] * 6
    assert run.models[0, :, 1].tolist() == heard[:, 1].tolist()
    assert run.models[0, :, 2].tolist() == [sum(100 * i + j for j in np.flatnonzero(heard[i])) for i in range(6)]
    assert run.per_round["bits"].tolist() == [[33 * graph.edges]]


def test_mixing_an_integer_does_not_depend_on_the_graph():
    """Weights are numbers of the leaf's own type, on the complete graph as on any other."""
    absorb = (
        mixing().phases[0]._replace(absorb=lambda k, s, inbox, v: s._replace(count=s.count + inbox.mix().private[1]))
    )
    algorithm = mixing()._replace(phases=(absorb,), model=lambda s: specimens.padded(0.0 * s.x + s.count))
    for graph in (graphs.complete(4), graphs.ring(5)):
        run = simulate(algorithm, graph, specimens.targets(graph.agents, 1), rounds=1)
        assert np.all(run.models == 0 * run.models)


def test_who_has_no_links_keeps_to_itself():
    graph = Graph.from_edges(3, [], []).with_weights("receiver")
    stream = specimens.targets(3, 2)
    run = simulate(specimens.everything(), graph, stream, rounds=2, repeats=2, dtype="float64")
    expected = oracle.everything(Graph.union([graph, graph]), np.tile(batches_of([stream]), (1, 2, 1)), repeats=2)
    assert_same(run, expected)
    assert run.per_round["bits"].sum() == 0


@pytest.mark.parametrize(
    "read",
    [
        lambda inbox, x: jax.lax.cond(x[0] > -1, lambda: inbox.mix().private, lambda: x),
        lambda inbox, x: jax.jit(lambda: inbox.mix().private)(),
        lambda inbox, x: jax.vmap(lambda w: inbox.sum(w * inbox.weight).private)(jnp.ones(2)).mean(axis=0),
        lambda inbox, x: jax.jacfwd(lambda w: inbox.sum(w * inbox.weight).private)(1.0),
    ],
    ids=["cond", "jit", "vmap", "jacobian"],
)
def test_an_inbox_may_be_read_under_a_transformation(read):
    phase = Phase(
        "peers", specimens.send_x, unprotected, lambda k, s, inbox, v: s._replace(x=read(inbox, s.x).astype(s.x.dtype))
    )
    graph = graphs.ring(5).with_weights("receiver")
    run = simulate(mixing()._replace(phases=(phase,)), graph, specimens.targets(5, 1), rounds=1)
    np.testing.assert_allclose(run.models[0, :, 0], graph.matrix() @ np.arange(5), rtol=1e-6)


def test_weights_between_roles_are_applied_by_receiver_or_sender():
    """One phase each way: clients share, servers push."""

    def absorb(key, state, inbox, view):
        return state._replace(x=inbox.mix().private)

    phases = [
        Phase("up", specimens.send_x, unprotected, absorb, source="client", target="server"),
        Phase("down", specimens.send_x, unprotected, absorb, lambda s, r, v: (s, push(r)), "server", "client"),
    ]
    start = specimens.federated().init["client"]
    algorithm = specimens.federated()._replace(phases=tuple(phases), init={"client": start, "server": start})
    algorithm = algorithm._replace(predictor="client", weights="receiver")
    topology = specimens.served(7, 3, 2)
    down = topology.links["down"].with_weights("sender")
    topology = Topology(topology.roles, {"up": topology.links["up"], "down": down})
    run = simulate(algorithm, topology, specimens.targets(7, 2), rounds=2, repeats=2, dtype="float64")
    up = topology.links["up"].with_weights("receiver").matrix().toarray()
    expected = np.linalg.matrix_power(down.matrix().toarray() @ up, 2) @ (0.01 * np.arange(7))
    np.testing.assert_allclose(run.models[:, :, 0], [expected] * 2, rtol=1e-12)


@pytest.mark.parametrize("channel", [Channel(), Channel(loss=0.3, delay=Delay(0.4, 1))], ids=["reliable", "delay"])
def test_a_message_may_be_empty(channel):
    """Nothing is said but that it came; another phase sends leaves of no size."""

    def count(key, state, inbox, view):
        return state._replace(
            count=state.count + jnp.sum(inbox.arrived[1:], dtype=jnp.int32), x=state.x + 0 * inbox.age[0]
        )

    def nothing(state, released, view):
        return state, share(())

    def no_size(state, released, view):
        return state, per_slot(jnp.zeros((view.out.live.shape[0], 0)))

    algorithm = mixing()._replace(
        phases=tuple(Phase("peers", specimens.send_x, unprotected, count, emit) for emit in (nothing, no_size)),
        model=lambda s: specimens.padded(s.x * 0 + s.count),
    )
    graph = graphs.random_digraph(5, out_degree=2, seed=0)
    run = simulate(algorithm, graph, specimens.targets(5, 3), rounds=3, channel=channel)
    heard = run.models[0, :, 0]
    assert heard.tolist() == (6 * graph.in_degree).tolist() if channel.reliable else 0 < heard.sum() < 6 * graph.edges
    assert run.per_round["bits"].sum() == 0
    assert run.per_round["messages"].tolist() == [[2 * graph.edges] * 3]


def test_what_names_no_slot_addresses_nobody():
    phase = (
        mixing()
        .phases[0]
        ._replace(
            absorb=lambda k, s, inbox, v: s._replace(count=s.count + jnp.sum(inbox.arrived[1:], dtype=jnp.int32)),
            emit=lambda s, released, v: (s, share((released,), to=jnp.array([-1, -2, 1, 1, 500]))),
        )
    )
    algorithm = mixing()._replace(phases=(phase,), model=lambda s: specimens.padded(s.x * 0 + s.count))
    graph = graphs.complete(5).with_weights("receiver")
    run = simulate(algorithm, graph, specimens.targets(5, 1), rounds=1)
    assert run.models[0, :, 0].tolist() == [4, 1, 0, 0, 0]  # everybody's first neighbour is 0, and 0's is 1
    assert run.per_round["messages"].tolist() == [[5]]
