"""examples/hospitals: what its scripts write is what peers can use. The whole of it takes a minute and is run by hand."""

import asyncio
import configparser
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tacit.config.peer import load_peer
from tacit.deploy.assignment import plan_of
from tacit.deploy.check import check_peers
from tacit.peer.sources.file_follower import FileTail
from tests.deploy.homes import certify
from tests.peer.followed import Records

HERE = Path(__file__).parents[2] / "examples" / "hospitals"
NAMES = [f"hospital-{letter}" for letter in "abcde"]
STAND_IN = """#!/usr/bin/env bash
echo "$@" >> "$CALLS"
case "$1 $2" in
  "ledger show") echo "ledger of $3" ;;
  "peer run") [ -z "${FAIL:-}" ] || exit 3 ;;
esac
"""


@pytest.fixture
def script(tmp_path):
    """Run a script with a stand-in for tacit, which notes how it was called."""
    stand_in = tmp_path / "tacit"
    stand_in.write_text(STAND_IN)
    stand_in.chmod(0o755)

    def call(name, *arguments, **variables):
        own = {"TACIT": str(stand_in), "PYTHON": sys.executable, "CALLS": str(tmp_path / "calls"), "ROUNDS": "5"}
        return subprocess.run(
            [str(HERE / name), *map(str, arguments)],
            env={"PATH": os.environ["PATH"], **own, **variables},
            check=False, capture_output=True, text=True, timeout=600,
        )  # fmt: skip

    call.calls = lambda: (tmp_path / "calls").read_text().splitlines()
    return call


@pytest.mark.parametrize("hosts", ["loopback", "names"])
def test_the_files_make_a_federation(tmp_path, script, hosts):
    work = tmp_path / "work"
    done = script("prepare.sh", work, HOSTS=hosts, ROUNDS="5" if hosts == "loopback" else "none")
    assert done.returncode == 0, done.stderr
    certify(work, NAMES)
    files = [work / name / "peer.toml" for name in NAMES]
    report = check_peers(files)
    assert report.faults == []
    assert any("'loss_tolerant_push_sum' may run" in line for line in report.lines)
    peers = [load_peer(file) for file in files]
    a, b = peers[:2]
    assert all(plan_of(peer).booked for peer in peers)
    assert "hospital-b" in a.addresses
    assert "hospital-a" not in b.addresses  # one-sided
    if hosts == "loopback":
        assert a.addresses["hospital-b"] == b.peer.listen
        assert a.rounds.last == 5
    else:
        assert a.addresses["hospital-b"] == "hospital-b:7443"
        assert (b.peer.listen, b.operations.port, b.rounds.last) == ("0.0.0.0:7443", 9100, None)


def test_the_patients_are_samples_of_the_job(tmp_path, script):
    work = tmp_path / "work"
    script("prepare.sh", work)
    peer = load_peer(work / "hospital-c" / "peer.toml")
    tail = FileTail(
        peer.beside(peer.stream.path),
        peer.job.form,
        format="csv",
        label=peer.stream.label,
        known=Records(),
        features=peer.stream.columns,
    )

    async def read():
        taken = await tail.take(1000, 0.0)
        await tail.close()
        return taken.samples

    samples = asyncio.run(read())
    assert len(samples) == 5 * peer.job.settings.batch
    assert tail.not_learnt.bad == 0
    assert {sample.y for sample in samples} == {-1.0, 1.0}


def test_start_runs_all_five_and_waits_for_them(tmp_path, script):
    work = tmp_path / "work"
    done = script("start.sh", work)
    assert done.returncode == 0, done.stderr
    ran = sorted(call for call in script.calls() if call.startswith("peer run"))
    assert ran == [f"peer run {work}/{name}/peer.toml" for name in NAMES]
    assert f"peer check {' '.join(f'{work}/{name}/peer.toml' for name in NAMES)}" in script.calls()
    for name in NAMES:
        assert f"{name}:\nledger of {work}/{name}/state/store.db\n" in done.stdout


def test_a_peer_that_fails_is_told(tmp_path, script):
    done = script("start.sh", tmp_path / "work", FAIL="yes")
    assert done.returncode == 1
    assert "exit code 3" in done.stderr


def test_what_is_there_is_not_overwritten(tmp_path, script):
    done = script("start.sh", tmp_path)
    assert done.returncode == 2
    assert "is there already" in done.stderr


def test_the_unit_runs_the_command_that_there_is():
    unit = configparser.ConfigParser(strict=True, interpolation=None)
    unit.optionxform = str
    unit.read_string((HERE / "tacit-peer@.service").read_text())
    service = unit["Service"]
    assert shlex.split(service["ExecStart"])[1:] == ["peer", "run", "/etc/tacit/%i/peer.toml"]
    assert service["Restart"] == "on-failure"
    assert int(service["TimeoutStopSec"]) > 60  # what `tacit peer stop` waits at most
    assert "MemoryDenyWriteExecute" not in service  # XLA compiles


def test_the_containers_are_the_members_of_the_job():
    text = (HERE / "compose.yaml").read_text()
    job = re.findall(r'"(hospital-\w)"', (HERE / "job.toml").read_text())
    assert re.findall(r"^  (hospital-\w):$", text, re.MULTILINE) == job
    for name in job:
        assert f"command: [peer, run, /federation/{name}/peer.toml]" in text
        assert f"./federation/{name}:/federation/{name}\n" in text
