"""Rows of a data base: each learnt once, late ones too, through SQLite and, where it is installed, PostgreSQL."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import sqlite3
import subprocess
import tempfile
from pathlib import Path

import pytest

from tacit.core.errors import ConfigError, DataError
from tacit.peer.sources.rows import QueryRows
from tacit.peer.sources.sql import GrowingQuery
from tacit.streams.reading.sql import DataBase
from tests.deploy.homes import free_ports
from tests.sources.stores import FORM, Learner

COLUMNS = "id INTEGER PRIMARY KEY, a REAL, b REAL, y REAL, patient TEXT"


@pytest.fixture
def base(tmp_path):
    with contextlib.closing(sqlite3.connect(tmp_path / "visits.db", isolation_level=None)) as connection:
        connection.execute(f"CREATE TABLE visits ({COLUMNS})")
        yield connection


def insert(base, *ids, **changed):
    for number in ids:
        row = {"id": number, "a": number, "b": -number, "y": number, "patient": f"p{number}", **changed}
        base.execute("INSERT INTO visits VALUES (:id, :a, :b, :y, :patient)", row)


def reader(folder, url=None, key=("id",), **options):
    options.setdefault("table", None if "query" in options else "visits")
    shown = DataBase(url or f"sqlite:///{folder}/visits.db")

    def source(store, worker):
        rows = QueryRows(shown.shown, FORM, "y", ["a", "b"], key, apart=("id",))
        return GrowingQuery(shown, "id", rows, store.records, poll=0.01, **{"look_back": 3, **options})

    return lambda: Learner(folder, source)


def played(scenario):
    asyncio.run(scenario())


def test_rows_are_learnt_once_through_restarts_and_rounds_that_were_cut_off(tmp_path, base):
    insert(base, 1, 2, 3, 4, 5)
    made = reader(tmp_path)

    async def scenario():
        first = made()
        assert await first.learn(limit=2) == [1, 2]
        assert len((await first.take(limit=2)).samples) == 2  # killed before the commit
        await first.end()
        again = made()
        assert await again.learn(limit=2) == [3, 4]
        insert(base, 6)
        assert await again.learn(limit=4) == [5, 6]
        assert await again.learn(patience=0.0) == []
        await again.end()

    played(scenario)


def test_a_row_that_is_committed_behind_a_larger_number_is_not_missed(tmp_path, base):
    insert(base, 1, 4)
    made = reader(tmp_path)

    async def scenario():
        peer = made()
        assert await peer.learn() == [1, 4]
        insert(base, 3)  # its transaction took longer
        assert await peer.learn(patience=0) == [3]
        insert(base, 9)
        assert await peer.learn(patience=0) == [9]
        insert(base, 5)  # further back than `look_back`
        assert await peer.learn(patience=0) == []
        await peer.end()

    played(scenario)


def test_a_corrected_row_and_a_known_key_are_not_learnt_again(tmp_path, base):
    insert(base, 1, 2)
    made = reader(tmp_path, key=("patient",))

    async def scenario():
        peer = made()
        assert await peer.learn() == [1, 2]
        base.execute("UPDATE visits SET y = 77, a = 1 WHERE id = 2")
        insert(base, 3, patient="p1")  # inserted again, with another number
        insert(base, 4)
        assert await peer.learn(patience=0) == [None, 4]
        assert peer.source.not_learnt.known == 1
        await peer.end()
        again = made()
        assert await again.learn(patience=0) == []
        await again.end()

    played(scenario)


def test_unusable_rows_keep_their_place_and_are_counted_once(tmp_path, base):
    insert(base, 1)
    insert(base, 2, a=None)
    insert(base, 3, b="high")
    insert(base, 4)
    made = reader(tmp_path)

    async def scenario():
        peer = made()
        assert await peer.learn() == [1, None, None, 4]
        assert await peer.learn(patience=0) == []
        assert peer.source.not_learnt.bad == 2
        await peer.end()

    played(scenario)


def test_queries_and_all_other_columns(tmp_path, base):
    insert(base, 1, 2, 3)
    made = reader(tmp_path, query="SELECT id, a, b, y FROM visits WHERE a < 3")

    async def scenario():
        peer = made()
        assert await peer.learn() == [1, 2]
        await peer.end()

    played(scenario)


@pytest.mark.parametrize(
    ("options", "words"),
    [({"table": "visit"}, "visit"), ({"query": "SELECT a, b, y, 1 AS id FROM visits"}, "twice"), ({"query": "SELECT a, y FROM visits"}, "id")],
)  # fmt: skip
def test_what_cannot_be_read_is_a_fault_that_names_it(tmp_path, base, options, words):
    insert(base, 1, 2)
    made = reader(tmp_path, **options)

    async def scenario():
        peer = made()
        with pytest.raises(DataError, match=words):
            await peer.learn()
        await peer.end()

    played(scenario)


def test_another_table_or_key_is_refused_by_the_same_store(tmp_path, base):
    insert(base, 1)

    async def scenario():
        peer = reader(tmp_path)()
        await peer.learn()
        await peer.end()

    played(scenario)
    base.execute("ALTER TABLE visits RENAME TO stays")
    for options in ({"table": "stays"}, {"key": ("patient",)}):
        with pytest.raises(DataError, match="put it back"):
            reader(tmp_path, **options)()


def test_a_password_is_in_no_message(tmp_path, monkeypatch):
    monkeypatch.setenv("DB_PASSWORD", "geheim")
    base = DataBase("postgresql+psycopg://reader:${DB_PASSWORD}@127.0.0.1:1/clinic")
    assert "geheim" not in base.shown
    engine = base.engine()
    with pytest.raises(DataError) as fault:
        base.probe(engine)
    engine.dispose()
    assert "geheim" not in str(fault.value)
    with pytest.raises(ConfigError, match="DB_NOT_SET"):
        DataBase("postgresql+psycopg://reader:${DB_NOT_SET}@127.0.0.1/clinic")


# -- PostgreSQL --------------------------------------------------------------------------------------------------------

PROGRAMS = [shutil.which(name) for name in ("initdb", "pg_ctl", "psql")]


class Postgres:
    def __init__(self, folder):
        self.data, (self.port,) = folder / "data", free_ports(1)
        self.user = None if os.getuid() else "postgres"  # the server refuses to run as root
        if self.user is not None:
            shutil.chown(folder, self.user)
        self.call(PROGRAMS[0], "-D", self.data, "-U", "postgres", "-A", "trust", "--no-sync")

    def call(self, *command):
        done = subprocess.run([*map(str, command)], check=False, user=self.user, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr

    def start(self):
        options = f"-p {self.port} -k '' -c listen_addresses=127.0.0.1"
        self.call(PROGRAMS[1], "-D", self.data, "-w", "-l", self.data / "log", "-o", options, "start")

    def stop(self, mode="fast"):
        self.call(PROGRAMS[1], "-D", self.data, "-w", "-m", mode, "stop")

    @property
    def url(self):
        return f"postgresql+psycopg://postgres@127.0.0.1:{self.port}/postgres"


@pytest.mark.skipif(None in PROGRAMS, reason="needs initdb, pg_ctl and psql of PostgreSQL on the path")
def test_postgresql_is_killed_and_restarted_and_a_transaction_comes_late(tmp_path, request):
    psycopg = pytest.importorskip("psycopg")
    folder = tempfile.TemporaryDirectory()  # where the server's user may enter, as it may not at `tmp_path`
    request.addfinalizer(folder.cleanup)
    server = Postgres(Path(folder.name))
    server.start()
    address = f"host=127.0.0.1 port={server.port} user=postgres dbname=postgres"
    made = reader(tmp_path, server.url, table="public.visits")

    async def scenario():
        with psycopg.connect(address, autocommit=True) as one, psycopg.connect(address) as late:
            one.execute("CREATE TABLE visits (id BIGSERIAL PRIMARY KEY, a NUMERIC, b FLOAT8, y INT, patient TEXT)")
            add = "INSERT INTO visits (a, b, y) VALUES (%s, 1, %s)"
            one.execute(add, (1, 1))
            late.execute(add, (2, 2))  # takes number 2 and does not commit
            one.execute(add, (3, 3))
            peer = made()
            assert await peer.learn() == [1, 3]
            late.commit()
            assert await peer.learn() == [2]
            one.execute(add, (4, 4))
        await peer.take()  # a round that is cut off by a kill
        server.stop("immediate")  # as if it were killed
        with pytest.raises(DataError):
            await peer.learn()
        await peer.end()
        server.start()
        again = made()
        assert await again.until(1) == [4]
        assert await again.learn(patience=0) == []
        await again.end()

    try:
        played(scenario)
    finally:
        server.stop("immediate")
