from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import tacit
from tacit.config.wording import in_toml
from tacit.core.errors import DataError, TacitError
from tacit.experiments import Problem, build, parse
from tacit.experiments.execute import execute
from tacit.metrics.divergence import divergence
from tacit.results import Run, load_all
from tacit.simulator.progress import Progress

UNSUITABLE = '\n[[algorithm]]\nname = "adapt_then_combine"\n'
"""It needs links that go both ways."""


def test_a_method_that_cannot_run_is_listed_and_the_others_run(experiment: str, tmp_path: Path) -> None:
    config = parse(experiment.replace("[run]", "[run]\nseed = 1") + UNSUITABLE, Path("exp.toml"), rounds=3)
    with pytest.raises(TacitError):
        build(config)
    made = build(config, strict=False)
    assert made.config.labels == ("online_push_sum", "alone")
    outcome = execute(made, tmp_path, progress=False)
    assert [each.label for each in outcome.comparison.refused] == ["adapt_then_combine"]
    assert "[[algorithm]] 3" in outcome.comparison.refusals()[0]
    row = outcome.comparison.further_rows()[-1]
    assert row[:2] == ("adapt_then_combine", "refused")
    assert len(row) == len(outcome.comparison.columns())
    assert len(load_all(tmp_path)) == 2
    assert json.loads((tmp_path / "summary.json").read_text())["refused"][0]["label"] == "adapt_then_combine"
    assert (tmp_path / "report.html").read_text().count("adapt_then_combine") >= 2


def test_one_that_is_refused_when_it_is_tried_does_not_stop_the_others(
    experiment: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = build(parse(experiment, Path("exp.toml"), rounds=3), strict=False)
    real = Problem._run

    def refuses(self: Problem, algorithm: object, *shown: object) -> Run:
        if algorithm is self.algorithms[0]:
            raise DataError("no rows for it")
        return real(self, algorithm, *shown)  # type: ignore[arg-type]

    monkeypatch.setattr(Problem, "_run", refuses)
    outcome = execute(made, None, progress=False)
    assert [record.label for record in outcome.comparison.records] == ["alone"]
    assert outcome.comparison.refused == (("online_push_sum", "no rows for it"),)
    strict = build(parse(experiment, Path("exp.toml"), rounds=3))
    with pytest.raises(DataError):
        execute(strict, None, progress=False)


def test_where_none_can_run_all_reasons_are_told(experiment: str) -> None:
    text = experiment.partition("[[algorithm]]")[0] + UNSUITABLE + UNSUITABLE + 'label = "again"\n'
    with pytest.raises(TacitError, match=r"(?s)\[\[algorithm\]\] 1.*again: .*\[\[algorithm\]\] 2"):
        build(parse(text, Path("exp.toml"), seed=1), strict=False)


def test_a_step_that_is_far_too_large_is_said(experiment: str) -> None:
    text = experiment.replace("step = 0.3", "step = 1e6").replace("l2 = 1e-2", "l2 = 0.0")
    records = execute(build(parse(text, Path("exp.toml"), rounds=20)), None, progress=False).comparison.records
    fine, wild = records
    assert fine.divergence is None
    assert wild.summary["divergence"]["round"] == 2
    assert wild.summary["divergence"]["repeats"] == 2
    assert not wild.summary["diverged"]  # its loss is a number, of some 1e5
    assert wild.divergence is not None
    assert "1e+06" in wild.divergence


def test_a_spike_that_is_over_is_no_divergence() -> None:
    stream, objective = tacit.streams.logistic_drift(agents=3, dim=2), tacit.objectives.logistic()
    loss = np.full((2, 40), 0.6)
    loss[0, 3:8] = 1e6
    assert divergence(objective, [stream], loss) is None
    loss[1, 30:] = np.nan
    found = divergence(objective, [stream], loss)
    assert found is not None
    assert (found.round, found.repeats, found.loss) == (31, 1, None)


def test_regret_tells_how_far_it_is(experiment: str) -> None:
    made = build(parse(experiment.replace("regret_points = 2", "regret_points = 0"), Path("exp.toml")))
    told: list[tuple[int, int]] = []
    run = next(made.runs(progress=False))
    assert run.known_regret is None
    run.regret(2, told=lambda done, of: told.append((done, of)))
    assert told[0] == (0, 4)  # two repeats, each with a stream of its own
    assert told[-1] == (4, 4)
    assert run.regret_seconds > 0


def test_a_bar_takes_its_length_from_what_it_is_told() -> None:
    with Progress(8, 0, "regret", shown=True) as bar:
        bar.of(1, 3)
        assert (bar._bar.tasks[0].total, bar._bar.tasks[0].completed) == (3, 1)


@pytest.mark.parametrize(
    ("python", "toml"),
    [
        ("say missing='indicate' or missing=['age']", 'say missing = "indicate" or missing = ["age"]'),
        ("or let it start over (exhausted='cycle')", 'or let it start over (exhausted = "cycle")'),
        ("say apart=True", "say apart = true"),
        ("as they come (batch_size=None)", "as they come (no batch_size)"),
        ("use graph.with_weights('sender')", 'use weights = "sender" in [graph]'),
        (
            "LinkDrop may leave a link up: LinkDrop(..., symmetric=True)",
            'link_drop may leave a link up: dynamics = {kind = "link_drop", symmetric = true, ...} in [graph]',
        ),
        ("standardise = false (in Python by=None)", "standardise = false"),
        ("alpha=-0.5: expected a number", "alpha = -0.5: expected a number"),
        ("data/year=2020/part.csv, line 3: 7 fields", "data/year=2020/part.csv, line 3: 7 fields"),
        ("year=2020/k=1.csv: there is no such file", "year=2020/k=1.csv: there is no such file"),
        ("W[i, j] == 0 and x=y", "W[i, j] == 0 and x=y"),
    ],
)
def test_remedies_in_the_words_of_a_file(python: str, toml: str) -> None:
    assert in_toml(python) == toml


def test_a_fault_of_a_run_is_told_in_the_words_of_a_file(tmp_path: Path) -> None:
    np.savez(tmp_path / "rows.npz", X=np.ones((6, 2)), y=np.tile([0, 1], 3))
    text = """
[run]
rounds = 50
[graph]
kind = "ring"
agents = 3
[stream]
kind = "npz"
path = "rows.npz"
label = "y"
exhausted = "stop"
[objective]
kind = "logistic"
[[algorithm]]
name = "local_online"
"""
    with pytest.raises(DataError, match='exhausted = "cycle"'):
        list(build(parse(text, tmp_path / "exp.toml")).runs(progress=False))
