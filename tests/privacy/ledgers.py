"""Ledgers that the tests make, read and tamper with."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from tacit.privacy.accounting import Budget
from tacit.privacy.events import Event
from tacit.privacy.ledger import Ledger, Replay, inspect
from tacit.privacy.ledger.entries import Entry

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
