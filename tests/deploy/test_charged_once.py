"""Records that come twice, and brokers that are killed between commit and confirmation: learnt once, and charged once.

Whole peers with a budget, mosquitto, PostgreSQL, and the broker of Kafka's library, whose log outlives its connections.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import json
import os
import signal
import tempfile
import threading
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from tacit.config.peer import load_peer
from tacit.deploy.peer import Peer
from tacit.peer.node.node import Node
from tacit.peer.sources.mqtt import MqttTopic
from tacit.privacy.events import fresh_number
from tacit.privacy.ledger import inspect
from tests.deploy.homes import LAPLACE, job_text
from tests.deploy.peers import ALONE, alone, run, until, used
from tests.sources.test_kafka import Cluster
from tests.sources.test_mqtt import MOSQUITTO, Mosquitto
from tests.sources.test_sql import PROGRAMS, Postgres

EPSILON = 2.0
"""Of a release, and of a record in all."""


class Rounds:
    """What each committed round of a peer was made of, noted outside of the peer, whatever becomes of it."""

    def __init__(self, monkeypatch):
        self.made: dict[int, list[float]] = {}
        """Round -> the records in its batch, by their first feature."""
        self.after_commit = lambda: None
        begin = Node.begin

        def noted(node, batch, now, **more):
            begin(node, batch, now, **more)  # when it returns, charge, state and cursor are on the disk
            assert node.round not in self.made
            self.made[node.round] = np.asarray(batch.x)[np.asarray(batch.weight) > 0, 0].tolist()
            if self.made[node.round]:
                self.after_commit()

        monkeypatch.setattr(Node, "begin", noted)

    def check(self, file, count):
        """`count` records, each in one batch and charged by one release; nothing else was learnt."""
        settings = load_peer(file)
        booked = inspect(settings.store, lambda replay: [event for _, event in replay])
        charged = Counter(fresh_number(event.records) for event in booked)
        assert charged.keys() - {None} == self.made.keys()
        charges = Counter(record for at, held in self.made.items() for record in held * charged[at])
        assert charges == dict.fromkeys(range(1, count + 1), 1)
        spent = inspect(settings.store, lambda replay: replay.run().account.spent())
        assert spent.epsilon == EPSILON


@pytest.fixture
def rounds(monkeypatch):
    return Rounds(monkeypatch)


class Once:
    """Something that is done at the first call, from whatever thread."""

    def __init__(self, do):
        self._do, self.done = do, threading.Event()

    def __call__(self):
        if not self.done.is_set():
            self._do()
            self.done.set()


def founded(tmp_path, stream):
    """A peer with a budget of one release for each record, whose batches hold one."""
    job = job_text(members=ALONE, mechanism=LAPLACE, batch=1)
    return alone(tmp_path, job=job, stream=stream, privacy=f"epsilon = {EPSILON}", rounds="patience = 0.02")


def record(number):
    """A message whose first feature is its number."""
    return json.dumps({"x": [number, 0], "y": 1, "id": number}).encode()


def known(peer):
    return peer.status()["rows_not_learnt"]["known"]


# -- MQTT --------------------------------------------------------------------------------------------------------------


@pytest.mark.skipif(MOSQUITTO is None, reason="needs mosquitto on the path")
def test_mosquitto_is_killed_before_it_hears_what_the_peer_has_stored(tmp_path, rounds, monkeypatch):
    broker = Mosquitto(tmp_path / "broker")
    database = tmp_path / "broker" / "mosquitto.db"
    file = founded(
        tmp_path,
        f'kind = "mqtt"\nbroker = "localhost:{broker.port}"\ntopic = "ward/#"\nkey = "id"\ntls = true\n'
        f'ca = "{broker.ca}"\nusername = "reader"\npassword_file = "password"',
    )
    (file.parent / "password").write_text("geheim")
    (file.parent / "password").chmod(0o600)
    confirm, killed = MqttTopic._confirm, Once(broker.kill)

    def too_late(source, messages):
        killed()
        confirm(source, messages)

    async def scenario():
        async with await Peer.start(file) as peer:
            await until(lambda: peer._source._fault is None)  # from here on the broker keeps what comes
        sent = [record(k) for k in (1, 2, 2, 3)]
        await asyncio.to_thread(broker.publish, *sent)
        broker.process.send_signal(signal.SIGUSR1)  # to its disk, at once
        await until(lambda: sent[-1] in database.read_bytes())
        monkeypatch.setattr(MqttTopic, "_confirm", too_late)
        async with await Peer.start(file) as peer:
            await until(killed.done.is_set)
            await asyncio.to_thread(broker.start)
            await until(lambda: used(peer) == 3 and known(peer) >= 2)  # sent again, and the one that was sent twice
        await asyncio.to_thread(broker.publish, record(4), record(1))
        async with await Peer.start(file) as peer:
            await until(lambda: used(peer) == 1 and known(peer) >= 1)

    try:
        run(scenario())
    finally:
        broker.kill()
    rounds.check(file, 4)


# -- PostgreSQL --------------------------------------------------------------------------------------------------------


def shot(server):
    """Kill a server and all its processes, and wait for their ends."""
    first = int((server.data / "postmaster.pid").read_text().splitlines()[0])
    pids = [first, *map(int, Path(f"/proc/{first}/task/{first}/children").read_text().split())]
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    while any(map(lives, pids)):
        pass
    (server.data / "postmaster.pid").unlink()  # its process may be a zombie, which the next one takes for alive


def lives(pid):
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    return False


@pytest.mark.skipif(None in PROGRAMS, reason="needs initdb, pg_ctl and psql of PostgreSQL on the path")
def test_postgresql_is_killed_between_a_commit_and_the_next_question(tmp_path, rounds, request):
    psycopg = pytest.importorskip("psycopg")
    folder = tempfile.TemporaryDirectory()  # where the server's user may enter, as it may not at `tmp_path`
    request.addfinalizer(folder.cleanup)
    server = Postgres(Path(folder.name))
    server.start()
    address = f"host=127.0.0.1 port={server.port} user=postgres dbname=postgres"
    file = founded(
        tmp_path,
        f'kind = "sql"\nurl = "{server.url}"\ntable = "public.visits"\norder = "id"\nkey = "patient"\npoll = 0.02\n'
        'columns = ["a", "b"]',
    )

    def insert(*records):
        with psycopg.connect(address, autocommit=True) as base:
            for each in records:
                base.execute("INSERT INTO visits (a, b, y, patient) VALUES (%s, 0, 1, %s)", (each, f"p{each}"))

    with psycopg.connect(address, autocommit=True) as base:
        base.execute("CREATE TABLE visits (id BIGSERIAL PRIMARY KEY, a FLOAT8, b FLOAT8, y INT, patient TEXT)")
    insert(1, 2, 2, 3)
    rounds.after_commit = killed = Once(lambda: shot(server))

    async def scenario():
        async with await Peer.start(file) as peer:
            await until(killed.done.is_set)
            assert used(peer) <= 1
            await asyncio.to_thread(server.start)
            await until(lambda: used(peer) == 3 and known(peer) == 1)
        await asyncio.to_thread(shot, server)
        await asyncio.to_thread(server.start)
        await asyncio.to_thread(insert, 4, 1)
        async with await Peer.start(file) as peer:
            await until(lambda: used(peer) == known(peer) == 1)

    try:
        run(scenario())
    finally:
        shot(server)
    rounds.check(file, 4)


# -- Kafka -------------------------------------------------------------------------------------------------------------


class DurableCluster(Cluster):
    """A broker that can end all its connections, take no new one, and come back with its log."""

    def __init__(self):
        library = next(
            line.split()[-1] for line in Path("/proc/self/maps").read_text().splitlines() if "librdkafka" in line
        )
        self._library = ctypes.CDLL(library)
        for name, result, *arguments in (
            ("rd_kafka_new", ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t),
            ("rd_kafka_mock_cluster_new", ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int),
            ("rd_kafka_mock_cluster_bootstraps", ctypes.c_char_p, ctypes.c_void_p),
            ("rd_kafka_mock_broker_set_down", ctypes.c_int, ctypes.c_void_p, ctypes.c_int32),
            ("rd_kafka_mock_broker_set_up", ctypes.c_int, ctypes.c_void_p, ctypes.c_int32),
        ):
            function = getattr(self._library, name)
            function.restype, function.argtypes = result, arguments
        producer, none = 0, ctypes.create_string_buffer(512)
        handle = self._library.rd_kafka_new(producer, None, none, len(none))
        self._cluster = self._library.rd_kafka_mock_cluster_new(handle, 1)
        self.access = {"bootstrap.servers": self._library.rd_kafka_mock_cluster_bootstraps(self._cluster).decode()}
        import confluent_kafka

        self.producer = confluent_kafka.Producer({**self.access, "log_level": 0})

    def down(self):
        assert self._library.rd_kafka_mock_broker_set_down(self._cluster, 1) == 0

    def up(self):
        assert self._library.rd_kafka_mock_broker_set_up(self._cluster, 1) == 0


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="the library is found as Linux shows it")
def test_kafka_is_gone_between_a_commit_and_the_next_record(tmp_path, rounds):
    pytest.importorskip("confluent_kafka")
    cluster = DurableCluster()
    file = founded(
        tmp_path, f'kind = "kafka"\nbrokers = ["{cluster.access["bootstrap.servers"]}"]\ntopic = "visits"\nkey = "id"'
    )
    cluster.send(*map(record, (1, 2, 2, 3)))
    rounds.after_commit = gone = Once(cluster.down)

    async def scenario():
        async with await Peer.start(file) as peer:
            await until(gone.done.is_set)
            cluster.up()
            await until(lambda: used(peer) == 3 and known(peer) == 1)
            cluster.down()
        cluster.up()
        cluster.send(record(4), record(1))
        async with await Peer.start(file) as peer:
            await until(lambda: used(peer) == known(peer) == 1)

    run(scenario())
    rounds.check(file, 4)
