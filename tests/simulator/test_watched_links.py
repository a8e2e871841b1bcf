"""What watchers are told of single links and of who took part: late, lost and dead links, quarantines, releases."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest

import tacit
from tacit import runtime
from tacit.results.live import LinksSeen, Part
from tacit.simulator.watching import told

OBJECTIVE = tacit.objectives.logistic()


@pytest.fixture(autouse=True)
def each_round(monkeypatch: pytest.MonkeyPatch) -> None:
    """Watchers hear of every round by itself."""
    monkeypatch.setattr(told, "EVERY", 0.0)
    monkeypatch.setattr(told, "LONGEST", 1e-9)


def seen(method: Any, graph: Any, rounds: int, **settings: Any) -> tuple[Any, dict[int, tuple[LinksSeen, Any]], Any]:
    """Run, and return the links and the agents' figures of each round, and the drawing."""
    found, drawings = {}, []

    def watch(part: Part) -> None:
        drawings.append(part.sights.drawing())
        if part.rounds and not part.ended:
            found[part.done] = part.sights.links(), part.sights.agents()

    agents = graph.agents if hasattr(graph, "agents") else graph.roles["client"]

    def data(seed: int) -> tacit.streams.Stream:
        return tacit.streams.logistic_drift(agents, 3, seed=seed)

    run = tacit.simulate(method, graph, data, rounds=rounds, watch=watch, **settings)
    return run, found, drawings[0]


def pairs(drawing: Any, places: Any) -> set[tuple[int, int]]:
    return set(zip(drawing.senders[places].tolist(), drawing.receivers[places].tolist(), strict=True))


def test_what_a_channel_did_is_told_link_by_link() -> None:
    channel = tacit.graphs.Channel(0.2, tacit.graphs.Delay(0.5, 3))
    graph = tacit.graphs.random_digraph(6, out_degree=3, seed=1)
    method = tacit.algorithms.loss_tolerant_push_sum(OBJECTIVE, step=0.3)
    assert len(method.phases) == 1
    _, found, drawing = seen(method, graph, 9, repeats=2, channel=channel, seed=4)
    assert drawing.states == ("late", "lost")
    union = tacit.graphs.Graph.union([graph, graph])
    first = union.receivers < 6
    times = 0
    for t, (links, _) in found.items():
        lost, delay = channel.draw(runtime.channel_key(jax.random.key(4), 0, t), union.edges)
        lost, delay = np.asarray(lost), np.asarray(delay)
        expected = {"late": ~lost & (delay > 0), "lost": lost}
        for state, which in expected.items():
            ends = set(zip(union.senders[first & which].tolist(), union.receivers[first & which].tolist(), strict=True))
            assert pairs(drawing, links.states.get(state, [])) == ends, (t, state)
            times += bool(ends)
        late = np.where(first & ~lost, delay, 0)
        assert (links.slowest or (0, 0))[1] == late.max()
    assert times > len(found), "both states were there"


def test_links_of_agents_that_are_away_are_dead_and_releases_are_counted_by_presence() -> None:
    table = [[True] * 6, [True, False, True, True, True, True], [True, False, True, True, False, True]]
    graph = tacit.graphs.ring(6).with_dynamics(tacit.graphs.attendance(table))
    method = tacit.algorithms.dynamic_mirror_descent(OBJECTIVE, window=12)
    _, found, drawing = seen(method, graph, 7)
    assert drawing.states == ("dead",)
    for t, (links, agents) in found.items():
        there = np.array(table[(t - 1) % 3])
        dead = {pair for pair in pairs(drawing, slice(None)) if not there[list(pair)].all()}
        assert pairs(drawing, links.states.get("dead", [])) == dead, t
        if t > 1:  # before that all were there, always
            assert agents["presence"].tolist() == there.tolist()
            assert agents["releases"].tolist() == np.array(table * 3)[:t].sum(axis=0).tolist()


def test_a_sender_in_quarantine_is_told_once_it_is_there() -> None:
    method = tacit.algorithms.distributed_online(OBJECTIVE, step=0.3, missing="renormalise")
    wary = tacit.algorithms.robust(method, "trimmed_mean", liars=1, quarantine=True)
    graph = tacit.graphs.small_world(8, 4, 0.0, seed=0)
    _, found, drawing = seen(wary, graph, 70, liars={3: tacit.attacks.sign_flip(10.0)})
    assert found[5][0].states == {}
    held = pairs(drawing, found[70][0].states["quarantined"])
    assert held
    assert held <= {pair for pair in pairs(drawing, slice(None)) if pair[0] == 3}


def test_a_client_releases_in_the_rounds_in_which_it_is_called() -> None:
    noise = tacit.privacy.laplace(2.0, clip=1.0)
    method = tacit.algorithms.fedavg(OBJECTIVE, step=0.1, cohort=2, mechanism=noise)
    run, found, _ = seen(method, tacit.graphs.star_roles(5), 8)
    releases = found[8][1]["releases"]
    assert 0 < releases.max() <= 8
    assert releases.sum() == run.traffic["uplink"].messages.sum() == 2 * 8


def test_nothing_is_computed_of_links_that_are_always_open() -> None:
    graph = tacit.graphs.directed_ring(6)
    _, found, drawing = seen(tacit.algorithms.online_push_sum(OBJECTIVE), graph, 3)
    assert (drawing.states, found[3][0]) == ((), LinksSeen({}))
    assert "releases" not in found[3][1]
