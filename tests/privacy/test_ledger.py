"""Charges: the order of what happens, what is refused, and failing closed."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tacit.core.errors import BudgetExceeded, LedgerError, PrivacyError
from tacit.privacy.events import Event
from tacit.privacy.ledger import Ledger, opening
from tacit.privacy.ledger import ledger as ledger_module
from tacit.privacy.ledger import store as ledger_store
from tacit.privacy.ledger.store import PEER_SCHEMA
from tacit.privacy.ledger.witness import read_mark
from tests.privacy.ledgers import BUDGET, EVENT, content, made, verify

# The order: charge, commit, witness, draw.


def test_a_release_is_durable_and_witnessed_before_it_is_drawn(tmp_path: Path) -> None:
    path, witness = tmp_path / "l.db", tmp_path / "witness"
    seen: list[Any] = []

    def draw() -> str:
        on_disk = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
        seen.append(on_disk.execute("SELECT sequence, release, hash FROM entry ORDER BY sequence DESC").fetchone())
        on_disk.close()
        mark = read_mark(witness)
        assert mark is not None
        seen.append((mark.sequence, mark.hash))
        assert ledger.spent().epsilon == 0.1
        return f"noisy {ledger.releases}"

    with Ledger.create(path, BUDGET, witness) as ledger:
        assert ledger.release("round 1", EVENT, draw) == "noisy 1"
        receipt = ledger._last
    assert seen == [(1, "round 1", receipt.hash), (1, receipt.hash)]


def test_a_draw_that_fails_stays_charged_and_the_ledger_open(tmp_path: Path) -> None:
    def draw() -> None:
        raise ValueError("no entropy")

    with Ledger.create(tmp_path / "l.db", BUDGET) as ledger:
        with pytest.raises(ValueError, match="no entropy"):
            ledger.release("round 1", EVENT, draw)
        assert ledger.releases == 1
        with pytest.raises(LedgerError, match="'round 1' .*\\(entry 1\\).*new name"):
            ledger.release("round 1", EVENT, lambda: pytest.fail("drawn twice"))
        assert ledger.spent().epsilon == 0.1
        ledger.charge("round 1, second time", EVENT)


def test_the_budget_is_reached_and_never_exceeded(tmp_path: Path) -> None:
    with Ledger.create(tmp_path / "l.db", BUDGET) as ledger:
        for number in range(10):
            ledger.charge(f"round {number}", EVENT)
        with pytest.raises(BudgetExceeded, match="'round 10'.*1.1, .*budget of 1"):
            ledger.release("round 10", EVENT, lambda: pytest.fail("drawn"))
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


def test_a_refusal_in_advance_is_that_of_the_charge_and_books_nothing(tmp_path: Path) -> None:
    with Ledger.create(tmp_path / "l.db", BUDGET) as ledger:
        ledger.charge("r0", EVENT)
        ledger.refuse([])
        ledger.refuse([(f"s{number}", EVENT) for number in range(9)])
        for charges, error, message in (
            ([(f"s{number}", EVENT) for number in range(10)], BudgetExceeded, "'s0' and 9 more"),
            ([("s0", EVENT), ("r0", EVENT)], LedgerError, "'r0' is booked"),
            ([("s0", EVENT), ("s0", EVENT)], LedgerError, "same release twice"),
            ([("", EVENT)], LedgerError, "expected 1 to 200"),
            ([("s0", None)], LedgerError, "not an Event"),
        ):
            with pytest.raises(error, match=message):
                ledger.refuse(charges)  # type: ignore[arg-type]
        assert ledger.releases == 1
        ledger.charge("s0", EVENT)
    with pytest.raises(LedgerError, match="is closed"):
        ledger.refuse([])
    assert [entry.release for entry in content(tmp_path / "l.db")] == ["r0", "s0"]


# What a peer writes in the same transaction.


def begin_store(connection: sqlite3.Connection) -> int:
    for statement in PEER_SCHEMA:
        connection.execute(statement)
    return 0


def put(text: str) -> Callable[[sqlite3.Connection], int]:
    def write(connection: sqlite3.Connection) -> int:
        connection.execute("INSERT INTO piece (data) VALUES (?)", (text.encode(),))
        return len(text)

    return write


def pieces(connection: sqlite3.Connection) -> list[str]:
    return [data.decode() for (data,) in connection.execute("SELECT data FROM piece ORDER BY id")]


def test_charges_and_what_a_peer_writes_are_durable_together(tmp_path: Path) -> None:
    path, witness = tmp_path / "l.db", tmp_path / "witness"
    with Ledger.create(path, BUDGET, witness, also=begin_store) as ledger:
        assert ledger.charge_all([("r1", EVENT)], put("one"))[0].sequence == 1
        seen = witness.stat().st_ino
        assert ledger.charge_all([], put("two")) == ()
        assert witness.stat().st_ino == seen  # nothing was booked, so there is nothing to witness
        with pytest.raises(LedgerError, match="'r1' is booked"):
            ledger.charge_all([("r1", EVENT)], put("three"))
        assert ledger.read(pieces) == ["one", "two"]
    with Ledger.open(path, witness=witness) as ledger:
        assert (ledger.releases, ledger.read(pieces)) == (1, ["one", "two"])
    with pytest.raises(LedgerError, match="is closed"):
        ledger.read(pieces)
    assert verify(path, witness).last.release == "r1"


@pytest.mark.parametrize("error", [ValueError("mistake"), sqlite3.OperationalError("disk I/O error")])
def test_a_peer_that_fails_while_it_writes_closes_the_ledger_and_leaves_nothing(
    tmp_path: Path, error: Exception
) -> None:
    def write(connection: sqlite3.Connection) -> int:
        put("half")(connection)
        raise error

    path = tmp_path / "l.db"
    ledger = Ledger.create(path, BUDGET, also=begin_store)
    ledger.charge_all([("r1", EVENT)], put("one"))
    with pytest.raises(ValueError if isinstance(error, ValueError) else LedgerError):
        ledger.charge_all([("r2", EVENT)], write)
    with pytest.raises(LedgerError, match="closed.*charge failed"):
        ledger.charge("r3", EVENT)
    with Ledger.open(path) as ledger:
        assert (ledger.releases, ledger.read(pieces)) == (1, ["one"])


def test_a_failed_reading_closes_the_ledger(tmp_path: Path) -> None:
    ledger = Ledger.create(tmp_path / "l.db", BUDGET)
    with pytest.raises(LedgerError, match="no such table"):
        ledger.read(pieces)
    with pytest.raises(LedgerError, match="is closed"):
        ledger.charge("r1", EVENT)


def test_much_that_is_written_is_moved_out_of_the_log_sooner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ledger_module, "BYTES_PER_CHECKPOINT", 100_000)
    with Ledger.create(tmp_path / "l.db", BUDGET, also=begin_store) as ledger:
        for _ in range(100):
            ledger.charge_all([], put("x" * 20_000))
        assert (tmp_path / "l.db-wal").stat().st_size < 400_000


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
        ledger.release("round 2", EVENT, lambda: pytest.fail("drawn"))
    for _ in range(2):
        with pytest.raises(LedgerError, match="closed.*charge failed"):
            ledger.release("round 3", EVENT, lambda: pytest.fail("drawn"))
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
    with pytest.raises(LedgerError, match="durable.*nothing was released"):
        ledger.release("round 2", EVENT, lambda: pytest.fail("drawn"))
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
        patch.setattr(opening, "sync", failing)
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
