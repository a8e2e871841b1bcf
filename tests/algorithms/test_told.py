"""Settings that can be run but are hardly what was meant: the user is told, with the numbers."""

from __future__ import annotations

import inspect
import warnings
from typing import Any

import pytest

import tacit
from tacit.algorithms import clustered_federated, decentralised_symmetric, personalised_graph_federated
from tacit.core.errors import TacitWarning
from tacit.graphs import from_edges
from tacit.peer import run_in_process

OBJECTIVE = tacit.objectives.squared(l2=0.1)
STREAM = tacit.streams.logistic_drift(agents=5, dim=2, seed=0)
MADE_FOR_ROUNDS = [
    entry
    for entry in tacit.algorithms.REGISTRY.values()
    if {"rounds", "horizon"} & set(inspect.signature(entry.constructor).parameters)
]


def told(function: Any) -> list[str]:
    """What warnings of ours a call gives; others stay errors."""
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("error")
        warnings.simplefilter("always", TacitWarning)
        function()
    return [str(warning.message) for warning in seen]


@pytest.mark.parametrize("entry", MADE_FOR_ROUNDS, ids=lambda entry: entry.name)
@pytest.mark.parametrize("run", [tacit.simulate, run_in_process], ids=lambda run: run.__name__)
def test_a_method_made_for_other_rounds_than_it_is_run(entry: Any, run: Any) -> None:
    name = ({"rounds", "horizon"} & set(inspect.signature(entry.constructor).parameters)).pop()
    algorithm = entry.example(OBJECTIVE, **{name: 3})
    assert algorithm.horizon == 3
    graph = tacit.graphs.complete(5)
    (words,) = told(lambda: run(algorithm, graph, STREAM, rounds=2))
    assert entry.name in words
    assert "rounds = 3" in words
    assert "for 2" in words
    assert told(lambda: run(algorithm, graph, STREAM, rounds=3)) == []


def test_the_one_that_is_known_is_found() -> None:
    assert "lagrangian_descent" in {entry.name for entry in MADE_FOR_ROUNDS}


def test_mutual_links_that_leave_parts() -> None:
    """0 and 1 hear each other, 2 and 3 as well, and 4 is only heard: three parts."""
    graph = from_edges(5, [0, 1, 2, 3, 1, 3, 4], [1, 0, 3, 2, 2, 4, 0])
    (words,) = told(lambda: tacit.simulate(decentralised_symmetric(OBJECTIVE), graph, STREAM, rounds=1))
    assert "3 parts" in words
    for made, links in (
        (decentralised_symmetric(OBJECTIVE, apart=True), graph),
        (decentralised_symmetric(OBJECTIVE), tacit.graphs.ring(5)),
    ):
        assert told(lambda made=made, links=links: tacit.simulate(made, links, STREAM, rounds=1)) == []


@pytest.mark.parametrize("make", [personalised_graph_federated, clustered_federated])
def test_a_strength_without_another_cluster(make: Any) -> None:
    for tau in (0.3, lambda t: 0.3 / t):
        (words,) = told(lambda tau=tau: make(OBJECTIVE, clusters=1, tau=tau))
        assert "tau" in words
        assert "clusters = 1" in words
    assert told(lambda: make(OBJECTIVE, clusters=1)) == []
    assert told(lambda: make(OBJECTIVE, clusters=2, tau=0.3)) == []
