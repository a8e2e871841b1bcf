"""A process that charges and releases until it is killed or refused, and what must hold after it."""

from __future__ import annotations

import ctypes
import errno
import os
import traceback
from dataclasses import dataclass
from enum import IntEnum, IntFlag
from pathlib import Path
from typing import ClassVar, NoReturn

from tacit.core.errors import LedgerError
from tacit.privacy.accounting import Account, Budget
from tacit.privacy.events import Event
from tacit.privacy.ledger import Ledger, Replay, inspect

EVENT = Event("laplace", "laplace", sensitivity=1.0, scale=7.0)
DONE, REFUSED, BROKEN, WENT_ON = 0, 3, 4, 5


class Operation(IntFlag):
    WRITE = 1
    SYNC = 2
    RENAME = 4
    TRUNCATE = 8
    ALL = 15


class Action(IntEnum):
    KILL_BEFORE = 1
    KILL_AFTER = 2
    KILL_TORN = 3
    POWER_CUT = 4
    FAIL_ONCE = 5
    FAIL_ON = 6


@dataclass(frozen=True)
class Fault:
    operations: Operation
    at: int
    """The first call is 1."""
    action: Action
    error: int = errno.EIO


@dataclass(frozen=True)
class Place:
    """Where a ledger, its witness and what was released are kept."""

    directory: Path
    spread: ClassVar[int] = 1
    """Writes for each one of a bare ledger."""

    def __post_init__(self) -> None:
        (self.directory / "faulty" / "elsewhere").mkdir(parents=True)
        self.released.touch()
        self.create()

    def create(self) -> None:
        Ledger.create(self.ledger, Budget(epsilon=1e6), self.witness).close()

    @property
    def faulty(self) -> Path:
        """The disk that faults happen on; what was released is not on it."""
        return self.directory / "faulty"

    @property
    def ledger(self) -> Path:
        return self.faulty / "ledger.db"

    @property
    def witness(self) -> Path:
        return self.faulty / "elsewhere" / "witness"

    @property
    def released(self) -> Path:
        return self.directory / "released"

    def violations(self) -> list[str]:
        """Open the ledger as after any crash and say what does not hold."""
        released = self.released.read_text().splitlines()
        try:
            with Ledger.open(self.ledger, witness=self.witness) as ledger:
                spent = ledger.spent()
            booked, account = inspect(self.ledger, _booked, self.witness)
        except LedgerError as error:
            return [f"does not open: {error}"]
        found = [f"under-count: {name} was released and is not booked" for name in released if name not in booked]
        if len(set(released)) < len(released):
            found.append("double release")
        recomputed = Account()
        for _ in booked:
            recomputed = recomputed.charged(EVENT)
        if not spent == account.spent() == recomputed.spent():
            found.append(f"spent {spent}, of {len(booked)} events {recomputed.spent()}")
        return found

    def work(self, releases: int, shim: ctypes.CDLL | None) -> int:
        """Release until refused; return how it ended."""
        output = os.open(self.released, os.O_WRONLY | os.O_APPEND)
        failed_before = False

        def publish(name: str) -> None:
            nonlocal failed_before
            failed_before = shim is not None and bool(shim.shim_fired())
            os.write(output, f"{name}\n".encode())
            os.fsync(output)

        try:
            ledger = Ledger.open(self.ledger, witness=self.witness)
        except LedgerError:
            return REFUSED
        try:
            for _ in range(releases):
                name = f"round {ledger.releases + 1}"
                ledger.release(name, EVENT, lambda name=name: publish(name))
                if failed_before:
                    return WENT_ON
        except LedgerError:
            try:
                ledger.release("after the failure", EVENT, lambda: publish("after the failure"))
            except LedgerError:
                return REFUSED
            return WENT_ON
        ledger.close()
        return DONE


def _booked(replay: Replay) -> tuple[set[str], Account]:
    return {entry.release for entry, _ in replay}, replay.account


def start(place: Place, releases: int, fault: Fault | None, report: int) -> int:
    """Fork a worker and return its process id."""
    process = os.fork()
    if process == 0:
        _work(place, releases, fault, report)
    return process


def _work(place: Place, releases: int, fault: Fault | None, report: int) -> NoReturn:
    outcome = BROKEN
    shim = ctypes.CDLL(None) if fault is not None else None
    try:
        if shim is not None and fault is not None:
            directory = os.fsencode(place.faulty.resolve())
            shim.shim_arm(
                directory, int(fault.operations), ctypes.c_long(fault.at), int(fault.action), fault.error, report
            )
        outcome = place.work(releases, shim)
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(outcome)
