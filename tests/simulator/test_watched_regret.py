"""Regret so far: against stated models, whole where the sample is, never above the true one, and only in the time given."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest

import tacit
from tacit.results.live import Part
from tacit.simulator.watching import compared, told

OBJECTIVE = tacit.objectives.logistic(l2=1e-2)
AGENTS, ROUNDS = 4, compared.MOST_ROUNDS
"""As many rounds as a sample has, and fewer learners than it takes of one: it is then all of the data."""


def watched(monkeypatch: pytest.MonkeyPatch, at: tuple[int, ...], **settings: Any) -> tuple[Any, Any, dict[int, Any]]:
    monkeypatch.setattr(told, "EVERY", 0.0)
    monkeypatch.setattr(told, "LONGEST", 1e9)
    found, models = {}, {}

    def watch(part: Part) -> None:
        if part.rounds and part.done in at and not part.ended:
            found[part.done] = part.sights.regret(1e9, 1.0)

    stream = tacit.streams.logistic_drift(AGENTS, 3, rounds=ROUNDS, seed=2)
    method = tacit.algorithms.online_push_sum(OBJECTIVE, step=0.3)

    def mean(model: Any) -> Any:
        models[len(models)] = np.asarray(model).mean(axis=0)
        return 0.0

    settings = {"record": {"mean": mean}, "record_every": ROUNDS // 2, **settings}
    run = tacit.simulate(method, tacit.graphs.directed_ring(AGENTS), stream, rounds=ROUNDS, watch=watch, **settings)
    batch = stream.chunk(0, ROUNDS)
    each = jax.vmap(jax.vmap(OBJECTIVE.loss, (None, 0)), (None, 0))
    losses = [float(np.mean(each(model, batch))) for model in models.values()]
    return run, found, {"losses": losses}


def test_the_sample_of_as_many_rounds_is_all_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    run, found, known = watched(monkeypatch, (ROUNDS,))
    value, low, high = found[ROUNDS]
    assert value == pytest.approx(float(run.per_round["loss"][0].mean()) - known["losses"][-1], abs=1e-5)
    assert low < value < high
    true = float(run.regret(points=1).per_agent_round[0, -1])
    assert 0 < value <= true + 1e-6


def test_the_best_of_the_models_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    run, found, known = watched(monkeypatch, (ROUNDS // 2, ROUNDS))
    expected = float(run.per_round["loss"][0].mean()) - min(known["losses"])
    assert found[ROUNDS][0] == pytest.approx(expected, abs=1e-5)


def test_without_the_time_nothing_is_looked_at() -> None:
    stream = tacit.streams.logistic_drift(AGENTS, 3, rounds=ROUNDS)
    one = compared.Compared(OBJECTIVE, stream, np.ones(AGENTS, bool), np.float32)

    def never() -> Any:
        raise AssertionError("there was no time for it")

    for seconds in (0.0, compared.COMPILING, -1.0):
        assert one.after(ROUNDS, never, never, seconds, 1000.0) is None
    assert one.after(ROUNDS, lambda: 1.0, lambda: np.zeros((AGENTS, 3), np.float32), 1e9, 1000.0) is not None
    assert one.after(ROUNDS, never, never, 1e-6, 1000.0) is None, "by now it is known what it takes"


def test_clients_that_are_called_alone_have_none(monkeypatch: pytest.MonkeyPatch) -> None:
    found = []
    tacit.simulate(
        tacit.algorithms.fedavg(OBJECTIVE, step=0.1, cohort=2),
        tacit.graphs.star_roles(AGENTS),
        tacit.streams.logistic_drift(AGENTS, 3),
        rounds=4,
        evaluate="cohort",
        watch=lambda part: found.append(part.sights.regret(1e9, 1.0)),
    )
    assert set(found) == {None}
