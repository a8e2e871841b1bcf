"""The open ledger: releases are booked, durably, before they leave.

The order is charge, commit, witness, draw: the noise of a release is drawn only when its cost is on the disk. A crash
in between books a release that never happened, which wastes budget; the reverse, a release that is not booked, cannot
happen. A release that was booked and not sent is never sent later: it takes a new name and is charged again.

A peer commits its state and its outbox in the transaction that books (`charge_all(charges, also)`). It then draws first
and lets nothing out before the commit; `tacit.peer.node.store` says why that is as safe.

After a failed write or sync the content of the disk is unknown (a kernel may report a lost page once and then call it
clean), so the ledger closes for good. Opening it anew verifies the whole chain and writes the log into the database
again, with a sync of its own, before the next charge.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import secrets
import sqlite3
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import TypeVar

from tacit.core.contract import Adjacency
from tacit.core.errors import BudgetExceeded, LedgerError, said
from tacit.privacy.accounting import Account, Budget
from tacit.privacy.events import EVERYONE, Event, Loss
from tacit.privacy.ledger.budget_use import BudgetUse, budget_use
from tacit.privacy.ledger.entries import BOUND, Entry, Genesis, binding, encode_event, sealed, validate_name
from tacit.privacy.ledger.opening import opened
from tacit.privacy.ledger.replay import Receipt, Replay
from tacit.privacy.ledger.store import (
    SQLITE_FAILURES,
    Also,
    WriterLock,
    append,
    checkpoint,
    number_of,
    write_new,
)
from tacit.privacy.ledger.witness import Mark, read_mark, refuse_taken, write_mark

T = TypeVar("T")

COMMITS_PER_CHECKPOINT = 256
"""About a thousand pages of log, SQLite's own default."""
BYTES_PER_CHECKPOINT = 1 << 22
"""Of content, where a commit carries more than charges: a replaced key of masks is in the log until the next ones."""


class Ledger:
    """An append-only file of releases, with a budget that is never exceeded.

    Make one with `Ledger.create`, open it again with `Ledger.open`; both are context managers. One process has it open
    at a time; threads may share it. A forked child cannot use it. After a failed write it is closed for good: open it
    anew.

    Example:
      >>> import pathlib, tempfile
      >>> from tacit.privacy import Event
      >>> from tacit.privacy.ledger import Budget, Ledger
      >>> directory = tempfile.TemporaryDirectory()
      >>> with Ledger.create(pathlib.Path(directory.name) / "ledger.db", Budget(epsilon=1.0)) as ledger:
      ...     noisy = ledger.release("round 1", Event("laplace", "laplace", 1.0, 4.0), draw=lambda: 42)
      ...     print(ledger, ledger.left().epsilon)
      Ledger(ledger.db, 1 release, spent epsilon 0.25, rho 0.03125 of Budget(epsilon=1.0)) 0.75
      >>> directory.cleanup()

    References: docs/privacy.md states what is durable when.
    """

    def __init__(
        self, path: Path, connection: sqlite3.Connection, held: WriterLock, replay: Replay, witness: Path | None
    ) -> None:
        """Take over what `open` has verified; use `Ledger.open` or `Ledger.create`."""
        self.path = path
        self.genesis = replay.genesis
        self.jobs = replay.jobs
        """Jobs that it was bound to one after the other, the present one last."""
        self._connection = connection
        self._held = held
        self._witness = witness
        self._account = replay.account
        self._last = Receipt(replay.last.sequence, replay.last.hash)
        self._lock = threading.Lock()
        self._closed: str | None = None
        self._commits = self._written = 0
        _OPEN.add(self)

    @classmethod
    def create(
        cls, path: Path, budget: Budget, witness: Path | None = None, job: str = "", also: Also | None = None
    ) -> Ledger:
        """Begin a ledger where there is none, and open it.

        Args:
          path: The new file, on a local disk.
          budget: Limit on all releases together, fixed for good.
          witness: File on another disk or host that is told the last entry at each charge, so that an old copy of the
            ledger is found out; None: no witness. Its use is fixed for good.
          job: Name of the job, of 1 to 200 printable characters; "": none.
          also: Writes a peer's tables in the first transaction, and returns about how many bytes.

        Returns:
          The open ledger.

        Raises:
          LedgerError: Something is at `path` already, or it cannot be written.
        """
        path = path.resolve()
        if job:
            validate_name(job, "job")
        genesis = Genesis(secrets.token_hex(16), budget, job, witness is not None)

        def witnessed(first: Entry) -> None:  # before the ledger is there: it never opens without
            if witness is not None:
                write_mark(witness, Mark(genesis.ledger, first.sequence, first.hash))

        if witness is not None:
            refuse_taken(witness)
        try:
            held = WriterLock(path)
            try:
                write_new(path, genesis, also, witnessed)
            finally:
                held.free()
        except (OSError, sqlite3.Error) as error:
            raise LedgerError(f"no ledger can be made at {path}: {said(error)}") from error
        return cls.open(path, budget, witness, job)

    @classmethod
    def open(cls, path: Path, budget: Budget | None = None, witness: Path | None = None, job: str = "") -> Ledger:
        """Verify all of a ledger and open it for charges.

        Args:
          path: The file.
          budget: The budget it was made with; None: unchecked. Not even a lower one is taken: it would hold only until
            the next opening, and the file would not know of it.
          witness: The witness it was made with; required where it has one.
          job: The job it was made for; "": unchecked.

        Returns:
          The open ledger.

        Raises:
          LedgerError: It is damaged, was changed or rolled back, is held by another process, or does not fit.
        """
        path = path.resolve()
        with opened(path, witness) as (connection, held, replay):
            genesis = replay.genesis
            if budget is not None and budget != genesis.budget:
                raise LedgerError(
                    f"{path} has the budget {genesis.budget.words()}, not {budget.words()}: a budget is fixed when the "
                    "ledger is made; open it with its own, or begin a new ledger for other records"
                )
            if job and job != replay.jobs[-1]:
                went = "it went on to a later epoch: use that epoch's file"
                remedy = went if job in replay.jobs else "use its own file (that of an epoch to come when it has begun)"
                raise LedgerError(f"{path} is the ledger of job {replay.jobs[-1]!r}, not of {job!r}; {remedy}")
            if witness is None and genesis.witnessed:
                raise LedgerError(f"{path} has a witness: without it a rolled-back file would go unnoticed; name it")
            if witness is not None:
                mark, last = read_mark(witness), replay.last
                if mark is None:
                    raise LedgerError(
                        f"the witness {witness} is missing: nobody can say that the {last.sequence} charges of {path} "
                        "are all; if it was moved, name its new place; if it is lost and you know that they are, make "
                        "it anew with renew_witness"
                    )
                if mark.sequence < last.sequence:
                    # A crash before the mark: a peer will send what that commit holds, so it must not be taken back.
                    write_mark(witness, Mark(genesis.ledger, last.sequence, last.hash))
            return cls(path, connection, held, replay, witness)

    @property
    def budget(self) -> Budget:
        """Limit on all releases together."""
        return self.genesis.budget

    @property
    def releases(self) -> int:
        """Number of releases booked."""
        return self._last.sequence

    def spent(self, observer: str = EVERYONE) -> Loss:
        """Return the loss booked for an observer; the default is all of them together."""
        return self._account.spent(observer)

    def use(self) -> BudgetUse:
        """Return the figures of the budget over all observers, with what they mean."""
        return budget_use(self.budget, self._account)

    def left(self, observer: str = EVERYONE) -> Loss:
        """Return the rest of the budget of the dearest unit towards an observer.

        The budget is enforced for all observers together. Where each record is released once, the next ones have all of
        it: see `use`.
        """
        return self.budget.left(self.spent(observer))

    def charge(self, release: str, event: Event) -> Receipt:
        """Book one release; when this returns it is on the disk.

        Args:
          release: Its name, of 1 to 200 printable characters, never used before in this ledger.
          event: The declaration that its noise will be drawn from.

        Returns:
          The receipt: number and hash of the entry.

        Raises:
          BudgetExceeded: It would cost more than is left; nothing was booked.
          LedgerError: The name is taken, the ledger is closed, or the disk failed.
        """
        return self.charge_all([(release, event)])[0]

    def charge_all(self, charges: Sequence[tuple[str, Event]], also: Also | None = None) -> tuple[Receipt, ...]:
        """Book several releases, and let `also` write, in one transaction: all of it or nothing.

        Args:
          charges: Names and events, as for `charge`.
          also: May write to a peer's tables only, and returns about how many bytes. If it fails the ledger closes, as
            after any write that failed.

        Returns:
          One receipt per charge.
        """
        texts = _texts(charges)
        with self._lock:
            account = self._account_after(charges)
            entries: list[Entry] = []
            last = self._last
            for release, text in texts:
                entries.append(sealed(last.sequence + 1, release, text, last.hash))
                last = Receipt(entries[-1].sequence, entries[-1].hash)
            with self._closed_on_failure():
                self._written += append(self._connection, entries, also)
                self._commits += 1
                if self._commits >= COMMITS_PER_CHECKPOINT or self._written >= BYTES_PER_CHECKPOINT:
                    checkpoint(self._connection, "PASSIVE")
                    self._commits = self._written = 0
                if self._witness is not None and entries:
                    write_mark(self._witness, Mark(self.genesis.ledger, last.sequence, last.hash))
                self._account, self._last = account, last
                self.jobs += tuple(name.removeprefix(BOUND) for name, _ in charges if name.startswith(BOUND))
        return tuple(Receipt(entry.sequence, entry.hash) for entry in entries)

    def bound_to(self, job: str, adjacency: Adjacency) -> tuple[str, Event]:
        """Return the charge, of nothing, that binds this ledger to another job; `adjacency` if nothing was charged."""
        return binding(job, self._account.adjacency or adjacency)

    def refuse(self, charges: Sequence[tuple[str, Event]]) -> None:
        """Raise what `charge_all` would raise for these charges as things stand; nothing is booked."""
        _texts(charges)
        with self._lock:
            self._account_after(charges)

    def release(self, release: str, event: Event, draw: Callable[[], T]) -> T:
        """Book a release and then draw it; if it cannot be booked, `draw` is not called.

        Args:
          release: Its name, as for `charge`.
          event: The declaration that `draw` draws from.
          draw: Makes the noisy value. If it fails the charge stands: how far it got is not known here.

        Returns:
          The result of `draw`.
        """
        self.charge(release, event)
        return draw()

    def read(self, use: Callable[[sqlite3.Connection], T]) -> T:
        """Let `use` read a peer's tables."""
        with self._lock:
            self._refuse_closed()
            with self._closed_on_failure():
                return use(self._connection)

    def close(self) -> None:
        """Close the file and let another process have it."""
        with self._lock:
            self._shut("it was closed")

    def __repr__(self) -> str:
        count = f"{self.releases:,} release{'' if self.releases == 1 else 's'}"
        closed = "" if self._closed is None else ", closed"
        return f"Ledger({self.path.name}, {count}, spent {self.spent().words()} of {self.budget}{closed})"

    def __enter__(self) -> Ledger:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _account_after(self, charges: Sequence[tuple[str, Event]]) -> Account:
        """Return the account as it will be when these are booked, or refuse them."""
        self._refuse_closed()
        self._refuse_booked([release for release, _ in charges])
        account = self._account
        for _, event in charges:
            account = account.charged(event)
        if charges:
            self._refuse_overspending(account, charges)
        return account

    def _refuse_closed(self) -> None:
        if self._closed is not None:
            raise LedgerError(f"{self.path} is closed: {self._closed}; open it anew")

    def _refuse_booked(self, names: Sequence[str]) -> None:
        if len(set(names)) < len(names):
            raise LedgerError(f"the same release twice in one charge: {', '.join(map(repr, names))}")
        with self._closed_on_failure():
            booked = [(name, number) for name in names if (number := number_of(self._connection, name)) is not None]
        if booked:
            name, number = booked[0]
            raise LedgerError(
                f"release {name!r} is booked already (entry {number}): what was charged once is released once; "
                "take a new name, and it is charged again"
            )

    def _refuse_overspending(self, account: Account, charges: Sequence[tuple[str, Event]]) -> None:
        after = account.spent(EVERYONE)
        refusal = self.budget.refusal(after)
        if refusal is not None:
            asked = repr(charges[0][0]) + ("" if len(charges) == 1 else f" and {len(charges) - 1} more")
            raise BudgetExceeded(
                f"release {asked} is refused: {refusal} (spent is {self.spent().words()}, and after it {after.words()})"
            )

    @contextlib.contextmanager
    def _closed_on_failure(self) -> Iterator[None]:
        try:
            yield
        except BaseException as error:
            self._shut(f"a charge failed ({said(error)}), and what is on the disk is not known")
            if isinstance(error, (*SQLITE_FAILURES, OSError)):
                raise LedgerError(
                    f"{self.path}: the charge could not be made durable ({said(error)}); nothing was released and the "
                    "ledger is closed: see to the disk, then open it anew, which verifies it"
                ) from error
            raise

    def _shut(self, why: str) -> None:
        if self._closed is None:
            self._closed = why
            with contextlib.suppress(sqlite3.Error):
                self._connection.rollback()  # a cursor that is still referred to keeps a closed file locked
            with contextlib.suppress(sqlite3.Error):
                self._connection.close()
            self._held.free()

    def _leave_to_parent(self) -> None:
        # An inherited connection must not even be closed (sqlite.org/howtocorrupt.html, 2.6): one reference too many.
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(self._connection))
        self._lock = threading.Lock()  # the parent's may be held by a thread that does not exist here
        self._closed = "this process was forked from the one that opened it"
        self._held.free()


def _texts(charges: Sequence[tuple[str, Event]]) -> list[tuple[str, str]]:
    return [(validate_name(release, "release"), encode_event(event)) for release, event in charges]


def _leave_all_to_parent() -> None:
    for ledger in list(_OPEN):
        if ledger._closed is None:
            ledger._leave_to_parent()


_OPEN: weakref.WeakSet[Ledger] = weakref.WeakSet()
os.register_at_fork(after_in_child=_leave_all_to_parent)
