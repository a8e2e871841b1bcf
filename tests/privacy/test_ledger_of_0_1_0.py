"""Ledgers of tacit 0.1.0, which may hold less than was spent: they are read with a warning, and never added to."""

from __future__ import annotations

import json
import sqlite3
from dataclasses import asdict
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tacit.cli import app
from tacit.core.errors import LedgerError
from tacit.privacy.accounting import Budget
from tacit.privacy.events import Event, Total, fresh
from tacit.privacy.ledger import Ledger, inspect
from tacit.privacy.ledger import store as ledger_store
from tacit.privacy.ledger.entries import Genesis, encode_genesis, sealed
from tacit.privacy.ledger.store import APPLICATION_ID


def text_of(event: Event) -> str:
    """Return an event as 0.1.0 wrote it."""
    return json.dumps(
        {k: v for k, v in asdict(event).items() if k not in ("calibration", "series")},
        sort_keys=True,
        separators=(",", ":"),
    )


@pytest.fixture
def old(tmp_path: Path) -> Path:
    """Forty releases of epsilon 1, each said to be of fresh records, as a private dual was booked; one of bounded noise."""
    path = tmp_path / "old.db"
    events = [Event("laplace", "laplace", 2.0, 2.0, records=fresh(t)) for t in range(1, 41)]
    events.append(Event("bounded_laplace", "bounded_laplace", 1.0, 2.0, bound=40.0, records=fresh(41)))
    entries = [sealed(0, "genesis", encode_genesis(Genesis("ab", Budget(epsilon=1.0), "job", False), 1), bytes(32))]
    for number, event in enumerate(events, 1):
        entries.append(sealed(number, f"round {number}", text_of(event), entries[-1].hash))
    connection = sqlite3.connect(path)
    for statement in ledger_store._SCHEMA:
        connection.execute(statement)
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    connection.execute("PRAGMA user_version = 1")
    connection.executemany("INSERT INTO entry VALUES (?, ?, ?, ?, ?)", entries)
    connection.commit()
    connection.close()
    return path


def test_it_is_read_and_says_what_it_can_be_at_most(old: Path) -> None:
    replay = inspect(old, lambda replay: replay.run())
    assert replay.account.spent().epsilon == 1.0
    assert replay.at_most.loss.epsilon == 40.5
    assert replay.at_most.loss.delta == Total.of(Event("", "bounded_laplace", 1.0, 2.0, bound=20.0).loss).loss.delta
    shown = CliRunner().invoke(app, ["ledger", "show", str(old)])
    assert shown.exit_code == 0
    assert "0.1.0" in shown.output
    assert "40.5" in shown.output
    assert CliRunner().invoke(app, ["ledger", "verify", str(old)]).exit_code == 0


def test_it_is_not_added_to(old: Path) -> None:
    before = old.read_bytes()
    with pytest.raises(LedgerError, match="0.1.0"):
        Ledger.open(old)
    assert old.read_bytes() == before


def test_a_new_ledger_has_no_such_row(tmp_path: Path) -> None:
    with Ledger.create(tmp_path / "new.db", Budget(epsilon=1.0)) as ledger:
        ledger.charge("a", Event("laplace", "laplace", 1.0, 2.0, calibration=0.5))
    shown = CliRunner().invoke(app, ["ledger", "show", str(tmp_path / "new.db")])
    assert "0.1.0" not in shown.output
    assert "at most" not in shown.output
