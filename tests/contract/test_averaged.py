"""Every method with an average of its models: the method goes on as without, and the average is what it says."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest

import tacit
from tacit.algorithms import averaged
from tacit.algorithms.model_average import AVERAGES
from tacit.audit import conformance
from tacit.core.contract import Algorithm, Objective, share
from tacit.core.errors import ContractError
from tacit.graphs import Attendance, Channel, Graph
from tacit.peer import run_in_process
from tests.contract.cases import CASES, MECHANISMS, Case, build, digraph, graph_of, stream
from tests.daily import some

ROUNDS = 7
DAILY = ("online_push_sum, gaussian on gradient", "dynamic_mirror_descent")
"""One of peers with noise, one with absences, one in which a server predicts for those whom it calls."""


def both(case: Case) -> Algorithm:
    """Return the averaged method with its own last model shown beside the average."""
    plain = case.make()
    method, objective = averaged(plain), plain.objective
    return method._replace(
        model=lambda carrying: (plain.model(carrying.state), method.model(carrying)),
        objective=_of_the_first(objective),
        constraints={},  # of one model
    )


def _of_the_first(objective: Objective) -> Objective:
    score = objective.score
    return objective._replace(
        loss=lambda models, batch: objective.loss(models[0], batch),
        score=None if score is None else lambda models, batch: score(models[0], batch),
    )


def took_part(case: Case, algorithm: Algorithm, sent: list[Any]) -> np.ndarray:
    """Return which predictors took part in each round: (rounds, agents)."""
    role = algorithm.predictor
    last = max(k for k, phase in enumerate(algorithm.phases) if role in (phase.source, phase.target))
    agents = tacit.runtime.prepared_topology(algorithm, case.graph, case.channel).roles[role]
    if algorithm.phases[last].answers is not None and algorithm.phases[last].source == role:
        there = np.zeros((ROUNDS, agents), bool)
        for envelope in sent:
            there[envelope.round - 1, envelope.sender] |= envelope.phase == last
        return there
    dynamics = case.graph.dynamics if isinstance(case.graph, Graph) else None
    if isinstance(dynamics, Attendance):
        return np.resize(dynamics.table, (ROUNDS, agents))
    return np.ones((ROUNDS, agents), bool)


def means(models: np.ndarray, there: np.ndarray, first: np.ndarray) -> np.ndarray:
    """Return the mean of each agent's models of the rounds in which it took part, so far."""
    found = []
    for t in range(1, len(models) + 1):
        rows = [models[:t, k][there[:t, k]] for k in range(models.shape[1])]
        found.append([row.mean(axis=0) if len(row) else first for row in rows])
    return np.array(found)


def identical(a: Any, b: Any) -> None:
    for one, two in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True):
        np.testing.assert_array_equal(np.asarray(one), np.asarray(two))


@pytest.mark.parametrize("case", some(CASES, "methods of its kind", daily=DAILY), ids=lambda c: c.name)
def test_a_method_goes_on_as_without_and_its_average_is_the_mean_in_both_runtimes(case: Case) -> None:
    plain, settings = case.make(), {"rounds": ROUNDS, "channel": case.channel, "seed": 3, "dtype": "float64"}
    sent: list[Any] = []
    alone = run_in_process(plain, case.graph, stream(), **settings, watch=sent.append)
    peers = run_in_process(both(case), case.graph, stream(), **settings)
    identical(peers.models[0], alone.models)
    identical(peers.loss, alone.loss)
    identical(peers.messages, alone.messages)
    first = tacit.runtime.first_params(plain, stream().batch_spec(), np.dtype("float32"), None)
    expected = means(alone.models, took_part(case, plain, sent), np.asarray(first))
    np.testing.assert_allclose(peers.models[1], expected, rtol=1e-9, atol=1e-12)

    before = tacit.simulate(plain, case.graph, stream(), progress=False, **settings)
    run = tacit.simulate(both(case), case.graph, stream(), progress=False, **settings)
    inner, average = run.models
    # Another program, in which XLA may add the same numbers in another order.
    np.testing.assert_allclose(inner, before.models, rtol=1e-12, atol=1e-13)
    identical(run.per_round["messages"], before.per_round["messages"])
    assert run.privacy.summary() == before.privacy.summary()
    serving = tacit.peer.in_memory.speakers(plain, tacit.runtime.prepared_topology(plain, case.graph, case.channel))
    np.testing.assert_allclose(average[0], expected[-1][serving], rtol=1e-9, atol=1e-12)


def test_a_tail_predicts_the_same_in_both_runtimes() -> None:
    trial = conformance.Trial(averaged(build("online_push_sum"), "tail"), digraph(), stream(), Channel(), ROUNDS, 3)
    conformance.simulator_equals_peers(trial)


@pytest.mark.covered_by("the trajectories of methods")
@pytest.mark.parametrize("kind", AVERAGES)
def test_an_averaged_method_keeps_the_contract(kind: str) -> None:
    """Restarts, other data and releases as well; the data that its states hold were released."""
    method = averaged(build("online_push_sum", MECHANISMS[1]), kind)
    checks = conformance.check_contract(method, digraph(), stream(), rounds=6)
    assert "no data leave beside the mechanism" in checks


def test_an_average_of_data_in_a_state_stays_with_its_agent() -> None:
    """Of a method whose models hold data: what is sent is what was sent without."""
    plain = build("consensus", MECHANISMS[2])
    assert plain.privacy.composition != "parallel"
    seen: list[list[Any]] = [[], []]
    for method, sent in zip((plain, averaged(plain)), seen, strict=True):
        run_in_process(method, graph_of(plain), stream(), rounds=3, watch=sent.append)
    identical([envelope.message for envelope in seen[0]], [envelope.message for envelope in seen[1]])


def test_a_method_that_sent_such_an_average_would_be_refused() -> None:
    """The checks of data flow see what a state carries along."""
    method = averaged(build("consensus", MECHANISMS[2]))
    (phase,) = method.phases

    def emit(carrying: Any, released: Any, view: Any) -> Any:
        return phase.emit(carrying, released, view)[0], share(carrying.carried.average)

    leaking = method._replace(phases=(phase._replace(emit=emit),))
    with pytest.raises(ContractError, match="carried"):
        tacit.simulate(leaking, graph_of(method), stream(), rounds=2, progress=False)
