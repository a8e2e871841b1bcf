import re

import networkx
import numpy as np
import pytest
from hypothesis import given as forall
from hypothesis import settings
from hypothesis import strategies as st

from tacit import graphs
from tacit.core.errors import GraphError
from tacit.graphs import Attendance, LinkDrop, OptOut, Periodic, checks

QUICK = settings(max_examples=40, deadline=None, derandomize=True)


@QUICK
@forall(st.integers(1, 12), st.floats(0, 0.6), st.integers(0, 1000))
def test_connectivity_and_symmetry_agree_with_networkx(n, p, seed):
    graph = graphs.erdos_renyi(n, p, seed, directed=True)
    there = graphs.to_networkx(graph)
    connected = networkx.is_strongly_connected(there)
    assert graphs.is_strongly_connected(graph) == connected
    path = graphs.missing_path(graph)
    assert (path is None) == connected
    if path is not None:
        assert not networkx.has_path(there, *path)
    one_sided = [edge for edge in there.edges if not there.has_edge(*edge[::-1])]
    assert graphs.is_symmetric(graph) == (not one_sided)
    assert graphs.one_sided_share(graph) == pytest.approx(len(one_sided) / max(graph.edges, 1))
    if one_sided:
        assert graphs.one_sided_edge(graph) in one_sided


def test_sums_and_normalisation():
    graph = graphs.random_digraph(30, 6, 0)
    sender, receiver = graph.with_weights("sender"), graph.with_weights("receiver")
    assert graphs.sender_normalised(sender)
    assert not graphs.receiver_normalised(sender)
    assert graphs.receiver_normalised(receiver)
    assert not graphs.sender_normalised(receiver)
    assert not graphs.doubly_stochastic(receiver)
    np.testing.assert_allclose(graphs.column_sums(sender), 1)
    np.testing.assert_allclose(graphs.row_sums(sender), sender.matrix().toarray().sum(axis=1))
    assert graphs.doubly_stochastic(graph.mutual().with_weights("metropolis"))
    assert graphs.doubly_stochastic(graphs.ring(9).with_weights("sender"))
    with pytest.raises(GraphError, match="with_weights"):
        graphs.sender_normalised(graph)


@pytest.mark.parametrize("offset", [5e-7, 5e-6])
def test_normalisation_tolerance_is_one_in_a_million(offset):
    W = np.array([[0.5, 0.5], [0.5, 0.5 + offset]])
    assert graphs.receiver_normalised(graphs.from_matrix(W)) == (offset < 1e-6)


def test_normalisation_under_random_dynamics_is_what_the_rule_promises():
    ring = graphs.ring(9)
    dropping = ring.with_dynamics(LinkDrop(0.2))
    assert graphs.sender_normalised(dropping.with_weights("sender"))
    assert not graphs.receiver_normalised(dropping.with_weights("sender"))  # although the ring is, with all links up
    assert graphs.doubly_stochastic(ring.with_dynamics(OptOut(0.2)).with_weights("metropolis"))
    given = ring.with_weights(ring.with_weights("metropolis").matrix())
    assert graphs.doubly_stochastic(given.with_dynamics(OptOut(0.2)))


def test_normalisation_of_a_period_looks_at_every_round():
    one, two = graphs.ring(5), graphs.star(5)
    graph = graphs.periodic([one, two]).with_weights("sender")
    assert graphs.sender_normalised(graph)
    assert not graphs.receiver_normalised(graph)
    assert graphs.doubly_stochastic(graphs.periodic([one, one]).with_weights("sender"))


def test_given_weights_in_turn_are_summed_in_every_round():
    both = graphs.complete(2).with_dynamics(Periodic(np.array([[True, True], [True, False]])))
    graph = both.with_weights(graphs.given(np.full((2, 2), 0.5), np.full((2, 2), 0.5)))
    # The receiver takes the weight of the link that is down in round 2, so that the sender's is missing.
    assert graphs.receiver_normalised(graph)
    assert "in round 2" in checks.normalisation_fault(graph, "sender")


def test_links_that_are_never_up_do_not_connect():
    ring = graphs.directed_ring(3)
    dead = ring.with_dynamics(Periodic(np.array([[True, True, False]])))
    assert not graphs.is_strongly_connected(dead)
    assert graphs.missing_path(dead) == (0, 2)


def test_agents_that_never_meet_are_not_connected():
    table = np.array([[True, True, False], [False, True, True]])
    assert graphs.missing_path(graphs.complete(3).with_dynamics(Attendance(table))) is None  # 0 and 2 meet 1
    one_way = graphs.directed_ring(3).with_dynamics(Attendance(table))
    assert not graphs.is_strongly_connected(one_way)
    assert graphs.missing_path(one_way) == (1, 0)  # 2 -> 0 is never up


def test_normalisation_under_attendance_is_asked_of_every_round():
    table = np.ones((3, 4), bool)
    table[2, 0] = False
    ring, complete = (g.with_dynamics(Attendance(table)) for g in (graphs.ring(4), graphs.complete(4)))
    assert graphs.sender_normalised(ring.with_weights("sender"))
    # Without agent 0 the ring is a line, whose middle sends and hears more than its ends.
    fault = checks.normalisation_fault(ring.with_weights("sender"), "receiver")
    assert re.search(r"receiver 1 .*0\.833333 in round 3", fault)
    assert graphs.doubly_stochastic(complete.with_weights("sender"))  # everybody present splits alike


@pytest.mark.parametrize(
    ("n", "rule"),
    [
        pytest.param(n, rule, marks=pytest.mark.covered_by("smaller graphs") if n == 600 else ())
        for n in (2, 30, 600)
        for rule in ("sender", "receiver", "metropolis")
    ],
)
def test_spectral_gap_against_numpy(n, rule):
    graph = graphs.random_digraph(n, min(5, n - 1), 0)
    if rule == "metropolis":
        graph = graphs.k_regular(n, min(4, n - 1), 0)
    graph = graph.with_weights(rule)
    sizes = np.sort(np.abs(np.linalg.eigvals(graph.matrix().toarray())))
    assert graphs.spectral_gap(graph) == pytest.approx(1 - sizes[-2], abs=1e-9)


def test_spectral_gap_of_a_ring_is_known():
    gap = graphs.spectral_gap(graphs.ring(40).with_weights("metropolis"))
    assert gap == pytest.approx(2 / 3 * (1 - np.cos(2 * np.pi / 40)))
    assert graphs.spectral_gap(graphs.from_edges(1, [], []).with_weights("sender")) == 1


@pytest.mark.parametrize("rule", ["sender", "receiver"])
def test_perron_vectors_are_eigenvectors(rule):
    graph = graphs.random_digraph(40, 6, 3).with_weights(rule)
    W = graph.matrix().toarray()
    left, right, eigenvalue = graphs.perron(graph)
    assert eigenvalue == pytest.approx(1)
    np.testing.assert_allclose(left @ W, left, atol=1e-10)
    np.testing.assert_allclose(W @ right, right, atol=1e-10)
    assert left.sum() == pytest.approx(1)
    assert right.sum() == pytest.approx(1)
    flat = left if rule == "sender" else right
    np.testing.assert_allclose(flat, 1 / 40, atol=1e-10)


def test_perron_of_unnormalised_and_periodic_matrices():
    W = np.array([[0.0, 2.0], [8.0, 0.0]])  # eigenvalues +-4: plain power iteration would swing
    left, right, eigenvalue = graphs.perron(graphs.from_matrix(W))
    assert eigenvalue == pytest.approx(4)
    np.testing.assert_allclose(right, [1 / 3, 2 / 3])
    np.testing.assert_allclose(left, [2 / 3, 1 / 3])


def test_perron_refuses_what_it_cannot_answer():
    line = graphs.from_edges(3, [0, 1], [1, 2]).with_weights("sender")
    with pytest.raises(GraphError, match="agent 1 to agent 0"):
        graphs.perron(line)
    with pytest.raises(GraphError, match="after 3 steps"):
        graphs.perron(graphs.random_digraph(20, 3, 0).with_weights("sender"), most_steps=3)


def test_two_role_links_are_no_question():
    uplink = graphs.star_roles(3).links["uplink"].with_weights("receiver")
    for question in (
        graphs.is_strongly_connected,
        graphs.is_symmetric,
        graphs.sender_normalised,
        graphs.spectral_gap,
    ):
        with pytest.raises(GraphError, match="two roles"):
            question(uplink)
