"""What was changed, lost or put back in a peer's store is noticed; others read it as a ledger."""

from __future__ import annotations

import shutil
import sqlite3
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from tacit.cli import app
from tacit.core.errors import LedgerError, StoreError
from tacit.peer.masking.key_store import PairKey
from tacit.peer.node.pieces import LONGEST_PIECE
from tacit.peer.node.store import PeerStore
from tacit.peer.sources.queue import Seen
from tacit.privacy.ledger import Ledger, inspect
from tacit.privacy.ledger.witness import read_mark
from tests.peer.stores import MEMORY, created, parcel
from tests.privacy.ledgers import BUDGET, EVENT, MANY


def changed(path, *statements):
    connection = sqlite3.connect(path, isolation_level=None)
    for statement in statements:
        connection.execute(statement)
    connection.close()


def full(directory):
    with created(directory) as store:
        both = b"b" * (LONGEST_PIECE + 10)
        store.append_samples([b"sample one", b"sample two"])
        store.keep_keys(
            {("a", "b"): PairKey(b"o" * 32, b"k" * 32), ("a", "c"): PairKey(b"p" * 32, b"l" * 32, b"r" * 32)}
        )
        store.commit(
            charges=[("r1", EVENT)],
            snapshot=b"snapshot" * 100,
            seen=[Seen(1, b"0123456789abcdef"), Seen(1, b"0123456789abcdef"), Seen(2, b"fedcba9876543210")],
            parcels=[parcel(1, "a", both), parcel(1, "b", both), parcel(1, "c", b"another")],
        )
    return directory / "s.db"


def everything(path):
    with PeerStore.open(path) as store:
        known = [store.records.uses(bytes([k]) * 16) for k in range(9)]
        return (
            store.snapshot(),
            store.outbox(),
            store.samples(99),
            store.ledger.releases,
            store.keys,
            known,
            store.records.used_of_files(),
        )


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("DELETE FROM state", "the row of the state is not what was written"),
        ("UPDATE state SET first = NULL, pieces = NULL, digest = NULL", "do not belong"),
        ("UPDATE state SET used = 1", "do not belong"),
        ("UPDATE state SET appended = 3", "do not belong"),
        ("UPDATE state SET seal = zeroblob(32)", "do not belong"),
        ("DELETE FROM parcel WHERE receiver = 'b'", "do not belong"),
        ("DELETE FROM parcel", "do not belong"),
        ("UPDATE parcel SET receiver = 'd' WHERE receiver = 'b'", "do not belong"),
        ("UPDATE parcel SET round = 2 WHERE receiver = 'b'", "do not belong"),
        ("UPDATE parcel SET phase = 2 WHERE receiver = 'b'", "do not belong"),
        ("UPDATE parcel SET links = 'x' WHERE receiver = 'b'", "do not belong"),
        ("UPDATE parcel SET first = first + 1 WHERE receiver = 'b'", "do not belong"),
        ("UPDATE parcel SET id = 9 WHERE receiver = 'a'", "do not belong"),
        ("INSERT INTO parcel SELECT 0, receiver, links, round, phase, first, pieces, digest FROM parcel LIMIT 1", ""),
        ("DELETE FROM record", "do not belong"),
        ("DELETE FROM record WHERE file = 2", "do not belong"),
        ("UPDATE record SET times = 1", "do not belong"),
        ("UPDATE record SET times = 0 WHERE file = 2", "do not belong"),
        ("UPDATE record SET file = 3 - file", "do not belong"),
        ("UPDATE record SET file = 1", "do not belong"),
        ("UPDATE record SET digest = zeroblob(16) WHERE file = 2", "do not belong"),
        ("INSERT INTO record VALUES (zeroblob(16), 1, 1)", "do not belong"),
        ("UPDATE record SET times = 'x'", "STRICT"),
        ("UPDATE piece SET data = 'x' || data", "STRICT"),
        ("DELETE FROM piece WHERE length(data) = 800", "the snapshot is not what was written"),
        ("UPDATE piece SET data = zeroblob(800) WHERE length(data) = 800", "the snapshot is not"),
        (
            "UPDATE piece SET data = zeroblob(9) WHERE length(data) = 10 AND id > 3",
            "the parcel of round 1 to 'b' is not",
        ),
        ("UPDATE piece SET data = zeroblob(7) WHERE length(data) = 7", "the parcel of round 1 to 'c' is not"),
        ("DELETE FROM sample WHERE number = 2", "the queue of samples 1 to 2 is not"),
        ("DELETE FROM sample WHERE number = 1", "the queue of samples"),
        ("UPDATE sample SET number = 3 WHERE number = 2", "the queue of samples"),
        ("UPDATE sample SET digest = zeroblob(32) WHERE number = 2", "sample 2 is not"),
        ("UPDATE sample SET pieces = 2 WHERE number = 2", "sample 2 is not"),
        ("UPDATE sample SET first = 1 WHERE number = 2", "sample 2 is not"),
        ("UPDATE sample SET first = 0, pieces = 2 WHERE number = 1", "sample 1 is not"),
        ("DELETE FROM pair_key WHERE partner = 'b'", "do not belong"),
        ("UPDATE pair_key SET key = zeroblob(32) WHERE partner = 'c'", "do not belong"),
        ("UPDATE pair_key SET remote = NULL", "do not belong"),
        ("UPDATE pair_key SET own = remote WHERE partner = 'c'", "do not belong"),
        ("UPDATE pair_key SET span = 7", "do not belong"),
        ("UPDATE pair_key SET partner = 'd' WHERE partner = 'c'", "do not belong"),
    ],
)
def test_a_change_from_outside_is_noticed(tmp_path, statement, message):
    path = full(tmp_path)
    if message == "STRICT":
        with pytest.raises(sqlite3.IntegrityError):
            changed(path, statement)
        return
    changed(path, statement)
    with pytest.raises(StoreError, match=(message or "do not belong") + ".*begin a new store"):
        everything(path)
    inspect(path, lambda replay: replay.run())  # the ledger itself is whole


def test_a_state_put_back_by_itself_is_noticed(tmp_path):
    path = full(tmp_path)
    shutil.copy(path, tmp_path / "old.db")
    with PeerStore.open(path) as store:
        store.commit(charges=[("r2", EVENT)], snapshot=b"newer")
    tables = ("piece", "parcel", "sample", "record", "state")
    swaps = [s for t in tables for s in (f"DELETE FROM {t}", f"INSERT INTO {t} SELECT * FROM old.{t}")]
    changed(path, f"ATTACH '{tmp_path / 'old.db'}' AS old", *swaps)
    with pytest.raises(StoreError, match="do not belong.*release twice"):
        PeerStore.open(path)
    with pytest.raises(StoreError, match="do not belong"):  # also the second time: the lock was let go of
        PeerStore.open(path)


def test_a_charge_behind_the_store_s_back_is_noticed(tmp_path):
    path = full(tmp_path)
    with Ledger.open(path) as ledger:
        ledger.charge("by another program", EVENT)
    with pytest.raises(StoreError, match="do not belong"):
        PeerStore.open(path)


def test_an_old_copy_is_detected_by_the_witness(tmp_path):
    path, witness, old = tmp_path / "s.db", tmp_path / "witness", tmp_path / "old.db"
    with PeerStore.create(path, MANY, "job", witness) as store:
        store.commit(charges=[("r1", EVENT)], snapshot=b"one")
    shutil.copy(path, old)
    with PeerStore.open(path, witness=witness) as store:
        store.commit(charges=[("r2", EVENT)], snapshot=b"two")
    with pytest.raises(LedgerError, match="witness"):
        PeerStore.open(path)
    shutil.copy(old, path)
    with pytest.raises(LedgerError, match="rolled back"):
        PeerStore.open(path, witness=witness)


def test_what_is_sent_after_a_crash_before_the_witness_cannot_be_taken_back(tmp_path):
    """The outbox of a commit that the witness has not seen is sent at the next start: the witness must see it first."""
    path, witness, old = tmp_path / "s.db", tmp_path / "witness", tmp_path / "old.db"
    with PeerStore.create(path, MANY, "job", witness) as store:
        store.commit(charges=[("r1", EVENT)], snapshot=b"one")
    shutil.copy(path, old)
    behind = witness.read_bytes()
    with PeerStore.open(path, witness=witness) as store:
        store.commit(charges=[("r2", EVENT)], snapshot=b"two", parcels=[parcel(2, "a", b"noisy")])
    witness.write_bytes(behind)  # as if the crash had come between commit and witness
    with PeerStore.open(path, witness=witness) as store:
        assert [p.content for p in store.outbox()] == [b"noisy"]
        assert read_mark(witness).sequence == 2
    shutil.copy(old, path)
    with pytest.raises(LedgerError, match="rolled back"):
        PeerStore.open(path, witness=witness)


def test_a_ledger_without_a_peer_s_tables_is_no_store(tmp_path):
    Ledger.create(tmp_path / "l.db", BUDGET).close()
    for _ in range(2):
        with pytest.raises(StoreError, match=r"l\.db is a ledger without"):
            PeerStore.open(tmp_path / "l.db")


@pytest.mark.parametrize(
    "statement", ["CREATE TABLE more (x)", "DROP TABLE sample", "CREATE INDEX i ON parcel (round)", "DROP TABLE state"]
)
def test_other_tables_are_refused(tmp_path, statement):
    path = full(tmp_path)
    changed(path, statement)
    with pytest.raises(LedgerError, match="not those of a ledger"):
        PeerStore.open(path)


def test_a_store_is_a_ledger_for_those_who_read_it(tmp_path):
    path = str(full(tmp_path))
    for words in (["show", path], ["show", path, "--json"], ["verify", path], ["export", path]):
        result = CliRunner().invoke(app, ["ledger", *words])
        assert result.exit_code == 0, result.output
    assert "r1" in result.output


@settings(
    derandomize=True, deadline=None, max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(position=st.integers(0, 2**31), flipped=st.integers(1, 255))
def test_a_changed_byte_is_noticed_or_changes_nothing(original, position, flipped):
    path, known = original
    whole = bytearray(path.read_bytes())
    whole[position % len(whole)] ^= flipped
    with tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None) as name:
        damaged = Path(name) / "s.db"
        damaged.write_bytes(whole)
        try:
            found = everything(damaged)
        except (StoreError, LedgerError):
            return
    assert found == known


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    directory = tmp_path_factory.mktemp("original")
    with created(directory) as store:
        for number in range(1, 6):
            store.commit(
                charges=[(f"r{number}", EVENT)],
                snapshot=b"s" * 900,
                parcels=[parcel(number, "a", b"x" * 300)],
                seen=[Seen(number % 2, bytes([number]) * 16)],
            )
            store.append_samples([b"sample" * 20])
            store.keep_keys({("b", str(number)): PairKey(b"own" * 9, b"key" * 9, b"remote" * 5, number)})
    return directory / "s.db", everything(directory / "s.db")
