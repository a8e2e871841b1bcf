"""Workers that are killed in the middle: nothing is lost."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tacit.core import extras
from tacit.core.errors import ConfigError
from tacit.sweeps.workers import CLIENT_PORT, Lost, check_place, in_parallel
from tests.own_network import in_own_network

RAY = [
    "ignore::DeprecationWarning:ray",
    "ignore::FutureWarning:ray",
    "ignore::ResourceWarning",
    "ignore::pytest.PytestUnraisableExceptionWarning",
]
"""Warnings of Ray's own."""


def doubled(task: tuple[int, str]) -> int:
    """Double a number; the first process that gets a 3 is killed, and whoever gets a 13 always is."""
    number, folder = task
    if number == 13:
        os.kill(os.getpid(), signal.SIGKILL)
    if number == 3:
        try:
            (Path(folder) / "killed").touch(exist_ok=False)
        except FileExistsError:
            return 6
        os.kill(os.getpid(), signal.SIGKILL)
    if number == 7:
        raise ValueError("seven")
    return 2 * number


def outcomes(folder: Path, numbers: list[int], on: str) -> dict[int, int | Lost]:
    tasks = [(number, str(folder)) for number in numbers]
    return {numbers[ended.task]: ended.result for ended in in_parallel(doubled, tasks, on, 2)}


@pytest.mark.covered_by("tests/sweeps/test_run.py::test_a_process_that_is_killed_in_the_middle_loses_nothing")
def test_a_task_of_a_killed_process_is_done_by_another_and_one_that_always_kills_is_told(tmp_path: Path) -> None:
    found = outcomes(tmp_path, [1, 3, 13, 7, 2], "pool")
    assert (tmp_path / "killed").exists()
    assert {number: found[number] for number in (1, 2, 3)} == {1: 2, 2: 4, 3: 6}
    assert "ValueError: seven" in found[7].reason
    assert isinstance(found[13], Lost)


def test_a_fault_in_this_process_is_told_of_its_task_alone() -> None:
    found = [ended.result for ended in in_parallel(doubled, [(7, ""), (2, "")], workers=1)]
    assert "seven" in found[0].reason
    assert found[1] == 4


@pytest.mark.slow
def test_processes_end_with_whoever_asked_for_them(tmp_path: Path) -> None:
    import multiprocessing

    before = set(multiprocessing.active_children())
    running = in_parallel(doubled, [(number, str(tmp_path)) for number in range(3)], "pool", 2)
    next(running)
    assert set(multiprocessing.active_children()) - before
    running.close()
    assert set(multiprocessing.active_children()) == before


@pytest.mark.slow
@pytest.mark.filterwarnings(*RAY)
@in_own_network
def test_the_same_on_ray(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("ray", reason="the extra `ray` is not installed")
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    found = outcomes(tmp_path, [1, 3, 13, 7, 2], "ray")
    assert (tmp_path / "killed").exists()
    assert {number: found[number] for number in (1, 2, 3)} == {1: 2, 2: 4, 3: 6}
    assert "ValueError: seven" in found[7].reason
    assert isinstance(found[13], Lost)


def answers() -> bool:
    """Whether a Ray lets clients in."""
    with socket.socket() as asked:
        return asked.connect_ex(("127.0.0.1", CLIENT_PORT)) == 0


@contextmanager
def running_ray() -> Iterator[str]:
    """A Ray that somebody else started, which this process goes to as a client."""
    with tempfile.TemporaryDirectory(prefix="ray") as folder:  # its sockets' paths may not be long
        command = ["start", "--head", "--block", "--num-cpus=2", "--include-dashboard=false", f"--temp-dir={folder}"]
        environment = {**os.environ, "RAY_USAGE_STATS_ENABLED": "0", "PYTHONPATH": str(Path(__file__).parents[2])}
        with (Path(folder) / "log").open("w") as log:
            ray = [str(Path(sys.executable).with_name("ray")), *command]
            head = subprocess.Popen(ray, env=environment, stdout=log, stderr=log, start_new_session=True)
            try:
                while not answers():
                    with suppress(subprocess.TimeoutExpired):
                        assert head.wait(0.2) is None, (Path(folder) / "log").read_text()
                yield "ray://127.0.0.1"
            finally:
                head.terminate()
                head.wait(60)
                with suppress(ProcessLookupError):
                    os.killpg(head.pid, signal.SIGKILL)


@pytest.mark.slow
@pytest.mark.filterwarnings(*RAY)
@in_own_network
def test_the_same_on_a_ray_that_runs(tmp_path: Path) -> None:
    pytest.importorskip("ray", reason="the extra `ray` is not installed")
    with running_ray() as on:
        found = outcomes(tmp_path, [1, 3, 7, 2], on)
    assert (tmp_path / "killed").exists()
    assert {number: found[number] for number in (1, 2, 3)} == {1: 2, 2: 4, 3: 6}
    assert "ValueError: seven" in found[7].reason


@pytest.mark.parametrize("on", ["rays", "ray:/host", "slurm", ""])
def test_workers_that_there_are_not_are_refused(on: str) -> None:
    with pytest.raises(ConfigError, match="ray://HOST"):
        check_place(on)


def test_without_ray_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    assert extras.require("json", "ray")
    with pytest.raises(ConfigError, match=r"tacit\[ray\]"):
        check_place("ray")
