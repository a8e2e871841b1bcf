from __future__ import annotations

import json
import multiprocessing
import os
import shutil
import signal
import sqlite3
import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tacit.errors import BudgetExceeded, LedgerError, PrivacyError
from tacit.privacy import ledger as ledger_module
from tacit.privacy import ledger_store
from tacit.privacy.accounting import Budget
from tacit.privacy.events import Event
from tacit.privacy.ledger import Ledger, Receipt, Replay, inspect, renew_witness
from tacit.privacy.ledger_store import (
    Entry,
    Genesis,
    decode_event,
    decode_genesis,
    encode_event,
    encode_genesis,
    sealed,
)
from tacit.privacy.witness import Mark, read_mark, write_mark

EVENT = Event("laplace", "laplace", sensitivity=1.0, scale=10.0)
BUDGET = Budget(epsilon=1.0)
MANY = Budget(epsilon=1e6)


def made(path: Path, charges: int, budget: Budget = MANY, witness: Path | None = None) -> Path:
    with Ledger.create(path, budget, witness) as ledger:
        for number in range(1, charges + 1):
            ledger.charge(f"round {number}", EVENT)
    return path


def verify(path: Path, witness: Path | None = None) -> Replay:
    return inspect(path, lambda replay: replay.run(), witness)


def content(path: Path) -> list[Entry]:
    return inspect(path, lambda replay: [entry for entry, _ in replay])


def edit(path: Path, *statements: str) -> None:
    """Change the file as somebody would who knows SQLite: without the triggers, which are then put back."""
    connection = sqlite3.connect(path, isolation_level=None)
    triggers = connection.execute(
        "SELECT name, sql FROM sqlite_master WHERE type = 'trigger' ORDER BY rowid"
    ).fetchall()
    for name, _ in triggers:
        connection.execute(f"DROP TRIGGER {name}")
    for statement in statements:
        connection.execute(statement)
    for _, sql in triggers:
        connection.execute(sql)
    connection.close()


def listing(directory: Path) -> list[str]:
    return sorted(entry.name for entry in directory.iterdir())


# The order: charge, commit, witness, draw.


def test_a_release_is_durable_and_witnessed_before_it_is_drawn(tmp_path: Path) -> None:
    path, witness = tmp_path / "l.db", tmp_path / "witness"
    seen: list[Any] = []

    def draw(receipt: Receipt) -> str:
        on_disk = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
        seen.append(on_disk.execute("SELECT sequence, release, hash FROM entry ORDER BY sequence DESC").fetchone())
        on_disk.close()
        mark = read_mark(witness)
        assert mark is not None
        seen.append((mark.sequence, mark.hash))
        assert ledger.spent().epsilon == 0.1
        return f"noisy {receipt.sequence}"

    with Ledger.create(path, BUDGET, witness) as ledger:
        assert ledger.release("round 1", EVENT, draw) == "noisy 1"
        receipt = ledger._last
    assert seen == [(1, "round 1", receipt.hash), (1, receipt.hash)]


def test_a_draw_that_fails_stays_charged_and_the_ledger_open(tmp_path: Path) -> None:
    def draw(_: Receipt) -> None:
        raise ValueError("no entropy")

    with Ledger.create(tmp_path / "l.db", BUDGET) as ledger:
        with pytest.raises(ValueError, match="no entropy"):
            ledger.release("round 1", EVENT, draw)
        assert ledger.releases == 1
        with pytest.raises(LedgerError, match="'round 1' is booked already \\(entry 1\\).*new name"):
            ledger.release("round 1", EVENT, lambda _: pytest.fail("drawn twice"))
        assert ledger.spent().epsilon == 0.1
        ledger.charge("round 1, second time", EVENT)


def test_the_budget_is_reached_and_never_exceeded(tmp_path: Path) -> None:
    with Ledger.create(tmp_path / "l.db", BUDGET) as ledger:
        for number in range(10):
            ledger.charge(f"round {number}", EVENT)
        with pytest.raises(
            BudgetExceeded, match="'round 10'.*epsilon would be 1.1, above the budget of 1.*less.*spent is"
        ):
            ledger.release("round 10", EVENT, lambda _: pytest.fail("drawn"))
        assert ledger.releases == 10
        assert ledger.left().epsilon == pytest.approx(0, abs=1e-12)
        ledger.charge("free", Event("laplace", "laplace", sensitivity=0.0, scale=1.0))
    with Ledger.open(tmp_path / "l.db") as ledger, pytest.raises(BudgetExceeded):
        ledger.charge("round 10", EVENT)


def test_what_is_shown_to_one_observer_counts_for_all_together(tmp_path: Path) -> None:
    def shown_to(name: str) -> Event:
        return Event("laplace", "laplace", 1.0, 2.0, observers=(name,))

    with Ledger.create(tmp_path / "l.db", BUDGET) as ledger:
        ledger.charge("a", shown_to("alice"))
        ledger.charge("b", shown_to("bob"))
        assert ledger.spent("alice").epsilon == 0.5
        assert ledger.left("alice").epsilon == 0.5
        with pytest.raises(BudgetExceeded):
            ledger.charge("c", shown_to("carol"))


def test_several_charges_are_booked_all_or_none(tmp_path: Path) -> None:
    with Ledger.create(tmp_path / "l.db", BUDGET) as ledger:
        receipts = ledger.charge_all([(f"r{number}", EVENT) for number in range(4)])
        assert [receipt.sequence for receipt in receipts] == [1, 2, 3, 4]
        assert len({receipt.hash for receipt in receipts}) == 4
        with pytest.raises(BudgetExceeded, match="'s0' and 6 more"):
            ledger.charge_all([(f"s{number}", EVENT) for number in range(7)])
        with pytest.raises(LedgerError, match="'r3' is booked"):
            ledger.charge_all([("s0", EVENT), ("r3", EVENT)])
        with pytest.raises(LedgerError, match="same release twice"):
            ledger.charge_all([("s0", EVENT), ("s0", EVENT)])
        assert ledger.charge_all([]) == ()
        assert ledger.releases == 4
    assert [entry.release for entry in content(tmp_path / "l.db")] == ["r0", "r1", "r2", "r3"]


@pytest.mark.parametrize("name", ["", "two\nlines", "x" * 201, "\ud800", 7])
def test_a_release_without_a_proper_name_is_refused(tmp_path: Path, name: Any) -> None:
    with Ledger.create(tmp_path / "l.db", BUDGET) as ledger:
        with pytest.raises(LedgerError, match="expected 1 to 200 printable"):
            ledger.charge(name, EVENT)
        ledger.charge("x" * 200, EVENT)


def test_what_is_not_an_event_is_refused(tmp_path: Path) -> None:
    import numpy as np

    with Ledger.create(tmp_path / "l.db", BUDGET) as ledger:
        with pytest.raises(LedgerError, match="not an Event"):
            ledger.charge("x", {"epsilon": 0.1})  # type: ignore[arg-type]
        with pytest.raises(LedgerError, match="plain Python numbers"):
            ledger.charge("x", Event("laplace", "laplace", np.float32(1.0), 10.0))  # type: ignore[arg-type]
        ledger.charge("x", EVENT)
        with pytest.raises(PrivacyError, match="adjacency"):
            ledger.charge("y", Event("laplace", "laplace", 1.0, 10.0, adjacency="dataset"))
        ledger.charge("y", EVENT)
        assert ledger.releases == 2


# Failing closed.


class Failing:
    """A connection whose n-th statement that begins with `word` fails, before or after it is done."""

    def __init__(self, real: sqlite3.Connection, word: str, error: BaseException, after: bool = False) -> None:
        self.real, self.word, self.error, self.after = real, word, error, after

    def __getattr__(self, name: str) -> Any:
        def call(*arguments: Any) -> Any:
            hit = bool(arguments) and arguments[0].startswith(self.word)
            if hit and not self.after:
                raise self.error
            result = getattr(self.real, name)(*arguments)
            if hit:
                raise self.error
            return result

        return call


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("word", ["SELECT", "BEGIN", "INSERT", "COMMIT", "PRAGMA wal_checkpoint"])
@pytest.mark.parametrize(
    "error", [sqlite3.OperationalError("disk I/O error"), sqlite3.DatabaseError("malformed"), KeyboardInterrupt()]
)
def test_a_failed_charge_closes_the_ledger_for_good(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, word: str, error: BaseException, after: bool
) -> None:
    monkeypatch.setattr(ledger_module, "COMMITS_PER_CHECKPOINT", 2)
    path = tmp_path / "l.db"
    ledger = Ledger.create(path, BUDGET)
    ledger.charge("round 1", EVENT)
    ledger._connection = Failing(ledger._connection, word, error, after)  # type: ignore[assignment]
    expected = type(error) if isinstance(error, KeyboardInterrupt) else LedgerError
    with pytest.raises(expected):
        ledger.release("round 2", EVENT, lambda _: pytest.fail("drawn"))
    for _ in range(2):
        with pytest.raises(LedgerError, match="closed.*charge failed.*open it anew"):
            ledger.release("round 3", EVENT, lambda _: pytest.fail("drawn"))
    with Ledger.open(path) as again:
        committed = word.startswith("PRAGMA") or (word == "COMMIT" and after)
        assert again.releases == (2 if committed else 1)
        assert again.spent() == verify(path).account.spent()


def test_a_witness_that_cannot_be_written_stops_releases(tmp_path: Path) -> None:
    path, elsewhere = tmp_path / "l.db", tmp_path / "elsewhere"
    elsewhere.mkdir()
    ledger = Ledger.create(path, BUDGET, elsewhere / "witness")
    ledger.charge("round 1", EVENT)
    elsewhere.rename(tmp_path / "unplugged")
    with pytest.raises(LedgerError, match="could not be made durable.*nothing was released.*open it anew"):
        ledger.release("round 2", EVENT, lambda _: pytest.fail("drawn"))
    with pytest.raises(LedgerError, match="closed"):
        ledger.charge("round 3", EVENT)
    (tmp_path / "unplugged").rename(elsewhere)
    with Ledger.open(path, witness=elsewhere / "witness") as ledger:
        assert ledger.releases == 2  # ahead of its witness: charged, not released
        ledger.charge("round 3", EVENT)


def test_a_closed_ledger_refuses_and_can_be_closed_again(tmp_path: Path) -> None:
    ledger = Ledger.create(tmp_path / "l.db", BUDGET)
    ledger.close()
    ledger.close()
    with pytest.raises(LedgerError, match="it was closed"):
        ledger.charge("x", EVENT)


def test_every_commit_is_synced(tmp_path: Path) -> None:
    with Ledger.create(tmp_path / "l.db", BUDGET) as ledger:
        pragma = {
            name: ledger._connection.execute(f"PRAGMA {name}").fetchone()[0]
            for name in ("synchronous", "journal_mode", "wal_autocheckpoint", "fullfsync", "checkpoint_fullfsync")
        }
    assert pragma == {
        "synchronous": 2,
        "journal_mode": "wal",
        "wal_autocheckpoint": 0,
        "fullfsync": 1,
        "checkpoint_fullfsync": 1,
    }


def test_the_log_is_emptied_at_opening_and_stays_small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ledger_module, "COMMITS_PER_CHECKPOINT", 10)
    path = tmp_path / "l.db"
    made(path, 3)
    with Ledger.open(path) as ledger:
        assert (tmp_path / "l.db-wal").stat().st_size == 0
        for number in range(100):
            ledger.charge(f"more {number}", EVENT)
        assert (tmp_path / "l.db-wal").stat().st_size < 40 * 4096 * 10 // 8


def test_the_name_of_the_log_is_synced_before_the_first_charge(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = made(tmp_path / "l.db", 1)

    def failing(synced: Path) -> None:
        assert synced == tmp_path.resolve()
        assert (tmp_path / "l.db-wal").exists()
        raise OSError("I/O error")

    with monkeypatch.context() as patch:
        patch.setattr(ledger_module, "sync", failing)
        with pytest.raises(LedgerError, match="cannot be opened: I/O error"):
            Ledger.open(path)
    Ledger.open(path).close()


def test_a_reader_in_the_way_of_opening_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ledger_store, "BUSY_SECONDS", 0.01)
    path = made(tmp_path / "l.db", 1)
    crashed = tmp_path / "copy"
    crashed.mkdir()
    with Ledger.open(path) as ledger:
        ledger.charge("x", EVENT)
        for suffix in ("", "-wal"):
            shutil.copy(f"{path}{suffix}", crashed)
    reader = sqlite3.connect(f"file:{crashed / 'l.db'}?mode=ro", uri=True, isolation_level=None)
    reader.execute("BEGIN")
    reader.execute("SELECT count(*) FROM entry").fetchone()
    with pytest.raises(LedgerError, match="a reader is in the way"):
        Ledger.open(crashed / "l.db")
    reader.close()
    with Ledger.open(crashed / "l.db") as ledger:
        assert ledger.releases == 2


# Opening and creating.


def test_budget_job_and_witness_are_fixed_at_the_beginning(tmp_path: Path) -> None:
    path, witness = tmp_path / "l.db", tmp_path / "witness"
    Ledger.create(path, BUDGET, witness, job="occupancy").close()
    for other in (Budget(epsilon=2.0), Budget(epsilon=0.5), Budget(rho=1.0), Budget(epsilon=1.0, delta=1e-6)):
        with pytest.raises(LedgerError, match="has the budget Budget\\(epsilon=1.0.*not Budget\\(.*fixed"):
            Ledger.open(path, other, witness)
    with pytest.raises(LedgerError, match="job 'occupancy', not of 'rcv1'"):
        Ledger.open(path, BUDGET, witness, job="rcv1")
    with pytest.raises(LedgerError, match="has a witness"):
        Ledger.open(path, BUDGET)
    with Ledger.open(path, BUDGET, witness, "occupancy") as ledger:
        assert ledger.budget == BUDGET
        assert ledger.genesis.job == "occupancy"
    assert Ledger.open(path, witness=witness).close() is None  # type: ignore[func-returns-value]


def test_a_new_ledger_is_made_only_where_there_is_none(tmp_path: Path) -> None:
    path = made(tmp_path / "l.db", 1)
    before = path.read_bytes()
    with pytest.raises(LedgerError, match="exists"):
        Ledger.create(path, BUDGET)
    assert path.read_bytes() == before
    for leftover in ("-wal", "-journal", "-shm"):
        (tmp_path / f"m.db{leftover}").write_bytes(b"of a ledger that was deleted")
        with pytest.raises(LedgerError, match=f"m.db{leftover} exists"):
            Ledger.create(tmp_path / "m.db", BUDGET)
        (tmp_path / f"m.db{leftover}").unlink()
    (tmp_path / "witness").write_text("{}")
    with pytest.raises(LedgerError, match="witness .* exists.*another ledger"):
        Ledger.create(tmp_path / "m.db", BUDGET, tmp_path / "witness")
    with pytest.raises(LedgerError, match="no ledger can be made"):
        Ledger.create(tmp_path / "nowhere" / "l.db", BUDGET)
    with pytest.raises(LedgerError, match="job"):
        Ledger.create(tmp_path / "m.db", BUDGET, job="two\nlines")
    assert not (tmp_path / "m.db").exists()
    assert not [name for name in listing(tmp_path) if name.startswith(".")]


def other_application(path: Path) -> None:
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE entry (x)")
    connection.commit()
    connection.close()


def of_a_later_format(path: Path) -> None:
    made(path, 1)
    edit(path, "PRAGMA user_version = 2")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda path: None, "does not exist"),
        (lambda path: path.mkdir(), "is a directory"),
        (lambda path: path.touch(), "application id 0x0"),
        (lambda path: path.write_text("release,epsilon\n" * 100), "not a database"),
        (other_application, "application id 0x0"),
        (of_a_later_format, "format 2, expected 1"),
    ],
)
def test_what_is_not_a_ledger_is_refused_and_left_as_it_is(tmp_path: Path, make: Any, message: str) -> None:
    path = tmp_path / "x.db"
    make(path)
    before, names = path.read_bytes() if path.is_file() else None, listing(tmp_path)
    for attempt in (Ledger.open, verify):
        with pytest.raises(LedgerError, match=message):
            attempt(path)
        assert (path.read_bytes() if path.is_file() else None) == before
        assert listing(tmp_path) == names


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write to read-only files")
def test_a_read_only_file_can_be_verified_and_not_opened(tmp_path: Path) -> None:
    path = made(tmp_path / "l.db", 2)
    path.chmod(0o400)
    assert verify(path).last.sequence == 2
    with pytest.raises(LedgerError, match="read-only"):
        Ledger.open(path)


def test_one_process_at_a_time(tmp_path: Path) -> None:
    path = tmp_path / "l.db"
    with Ledger.create(path, BUDGET) as ledger:
        with pytest.raises(LedgerError, match="held by another process"):
            Ledger.open(path)
        (tmp_path / "alias.db").symlink_to(path)
        with pytest.raises(LedgerError, match="held by another process"):
            Ledger.open(tmp_path / "alias.db")
        ledger.charge("still works", EVENT)
    Ledger.open(path).close()


def hold(path: Path, ready: Any, finish: Any) -> None:
    with Ledger.open(path):
        ready.send(True)
        finish.recv()


def test_a_second_process_is_refused_until_the_first_is_gone_and_readers_are_not(tmp_path: Path) -> None:
    path = made(tmp_path / "l.db", 3)
    spawn = multiprocessing.get_context("spawn")
    (ready, child_ready), (child_finish, _finish) = spawn.Pipe(duplex=False), spawn.Pipe(duplex=False)
    process = spawn.Process(target=hold, args=(path, child_ready, child_finish))
    process.start()
    assert ready.recv()
    with pytest.raises(LedgerError, match="held by another process"):
        Ledger.open(path)
    assert verify(path).last.sequence == 3
    process.kill()
    process.join()
    with Ledger.open(path) as ledger:
        assert ledger.releases == 3


def test_a_forked_child_cannot_use_the_ledger_nor_harm_it(tmp_path: Path) -> None:
    path = tmp_path / "l.db"
    receiver, sender = os.pipe()
    with Ledger.create(path, BUDGET) as ledger:
        ledger.charge("before", EVENT)
        ledger._lock.acquire()  # as if another thread were in the midst of a charge
        child = os.fork()
        if child == 0:
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.alarm(5)  # rather than to wait for ever for the lock
            answer = "drawn"
            try:
                ledger.release("in the child", EVENT, lambda _: None)
            except LedgerError as error:
                answer = str(error)
            ledger.close()
            os.write(sender, answer.encode())
            os._exit(0)
        ledger._lock.release()
        os.close(sender)
        os.waitpid(child, 0)
        with os.fdopen(receiver) as answers:
            assert "forked from the one that opened it" in answers.read()
        with pytest.raises(LedgerError, match="held by"):
            Ledger.open(path)
        ledger.charge("after", EVENT)
    assert [entry.release for entry in content(path)] == ["before", "after"]


def test_threads_share_a_ledger(tmp_path: Path) -> None:
    with Ledger.create(tmp_path / "l.db", BUDGET) as ledger:
        refused: list[str] = []

        def charge(thread: int) -> None:
            for number in range(5):
                try:
                    ledger.charge(f"{thread} {number}", EVENT)
                except BudgetExceeded as error:
                    refused.append(str(error))

        threads = [threading.Thread(target=charge, args=(thread,)) for thread in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert ledger.releases == 10
        assert len(refused) == 10
    verify(tmp_path / "l.db")


# The chain.


def test_the_hash_is_that_of_the_documented_bytes() -> None:
    import hashlib

    known = b"tacit ledger entry 1\n" + bytes(7) + b"\x05" + b"p" * 32
    known += bytes(7) + b"\x03" + "né".encode() + bytes(7) + b"\x02" + b"{}"
    assert sealed(5, "né", "{}", b"p" * 32).hash == hashlib.sha256(known).digest()
    assert sealed(5, "ab", "c", bytes(32)).hash != sealed(5, "a", "bc", bytes(32)).hash


def test_events_and_genesis_read_back_as_they_were() -> None:
    event = Event("bounded", "bounded_laplace", 0.1, 1 / 3, 4, 5.5, "component", "round ü", ("a", "b"))
    assert decode_event(encode_event(event)) == event
    assert decode_event(encode_event(Event("none", None, 0.0, 0.0))).distribution is None
    genesis = Genesis("abc", Budget(epsilon=1.0, delta=1e-6), "job", True)
    assert decode_genesis(encode_genesis(genesis)) == genesis


@pytest.mark.parametrize(
    "change",
    [
        lambda v: v | {"surprise": 1},
        lambda v: {name: value for name, value in v.items() if name != "scale"},
        lambda v: {name: value for name, value in v.items() if name != "bound"},
        lambda v: v | {"distribution": "cauchy"},
        lambda v: v | {"scale": -1.0},
        lambda v: v | {"scale": "10"},
        lambda v: v | {"observers": "*"},
        lambda v: v | {"observers": 3},
        lambda v: [v],
    ],
)
def test_an_unknown_event_is_refused(change: Any) -> None:
    text = json.dumps(change(json.loads(encode_event(EVENT))), sort_keys=True, separators=(",", ":"))
    with pytest.raises(LedgerError, match="of format 1"):
        decode_event(text)
    for text in ("", "{", "[" * 100_000, encode_event(EVENT) + " ", encode_event(EVENT).replace("10.0", "NaN")):
        with pytest.raises(LedgerError, match="of format 1"):
            decode_event(text)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"format":1}', "3"])
def test_a_genesis_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(LedgerError, match="entry 0 is not a genesis"):
        decode_genesis(text)
    known = json.loads(encode_genesis(Genesis("abc", BUDGET, "", False)))
    for change in ({"format": 2}, {"more": 1}, {"budget": {"epsilon": -1.0}}):
        with pytest.raises(LedgerError, match="entry 0 is not a genesis"):
            decode_genesis(json.dumps(known | change, sort_keys=True, separators=(",", ":")))


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("UPDATE entry SET event = replace(event, '10.0', '99.0') WHERE sequence = 3", "entry 3 was changed"),
        ("UPDATE entry SET release = 'another' WHERE sequence = 3", "entry 3 was changed"),
        ("UPDATE entry SET hash = zeroblob(32) WHERE sequence = 3", "entry 3 was changed"),
        ("UPDATE entry SET previous = zeroblob(32) WHERE sequence = 3", "entry 3 does not follow"),
        ("DELETE FROM entry WHERE sequence = 3", "entry 3 is missing"),
        ("DELETE FROM entry WHERE sequence = 0", "entry 0 is missing"),
        ("DELETE FROM entry", "no genesis"),
        ("UPDATE entry SET sequence = 6 - sequence WHERE sequence IN (3, 4)", ""),
        ("CREATE TABLE another (x)", "triggers are not those"),
        ("DROP TABLE entry", "triggers are not those|no such table"),
        ("PRAGMA application_id = 7", "application id 0x7"),
    ],
)
def test_an_edited_ledger_is_refused(tmp_path: Path, statement: str, message: str) -> None:
    path = made(tmp_path / "l.db", 5)
    if not message:
        statements = [f"UPDATE entry SET sequence = {b} WHERE sequence = {a}" for a, b in ((3, 90), (4, 3), (90, 4))]
        edit(path, *statements)
        message = "entry 3 does not follow"
    elif "DROP" in statement:
        connection = sqlite3.connect(path)
        connection.execute(statement)
        connection.close()
    else:
        edit(path, statement)
    for attempt in (Ledger.open, verify):
        with pytest.raises(LedgerError, match=message):
            attempt(path)


def test_a_removed_trigger_is_noticed(tmp_path: Path) -> None:
    path = made(tmp_path / "l.db", 2)
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("DROP TRIGGER entry_is_not_deleted")
    connection.close()
    with pytest.raises(LedgerError, match="triggers are not those"):
        verify(path)


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE entry SET event = '{}' WHERE sequence = 1",
        "DELETE FROM entry WHERE sequence = 2",
        "INSERT INTO entry VALUES (4, 'x', '{}', zeroblob(32), zeroblob(32))",
        "INSERT OR REPLACE INTO entry VALUES (2, 'x', '{}', zeroblob(32), zeroblob(32))",
        "INSERT OR REPLACE INTO entry VALUES (3, 'round 1', '{}', zeroblob(32), zeroblob(32))",
    ],
)
def test_the_table_itself_is_append_only(tmp_path: Path, statement: str) -> None:
    connection = sqlite3.connect(made(tmp_path / "l.db", 2))
    with pytest.raises(sqlite3.IntegrityError, match="append-only"):
        connection.execute(statement)
    connection.close()


def rebuilt(path: Path, texts: list[tuple[str, str]]) -> None:
    """Write a chain whose hashes are right."""
    with Ledger.create(path, MANY) as ledger:
        genesis = ledger.genesis
    entries, previous = [], bytes(32)
    for sequence, (release, text) in enumerate([("genesis", encode_genesis(genesis)), *texts]):
        entries.append(sealed(sequence, release, text, previous))
        previous = entries[-1].hash
    connection = sqlite3.connect(path, isolation_level=None)
    ledger_store.append(connection, entries[1:])
    connection.close()


def test_a_chain_with_right_hashes_and_wrong_content_is_refused(tmp_path: Path) -> None:
    rebuilt(tmp_path / "a.db", [("x", encode_event(EVENT)), ("y", '{"surprise":1}')])
    with pytest.raises(LedgerError, match="entry 2: not an event"):
        Ledger.open(tmp_path / "a.db")
    dataset = Event("laplace", "laplace", 1.0, 1.0, adjacency="dataset")
    rebuilt(tmp_path / "b.db", [("x", encode_event(EVENT)), ("y", encode_event(dataset))])
    with pytest.raises(LedgerError, match="entry 2: adjacency"):
        Ledger.open(tmp_path / "b.db")
    rebuilt(tmp_path / "c.db", [("x", encode_event(EVENT))])
    assert verify(tmp_path / "c.db").account.spent().epsilon == 0.1


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made(tmp_path_factory.mktemp("original") / "l.db", 60)


@settings(
    derandomize=True, deadline=None, max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(changes=st.lists(st.tuples(st.integers(0, 2**31), st.integers(1, 255)), min_size=1, max_size=3))
def test_a_changed_byte_is_noticed_or_changes_nothing(
    tmp_path: Path, original: Path, changes: list[tuple[int, int]]
) -> None:
    """Bytes that SQLite does not use may change; whatever can be read must be what was written, or is refused."""
    whole, entries = original.read_bytes(), content(original)
    changed = bytearray(whole)
    for position, flipped in changes:
        changed[position % len(whole)] ^= flipped
    path = tmp_path / "changed.db"
    path.unlink(missing_ok=True)  # some file systems sync a file that is written over
    path.write_bytes(changed)
    try:
        found = content(path)
    except LedgerError:
        return
    assert found == entries


def test_damage_in_the_index_which_finds_repeated_names_is_noticed(tmp_path: Path, original: Path) -> None:
    whole = original.read_bytes()
    positions = [
        at for at in range(len(whole)) if whole.startswith(b"round 31", at) and whole[at + 8 : at + 10] != b'{"'
    ]
    assert len(positions) == 1
    changed = bytearray(whole)
    changed[positions[0] + 7] ^= 1
    (tmp_path / "l.db").write_bytes(changed)
    with pytest.raises(LedgerError, match="damaged"):
        verify(tmp_path / "l.db")


@pytest.mark.parametrize("word", ["entry_is_not_deleted", "STRICT", "UNIQUE", "BEFORE INSERT"])
def test_damage_in_the_schema_is_damage(tmp_path: Path, original: Path, word: str) -> None:
    """SQLite quotes what it cannot read, and Python cannot decode the quotation."""
    (tmp_path / "l.db").write_bytes(original.read_bytes().replace(word.encode(), b"\xf5" + word.encode()[1:], 1))
    for attempt in (Ledger.open, verify):
        with pytest.raises(LedgerError, match="cannot be (used as a ledger|opened)"):
            attempt(tmp_path / "l.db")


def test_every_byte_of_an_entry_is_covered(tmp_path: Path, original: Path) -> None:
    whole, entries = original.read_bytes(), content(original)
    entry = entries[30]
    row = entry.release.encode() + entry.event.encode() + entry.previous + entry.hash
    start = whole.index(row)
    for position in range(start, start + len(row), 3):
        changed = bytearray(whole)
        changed[position] ^= 1
        (tmp_path / "l.db").unlink(missing_ok=True)
        (tmp_path / "l.db").write_bytes(changed)
        with pytest.raises(LedgerError):
            verify(tmp_path / "l.db")


# The witness.


def copied(path: Path, target: Path) -> None:
    target.mkdir()
    for suffix in ("", "-wal", "-shm"):
        if Path(f"{path}{suffix}").exists():
            shutil.copy(f"{path}{suffix}", target)


def restored(copy: Path, path: Path) -> None:
    for suffix in ("", "-wal", "-shm"):
        Path(f"{path}{suffix}").unlink(missing_ok=True)
    for file in copy.iterdir():
        shutil.copy(file, path.parent)


@pytest.mark.parametrize("while_open", [False, True])
def test_an_old_copy_is_detected(tmp_path: Path, while_open: bool) -> None:
    path, witness = tmp_path / "d" / "l.db", tmp_path / "witness"
    path.parent.mkdir()
    with Ledger.create(path, BUDGET, witness) as ledger:
        for number in range(3):
            ledger.charge(f"round {number}", EVENT)
        if while_open:
            copied(path, tmp_path / "old")
            assert (tmp_path / "old" / "l.db-wal").stat().st_size > 0
    if not while_open:
        copied(path, tmp_path / "old")
    with Ledger.open(path, witness=witness) as ledger:
        ledger.charge("round 3", EVENT)
    restored(tmp_path / "old", path)
    for attempt in (lambda: Ledger.open(path, witness=witness), lambda: verify(path, witness)):
        with pytest.raises(LedgerError, match="ends at entry 3.*witness has seen entry 4.*rolled back"):
            attempt()
    assert verify(path).last.sequence == 3  # by itself it is a valid ledger: only the witness knows


def test_an_old_copy_that_went_on_by_itself_is_detected(tmp_path: Path) -> None:
    path, witness = tmp_path / "d" / "l.db", tmp_path / "witness"
    path.parent.mkdir()
    made(path, 3, witness=witness)
    copied(path, tmp_path / "old")
    old_witness = witness.read_bytes()
    with Ledger.open(path, witness=witness) as ledger:
        ledger.charge("round 4", EVENT)
    new_witness = witness.read_bytes()
    restored(tmp_path / "old", path)
    witness.write_bytes(old_witness)
    with Ledger.open(path, witness=witness) as ledger:
        ledger.charge("another round 4", EVENT)
        ledger.charge("round 5", EVENT)
    witness.write_bytes(new_witness)
    with pytest.raises(LedgerError, match="entry 4 is not the one that its witness has seen"):
        Ledger.open(path, witness=witness)


def test_another_ledger_in_its_place_is_detected(tmp_path: Path) -> None:
    made(tmp_path / "a.db", 2, witness=tmp_path / "a.witness")
    made(tmp_path / "b.db", 2, witness=tmp_path / "b.witness")
    with pytest.raises(LedgerError, match="but the witness is that of ledger"):
        Ledger.open(tmp_path / "a.db", witness=tmp_path / "b.witness")


def test_a_ledger_ahead_of_its_witness_is_fine(tmp_path: Path) -> None:
    path, witness = made(tmp_path / "l.db", 2, witness=tmp_path / "w"), tmp_path / "w"
    entry = content(path)[0]
    write_mark(witness, Mark(verify(path).genesis.ledger, 1, entry.hash))
    with Ledger.open(path, witness=witness) as ledger:
        receipt = ledger.charge("round 3", EVENT)
    assert read_mark(witness) == Mark(ledger.genesis.ledger, 3, receipt.hash)


def test_a_lost_witness_is_made_anew_only_on_request(tmp_path: Path) -> None:
    path, witness = made(tmp_path / "l.db", 2, witness=tmp_path / "w"), tmp_path / "w"
    with pytest.raises(LedgerError, match="exists: only a lost one"):
        renew_witness(path, witness)
    known = witness.read_bytes()
    witness.unlink()
    with pytest.raises(LedgerError, match="is missing, and .* has 2 charges.*renew_witness"):
        Ledger.open(path, witness=witness)
    with pytest.raises(LedgerError, match="does not exist"):
        verify(path, witness)
    assert not witness.exists()
    assert renew_witness(path, witness).sequence == 2
    assert witness.read_bytes() == known
    Ledger.open(path, witness=witness).close()


def test_a_crash_between_making_the_ledger_and_its_witness_is_mended(tmp_path: Path) -> None:
    path, witness = made(tmp_path / "l.db", 0, witness=tmp_path / "w"), tmp_path / "w"
    witness.unlink()
    with Ledger.open(path, witness=witness) as ledger:
        ledger.charge("round 1", EVENT)
    mark = read_mark(witness)
    assert mark is not None
    assert mark.sequence == 1


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}",
        "3",
        "[]",
        "{",
        '{"ledger": "a", "sequence": -1, "hash": "00"}',
        '{"ledger": 1, "sequence": 1, "hash": ""}',
        '{"ledger": "a", "sequence": true, "hash": ""}',
        '{"ledger": "a", "sequence": 1, "hash": "", "x": 1}',
        "é",
    ],
)
def test_what_is_not_a_witness_is_refused(tmp_path: Path, text: str) -> None:
    path, witness = made(tmp_path / "l.db", 1, witness=tmp_path / "w"), tmp_path / "w"
    witness.write_text(text, encoding="utf-8")
    with pytest.raises(LedgerError, match="is not a witness|cannot be read"):
        Ledger.open(path, witness=witness)
    assert witness.read_text(encoding="utf-8") == text


def test_a_witness_that_cannot_be_replaced_leaves_nothing_behind(tmp_path: Path) -> None:
    (tmp_path / "w").mkdir()
    with pytest.raises(OSError, match="directory"):
        write_mark(tmp_path / "w", Mark("a", 1, b""))
    assert listing(tmp_path) == ["w"]


def test_reading_leaves_nothing_behind(tmp_path: Path) -> None:
    path = made(tmp_path / "l.db", 2)
    names = listing(tmp_path)
    verify(path)
    assert listing(tmp_path) == names


def test_a_writer_that_comes_while_it_is_read_makes_it_be_read_again(tmp_path: Path) -> None:
    path = made(tmp_path / "l.db", 2)
    seen: list[int] = []

    def collect(replay: Replay) -> int:
        replay.run()
        if not seen:
            with Ledger.open(path) as ledger:
                ledger.charge("meanwhile", EVENT)
        seen.append(replay.last.sequence)
        return replay.last.sequence

    assert inspect(path, collect) == 3
    assert seen == [2, 3]
