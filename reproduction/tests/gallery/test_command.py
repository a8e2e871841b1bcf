from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from reproduction.tests.gallery.test_pages import finished
from tacit.cli import main
from tacit_reproduction import gallery
from tacit_reproduction.gallery import Finished

NAMES = ("ops-occupancy", "ops-susy")


@pytest.fixture
def ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Finished]:
    """What a run of two experiments comes to, of which a test may change the second; the run itself is left out."""
    outcomes = [finished(name, tmp_path / "out") for name in NAMES]

    def reproduce_all(experiments, out, watcher, quick, seed, jobs, minutes, on) -> list[Finished]:
        assert (out, quick, seed, jobs, on) == (tmp_path / "out", True, 3, 2, "pool")
        assert minutes.keys() == {experiment.name for experiment in experiments}
        for outcome in outcomes:
            watcher.started(outcome.experiment)
            watcher.tick()
            watcher.finished(outcome)
        return outcomes

    monkeypatch.setattr(gallery, "reproduce_all", reproduce_all)
    return outcomes


def command(tmp_path: Path, *more: str) -> int:
    arguments = ["reproduce", "--all", "--quick", "--seed", "3", "--jobs", "2", "--out", str(tmp_path / "out"), *more]
    with pytest.raises(SystemExit) as left:
        main(arguments)
    return int(str(left.value.code))


def test_every_outcome_is_a_line_and_the_gallery_is_named(ended, tmp_path: Path, capsys) -> None:
    ended[1] = ended[1]._replace(kept=True)
    assert command(tmp_path) == 0
    said = capsys.readouterr().out
    assert "[ 1/30] ops-occupancy: 1 of 2 claims hold, " in said
    assert "[ 2/30] ops-susy: 1 of 2 claims hold, done before" in said
    assert "2 of 2 experiments ran; 2 of 4 claims hold" in said
    assert f"gallery: {tmp_path / 'out' / 'index.html'}" in said
    assert (tmp_path / "out" / "index.html").is_file()
    assert command(tmp_path, "--strict") == 1


def test_an_experiment_that_did_not_run_is_named_and_is_exit_code_1(ended, tmp_path: Path, capsys) -> None:
    ended[1] = ended[1]._replace(summary=None, fault="rows.csv is not there")
    assert command(tmp_path) == 1
    said = capsys.readouterr()
    assert "[ 2/30] ops-susy: did not run: rows.csv is not there" in said.out
    assert "error: ops-susy did not run: rows.csv is not there" in said.err
    assert "1 of 2 experiments ran" in said.out


def test_on_a_terminal_what_runs_is_shown_too(ended, tmp_path: Path, capsys, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    assert command(tmp_path) == 0
    assert "of 30 experiments, 0:0" in capsys.readouterr().err


def test_the_module_of_the_entry_point_can_be_imported_first() -> None:
    subprocess.run([sys.executable, "-c", "import tacit_reproduction.command, tacit.cli"], check=True)
