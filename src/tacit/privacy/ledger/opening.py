"""Opening of a ledger: locked, verified from its first entry on, and its log emptied."""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

from tacit.core.errors import LedgerError, said
from tacit.privacy.ledger.replay import Receipt, Replay
from tacit.privacy.ledger.store import SQLITE_FAILURES, WriterLock, checkpoint, connect_writer, reading, sync
from tacit.privacy.ledger.witness import Mark, read_mark, write_mark

T = TypeVar("T")


@contextlib.contextmanager
def opened(path: Path, witness: Path | None) -> Iterator[tuple[sqlite3.Connection, WriterLock, Replay]]:
    """Lock, open and verify a ledger; free it again if anything is wrong."""
    with contextlib.ExitStack() as undo:
        try:
            reading(path, lambda _: None)  # before a lock file is put beside what may be no ledger
            held = WriterLock(path)
            undo.callback(held.free)
            connection = connect_writer(path)
            undo.callback(connection.close)
            replay = _prefixed(path, Replay(connection, None if witness is None else read_mark(witness)).run)
            if not checkpoint(connection, "TRUNCATE"):
                raise LedgerError(f"{path}: a reader is in the way; wait until it has finished, and open it again")
            sync(path.parent)  # the log's name: SQLite does this too, but ignores it when it fails
            yield connection, held, replay
        except (*SQLITE_FAILURES, OSError) as error:
            raise LedgerError(f"{path} cannot be opened: {said(error)}") from error
        undo.pop_all()


def renew_witness(path: Path, witness: Path) -> Receipt:
    """Make a witness for a ledger whose own is lost: its end, as it is now, is taken to be the true one.

    Args:
      path: The ledger, which no process may have open.
      witness: Place of the new witness, where there is none.

    Returns:
      The receipt of the last entry.
    """
    if os.path.lexists(witness):
        raise LedgerError(f"the witness {witness} exists: only a lost one is made anew")
    path = path.resolve()
    with opened(path, None) as (connection, held, replay):
        last = replay.last
        write_mark(witness, Mark(replay.genesis.ledger, last.sequence, last.hash))
        connection.close()
        held.free()
    return Receipt(last.sequence, last.hash)


def _prefixed(path: Path, act: Callable[[], T]) -> T:
    try:
        return act()
    except LedgerError as error:
        raise LedgerError(f"{path} cannot be used as a ledger: {error}") from error
