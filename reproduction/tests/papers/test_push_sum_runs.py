from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import pytest

from tacit.core.errors import DataError, TacitError
from tacit.results.sealed import json_bytes
from tacit_reproduction.datasets import fetch as datasets
from tacit_reproduction.push_sum import cells, evidence, study
from tacit_reproduction.push_sum.cells import Deal, Plan, deal_out, evaluate, make_graph, make_stream
from tacit_reproduction.push_sum.design import Cell, Design, Samples, Setting, cell_of, load
from tacit_reproduction.push_sum.evidence import gather
from tacit_reproduction.workers import crew


class Fake(NamedTuple):
    """An algorithm that only has a name and a step."""

    name: str
    step: float


def fake_simulate(
    algorithm: Fake, graph: Any, stream: Any, *, rounds: int, repeats: int, seed: int, **_: Any
) -> SimpleNamespace:
    """Stand in for the simulator, whose compiling takes time: a loss with one valley in the step."""
    level = 0.3 + np.log2(algorithm.step) ** 2 / 50 + len(algorithm.name) / 100
    loss = np.array(
        [
            level + len(graph(s).senders) / 100 + stream(s).chunk(0, rounds).y.mean(axis=1) / 10
            for s in range(seed, seed + repeats)
        ]
    )
    return SimpleNamespace(per_round={"loss": loss, "accuracy": 1 - loss}, partial=False)


@pytest.fixture
def quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replace simulation."""
    methods = {name: lambda objective, step, name=name: Fake(name, step) for name in cells.METHODS}
    monkeypatch.setattr(cells, "METHODS", methods)
    monkeypatch.setattr(cells, "finished_run", fake_simulate)


@pytest.mark.usefixtures("quickly")
def test_experiment_has_all_parts_and_the_same_seed_gives_the_same_bytes(micro: Design, samples: Samples) -> None:
    findings, again = (study.investigate(micro, samples, seed=0, workers=1) for _ in range(2))
    assert json_bytes(again.metrics) == json_bytes(findings.metrics)
    assert again.claims == findings.claims
    assert [figure.png for figure in again.figures] == [figure.png for figure in findings.figures]
    assert len(findings.claims) == 14
    assert {figure.name for figure in findings.figures} == {"comparison", "sizes", "densities", "local"}
    words = [*(figure.caption for figure in findings.figures), findings.tables[0].note, findings.method[-1]]
    assert all("None of these runs is private" in text for text in words)
    assert findings.metrics["rounds"] == 12
    figures = findings.metrics["cells"]
    assert {cell["method"] for cell in figures} == set(micro.starts)
    assert all(len(cell["average_loss"]["values"]) == micro.seeds for cell in figures)
    assert {cell["step"] for cell in figures} == {0.5, 1.0}
    assert not any(cell["step_at_edge_of_grid"] for cell in figures)
    assert findings.data["description"] == "two blobs, 60 rows made up"


@pytest.mark.usefixtures("quickly")
def test_another_seed_gives_other_figures(micro: Design, samples: Samples) -> None:
    first, second = (gather(micro, samples, seed, _one_by_one).outcomes for seed in (0, 1))
    assert first.keys() == second.keys()
    assert all(not np.array_equal(first[cell].loss, second[cell].loss) for cell in first)


@pytest.mark.usefixtures("quickly")
def test_controls_are_run_only_where_size_does_harm(
    micro: Design, samples: Samples, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = cell_of("COL", Setting(4, 2, 1.0))
    for harmless in (True, False):
        monkeypatch.setattr(evidence, "_size_is_harmless", lambda found, fraction, h=harmless: h)
        assert (small in gather(micro, samples, 0, _one_by_one).outcomes) is not harmless


def _one_by_one(what: str, do: Any, tasks: Any) -> list[Any]:
    return [do(task) for task in tasks]


def plan(samples: Samples, setting: Setting, seeds: range, rounds: int, method: str = "OPS") -> Plan:
    holders = tuple(deal_out((samples, Deal(setting.nodes, setting.fraction, seed))) for seed in seeds)
    return Plan(samples, cell_of(method, setting), rounds, seeds.start, holders)


@pytest.mark.slow
def test_a_cell_has_the_same_bytes_each_time_in_any_process(samples: Samples) -> None:
    task = (plan(samples, Setting(5, 2, 0.5), range(2), 6), 0.5)
    here, again = evaluate(task), evaluate(task)
    with crew(2) as team:
        there = team("running", evaluate, [task, task])
        with pytest.raises(DataError, match="task 1 is bad"):
            team("failing", _fail, [1])
    assert {outcome.loss.tobytes() for outcome in (here, again, *there)} == {here.loss.tobytes()}
    assert not np.array_equal(here.loss[0], here.loss[1])


def test_tuning_and_evaluation_share_no_seed() -> None:
    for design in (study.OCCUPANCY_FULL, study.OCCUPANCY_QUICK, study.SUSY_FULL, study.SUSY_QUICK):
        assert design.seeds >= 10
        assert design.seeds <= 500
        assert design.tuning_seeds < 500


def test_methods_meet_the_same_graphs_and_samples(samples: Samples) -> None:
    setting = Setting(5, 2, 0.5)
    holder = deal_out((samples, Deal(5, 0.5, 3)))
    one, two = (make_stream(samples, holder, 6, 3).chunk(0, 6) for _ in range(2))
    np.testing.assert_array_equal(one.x, two.x)
    assert np.array_equal(make_graph(5, 2, 3).senders, make_graph(5, 2, 3).senders)
    ops, local = (evaluate((plan(samples, setting, range(3, 5), 6, m), 0.5)) for m in ("OPS", "Local OGD"))
    # Everybody starts from zero, so the first losses depend on the samples alone.
    np.testing.assert_allclose(ops.loss[:, 0], local.loss[:, 0], rtol=1e-6)
    assert not np.allclose(ops.loss[:, -1], local.loss[:, -1])


def test_every_sample_is_dealt_to_one_node(samples: Samples) -> None:
    for fraction in (1.0, 0.5):
        holder = deal_out((samples, Deal(5, fraction, 0)))
        assert set(holder) == set(range(5))
    even = np.bincount(deal_out((samples, Deal(5, 1.0, 0))))
    assert np.ptp(even) <= 1


def test_running_average_ends_at_the_average(samples: Samples) -> None:
    outcome = evaluate((plan(samples, Setting(5, 2, 1.0), range(2), 6), 0.5))
    np.testing.assert_allclose(outcome.running[:, -1], outcome.average)
    np.testing.assert_allclose(outcome.running[:, 0], np.log(2), rtol=1e-6)


def test_a_cell_is_run_once_however_often_it_is_needed(micro: Design) -> None:
    listed = micro.cells()
    assert len(listed) == len(set(listed))
    # The ends of both sweeps are the main setting here, and COL does not care for the bound.
    assert len(listed) == 2 * (5 + 1 + 1)
    assert cell_of("COL", Setting(5, 2, 1.0)) == cell_of("COL", Setting(5, 3, 1.0)) == Cell("COL", Setting(5, 4, 1.0))


def test_shared_steps_are_those_of_the_first_fraction(micro: Design) -> None:
    cell = Cell("OPS", Setting(5, 2, 0.5))
    assert micro.tuned_as(cell) == Cell("OPS", Setting(5, 2, 1.0))
    assert replace(micro, shared_steps=False).tuned_as(cell) == cell


def _fail(task: int) -> int:
    raise DataError(f"task {task} is bad")


def test_a_fault_in_a_task_comes_out_as_it_is() -> None:
    with pytest.raises(DataError, match="task 1 is bad"), crew(1) as team:
        team("failing", _fail, [1, 2, 3])


def _die(task: int) -> int:
    import os

    os._exit(1)


def test_a_worker_that_dies_is_explained() -> None:
    with pytest.raises(TacitError, match="ended without a word"), crew(2) as team:
        team("dying", _die, [1])


def test_absent_data_are_refused_with_the_places_looked_into(nowhere: Path) -> None:
    for experiment in (study.OCCUPANCY, study.SUSY):
        with pytest.raises(DataError, match=str(nowhere / "data")):
            experiment.run(True, nowhere / "out", 0)
    assert not (nowhere / "out").exists()


def test_an_unknown_data_set_is_refused() -> None:
    with pytest.raises(DataError, match="'mnist'"):
        load("mnist")


@pytest.mark.data
@pytest.mark.parametrize(("name", "rows"), [("occupancy", 20_560), ("susy", 39_930)])
def test_real_data_are_learnt(name: str, rows: int) -> None:
    if not datasets.available(name):
        pytest.skip(datasets.where(name))
    samples = load(name)
    assert samples.rows == rows
    assert samples.complete == (name == "occupancy")
    if name == "susy":
        assert "a random subset of 39,930 of 5,000,000 rows" in samples.description
    np.testing.assert_allclose(samples.x[:, :-1].mean(axis=0), 0, atol=1e-4)
    assert np.all(samples.x[:, -1] == 1)
    outcome = evaluate((plan(samples, Setting(20, 5, 1.0), range(2), 100, "COL"), 0.3))
    assert np.all(outcome.loss[:, -50:].mean(axis=1) < 0.9 * np.log(2))
