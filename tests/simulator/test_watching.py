"""Runs that are watched: the same figures to the bit, however pieces are cut, and all of them told of once."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import tacit
from tacit.results.live import Part
from tacit.simulator.watching import told

OBJECTIVE = tacit.objectives.logistic()
NOISE = tacit.privacy.laplace(2.0, clip=1.0)
RING = tacit.graphs.directed_ring(6)
METHODS = {
    "push sum, private": (tacit.algorithms.online_push_sum(OBJECTIVE, step=0.3, mechanism=NOISE), RING, {}),
    "late messages": (
        tacit.algorithms.loss_tolerant_push_sum(OBJECTIVE, step=0.3),
        RING,
        {"channel": tacit.graphs.Channel(0.2, tacit.graphs.Delay(0.5, 3))},
    ),
    "cohorts": (tacit.algorithms.fedavg(OBJECTIVE, step=0.1), tacit.graphs.star_roles(6), {}),
}


def data(seed: int) -> tacit.streams.Stream:
    return tacit.streams.logistic_drift(6, 3, seed=seed)


@pytest.mark.parametrize("name", METHODS)
def test_figures_are_those_of_a_run_that_nobody_watches(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    method, graph, settings = METHODS[name]
    monkeypatch.setattr(told, "EVERY", 0.0)
    monkeypatch.setattr(told, "LONGEST", 1e-9)  # every piece is one round
    parts: list[Part] = []
    settings = {"rounds": 17, "repeats": 2, "record_every": 5, **settings}
    seen = tacit.simulate(method, graph, data, watch=[parts.append], **settings)
    alone = tacit.simulate(method, graph, data, **settings)
    for key, values in alone.per_round.items():
        assert np.array_equal(seen.per_round[key], values, equal_nan=True), key
    assert np.array_equal(np.asarray(seen.models), np.asarray(alone.models))
    assert seen.privacy.guarantee == alone.privacy.guarantee
    assert [part.done for part in parts] == [0, *range(1, 18), 17]
    for key in ("loss", "bits", "messages"):
        heard = np.concatenate([part.figures[key] for part in parts if part.rounds])
        assert np.array_equal(heard.T, alone.per_round[key]), key
    recorded = [part for part in parts if part.recorded is not None]
    assert [at for part in recorded for at in part.recorded_rounds] == [5, 10, 15, 17]
    found = np.concatenate([part.recorded["consensus"] for part in recorded if part.recorded is not None])
    assert np.array_equal(found.T, alone.recorded["consensus"])
    assert [part.ended for part in parts] == [""] * 18 + ["done"]


def test_data_that_come_in_chunks_are_cut_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(told, "LONGEST", 1e-9)
    monkeypatch.setattr("tacit.simulator.data.RESIDENT_BYTES", 0)
    monkeypatch.setattr("tacit.simulator.data.CHUNK_BYTES", 1000)
    method, graph, _ = METHODS["push sum, private"]
    runs = [tacit.simulate(method, graph, data, rounds=23, watch=watch) for watch in ((), lambda part: None)]
    assert np.array_equal(runs[0].per_round["loss"], runs[1].per_round["loss"])


def test_what_is_spent_and_who_is_where_can_be_asked(tmp_path: Path) -> None:
    method, graph, _ = METHODS["push sum, private"]
    found = {}

    def watch(part: Part) -> None:
        if part.ended:
            found.update(spent=part.sights.spent(), agents=part.sights.agents(), drawing=part.sights.drawing())

    run = tacit.simulate(method, graph, data, rounds=12, watch=watch)
    epsilon, each = found["spent"]
    assert run.privacy.guarantee is not None
    assert epsilon == run.privacy.guarantee.epsilon
    assert each.tolist() == [epsilon] * 6
    assert set(found["agents"]) == {"loss", "disagreement", "mass"}
    assert found["drawing"].agents == 6
