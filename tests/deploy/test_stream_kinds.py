"""Peers whose samples come from brokers and data bases: checked, started, fed, killed and started again."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sqlite3
import subprocess
import sys
import time

import pytest

from tacit.config.brokers import kafka_access, mqtt_access
from tacit.config.peer import load_peer
from tacit.core.errors import ConfigError
from tacit.deploy.check import check_peers
from tacit.deploy.peer import Peer
from tacit.peer.node.store import PeerStore
from tests.bare import run_bare
from tests.deploy.homes import LAPLACE, job_text
from tests.deploy.peers import ALONE, alone, run, until, used
from tests.sources.mqtt_server import MqttServer
from tests.sources.stores import payload
from tests.sources.test_kafka import Cluster

SQL = 'kind = "sql"\nurl = "sqlite:///visits.db"\ntable = "visits"\norder = "id"'
STREAMS = {
    "kafka": 'kind = "kafka"\nbrokers = ["127.0.0.1:1"]\ntopic = "visits"\nkey = "id"',
    "mqtt": 'kind = "mqtt"\nbroker = "127.0.0.1:1"\ntopic = "ward/#"\nkey = "id"',
    "sql": SQL,
}


def in_folder(tmp_path):
    """A data base of two rows, where the URL of `SQL` finds it."""
    base = sqlite3.connect(tmp_path / "visits.db", isolation_level=None)
    base.execute("CREATE TABLE visits (id INTEGER PRIMARY KEY, a REAL, b REAL, y INTEGER)")
    base.executemany("INSERT INTO visits (a, b, y) VALUES (?, ?, ?)", [(1, 2, 1), (3, 4, 0)])
    return base


def test_a_library_that_is_missing_is_named_with_its_extra(tmp_path):
    files = []
    for kind, stream in STREAMS.items():
        (tmp_path / kind).mkdir()
        files.append(alone(tmp_path / kind, stream=stream))
    code = "from pathlib import Path\nfrom tacit.deploy.check import check_peers\n"
    said = run_bare(code + "for file in sys.argv[1:]: print(check_peers([Path(file)]).faults)", *files)
    for kind, line in zip(STREAMS, said.splitlines(), strict=True):
        assert f"tacit[{kind}]" in line


@pytest.mark.parametrize("kind", STREAMS)
def test_what_cannot_be_reached_is_a_warning_and_no_fault(tmp_path, kind):
    report = check_peers([alone(tmp_path, stream=STREAMS[kind])])
    assert report.faults == []
    assert any("warning" in line and "starts all the same" in line for line in report.lines)


def test_what_can_be_reached_is_no_warning(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    in_folder(tmp_path).close()
    assert not any("warning" in line for line in check_peers([alone(tmp_path, stream=SQL)]).lines)


def test_passwords_come_from_files_and_are_in_no_message(tmp_path):
    more = '\ntls = true\nusername = "reader"\npassword_file = "secret"'
    file = alone(tmp_path, stream=STREAMS["kafka"] + more)
    assert any("password_file = 'secret'" in fault for fault in check_peers([file]).faults)
    (file.parent / "secret").write_text("geheim\n")
    (file.parent / "secret").chmod(0o644)
    report = check_peers([file])
    assert any("chmod 600" in line for line in report.lines)
    assert "geheim" not in str(report)
    settings = load_peer(file)
    access = kafka_access(settings, settings.stream)
    assert (access["security.protocol"], access["sasl.password"]) == ("SASL_SSL", "geheim")
    assert "geheim" not in repr(settings)


def test_files_of_tls_that_are_none_are_refused(tmp_path):
    file = alone(tmp_path, stream=STREAMS["mqtt"] + '\ntls = true\nca = "ca.pem"')
    (file.parent / "ca.pem").write_text("no certificate")
    settings = load_peer(file)
    with pytest.raises(ConfigError, match="PEM"):
        mqtt_access(settings, settings.stream)


def test_a_peer_learns_from_a_data_base_and_goes_on_after_a_restart(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    base = in_folder(tmp_path)
    file = alone(tmp_path, stream=SQL + "\npoll = 0.01")

    async def scenario():
        async with await Peer.start(file) as peer:
            await until(lambda: used(peer) == 2)
        base.execute("INSERT INTO visits (a, b, y) VALUES (5, 6, 1)")
        base.execute("INSERT INTO visits (a, b, y) VALUES (5, NULL, 1)")
        async with await Peer.start(file) as peer:
            await until(lambda: used(peer) == 1 and peer.status()["rows_not_learnt"]["bad"] == 1)
            assert peer.counters.value("tacit_samples_total", outcome="bad") == 1

    run(scenario())
    base.close()


def test_a_peer_learns_from_mqtt(tmp_path):
    async def scenario():
        server = MqttServer()
        await server.start()
        try:
            file = alone(tmp_path, stream=STREAMS["mqtt"].replace("127.0.0.1:1", f"127.0.0.1:{server.port}"))
            server.publish(payload(1, id=1), payload(1, id=1), payload(1, id=2))
            async with await Peer.start(file) as peer:
                await until(lambda: used(peer) == 2)
                assert peer.counters.value("tacit_samples_total", outcome="queued") == 2
                assert peer.counters.value("tacit_samples_total", outcome="known") == 1
            assert server.clients == [b"tacit-hospital-a"]
        finally:
            await server.kill()

    run(scenario())


@pytest.mark.parametrize("kind", ["kafka", "mqtt"])
def test_a_broker_that_is_away_is_told_by_health(tmp_path, monkeypatch, kind):
    monkeypatch.setattr("tacit.peer.sources.kafka.ANSWER_TIME", 0.2)

    async def scenario():
        async with await Peer.start(alone(tmp_path, stream=STREAMS[kind])) as peer:
            await until(lambda: peer.round >= 2)
            assert any("stream cannot be used" in fault for fault in await peer._health())

    run(scenario())


# -- kills -------------------------------------------------------------------------------------------------------------

RUN = "import sys; from tacit.cli import main; sys.argv = ['tacit', 'peer', 'run', sys.argv[1]]; main()"


def booked(file):
    settings = load_peer(file)
    with PeerStore.open(settings.store, settings.budget, settings.part) as store:
        rows, uses = store.ledger.read(lambda c: c.execute("SELECT count(*), sum(times) FROM record").fetchone())
    assert rows == (uses or 0)  # none twice
    return rows


@pytest.mark.slow
def test_a_peer_that_is_killed_again_and_again_learns_each_record_of_kafka_once(tmp_path):
    """Kills with SIGKILL at any point; every record is used by one commit, which charges it, and by no other."""
    cluster, total = Cluster(), 30
    job = job_text(members=ALONE, mechanism=LAPLACE, batch=2)
    stream = STREAMS["kafka"].replace("127.0.0.1:1", cluster.access["bootstrap.servers"])
    file = alone(
        tmp_path, job=job, stream=stream, privacy="epsilon = 2.0", rounds="patience = 0.05", operations="progress = 0"
    )
    cluster.send(*(payload(1, id=k) for k in range(total)), *(payload(1, id=k) for k in range(5)))
    environment = {**os.environ, "JAX_PLATFORMS": "cpu"}
    uses, kills = 0, 0
    while uses < total:
        with (tmp_path / "log").open("a") as log:
            process = subprocess.Popen([sys.executable, "-c", RUN, str(file)], stderr=log, env=environment)
        try:
            before = uses
            while uses == before and process.poll() is None:
                time.sleep(0.05)
                with contextlib.suppress(OSError, sqlite3.Error):
                    uses = peeked(load_peer(file).store)
        finally:
            process.send_signal(signal.SIGKILL)
            process.wait()
        kills += 1
        uses = booked(file)
        assert kills < total, (tmp_path / "log").read_text()[-2000:]
    assert kills > 1
    assert booked(file) == total
    events = [json.loads(line)["event"] for line in (tmp_path / "log").read_text().splitlines()]
    assert "peer started" in events


def peeked(path):
    with contextlib.closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as connection:
        return connection.execute("SELECT coalesce(sum(times), 0) FROM record").fetchone()[0]
