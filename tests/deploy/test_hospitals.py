"""examples/hospitals: what its scripts write is what peers can use. The whole of it takes a minute and is run by hand."""

import asyncio
import configparser
import json
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tacit.config.peer import load_peer
from tacit.deploy.assignment import plan_of
from tacit.deploy.check import check_peers
from tacit.peer.operations.service_manager import notify
from tacit.peer.sources.file_follower import FileTail
from tests.deploy.homes import certify, found, job_text
from tests.deploy.peers import alone
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


def unit_of_the_service():
    unit = configparser.ConfigParser(strict=True, interpolation=None)
    unit.optionxform = str
    unit.read_string((HERE / "tacit-peer@.service").read_text())
    return unit["Service"]


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd-analyze on the path")
def test_systemd_knows_every_setting_of_the_unit(tmp_path):
    text = (HERE / "tacit-peer@.service").read_text().replace("/opt/tacit/bin/tacit", sys.executable)
    unit = tmp_path / "tacit-peer@x.service"
    unit.write_text(text)
    done = subprocess.run(["systemd-analyze", "verify", unit], check=False, capture_output=True, text=True, timeout=120)
    assert [line for line in done.stderr.splitlines() if unit.name in line] == []


def test_the_units_command_says_when_it_is_ready_and_ends_well(tmp_path):
    """What systemd does with the unit: its ExecStart, umask and folder, a socket for READY=1, and SIGTERM."""
    service, file = unit_of_the_service(), alone(tmp_path)
    told = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    told.bind(str(tmp_path / "notify"))
    told.settimeout(300)
    _, *arguments = shlex.split(service["ExecStart"].replace("/etc/tacit/%i/peer.toml", str(file)))
    name, value = service["Environment"].split("=")
    process = subprocess.Popen(
        [sys.executable, "-c", "from tacit.cli import main; main()", *arguments],
        env={"PATH": os.environ["PATH"], "NOTIFY_SOCKET": str(tmp_path / "notify"), name: value},
        umask=int(service["UMask"], 8), cwd=file.parent, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        assert told.recv(4096) == b"READY=1"
        process.send_signal(signal.SIGTERM)
        assert told.recv(4096) == b"STOPPING=1"
        _, log = process.communicate(timeout=int(service["TimeoutStopSec"]))
    finally:
        process.kill()
        process.wait()
        told.close()
    assert process.returncode == 0
    lines = [json.loads(line) for line in log.splitlines()]
    assert all({"time", "level", "event"} <= line.keys() for line in lines)
    assert lines[-1]["event"] == "peer stopped"
    assert not [path for path in (file.parent / "state").iterdir() if path.stat().st_mode & 0o077]


def test_a_service_manager_that_does_not_listen_is_no_fault(monkeypatch, tmp_path):
    for address in (str(tmp_path / "nobody"), "@nobody", "", "vsock:1"):
        monkeypatch.setenv("NOTIFY_SOCKET", address)
        notify("READY=1")


@pytest.mark.slow
def test_the_commands_of_the_containers_run_three_members(tmp_path):
    """There may be no engine of containers here: each command as it stands in compose.yaml, with its volumes' paths."""
    names = NAMES[:3]
    files = found(
        tmp_path, job_text(), privacy="unprotected = true", rounds="patience = 0.05\ndeadline = 1.0\nlast = 5"
    )
    commands = re.findall(r"command: \[(.*)\]", (HERE / "compose.yaml").read_text())[:3]
    run = "from tacit.cli import main; main()"
    processes = []
    for command in commands:
        arguments = [part.strip().replace("/federation", str(tmp_path)) for part in command.split(",")]
        processes.append(subprocess.Popen([sys.executable, "-c", run, *arguments], stderr=subprocess.DEVNULL))
    assert set(files) == set(names)
    try:
        assert [process.wait(300) for process in processes] == [0, 0, 0]
    finally:
        for process in processes:
            process.kill()
            process.wait()


def test_the_unit_runs_the_command_that_there_is():
    service = unit_of_the_service()
    assert shlex.split(service["ExecStart"])[1:] == ["peer", "run", "/etc/tacit/%i/peer.toml"]
    assert service["Restart"] == "on-failure"
    assert (service["Type"], service["NotifyAccess"]) == ("notify", "main")
    assert int(service["TimeoutStopSec"]) > 60  # what `tacit peer stop` waits at most
    assert "MemoryDenyWriteExecute" not in service  # XLA compiles


def test_the_containers_are_the_members_of_the_job():
    text = (HERE / "compose.yaml").read_text()
    job = re.findall(r'"(hospital-\w)"', (HERE / "job.toml").read_text())
    assert re.findall(r"^  (hospital-\w):$", text, re.MULTILINE) == job
    for name in job:
        assert f"command: [peer, run, /federation/{name}/peer.toml]" in text
        assert f"./federation/{name}:/federation/{name}\n" in text
