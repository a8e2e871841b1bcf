"""Real peers on the board: killed and frozen ones are down within five seconds, come back, and are stopped and started."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys

import pytest

from tacit.config.peer import load_peer
from tacit.deploy.swarm import one_thread
from tests.board.fleets import state, until, watching
from tests.deploy.homes import found, free_ports, job_text
from tests.peer.enrolment import enrol

PAIR = {"hospital-a": ["hospital-b"], "hospital-b": ["hospital-a"]}
DOWN_WITHIN = 5.0
"""Seconds, promised; looks begin twice a second, and one waits 2.5 s for an answer."""
PATIENT = 300.0


class Pair:
    """Two peers on this machine, each a process, and a fleet that names them."""

    def __init__(self, root):
        self.root = root
        ports = dict(zip(PAIR, free_ports(2), strict=True))
        operations = {name: f'status = "127.0.0.1:{port}"' for name, port in ports.items()}
        rounds = "patience = 0.05\ndeadline = 0.5\ninterval = 0.05"
        self.files = found(root, job_text("loss_tolerant_push_sum", PAIR), PAIR, operations=operations, rounds=rounds)
        for role in ("observer", "operator"):
            enrol(root / role, root / "ca", "board", role=role)
        tables = [
            f'[peers.{name}]\naddress = "127.0.0.1:{port}"\n'
            f'start = ["{sys.executable}", "-m", "tacit", "peer", "run", "{self.files[name]}"]\n'
            for name, port in ports.items()
        ]
        self.fleet = root / "fleet.toml"
        self.fleet.write_text('identity = "observer"\noperator = "operator"\nevery = 0.5\n' + "\n".join(tables))

    def pid(self, name):
        return json.loads(load_peer(self.files[name]).control.read_text())["pid"]


@contextlib.asynccontextmanager
async def children(federation):
    """Processes that the board has started do not outlive the test."""
    try:
        yield
    finally:
        for one in federation.peers.values():
            if one.child is not None and one.child.returncode is None:
                one.child.kill()
                await one.child.wait()


def links(federation, name):
    (one,) = [one for one in federation.as_json()["peers"] if one["name"] == name]
    return {(link["peer"], link["direction"]): link["state"] for link in one["links"]}


@pytest.mark.covered_by("tests/board/test_federation.py::test_up_down_and_up_again")
def test_killed_frozen_stopped_and_started(tmp_path, monkeypatch):
    """All of it by the board, as an operator has it."""
    for name, value in one_thread(os.environ).items():
        monkeypatch.setenv(name, value)
    pair = Pair(tmp_path)

    async def scenario():
        async with watching(pair.fleet) as federation, children(federation):
            for name in PAIR:
                await federation.start(name)
            await until(lambda: {state(federation, name) for name in PAIR} == {"up"}, PATIENT)
            whole = {("hospital-b", "in"): "open", ("hospital-b", "out"): "open"}
            await until(lambda: links(federation, "hospital-a") == whole, PATIENT)
            assert links(federation, "hospital-a").keys() == whole.keys()

            os.kill(pair.pid("hospital-b"), signal.SIGKILL)
            await until(lambda: state(federation, "hospital-b") == "down", DOWN_WITHIN)
            await until(lambda: set(links(federation, "hospital-a").values()) == {"dead"}, PATIENT)
            assert state(federation, "hospital-a") == "up"
            await federation.peers["hospital-b"].child.wait()
            await federation.start("hospital-b")
            await until(lambda: state(federation, "hospital-b") == "up", PATIENT)
            await until(lambda: links(federation, "hospital-a") == whole, PATIENT)

            os.kill(pair.pid("hospital-b"), signal.SIGSTOP)
            await until(lambda: state(federation, "hospital-b") == "down", DOWN_WITHIN)
            os.kill(pair.pid("hospital-b"), signal.SIGCONT)
            await until(lambda: state(federation, "hospital-b") == "up", PATIENT)

            for name in PAIR:
                await federation.stop(name)
            await until(lambda: {state(federation, name) for name in PAIR} == {"down"}, PATIENT)
            for name in PAIR:
                assert await federation.peers[name].child.wait() == 0, "each has ended in good order"

    asyncio.run(asyncio.wait_for(scenario(), 4 * PATIENT))
    for name, starts in (("hospital-a", 1), ("hospital-b", 2)):
        lines = [line for line in (tmp_path / f"{name}.log").read_text().splitlines() if "by an operator" in line]
        for act, times in (("start", starts), ("stop", 1)):
            own = [line for line in lines if f"{act}, asked for" in line]
            assert (len(own), all("board" in line for line in own)) == (times, True), "each log names the operator"
    noted = [json.loads(line) for line in (tmp_path / "actions.jsonl").read_text().splitlines()]
    assert [entry["act"] for entry in noted] == ["start", "start", "start", "stop", "stop"]
