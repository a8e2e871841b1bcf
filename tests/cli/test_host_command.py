"""`tacit peer host`: refusals, and real processes that are stopped, killed and gone on with by others."""

import os
import signal
import socket
import subprocess
import sys
from contextlib import contextmanager

import pytest

from benchmarks import hosted
from tacit.config.peer import load_peer
from tacit.deploy.swarm import one_thread
from tests.cli.test_peer_commands import running, status, tacit, until
from tests.deploy.homes import RING, found, job_text

__all__ = ["tacit"]


@contextmanager
def hosting(folder, *options):
    """A `tacit peer host` of its own, which does not outlive the test."""
    command = [sys.executable, "-m", "tacit", "peer", "host", str(folder), *options]
    with (folder / "log.jsonl").open("a") as err:
        process = subprocess.Popen(command, stderr=err, env=one_thread(os.environ))
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()


def test_refusals_are_told_and_nothing_is_written(tacit, tmp_path):
    code, _, err = tacit("host", tmp_path)
    assert (code, str(tmp_path) in err) == (2, True)
    files = found(tmp_path, job_text(), identities=False)
    before = set(tmp_path.rglob("*"))
    code, _, err = tacit("host", tmp_path, "--only", "hospital-x")
    assert (code, "hospital-x" in err) == (2, True)
    text = files["hospital-b"].read_text()
    files["hospital-b"].write_text(text.replace("[operations]", '[operations]\nlog = "text"'))
    code, _, err = tacit("host", tmp_path)
    assert (code, "--log" in err) == (2, True)
    assert set(tmp_path.rglob("*")) == before


@pytest.mark.slow
def test_stopped_killed_and_gone_on_with_by_single_processes(tacit, tmp_path):
    """A hosted peer's store is that of a single one, and the other way round."""
    rounds = "patience = 0.02\ninterval = 0.02\ndeadline = 0.5"
    files = found(tmp_path, job_text("loss_tolerant_push_sum"), rounds=rounds)
    one = files["hospital-a"]

    def controls():
        return [load_peer(file).control.exists() for file in files.values()]

    with hosting(tmp_path) as process:
        until(lambda: all(controls()), process)
        until(lambda: status(tacit, one)["round"] > 5, process)
        assert tacit("stop", files["hospital-b"])[0] == 0
        assert (controls(), process.poll()) == ([True, False, True], None)
        code, _, err = tacit("host", tmp_path)
        assert (code, "hospital-a" in err) == (2, True)
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
    assert not any(controls())
    with running(one) as process:
        until(load_peer(one).control.exists, process)
        assert status(tacit, one)["round"] > 5
        process.kill()
    with hosting(tmp_path) as process:  # control files of the dead are there
        until(lambda: _answers(tacit, one, process), process)
        at = status(tacit, one)["round"]
        process.kill()
    with hosting(tmp_path) as process:
        until(lambda: _answers(tacit, one, process), process)
        assert status(tacit, one)["round"] >= at - 1
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0


def _answers(tacit, file, process):
    code, out, _ = tacit("status", file, "--json")
    return code == 0 and f'"pid": {process.pid}' in out


@pytest.mark.slow
def test_the_exit_code_tells_of_one_that_could_not_start(tmp_path):
    files = found(tmp_path, job_text("loss_tolerant_push_sum"), rounds="patience = 0.02\ndeadline = 0.1\nlast = 3")
    host, _, port = load_peer(files["hospital-c"]).peer.listen.rpartition(":")
    with socket.create_server((host, int(port))), hosting(tmp_path) as process:
        assert process.wait(120) == 2
    last = (tmp_path / "log.jsonl").read_text().splitlines()[-1]
    assert last.startswith("hospital-c: ")
    assert port in last
    assert set(RING) == set(files)


@pytest.mark.slow
def test_sixty_four_peers_go_the_way_of_the_simulator(monkeypatch):
    monkeypatch.setattr(hosted, "ROUNDS", 10)
    assert hosted.measured(64)["furthest"] <= hosted.CLOSE
