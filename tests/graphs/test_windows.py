import re

import jax
import numpy as np
import pytest
from hypothesis import given as forall
from hypothesis import settings
from hypothesis import strategies as st

from tacit import graphs
from tacit.core.errors import GraphError
from tacit.graphs import Attendance, Gap, Graph, LinkDrop, Periodic, RandomMatching, first_gap, first_gap_of_run
from tacit.graphs import windows as windows_module

MANY = settings(max_examples=300, deadline=None, derandomize=True)


@pytest.fixture
def small_pieces(monkeypatch):
    """Make tables that fit into memory go through in pieces, too."""
    monkeypatch.setattr(windows_module, "LARGEST_TABLE", 40)


def reachable(agents, senders, receivers):
    """(n, n): whether there is a path from a (row) to b (column)."""
    step = np.eye(agents, dtype=int)
    step[senders, receivers] = 1
    return np.linalg.matrix_power(step, agents) > 0


def gaps_by_brute_force(agents, part_edges, live, window):
    """Every (first round, part) whose window is not strongly connected, in order, with all pairs without a path."""
    found, column = [], 0
    for part, (senders, receivers) in enumerate(part_edges):
        own = live[:, column : column + len(senders)]
        column += len(senders)
        for start in range(len(live) - window + 1):
            up = own[start : start + window].any(axis=0)
            paths = reachable(agents, senders[up], receivers[up])
            if not paths.all():
                found.append((start + 1, part, {(int(a), int(b)) for a, b in np.argwhere(~paths)}))
    return sorted(found, key=lambda gap: gap[:2])


@st.composite
def histories(draw):
    agents, parts = draw(st.integers(1, 4)), draw(st.integers(1, 3))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    made = []
    for _ in range(parts):
        edge = (rng.random((agents, agents)) < draw(st.sampled_from([0.5, 1.0]))) & ~np.eye(agents, dtype=bool)
        receivers, senders = np.nonzero(edge)
        made.append(Graph.from_edges(agents, senders, receivers))
    union = Graph.union(made)
    live = rng.random((draw(st.integers(0, 25)), union.edges)) < draw(st.sampled_from([0.2, 0.5, 0.8]))
    return union, made, live, draw(st.integers(1, 9)), draw(st.sampled_from([1, 40, 1 << 21]))


@MANY
@forall(histories())
def test_first_gap_against_brute_force(history):
    union, made, live, window, largest = history
    agents = made[0].agents
    expected = gaps_by_brute_force(agents, [(g.senders, g.receivers) for g in made], live, window)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(windows_module, "LARGEST_TABLE", largest)
        gap = first_gap(union, live, window, parts=len(made))
    if not expected:
        assert gap is None
        return
    first, part, pairs = expected[0]
    assert gap is not None
    assert (gap.first, gap.last, gap.part) == (first, first + window - 1, part)
    assert (gap.source, gap.target) in pairs


def test_a_gap_names_rounds_agents_and_part():
    attendance = np.ones((12, 4), bool)
    attendance[4:7, 2] = False
    here = graphs.complete(4).with_dynamics(Attendance(np.ones((12, 4), bool)))
    union = Graph.union([here, here.with_dynamics(Attendance(attendance))])
    keys = jax.random.split(jax.random.key(0), 12)
    gap = first_gap_of_run(union, keys, 3, parts=2)
    assert gap == Gap(5, 7, 0, 2, 1)
    assert re.search("rounds 5 to 7 .*agent 0 to agent 2", str(gap))
    assert first_gap_of_run(union, keys, 4, parts=2) is None
    assert first_gap_of_run(union, keys[:6], 3, parts=2) is None  # the run ends before
    assert re.search("round 5 .*agent 0 to agent 2", str(first_gap_of_run(union, keys, 1, parts=2)))


@pytest.mark.parametrize("kind", ["fixed", "periodic", "attendance", "drop"])
def test_the_rounds_of_a_run_are_drawn_as_the_run_draws_them(kind, small_pieces):
    rng = np.random.default_rng(3)
    graph = graphs.random_digraph(6, 3, seed=1)
    chosen = {
        "fixed": None,
        "periodic": Periodic(rng.random((7, graph.edges)) < 0.4),
        "attendance": Attendance(rng.random((7, 6)) < 0.7),
        "drop": LinkDrop(0.6),
    }
    graph = graph.with_dynamics(chosen[kind])
    keys = jax.random.split(jax.random.key(1), 17)
    expected = np.stack([graph.live_at(t, key) for t, key in enumerate(keys, start=1)])
    np.testing.assert_array_equal(graphs.live_rounds(graph, keys), expected)
    np.testing.assert_array_equal(graphs.live_rounds(graph, keys[3:], first=4), expected[3:])
    gaps = {window: first_gap_of_run(graph, keys, window) for window in (1, 4)}
    assert gaps == {window: first_gap(graph, expected, window) for window in gaps}
    assert (gaps[1] is None) == (kind == "fixed")


def test_no_gap_is_lost_between_two_pieces(small_pieces):
    graph = graphs.complete(3)  # 6 links: pieces of 6 rounds
    for start in range(26):
        present = np.ones((30, 3), bool)
        present[start : start + 5, 1] = False
        live = present[:, graph.senders] & present[:, graph.receivers]
        expected = Gap(start + 1, start + 5, 0, 1, 0)
        assert first_gap(graph, live, 5) == expected
        assert first_gap(graph, live, 6) is None


def test_a_fixed_graph_has_a_gap_from_the_start_or_none():
    keys = jax.random.split(jax.random.key(0), 9)
    line = graphs.from_edges(3, [0, 1], [1, 2])
    assert first_gap_of_run(line, keys, 4) == Gap(1, 4, 1, 0, 0)
    assert first_gap_of_run(line, keys, 10) is None  # no ten rounds in this run
    assert first_gap_of_run(graphs.ring(3), keys, 4) is None


def test_a_schedule_is_looked_at_over_the_seam_of_two_periods():
    away = np.ones((6, 3), bool)
    away[[0, 1, 4, 5], 1] = False  # away in rounds 5, 6, 7, 8
    graph = graphs.complete(3).with_dynamics(Attendance(away))
    keys = jax.random.split(jax.random.key(0), 50)
    assert first_gap_of_run(graph, keys, 4) == Gap(5, 8, 0, 1, 0)
    assert first_gap_of_run(graph, keys, 5) is None


def test_bad_questions_are_refused():
    ring = graphs.ring(6)
    live = np.ones((4, 12), bool)
    with pytest.raises(GraphError, match=r"\(4, 11\) .*\(rounds, 12\)"):
        first_gap(ring, live[:, 1:], 2)
    with pytest.raises(GraphError, match="type int64: expected"):
        first_gap(ring, live.astype(np.int64), 2)
    with pytest.raises(GraphError, match="window of 0 rounds"):
        first_gap(ring, live, 0)
    for parts in (0, 4):
        with pytest.raises(GraphError, match=f"{parts} parts of 6 agents"):
            first_gap(ring, live, 2, parts=parts)
    with pytest.raises(GraphError, match="expected a disjoint union"):
        first_gap(ring, live, 2, parts=2)
    with pytest.raises(GraphError, match="links two roles"):
        first_gap(Graph.from_edges(1, [0, 1], [0, 0], sources=2), np.ones((3, 2), bool), 1)


def test_window_of_a_period_is_exact():
    assert graphs.connection_window(graphs.ring(4)).rounds == 1
    halves = [graphs.from_edges(4, [0, 1], [1, 2]), graphs.from_edges(4, [2, 3], [3, 0])]
    assert graphs.connection_window(graphs.periodic(halves)).rounds == 2
    uneven = graphs.periodic([halves[0], halves[0], halves[0], halves[1]])
    window = graphs.connection_window(uneven)
    assert (window.rounds, window.exact) == (4, True)
    wrapped = graphs.periodic([halves[0], halves[1], halves[0]])  # the last round and the first of the next period
    assert graphs.connection_window(wrapped).rounds == 3
    mixed = graphs.periodic([graphs.ring(4), halves[0], halves[0]])
    assert graphs.connection_window(mixed).rounds == 3
    assert graphs.connection_window(graphs.periodic([halves[0]])).rounds is None


def test_window_of_attendance_is_exact():
    table = np.ones((8, 5), bool)
    table[2:5, 1] = False
    table[[7, 0], 4] = False  # over the seam: two rounds in a row
    window = graphs.connection_window(graphs.complete(5).with_dynamics(Attendance(table)))
    assert window[:2] == (4, True)
    assert "period 8" in window[2]
    table[2:, 1] = False  # away in rounds 3 to 8, back in 9 and 10
    assert graphs.connection_window(graphs.complete(5).with_dynamics(Attendance(table))).rounds == 7
    table[:, 1] = False
    assert graphs.connection_window(graphs.complete(5).with_dynamics(Attendance(table))).rounds is None


def test_window_of_random_dynamics_is_a_sample():
    window = graphs.connection_window(graphs.ring(6).with_dynamics(RandomMatching()))
    assert not window.exact
    assert 2 <= window.rounds <= 64
    assert "probability 1" in window.statement
    never = graphs.connection_window(graphs.ring(6).with_dynamics(LinkDrop(0.99)), horizon=5)
    assert never.rounds is None
    assert "not within 5 sampled rounds" in never.statement
