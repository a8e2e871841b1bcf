"""`tacit run` of one experiment by several processes, and by several devices of one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tacit.cli import app
from tests.simulator.several import free_port, started

FILE = """
[run]
rounds = 12
repeats = 2
dtype = "float64"
{devices}
[graph]
kind = "random_digraph"
agents = 9
out_degree = 3

[stream]
kind = "logistic_drift"
dim = 3

[objective]
kind = "logistic"

[[algorithm]]
name = "online_push_sum"
step = 0.3
"""
TIMES = {"seconds", "compile_seconds"}
NUMBER = 1e-9
"""Of a summary; losses themselves are held to less, see `test_shards`."""


def figures_of(folder: Path) -> dict[str, Any]:
    """Return all numbers of a run's summary but those of the clock."""

    def found(value: Any, path: str) -> dict[str, Any]:
        if isinstance(value, dict):
            inner = [found(v, f"{path}/{k}") for k, v in value.items() if k not in TIMES]
        elif isinstance(value, list):
            inner = [found(v, f"{path}/{k}") for k, v in enumerate(value)]
        else:
            return {path: value} if isinstance(value, int | float) else {}
        return {path: value for each in inner for path, value in each.items()}

    return found(json.loads((folder / "summary.json").read_text()), "")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same experiment by one device, by two of one process, and by two processes."""
    folder = tmp_path_factory.mktemp("together")
    (folder / "one.toml").write_text(FILE.format(devices=""))
    (folder / "several.toml").write_text(FILE.format(devices="devices = 2"))
    command = ("-W", "ignore", "-m", "tacit", "run", "several.toml", "--out")
    meeting = ("--coordinator", f"127.0.0.1:{free_port()}", "--processes", "2", "--process")
    started_here = [started(*command, f"of-{k}", *meeting, str(k), folder=folder) for k in (0, 1)]
    started_here.append(started(*command, "devices", devices=2, folder=folder))
    alone = CliRunner().invoke(app, ["run", str(folder / "one.toml"), "--out", str(folder / "one")])
    for process in started_here:
        process.communicate(timeout=600)
    assert [alone.exit_code, *(process.returncode for process in started_here)] == [0, 0, 0, 0]
    return folder


@pytest.mark.parametrize("several", ["of-0", "devices"])
def test_a_command_of_several_gives_the_summary_of_one(folder: Path, several: str) -> None:
    assert figures_of(folder / several) == pytest.approx(figures_of(folder / "one"), rel=NUMBER, abs=NUMBER)


def test_the_first_process_alone_writes(folder: Path) -> None:
    assert (folder / "of-0" / "report.html").exists()
    assert not (folder / "of-1").exists()


def test_the_first_process_tells_the_board(folder: Path) -> None:
    (live,) = (folder / "of-0").glob(".tacit-live/*.jsonl")
    told = [json.loads(line) for line in live.read_text().splitlines()]
    assert told[-1]["end"] == "done"
