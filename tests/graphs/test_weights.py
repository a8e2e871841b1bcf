import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse
from hypothesis import given as forall
from hypothesis import settings
from hypothesis import strategies as st

from tacit import graphs
from tacit.core.errors import GraphError, RequirementError
from tacit.graphs import evaluate
from tests.graphs.dense import weight_matrix

QUICK = settings(max_examples=25, deadline=None, derandomize=True)


def dense(graph, edge, own):
    W = np.diag(np.asarray(own, dtype=np.float64))
    W[graph.receivers, graph.senders] = np.asarray(edge)
    return W


@st.composite
def graphs_and_masks(draw, symmetric):
    # Few shapes, so that little is compiled: the mask makes the degrees differ.
    n, seed = draw(st.sampled_from([3, 9])), draw(st.integers(0, 10_000))
    rng = np.random.default_rng(seed)
    if symmetric:
        graph = graphs.k_regular(n, {3: 2, 9: 4}[n], seed)
        keep = rng.random((n, n)) < 0.6
        keep &= keep.T
    else:
        graph = graphs.random_digraph(n, n // 2, seed, exact=True)
        keep = rng.random((n, n)) < 0.6
    return graph, keep[graph.receivers, graph.senders]


@pytest.mark.parametrize("rule", ["sender", "receiver", "metropolis"])
def test_rules_equal_a_dense_transcription(rule):
    @QUICK
    @forall(graphs_and_masks(symmetric=rule == "metropolis"))
    def check(case):
        graph, live = case
        weights = graphs.by_rule(rule)
        for mask in (None, live):
            device = None if mask is None else jnp.asarray(mask)
            edge, own = evaluate(weights, graph.senders, graph.receivers, graph.agents, device)
            up = np.ones(graph.edges, bool) if mask is None else mask
            expected = weight_matrix(rule, graph.agents, graph.senders, graph.receivers, up)
            np.testing.assert_allclose(dense(graph, edge, own), expected, atol=1e-6)
            assert edge.dtype == own.dtype == jnp.float32
            if rule != "receiver":
                np.testing.assert_allclose(dense(graph, edge, own).sum(axis=0), 1, atol=1e-6)
            if rule != "sender":
                np.testing.assert_allclose(dense(graph, edge, own).sum(axis=1), 1, atol=1e-6)

    check()


def test_degrees_are_counted_right_in_half_precision():
    star = graphs.star(1000)
    edge, own = evaluate(graphs.by_rule("sender"), star.senders, star.receivers, 1000, dtype=jnp.bfloat16)
    assert own.dtype == edge.dtype == jnp.bfloat16
    np.testing.assert_allclose(float(own[0]), 1 / 1000, rtol=0.01)


@QUICK
@forall(graphs_and_masks(symmetric=False), st.sampled_from(["sender", "receiver"]))
def test_given_weights_move_dead_mass_to_the_normalised_side(case, side):
    graph, live = case
    rng = np.random.default_rng(0)
    W = np.diag(rng.random(graph.agents) + 0.1)
    W[graph.receivers, graph.senders] = rng.random(graph.edges) + 0.1
    W /= W.sum(axis=0 if side == "sender" else 1, keepdims=True)
    fitted = graph.with_weights(W).weights
    assert fitted.absorbs in (side, "neither")  # neither: doubly stochastic by chance, on tiny graphs
    edge, own = evaluate(fitted, graph.senders, graph.receivers, graph.agents, jnp.asarray(live))
    expected = W.copy()
    for sender, receiver, up in zip(graph.senders, graph.receivers, live, strict=True):
        if not up:
            taker = sender if side == "sender" else receiver
            expected[taker, taker] += W[receiver, sender]
            expected[receiver, sender] = 0
    if fitted.absorbs == side:
        np.testing.assert_allclose(dense(graph, edge, own), expected, atol=1e-6)


def test_given_symmetric_doubly_stochastic_stays_so_under_a_symmetric_mask():
    graph = graphs.ring(6).with_weights("metropolis")
    same = graph.with_weights(graph.matrix())
    assert same.weights.rule == "given"
    assert same.weights.absorbs == "either"
    at = same.with_dynamics(graphs.LinkDrop(0.5, symmetric=True)).at(1, jax.random.key(3))
    W = dense(graph, at.edge_weight, at.self_weight)
    assert not np.asarray(at.live).all()
    np.testing.assert_allclose(W.sum(axis=0), 1, atol=1e-6)
    np.testing.assert_allclose(W.sum(axis=1), 1, atol=1e-6)


def test_given_weights_that_cannot_be_mended_refuse_dynamics():
    ring = graphs.ring(4)
    loose = ring.with_weights(graphs.given(np.full(8, 0.7), np.full(4, 0.7)))
    with pytest.raises(RequirementError, match="settled who takes the weight"):
        loose.with_dynamics(graphs.LinkDrop(0.1))
    with pytest.raises(RequirementError, match="settled who takes the weight"):
        # A cycle: doubly stochastic, but not symmetric.
        graphs.directed_ring(4).with_weights("sender").with_weights(
            graphs.directed_ring(4).with_weights("sender").matrix()
        ).with_dynamics(graphs.OptOut(0.1))
    with pytest.raises(RequirementError, match="symmetric=True"):
        ring.with_weights(ring.with_weights("metropolis").matrix()).with_dynamics(graphs.LinkDrop(0.1))


def test_metropolis_is_refused_where_it_would_not_be_doubly_stochastic():
    with pytest.raises(RequirementError, match=r"4 -> 0 .*mutual\(\).*push-sum"):
        graphs.directed_ring(5).with_weights("metropolis")
    with pytest.raises(RequirementError, match="symmetric=True"):
        graphs.ring(5).with_weights("metropolis").with_dynamics(graphs.LinkDrop(0.1))
    with pytest.raises(RequirementError, match="symmetric=True"):
        graphs.ring(5).with_dynamics(graphs.LinkDrop(0.1)).with_weights("metropolis")
    both_ways_but_in_turn = graphs.periodic([graphs.directed_ring(5), graphs.directed_ring(5).reverse()])
    with pytest.raises(RequirementError, match="both directions"):
        both_ways_but_in_turn.with_weights("metropolis")


def test_weights_from_a_matrix():
    W = np.array([[0.2, 0.5, 0.3], [0.2, 0.4, 0.4], [0.8, 0.1, 0.1]])
    graph = graphs.from_matrix(W)
    np.testing.assert_array_equal(graph.matrix().toarray(), W)
    assert graph.weights.absorbs == "receiver"
    sparse = graphs.complete(3).with_weights(scipy.sparse.csr_array(W))
    np.testing.assert_array_equal(sparse.matrix().toarray(), W)
    with pytest.raises(GraphError, match=r"W\[0, 1\] .*no edge 1 -> 0"):
        graphs.directed_ring(3).with_weights(W)
    with pytest.raises(GraphError, match="shape"):
        graphs.complete(4).with_weights(W)
    with pytest.raises(GraphError, match="at most 500"):
        graphs.directed_ring(501).with_weights(np.eye(501))
    with pytest.raises(GraphError, match="square"):
        graphs.from_matrix(W[:2])


def test_unknown_rules_and_shapes_are_refused():
    with pytest.raises(GraphError, match="sender, receiver, metropolis"):
        graphs.ring(3).with_weights("uniform")
    with pytest.raises(GraphError, match="expected"):
        graphs.given(np.ones((2, 3)), np.ones(3))
    with pytest.raises(GraphError, match="do not fit"):
        graphs.ring(3).with_weights(graphs.given(np.ones(5), np.ones(3)))
