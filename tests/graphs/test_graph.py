import jax
import jax.numpy as jnp
import networkx
import numpy as np
import pytest
import scipy.sparse
from hypothesis import given as forall
from hypothesis import settings
from hypothesis import strategies as st

from tacit import graphs
from tacit.core.errors import GraphError
from tacit.graphs import Graph
from tests.graphs.dense import as_matrix

QUICK = settings(max_examples=30, deadline=None, derandomize=True)


@st.composite
def edge_lists(draw):
    agents = draw(st.integers(2, 8))
    pairs = [(s, r) for s in range(agents) for r in range(agents) if s != r]
    return agents, draw(st.lists(st.sampled_from(pairs), unique=True))


def make(agents, pairs, **options):
    return Graph.from_edges(agents, [s for s, _ in pairs], [r for _, r in pairs], **options)


def pairs_of(graph):
    return set(zip(graph.senders.tolist(), graph.receivers.tolist(), strict=True))


@QUICK
@forall(edge_lists())
def test_from_edges_sorts_and_keeps_every_edge(case):
    agents, pairs = case
    graph = make(agents, pairs)
    assert list(zip(graph.receivers, graph.senders, strict=True)) == sorted((r, s) for s, r in pairs)
    assert graph.senders.dtype == graph.receivers.dtype == np.int32
    assert graph.in_degree.tolist() == [sum(r == i for _, r in pairs) for i in range(agents)]
    assert graph.out_degree.tolist() == [sum(s == i for s, _ in pairs) for i in range(agents)]
    for agent in range(agents):
        assert graph.neighbours_out(agent).tolist() == sorted(r for s, r in pairs if s == agent)
        assert graph.neighbours_in(agent).tolist() == sorted(s for s, r in pairs if r == agent)


@QUICK
@forall(edge_lists(), st.randoms(use_true_random=False))
def test_given_weights_follow_their_edges(case, random):
    agents, pairs = case
    weight = [random.random() for _ in pairs]
    own = [random.random() for _ in range(agents)]
    graph = make(agents, pairs, weight=weight, self_weight=own)
    W = graph.matrix().toarray()
    for (s, r), value in zip(pairs, weight, strict=True):
        assert W[r, s] == value
    np.testing.assert_array_equal(np.diag(W), own)


@pytest.mark.parametrize(
    ("senders", "receivers", "options", "words"),
    [
        ([0, 1], [1, 3], {}, r"edge 1 -> 3: the receiver is not in 0\.\.2"),
        ([0, -1], [1, 2], {}, r"edge -1 -> 2: the sender is not in 0\.\.2"),
        ([0, 2], [1, 2], {}, "edge 2 -> 2: it is a self loop"),
        ([0, 1, 0], [1, 2, 1], {}, "edge 0 -> 1: it is listed twice"),
        ([0, 1], [1], {}, "2 senders but 1 receivers"),
        ([0.5], [1], {}, "of integers"),
        ([0], [1], {"weight": [1.0]}, "self_weight"),
        ([0], [1], {"self_weight": [1.0, 1.0, 1.0]}, "without weight"),
        ([0], [1], {"weight": [1.0, 2.0], "self_weight": np.ones(3)}, "one per edge"),
        ([0], [1], {"weight": [-1.0], "self_weight": np.ones(3)}, "0 or larger"),
        ([0], [1], {"weight": [np.nan], "self_weight": np.ones(3)}, "finite"),
        ([0], [1], {"weight": [1.0], "self_weight": np.ones(2)}, "do not fit"),
    ],
)
def test_from_edges_refuses(senders, receivers, options, words):
    with pytest.raises(GraphError, match=words):
        Graph.from_edges(3, senders, receivers, **options)


def test_from_edges_refuses_no_agents_and_too_many():
    with pytest.raises(GraphError, match="at least one"):
        Graph.from_edges(0, [], [])
    with pytest.raises(GraphError, match="32-bit"):
        Graph.from_edges(2**31, [], [])


@QUICK
@forall(edge_lists())
def test_reverse_mutual_disconnected_completed(case):
    agents, pairs = case
    graph = make(agents, pairs).with_weights("sender")
    assert pairs_of(graph.reverse()) == {(r, s) for s, r in pairs}
    assert pairs_of(graph.mutual()) == {(s, r) for s, r in pairs if (r, s) in pairs}
    assert pairs_of(graph.disconnected()) == set()
    assert pairs_of(graph.completed()) == {(s, r) for s in range(agents) for r in range(agents) if s != r}
    for changed in (graph.reverse(), graph.mutual(), graph.completed()):
        assert changed.weights is None
        key = changed.receivers.astype(int) * agents + changed.senders
        assert np.all(np.diff(key) > 0)


def test_edge_changes_keep_a_periodic_table_in_step():
    one, two = make(3, [(0, 1), (1, 0), (1, 2)]), make(3, [(0, 1), (2, 1)])
    graph = graphs.periodic([one, two])

    def played(g, t):
        up = g.live_at(t)
        return {pair for pair, is_up in zip(zip(g.senders, g.receivers, strict=True), up, strict=True) if is_up}

    assert played(graph.reverse(), 1) == {(1, 0), (0, 1), (2, 1)}
    assert played(graph.reverse(), 2) == {(1, 0), (1, 2)}
    assert played(graph.mutual(), 1) == {(0, 1), (1, 0)}
    assert played(graph.mutual(), 2) == set()  # 0 -> 1 has its reverse in the other round only
    assert played(graph.relabelled([2, 0, 1]), 2) == {(2, 0), (1, 0)}
    for kind in (np.uint64, np.float64):  # as other libraries number, and as files are read
        assert played(graph.relabelled(np.array([2, 0, 1], kind)), 2) == {(2, 0), (1, 0)}
    assert graph.completed().dynamics is None
    assert graph.disconnected().with_weights("sender").matrix(2).toarray().tolist() == np.eye(3).tolist()


def test_completed_and_complete_are_guarded():
    with pytest.raises(GraphError, match="20,000"):
        graphs.directed_ring(20_001).completed()
    with pytest.raises(GraphError, match="20,000"):
        graphs.complete(20_001)


@QUICK
@forall(edge_lists(), st.randoms(use_true_random=False))
def test_relabelled_permutes_rows_and_columns(case, random):
    agents, pairs = case
    permutation = random.sample(range(agents), agents)
    weight, own = [random.random() for _ in pairs], [random.random() for _ in range(agents)]
    graph = make(agents, pairs, weight=weight, self_weight=own)
    moved = graph.relabelled(permutation).matrix().toarray()
    W = graph.matrix().toarray()
    np.testing.assert_array_equal(moved[np.ix_(permutation, permutation)], W)
    with pytest.raises(GraphError, match="permutation"):
        graph.relabelled([0] * agents)


@QUICK
@forall(edge_lists())
def test_networkx_round_trip(case):
    agents, pairs = case
    graph = make(agents, pairs)
    there = graphs.to_networkx(graph)
    assert isinstance(there, networkx.DiGraph)
    assert set(there.edges) == set(pairs)
    back = graphs.from_networkx(there)
    assert back.agents == agents
    assert pairs_of(back) == set(pairs)


@pytest.mark.parametrize("kind", ["sender", "receiver", "metropolis", "given", "periodic"])
def test_union_is_block_diagonal(kind):
    parts = [graphs.random_digraph(6, 3, seed) for seed in range(3)]
    if kind == "metropolis":
        parts = [part.mutual() for part in parts]
    if kind == "given":
        rng = np.random.default_rng(0)
        parts = [part.with_weights(graphs.given(rng.random(part.edges), rng.random(6))) for part in parts]
    elif kind == "periodic":
        parts = [
            graphs.periodic([part.with_weights("sender"), part.reverse().with_weights("sender")]) for part in parts
        ]
    else:
        parts = [part.with_weights(kind) for part in parts]
    union = Graph.union(parts)
    for t in (1, 2):
        blocks = scipy.sparse.block_diag([part.matrix(t) for part in parts]).toarray()
        np.testing.assert_allclose(union.matrix(t).toarray(), blocks, rtol=0, atol=1e-15)
        at = union.at(t, jax.random.key(0))
        np.testing.assert_allclose(as_matrix(union, at), blocks, rtol=1e-6, atol=1e-7)
    assert np.all(np.diff(union.receivers.astype(int) * union.agents + union.senders) > 0)


def test_union_of_given_weights_in_turn_plays_each_repeats_own():
    rng = np.random.default_rng(1)

    def part():
        steps = []
        for _ in range(2):
            W = rng.random((4, 4)) * (rng.random((4, 4)) < 0.6)
            steps.append(graphs.from_matrix(W))
        return graphs.periodic(steps)

    parts = [part(), part()]
    union = Graph.union(parts)
    for t in (1, 2, 3):
        blocks = scipy.sparse.block_diag([p.matrix(t) for p in parts]).toarray()
        np.testing.assert_allclose(as_matrix(union, union.at(t, jax.random.key(0))), blocks, rtol=1e-6)


def test_union_refuses_what_does_not_match():
    ring = graphs.ring(4)
    with pytest.raises(GraphError, match="equal sizes"):
        Graph.union([ring, graphs.ring(5)])
    with pytest.raises(GraphError, match="one kind of weights"):
        Graph.union([ring.with_weights("sender"), ring.with_weights("receiver")])
    with pytest.raises(GraphError, match="equal dynamics"):
        Graph.union([ring.with_dynamics(graphs.LinkDrop(0.1)), ring.with_dynamics(graphs.LinkDrop(0.2))])
    with pytest.raises(GraphError, match="equal dynamics"):
        Graph.union([ring, graphs.periodic([ring])])
    with pytest.raises(GraphError, match="at least one"):
        Graph.union([])


def test_a_graph_is_a_pytree_and_compiles_once():
    compiled = 0

    @jax.jit
    def weights(graph, t, key):
        nonlocal compiled
        compiled += 1
        return graph.at(t, key)

    graph = graphs.periodic([graphs.ring(5), graphs.directed_ring(5)]).with_weights("sender")
    for t in (1, 2, 3):
        at = weights(graph, jnp.int32(t), jax.random.key(t))
        np.testing.assert_allclose(as_matrix(graph, at), graph.matrix(t).toarray(), rtol=1e-6)
    assert compiled == 1


def test_at_needs_weights():
    with pytest.raises(GraphError, match="with_weights"):
        graphs.ring(3).at(1, jax.random.key(0))
    with pytest.raises(GraphError, match="with_weights"):
        graphs.ring(3).matrix()


def test_two_roles_have_no_self():
    graph = Graph.from_edges(2, [0, 1, 2, 0], [0, 0, 1, 1], sources=3)
    assert graph.columns == 3
    W = graph.with_weights("receiver").matrix().toarray()
    np.testing.assert_allclose(W, [[0.5, 0.5, 0], [0.5, 0, 0.5]])
    W = graph.with_weights("sender").matrix().toarray()
    np.testing.assert_allclose(W, [[0.5, 1, 0], [0.5, 0, 1]])
    at = graph.with_weights("sender").at(1, jax.random.key(0))
    np.testing.assert_allclose(as_matrix(graph, at), W)
    assert not np.asarray(at.self_weight).any()
    assert pairs_of(graph.reverse()) == {(0, 0), (0, 1), (1, 2), (1, 0)}
    for refused in (graph.mutual, graph.completed, lambda: graph.relabelled([0, 1])):
        with pytest.raises(GraphError, match="two roles"):
            refused()
    with pytest.raises(GraphError, match="two roles"):
        graph.with_weights("metropolis")
    with pytest.raises(GraphError, match="two roles"):
        graph.with_dynamics(graphs.OptOut(0.1))
