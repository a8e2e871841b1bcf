import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats
from hypothesis import given as forall
from hypothesis import settings
from hypothesis import strategies as st

from tacit import graphs
from tacit.config.experiment import load_graph
from tacit.core.errors import ConfigError, GraphError, RequirementError
from tacit.experiments.build import graph_maker
from tacit.graphs import Attendance, Graph, LinkDrop, OptOut, Periodic, RandomMatching
from tacit.graphs import dynamics as dynamics_module
from tests.graphs.dense import as_matrix, weight_matrix

QUICK = settings(max_examples=25, deadline=None, derandomize=True)
FALSE_ALARM = 1e-6
"""Chance that a right implementation fails a statistical test, had the seed been free."""


def binomial_range(trials, probability):
    return scipy.stats.binom.interval(1 - FALSE_ALARM, trials, probability)


def live(dynamics, graph, seed, t=1):
    up, present = dynamics.live(t, jax.random.key(seed), graph.senders, graph.receivers, graph.agents)
    return np.asarray(up), np.asarray(present)


WHO_COMES = np.random.default_rng(0).random((2, 12)) < 0.7
EVERY_KIND = [
    None,
    LinkDrop(0.3),
    LinkDrop(0.3, symmetric=True),
    OptOut(0.3),
    RandomMatching(),
    Attendance(WHO_COMES),
]


@pytest.mark.parametrize(
    ("rule", "dynamics"),
    [
        (rule, dynamics)
        for rule in ("sender", "receiver", "metropolis")
        for dynamics in EVERY_KIND
        if not (rule == "metropolis" and dynamics == LinkDrop(0.3))  # refused: see test_weights
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_at_equals_a_dense_transcription(rule, dynamics):
    graph = graphs.erdos_renyi(12, 0.4, seed=1)
    if rule != "metropolis" and not isinstance(dynamics, RandomMatching):
        graph = graphs.random_digraph(12, 5, seed=1)
    graph = graph.with_weights(rule).with_dynamics(dynamics)
    for t in range(1, 4):
        key = jax.random.key(t)
        at = graph.at(t, key)
        expected = weight_matrix(rule, 12, graph.senders, graph.receivers, np.asarray(at.live))
        np.testing.assert_allclose(as_matrix(graph, at), expected, atol=1e-6)
        np.testing.assert_allclose(graph.matrix(t, key).toarray(), expected, atol=1e-12)
        assert at.live.shape == (graph.edges,)
        assert at.present.shape == (12,)


SHAPES = [
    graphs.ring(2),
    graphs.star(9),
    graphs.complete(12),
    graphs.erdos_renyi(30, 0.2, 0),
    graphs.ring(4).disconnected(),
]


@QUICK
@forall(st.sampled_from(SHAPES), st.integers(0, 1000))
def test_matching_matches_nobody_twice(graph, seed):
    n = graph.agents
    up, present = live(RandomMatching(), graph, seed)
    assert present.all()
    chosen = set(zip(graph.senders[up].tolist(), graph.receivers[up].tolist(), strict=True))
    assert all((r, s) in chosen for s, r in chosen)
    assert np.bincount(graph.senders[up], minlength=n).max(initial=0) <= 1
    assert up.any() == (graph.edges > 0)  # the link of highest priority is always taken


def test_matching_is_valid_even_when_priorities_tie(monkeypatch):
    monkeypatch.setattr(dynamics_module, "_bits_of_pair", lambda key, s, r: jnp.zeros(s.shape, jnp.uint32))
    graph = graphs.complete(9)
    up, _ = live(RandomMatching(), graph, 0)
    assert np.bincount(graph.senders[up], minlength=9).max() == 1
    assert np.bincount(graph.receivers[up], minlength=9).max() == 1


def test_matching_uses_every_link_in_time_and_changes_with_the_key():
    graph = graphs.ring(7)
    ups = np.stack([live(RandomMatching(), graph, seed)[0] for seed in range(40)])
    assert ups.any(axis=0).all()
    assert len({row.tobytes() for row in ups}) > 5


def test_matching_refuses_one_sided_links():
    with pytest.raises(RequirementError, match=r"graph\.mutual\(\)"):
        graphs.directed_ring(5).with_dynamics(RandomMatching())


@pytest.mark.parametrize("symmetric", [False, True])
def test_links_drop_with_their_probability(symmetric):
    graph = graphs.k_regular(2000, 10)
    pair = np.minimum(graph.senders, graph.receivers) * 2000 + np.maximum(graph.senders, graph.receivers)
    up, present = live(LinkDrop(0.3, symmetric), graph, 5)
    assert present.all()
    count = np.bincount(np.unique(pair, return_inverse=True)[1], weights=up)
    if symmetric:
        assert set(count) == {0, 2}  # both directions together
        low, high = binomial_range(10_000, 0.3)
        assert low <= np.sum(count == 0) <= high
    else:
        low, high = binomial_range(20_000, 0.3)
        assert low <= np.sum(~up) <= high
        low, high = binomial_range(10_000, 0.3**2)  # independent directions
        assert low <= np.sum(count == 0) <= high


def test_link_draws_are_independent_over_rounds():
    graph = graphs.k_regular(2000, 10)
    first, second = (live(LinkDrop(0.5), graph, seed)[0] for seed in (0, 1))
    low, high = binomial_range(graph.edges, 0.5)
    assert low <= np.sum(first == second) <= high


def test_the_fate_of_a_link_does_not_depend_on_the_other_links():
    whole, key = graphs.complete(8), 3
    part = graphs.ring(8)
    fate = np.zeros((8, 8), bool)
    up, _ = live(LinkDrop(0.5), whole, key)
    fate[whole.receivers, whole.senders] = up
    np.testing.assert_array_equal(live(LinkDrop(0.5), part, key)[0], fate[part.receivers, part.senders])


def test_drop_probability_ends():
    graph = graphs.complete(30)
    assert live(LinkDrop(0.0), graph, 0)[0].all()
    assert LinkDrop(0.0).keeps_links_mutual(graph)
    assert not live(LinkDrop(1 - 1e-12), graph, 0)[0].any()


def test_absent_agents_have_no_live_links_and_keep_their_state():
    graph = graphs.random_digraph(3000, 5, seed=0).with_weights("sender").with_dynamics(OptOut(0.2))
    at = graph.at(1, jax.random.key(0))
    present, up = np.asarray(at.present), np.asarray(at.live)
    low, high = binomial_range(3000, 0.2)
    assert low <= np.sum(~present) <= high
    np.testing.assert_array_equal(up, present[graph.senders] & present[graph.receivers])
    assert np.all(np.asarray(at.self_weight)[~present] == 1)


@pytest.mark.parametrize("dynamics", [LinkDrop(0.5), LinkDrop(0.5, True), OptOut(0.5), RandomMatching()], ids=str)
def test_repeats_in_a_union_draw_independently(dynamics):
    ring = graphs.ring(400).with_dynamics(dynamics)
    union = Graph.union([ring, ring])
    first, second = live(dynamics, union, 0)[0].reshape(2, -1)
    # Equal rows would agree everywhere; independent ones agree on about half (matching: somewhat more).
    assert 0.3 < np.mean(first == second) < 0.75


@pytest.mark.parametrize("kind", [LinkDrop, OptOut])
@pytest.mark.parametrize("probability", [-0.1, 1.0, float("nan")])
def test_probabilities_out_of_range_are_refused(kind, probability):
    with pytest.raises(GraphError, match=r"expected a number in \[0, 1\)"):
        kind(probability)


def test_periodic_plays_graphs_in_turn():
    parts = [graphs.ring(6), graphs.star(6), graphs.directed_ring(6)]
    graph = graphs.periodic(parts).with_weights("receiver")
    for t in range(1, 8):
        expected = parts[(t - 1) % 3].with_weights("receiver").matrix().toarray()
        np.testing.assert_allclose(graph.matrix(t).toarray(), expected, atol=1e-15)
        at = jax.jit(graph.at)(jnp.int32(t), jax.random.key(0))
        np.testing.assert_allclose(as_matrix(graph, at), expected, atol=1e-6)


def test_periodic_uses_given_weights_of_each_step():
    rng = np.random.default_rng(0)
    matrices = [rng.random((4, 4)) * (rng.random((4, 4)) < 0.5) for _ in range(3)]
    graph = graphs.periodic([graphs.from_matrix(W) for W in matrices])
    for t in range(1, 6):
        W = matrices[(t - 1) % 3]
        np.testing.assert_allclose(graph.matrix(t).toarray(), W)
        np.testing.assert_allclose(as_matrix(graph, graph.at(t, jax.random.key(0))), W, rtol=1e-6)
        at = jax.jit(graph.at)(jnp.int32(t), jax.random.key(0))
        np.testing.assert_allclose(as_matrix(graph, at), W, rtol=1e-6)
    with pytest.raises(GraphError, match="period of 3 rounds"):
        graph.with_dynamics(LinkDrop(0.1))
    with pytest.raises(GraphError, match="period of 3 rounds"):
        graph.with_dynamics(None)
    assert graph.with_weights("sender").with_dynamics(None).weights.rule == "sender"


def test_periodic_refuses_what_does_not_match():
    ring = graphs.ring(4)
    with pytest.raises(GraphError, match="same agents"):
        graphs.periodic([ring, graphs.ring(5)])
    with pytest.raises(GraphError, match="varies by itself"):
        graphs.periodic([ring.with_dynamics(OptOut(0.1))])
    with pytest.raises(GraphError, match="one kind of weights"):
        graphs.periodic([ring, ring.with_weights("sender")])
    with pytest.raises(GraphError, match="at least one"):
        graphs.periodic([])
    with pytest.raises(GraphError, match="one column per edge"):
        ring.with_dynamics(Periodic(np.ones((2, 7), bool)))


def test_attendance_follows_its_table():
    table = np.array([[True, True, False, True], [True, False, True, True], [False] * 4])
    graph = graphs.directed_ring(4).with_dynamics(Attendance(table)).with_weights("receiver")
    play = jax.jit(graph.at)
    for t in range(1, 8):
        at = play(jnp.int32(t), jax.random.key(0))
        here = table[(t - 1) % 3]
        np.testing.assert_array_equal(at.present, here)
        up = {(int(s), int(r)) for s, r in zip(graph.senders[at.live], graph.receivers[at.live], strict=True)}
        assert up == {(i, (i + 1) % 4) for i in range(4) if here[i] and here[(i + 1) % 4]}
        np.testing.assert_array_equal(graph.live_at(t), at.live)
        assert np.all(np.asarray(at.self_weight)[~here] == 1)
    assert graph.dynamics.period == 3


def test_attendance_goes_along_with_the_agents():
    rng = np.random.default_rng(1)
    tables = [rng.random((3, 5)) < 0.6 for _ in range(2)]
    graph = graphs.random_digraph(5, 3, seed=2).with_dynamics(Attendance(tables[0]))
    for changed in (graph.reverse(), graph.mutual(), graph.completed(), graph.disconnected()):
        np.testing.assert_array_equal(changed.dynamics.table, tables[0])
    permutation = np.array([3, 0, 4, 1, 2])
    moved = graph.with_weights("sender").relabelled(permutation)
    for t in (1, 2, 3):
        W = graph.with_weights("sender").matrix(t).toarray()
        np.testing.assert_array_equal(moved.matrix(t).toarray()[np.ix_(permutation, permutation)], W)
    union = Graph.union([graph, graph.with_dynamics(Attendance(tables[1]))])
    np.testing.assert_array_equal(union.dynamics.table, np.concatenate(tables, axis=1))
    for other in (None, OptOut(0.1), Attendance(tables[1][:2]), Periodic(np.ones((3, graph.edges), bool))):
        with pytest.raises(GraphError, match=r"equal dynamics.*one period"):
            Graph.union([graph, graph.with_dynamics(other)])


def test_given_weights_of_absent_agents_are_absorbed():
    ring = graphs.ring(5)
    graph = ring.with_weights(ring.with_weights("metropolis").matrix())
    table = np.ones((2, 5), bool)
    table[1, [0, 3]] = False
    graph = graph.with_dynamics(Attendance(table))
    W = graph.matrix(2).toarray()
    assert W[0, 0] == pytest.approx(1)
    assert W[1, 2] == pytest.approx(1 / 3)
    assert W[1, 1] == pytest.approx(2 / 3)
    assert graphs.doubly_stochastic(graph)


@pytest.mark.parametrize(
    "table", [np.ones((2, 5), bool), np.ones(4, bool), np.ones((0, 4), bool), np.ones((2, 4)), np.ones((2, 4), int)]
)
def test_attendance_tables_that_do_not_fit_are_refused(table):
    with pytest.raises(GraphError, match=r"\(rounds, 4\) of bool") as fault:
        graphs.ring(4).with_dynamics(Attendance(table))
    assert f"shape {table.shape} and type {table.dtype}" in str(fault.value)


def test_attendance_is_for_agents_of_one_role():
    with pytest.raises(GraphError, match="Attendance .*one role"):
        Graph.from_edges(1, [0, 1], [0, 0], sources=2).with_dynamics(Attendance(np.ones((1, 1), bool)))


def test_attendance_of_a_configuration(tmp_path):
    file = tmp_path / "graph.toml"

    def made(table):
        file.write_text(f'[graph]\nkind = "ring"\nagents = 3\n[graph.dynamics]\nkind = "attendance"\ntable = {table}\n')
        return graph_maker(*load_graph(file))(0)

    np.testing.assert_array_equal(
        made("[[true, true, false], [true, false, true]]").dynamics.table, [[True, True, False], [True, False, True]]
    )
    for ragged, lengths in (("[[true, true, true], [true]]", r"2 rows of lengths \[1, 3\]"), ("[]", "0 rows")):
        with pytest.raises(GraphError, match=rf"graph.toml.*{lengths}.*one entry per agent"):
            made(ragged)
    with pytest.raises(ConfigError, match="true or false"):
        made("[[1, 1, 2]]")


@pytest.mark.parametrize("n", [2, 3, 8, 12])
def test_one_peer_exponential(n):
    graph = graphs.one_peer_exponential(n).with_weights("sender")
    powers = max(int(np.ceil(np.log2(n))), 1)
    for t in range(1, 2 * powers + 1):
        W = graph.matrix(t).toarray()
        expected = np.eye(n) / 2
        for i in range(n):
            expected[(i + 2 ** (t % powers)) % n, i] += 0.5
        np.testing.assert_allclose(W, expected)
    assert graphs.doubly_stochastic(graph)
    if n == 8:  # a power of two: exact average after one period
        product = np.eye(n)
        for t in range(1, powers + 1):
            product = graph.matrix(t).toarray() @ product
        np.testing.assert_allclose(product, np.full((n, n), 1 / n), atol=1e-12)
