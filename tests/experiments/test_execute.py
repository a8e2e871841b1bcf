from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tacit.experiments import Problem, build, parse
from tacit.experiments.execute import execute
from tacit.results import Run, load, load_all


@pytest.fixture(scope="module")
def finished() -> tuple[Problem, list[Run]]:
    from .conftest import EXPERIMENT

    made = build(parse(EXPERIMENT, Path("exp.toml")))
    return made, list(made.runs(progress=False))


class Stops(Problem):
    """A problem whose second algorithm is interrupted, or whose user presses Ctrl-C twice."""

    def runs(self, *shown: object) -> Iterator[Run]:
        first = self.ready[0]  # type: ignore[attr-defined]
        if self.partial:  # type: ignore[attr-defined]
            first.partial = True
        yield first
        if not first.partial:
            raise KeyboardInterrupt


def stops(made: Problem, runs: list[Run], partial: bool) -> Problem:
    stopped = Stops(made.config, made.graph, made.stream, made.objective, made.algorithms, made.channel)
    object.__setattr__(stopped, "ready", [replace(runs[0])])
    object.__setattr__(stopped, "partial", partial)
    return stopped


def test_the_same_seed_gives_the_same_bytes(finished: tuple[Problem, list[Run]], tmp_path: Path) -> None:
    made, _ = finished
    told: list[str] = []
    outcome = execute(made, tmp_path / "a", progress=False, finished=lambda run: told.append(run.label))
    assert told == ["online_push_sum", "alone"]
    assert not outcome.interrupted
    again = build(parse((tmp_path / "a" / "config.toml").read_text(), Path("again.toml")))
    execute(again, tmp_path / "b", progress=False)
    for name in ("online-push-sum", "alone"):
        metrics = [
            json.dumps(json.loads((tmp_path / run / name / "summary.json").read_text())["metrics"])
            for run in ("a", "b")
        ]
        assert metrics[0] == metrics[1]
    assert (tmp_path / "a" / "report.html").exists()


@pytest.mark.parametrize("partial", [True, False])
def test_an_interrupted_experiment_leaves_what_was_done(
    finished: tuple[Problem, list[Run]], tmp_path: Path, partial: bool
) -> None:
    outcome = execute(stops(*finished, partial), tmp_path, progress=False)
    assert outcome.interrupted
    (record,) = load_all(tmp_path)
    assert record.label == "online_push_sum"
    assert record.summary["partial"] is partial


def test_ctrl_c_while_regret_is_computed_keeps_the_run(
    experiment: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(self: Run, *asked: object, **further: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Run, "regret", interrupted)
    outcome = execute(build(parse(experiment, Path("exp.toml"), rounds=3)), tmp_path, progress=False)
    assert outcome.interrupted
    (record,) = load_all(tmp_path)
    assert (record.summary["partial"], record.summary["regret"]) == (False, None)


def test_one_algorithm_is_a_run_directory_of_its_own(experiment: str, tmp_path: Path) -> None:
    text = experiment.rpartition("[[algorithm]]")[0]
    made = build(parse(text, Path("exp.toml"), rounds=3))
    execute(made, tmp_path, command="tacit run exp.toml", progress=False)
    assert load(tmp_path).settings == made.config.settings()
    assert "tacit run exp.toml" in (tmp_path / "report.html").read_text()
