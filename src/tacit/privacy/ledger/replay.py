"""Verification of a ledger from its first entry on, with the sums of what it books."""

from __future__ import annotations

import sqlite3
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple, TypeVar

from tacit.core.errors import LedgerError, PrivacyError
from tacit.privacy.accounting import Account
from tacit.privacy.events import Event, Total
from tacit.privacy.ledger.entries import (
    BOUND,
    FORMAT,
    GENESIS,
    UNDERCOUNTING,
    Entry,
    Genesis,
    decode_event,
    decode_genesis,
)
from tacit.privacy.ledger.store import format_of, reading, walk
from tacit.privacy.ledger.witness import Mark, read_mark

T = TypeVar("T")


class Receipt(NamedTuple):
    """Proof that a release is booked: number and hash of its entry in the chain."""

    sequence: int
    """Number of the entry, from 1 on; entry 0 is the genesis."""
    hash: bytes
    """SHA-256 over the entry and the hash before it."""


class Replay:
    """A ledger read from its beginning: iterate over it once, and every entry is verified and added up."""

    genesis: Genesis
    """Facts of the ledger's beginning: budget, identity, format."""
    last: Entry
    """The entry that was read last."""
    jobs: tuple[str, ...]
    """Jobs that it was bound to one after the other: that of its beginning first, the present one last."""

    def __init__(self, connection: sqlite3.Connection, mark: Mark | None) -> None:
        self.account = Account()
        self.format = format_of(connection)
        self.at_most = Total()
        """The loss if every release was of every record: an upper bound."""
        self._connection = connection
        self._mark = mark

    def __iter__(self) -> Iterator[tuple[Entry, Event]]:
        entries = walk(self._connection)
        self.last = next(entries)
        if self.last.release != GENESIS:
            raise LedgerError(f"entry 0 is {self.last.release!r}, expected {GENESIS!r}")
        self.genesis = decode_genesis(self.last.event, self.format)
        self.jobs = (self.genesis.job,)
        self._compare()
        for self.last in entries:
            try:
                event = decode_event(self.last.event, self.format)
                self.account = self.account.charged(event)
                self.at_most = self.at_most.plus(Total.of(event.loss))
            except PrivacyError as error:
                raise LedgerError(f"entry {self.last.sequence}: {error}") from error
            self._compare()
            if self.last.release.startswith(BOUND):
                self.jobs += (self.last.release.removeprefix(BOUND),)
            yield self.last, event
        if self._mark is not None and self._mark.sequence > self.last.sequence:
            raise LedgerError(
                f"it ends at entry {self.last.sequence}, but its witness has seen entry {self._mark.sequence}: it was "
                "rolled back, and charges are lost; put the newer file back, or begin a new ledger with what is left"
            )

    def run(self) -> Replay:
        """Go through all of it."""
        deque(self, maxlen=0)
        return self

    def _compare(self) -> None:
        mark = self._mark
        if mark is None:
            return
        if mark.ledger != self.genesis.ledger:
            raise LedgerError(f"it is ledger {self.genesis.ledger}, but the witness is that of ledger {mark.ledger}")
        if mark.sequence == self.last.sequence and mark.hash != self.last.hash:
            raise LedgerError(
                f"entry {mark.sequence} is not the one that its witness has seen: it was rolled back and went on "
                "from there; put the newer file back, or begin a new ledger with what is left"
            )


def inspect(path: Path, collect: Callable[[Replay], T], witness: Path | None = None) -> T:
    """Verify a ledger and read it, also while another process charges.

    Args:
      path: The file, which is never written to.
      collect: Gets the `Replay`, iterates over it (or calls `run`), and returns what is wanted of it.
      witness: The ledger's witness, to find out an old copy; None: unchecked.

    Returns:
      The result of `collect`; it may have been called twice, where a writer came meanwhile.

    Raises:
      LedgerError: It is damaged, was changed, or is behind its witness.

    Example:
      >>> import pathlib, tempfile
      >>> from tacit.privacy.ledger import Budget, Ledger, inspect
      >>> with tempfile.TemporaryDirectory() as directory:
      ...     path = pathlib.Path(directory) / "ledger.db"
      ...     Ledger.create(path, Budget(rho=0.5)).close()
      ...     inspect(path, lambda replay: replay.run().account)
      Account(epsilon 0, rho 0)
    """
    mark = None
    if witness is not None:
        mark = read_mark(witness)  # before the ledger, which may be ahead of it and never behind
        if mark is None:
            raise LedgerError(f"the witness {witness} does not exist: name the file that the ledger was made with")
    return reading(path, lambda connection: collect(Replay(connection, mark)), (UNDERCOUNTING, FORMAT))
