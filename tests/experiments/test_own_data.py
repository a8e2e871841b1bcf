"""A file that nobody prepared, through the command line."""

from __future__ import annotations

import runpy
import tomllib
from pathlib import Path

import numpy as np
import pytest

from tacit.cli import main
from tacit.config.experiment import parse
from tacit.core.errors import ConfigError, DataError
from tacit.experiments import build, load

EXAMPLES = Path(__file__).parents[2] / "examples"
FILE = EXAMPLES / "own-data.toml"


def problem(*changes: tuple[str, str]):
    text = FILE.read_text()
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    return build(parse(text, FILE, rounds=5))


def test_the_example_is_ten_lines_and_runs(tmp_path: Path, capsys) -> None:
    lines = [line for line in FILE.read_text().splitlines() if line and not line.startswith("#")]
    assert len(lines) == 10
    with pytest.raises(SystemExit) as left:
        main(["run", str(FILE), "--rounds", "4", "--out", str(tmp_path / "run"), "--log", f"tensorboard={tmp_path}/tb"])
    assert left.value.code == 0
    shown = capsys.readouterr().out
    assert "own-data: 1 algorithm, 6 agents, 4 rounds" in shown
    settings = tomllib.loads((tmp_path / "run" / "config.toml").read_text())
    assert settings["graph"]["agents"] == 6
    assert settings["stream"]["task"] == "binary"
    assert "which no privacy account covers" in (tmp_path / "run" / "report.html").read_text()
    assert (tmp_path / "tb" / "online_push_sum" / "repeat-0" / "events.out.tfevents.0.tacit").stat().st_size > 100


def test_the_file_is_what_its_script_writes(tmp_path: Path) -> None:
    runpy.run_path(str(EXAMPLES / "make_own_data.py"))["write"](tmp_path / "own-data.csv")
    assert (tmp_path / "own-data.csv").read_bytes() == (EXAMPLES / "own-data.csv").read_bytes()


def test_owners_of_unequal_size_read_their_own_rows() -> None:
    stream = problem(("run.rounds", 'stream.exhausted = "mask"\nrun.rounds')).stream(0)
    assert stream.data_size.tolist() == [90, 60, 45, 30, 20, 12]
    batch = stream.chunk(0, 90)
    assert batch.weight.sum(axis=0).tolist() == [90, 60, 45, 30, 20, 12]
    assert batch.x.shape == (90, 6, 9)  # age, days, days is missing, three wards, ward is missing, smoker, ones


def test_rows_come_by_time_and_are_not_shuffled_then() -> None:
    by_time = ("stream.missing", 'stream.time = "admitted"\nstream.missing')
    streams = [problem(by_time, ("run.rounds", "run.seed = 3\nrun.rounds")).stream(3), problem(by_time).stream(0)]
    first, second = (stream.chunk(0, 12).x for stream in streams)
    np.testing.assert_array_equal(first, second)
    with pytest.raises(ConfigError, match=r"shuffle = true .* time = 'admitted'"):
        problem(by_time, ("run.rounds", "stream.shuffle = true\nrun.rounds"))


def test_what_a_private_run_should_use_instead_of_statistics() -> None:
    bounds = "stream.bounds = { age = [0, 100], days = [0, 30], smoker = [0, 1] }\nrun.rounds"
    made = problem(("run.rounds", bounds))
    assert "age, days, smoker scaled" in made.stream(0).description
    assert "no privacy account" not in made.stream(0).description
    own = problem(("run.rounds", 'stream.standardise = "owner"\nrun.rounds')).stream(0)
    assert "each owner's own rows" in own.description


def test_the_private_example_rests_on_nothing_that_was_found_in_all_rows() -> None:
    made = build(load(EXAMPLES / "own-data-private.toml", rounds=4, references=False))
    assert made.stream(0).learnt == ()
    (run,) = made.runs(progress=False)
    assert run.privacy.guarantee is not None
    assert run.privacy.guarantee.epsilon == pytest.approx(4.0)
    assert run.privacy.public == ()


def test_the_task_follows_from_the_objective_and_classes_are_counted() -> None:
    wards = (
        ('"readmitted"', '"ward"'),
        ('"ward", "smoker"', '"smoker"'),
        ('"logistic"', '"softmax"\nobjective.classes = 2'),
    )
    with pytest.raises(DataError, match="column 'ward': .*missing"):
        problem(*wards)
    with pytest.raises(DataError, match=r"label = 'age': .* \d+ classes.* 3; .* classes = "):
        problem(('"readmitted"', '"age"'), ('"age", ', ""), ('"logistic"', '"softmax"\nobjective.classes = 3'))
    ages = problem(('"readmitted"', '"age"'), ('"age", ', ""), ('"logistic"', '"squared"')).stream(0)
    assert ages.chunk(0, 1).y.max() > 20
