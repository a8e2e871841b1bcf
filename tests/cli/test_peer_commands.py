"""`tacit peer`: certificates by the commands, and real processes that are looked at, stopped and killed."""

import json
import os
import resource
import signal
import stat
import subprocess
import sys
import time
from contextlib import contextmanager

import pytest

from tacit.cli import main
from tacit.config.peer import load_peer
from tacit.deploy.assignment import plan_of
from tacit.deploy.swarm import one_thread
from tacit.peer.node.node import Node
from tacit.peer.node.store import PeerStore
from tacit.peer.transport.codec import LAST_ROUND
from tacit.privacy.ledger import inspect
from tests.deploy.homes import LAPLACE, RING, found, job_text
from tests.deploy.test_check import edit

ALONE = {"hospital-a": []}
LIMIT = 600.0


@pytest.fixture
def tacit(capsys, monkeypatch, tmp_path):
    """Call the command line in an empty folder: exit code, output, errors."""
    monkeypatch.chdir(tmp_path)

    def call(*arguments):
        with pytest.raises(SystemExit) as caught:
            main(["peer", *map(str, arguments)])
        return caught.value.code or 0, *capsys.readouterr()

    return call


def alone(tmp_path, **peer):
    peer.setdefault("rounds", "patience = 0.02\ninterval = 0.02")
    return found(tmp_path, peer.pop("job", job_text(members=ALONE)), ALONE, **peer)["hospital-a"]


@contextmanager
def running(file):
    """A `tacit peer run` of its own, which does not outlive the test."""
    log = file.with_name("log.jsonl")
    with log.open("a") as err:
        process = subprocess.Popen(
            [sys.executable, "-m", "tacit", "peer", "run", str(file)], stderr=err, env=one_thread(os.environ)
        )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()


def until(condition, process=None):
    """Poll a process of ours until a condition holds; returns what it gave."""
    end = time.monotonic() + LIMIT
    while not (result := condition()):
        assert time.monotonic() < end, "time is up"
        assert process is None or process.poll() is None, f"it ended with exit code {process.poll()}"
        time.sleep(0.05)
    return result


def events(file):
    lines = file.with_name("log.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines if line.startswith("{")]


def status(tacit, file):
    code, out, err = tacit("status", file, "--json")
    assert code == 0, err
    return json.loads(out)


def test_every_command_has_help_with_an_example(tacit):
    for command in ("init-ca", "request", "issue", "install", "check", "run", "status", "stop"):
        code, out, _ = tacit(command, "--help")
        assert code == 0
        assert f"Example: tacit peer {command}" in out


def test_from_an_authority_to_a_checked_federation(tacit, tmp_path):
    files = found(tmp_path, job_text(), RING, identities=False)
    assert tacit("init-ca", "ca", "--name", "ward study")[0] == 0
    for name, file in files.items():
        home = file.parent / "identity"
        code, out, _ = tacit("request", name, "--out", home)
        assert code == 0
        assert f"there: tacit peer issue {name}" in out
        assert tacit("issue", name, "--csr", home / f"{name}.csr", "--ca", "ca")[0] == 0
        code, out, _ = tacit("install", f"{name}.crt", "--ca", "ca/ca.crt", "--out", home)
        assert code == 0
        assert out.startswith(f"{name}: valid until ")
    code, out, _ = tacit("check", *files.values())
    assert code == 0
    assert "'online_push_sum' may run" in out
    assert all(f"{name}: ok" in out for name in files)


def test_check_reports_every_fault_and_fails(tacit, tmp_path):
    files = found(tmp_path, job_text(), RING)
    edit(files["hospital-b"], 'hears = ["hospital-a"]', "hears = []")
    code, out, err = tacit("check", *files.values())
    assert code == 2
    assert "hospital-b does not hear hospital-a" in err
    assert "hospital-a: ok" in out


@pytest.mark.parametrize("command", ["run", "status", "stop", "check"])
def test_a_bad_setting_is_one_message_and_exit_code_2(tacit, tmp_path, command):
    file = alone(tmp_path, rounds="deadline = 0", identities=False)
    code, _, err = tacit(command, file)
    assert code == 2
    assert err.startswith(f"error: {file}: [rounds] deadline = 0: ")


def test_a_log_format_that_there_is_not(tacit, tmp_path):
    code, _, err = tacit("run", alone(tmp_path, identities=False), "--log", "xml")
    assert (code, err) == (2, "error: --log 'xml': expected json or text\n")


@pytest.mark.parametrize("command", ["status", "stop"])
def test_a_peer_that_does_not_run(tacit, tmp_path, command):
    file = alone(tmp_path, identities=False)
    code, _, err = tacit(command, file)
    assert code == 2
    assert "hospital-a does not run here" in err
    assert "tacit peer run" in err
    control = load_peer(file).control
    control.parent.mkdir()
    for text in ("{", "[]", '{"pid": "x"}', "null"):
        control.write_text(text)
        code, _, err = tacit(command, file)
        assert code == 2
        assert f"{control} was not written by a peer" in err


@pytest.mark.timeout(600)
def test_killed_it_goes_on_from_its_store_and_stopped_it_ends_well(tacit, tmp_path):
    file = alone(
        tmp_path, job=job_text(members=ALONE, mechanism=LAPLACE), privacy='epsilon = 2.5\nwitness = "witness.json"',
        stream='kind = "csv"\npath = "data.csv"',
    )  # fmt: skip
    rows = 400
    file.with_name("data.csv").write_text("x0,x1,y\n" + "".join(f"{k / rows},1.0,1\n" for k in range(rows)))
    control = load_peer(file).control
    with running(file) as process:
        until(control.exists, process)
        before = until(lambda: (s := status(tacit, file))["round"] >= 5 and s, process)
        assert before["pid"] == process.pid
        code, out, _ = tacit("status", file)
        assert code == 0
        assert "hospital-a" in out
        assert "epsilon 2 of" in out
        process.kill()
        assert process.wait() == -signal.SIGKILL
    for command in ("status", "stop"):
        code, _, err = tacit(command, file)
        assert code == 2
        assert f"process {process.pid} was killed, or is frozen" in err
    with running(file) as process:
        until(lambda: json.loads(control.read_text())["pid"] == process.pid, process)
        # The log goes through a pipe, and may come after the control file.
        started = until(lambda: [event for event in events(file) if event["event"] == "peer started"][1:], process)
        assert started[0]["round"] >= before["round"]
        after = until(lambda: (s := status(tacit, file))["round"] > started[0]["round"] and s, process)
        assert after["privacy"]["releases"] >= before["privacy"]["releases"]
        with running(file) as second:  # one at a time
            assert second.wait(LIMIT) == 2
        assert "one at a time" in file.with_name("log.jsonl").read_text()
        assert status(tacit, file)["pid"] == process.pid
        code, out, _ = tacit("stop", file)
        assert code == 0
        assert out.startswith("hospital-a stopped in round ")
        assert process.wait(LIMIT) == 0
    assert not control.exists()
    assert stat.S_IMODE(control.parent.stat().st_mode) == 0o700
    modes = {(path.is_dir(), stat.S_IMODE(path.stat().st_mode)) for path in control.parent.rglob("*")}
    assert {(False, 0o600)} <= modes <= {(False, 0o600), (True, 0o700)}  # files, and folders of compiled programs
    assert events(file)[-1]["event"] == "peer stopped"
    assert not [event for event in events(file) if event["level"] in ("warning", "error")]


@pytest.mark.timeout(600)
def test_a_peer_that_was_carried_off_is_put_back(tacit, tmp_path):
    job = job_text("loss_tolerant_push_sum", mechanism=LAPLACE)
    file = found(tmp_path, job, identities=False, privacy='epsilon = 2.0\nwitness = "w.json"')["hospital-a"]
    assert "begins with round 1" in tacit("set-round", file)[2]
    settings, plan = load_peer(file), plan_of(load_peer(file))
    settings.store.parent.mkdir()
    settings.identity.mkdir()  # where ledgers are on record
    with PeerStore.create(settings.store, settings.budget, settings.part, settings.witness) as store:
        node = Node(plan, store, 1.0, 0.0)
        for leap in (0, LAST_ROUND - 1):
            node.machine.skip_to(leap)
            node.begin(plan.batch, 0.0)
            node.proceed(0.0)
        node.flush()
        assert tacit("set-round", file)[0] == 2, "it is in use"
    before = inspect(settings.store, lambda replay: [entry.release for entry, _ in replay], settings.witness)
    code, out, err = tacit("set-round", file, "--round", 1)
    assert (code, out) == (2, "")
    assert "--round 1" in err
    code, out, _ = tacit("set-round", file)
    assert code == 0
    assert all(number in out for number in (f"{LAST_ROUND}", "round 2;", "2 release(s)"))
    assert inspect(settings.store, lambda replay: [entry.release for entry, _ in replay], settings.witness) == before
    with PeerStore.open(settings.store, settings.budget, settings.part, settings.witness) as store:
        assert Node(plan, store, 1.0, 0.0).position == (2, 0)


def test_told_to_stop_while_it_starts_it_ends_well(tacit, tmp_path):
    file = alone(tmp_path)
    store = load_peer(file).store
    with running(file) as process:
        until(store.exists, process)
        process.send_signal(signal.SIGTERM)
        assert process.wait(LIMIT) == 0
    assert not load_peer(file).control.exists()
    assert "Traceback" not in file.with_name("log.jsonl").read_text()


@pytest.mark.timeout(600)
def test_a_fault_in_its_rounds_is_its_exit_code(tacit, tmp_path):
    file = alone(tmp_path)
    with running(file) as process:
        until(load_peer(file).control.exists, process)
        hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
        resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (100_000, hard))  # as on a disk that is full
        assert process.wait(LIMIT) == 2
    assert not load_peer(file).control.exists()
    said = file.with_name("log.jsonl").read_text()
    assert "Traceback" not in said
    assert said.splitlines()[-1].startswith("error: ")
    assert "rounds ended with a fault" in [event["event"] for event in events(file)]
