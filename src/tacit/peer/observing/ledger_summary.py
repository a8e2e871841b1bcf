"""Summary of a ledger for those who may not read the file: classes of records, releases over time, whether it is whole.

No label of a record leaves, only its class: which rows a batch was made of is the owner's.
"""

from __future__ import annotations

import asyncio
import re
import time
from pathlib import Path
from typing import Any

from tacit.core.errors import LedgerError
from tacit.peer.operations.logs import Log
from tacit.privacy.accounting import Account
from tacit.privacy.events import NO_RECORDS, Event, fresh_number
from tacit.privacy.ledger import Replay, inspect
from tacit.privacy.ledger.budget_use import budget_use
from tacit.privacy.ledger.entries import BOUND

MOST_POINTS = 256
"""Entries of the timeline of one class; longer ones are joined, neighbours with neighbours."""
SHARE, SHORTEST = 0.05, 1.0
"""Share of the time that may go into reading a ledger, and seconds for which a summary stands at least."""
UNASKED_SHARE, UNASKED_SHORTEST = 0.01, 5.0
"""The same where nobody asks for the ledger, and the status alone shows its classes."""
_ROUND = re.compile(r" round (\d+) phase \d+$")

EVERY, ONCE, AGAIN, NAMED = "every record", "each record once", "records that may come again", "named records"


def class_of(event: Event) -> str | None:
    """Return the class of the records that a release is charged to; None where it touches none."""
    if event.records == NO_RECORDS:
        return None
    if not event.records:
        return EVERY
    if fresh_number(event.records) is not None:
        return ONCE
    return AGAIN if event.records.startswith("rows ") else NAMED


class Timeline:
    """Releases of one class, in order, in at most `MOST_POINTS` entries."""

    def __init__(self) -> None:
        self._stride = 1
        self._points: list[tuple[int | None, float, int]] = []
        """Last round, dearest release and number of releases of each entry."""

    def add(self, round_: int | None, cost: float) -> None:
        """Add a release."""
        points = self._points
        if points and points[-1][2] < self._stride:
            _, dearest, times = points.pop()
            points.append((round_, max(dearest, cost), times + 1))
            return
        if len(points) == MOST_POINTS:
            pairs = zip(points[::2], points[1::2], strict=True)
            points[:] = [(b[0], max(a[1], b[1]), a[2] + b[2]) for a, b in pairs]
            self._stride *= 2
        points.append((round_, cost, 1))

    def entries(self, name: str) -> list[dict[str, Any]]:
        """Return the entries as plain data."""
        return [{"round": round_, "class": name, "cost": cost, "times": times} for round_, cost, times in self._points]


def summary_of(replay: Replay) -> dict[str, Any]:
    """Verify a ledger to its end and sum it up."""
    accounts, times = dict[str, Account](), dict[str, Timeline]()
    for entry, event in replay:
        name = None if entry.release.startswith(BOUND) else class_of(event)
        if name is None:
            continue
        accounts[name] = accounts.get(name, Account()).charged(event)
        found = _ROUND.search(entry.release)
        cost = event.loss.epsilon if replay.genesis.budget.rho is None else event.loss.zcdp
        times.setdefault(name, Timeline()).add(None if found is None else int(found[1]), _finite(cost))
    budget = replay.genesis.budget
    use = budget_use(budget, replay.account)
    classes = [_class(name, budget_use(budget, account)) for name, account in accounts.items()]
    releases = [point for name, line in times.items() for point in line.entries(name)]
    return {
        "unit": use.unit,
        "releases_in_all": replay.last.sequence,
        "classes": classes,
        "releases": sorted(releases, key=lambda point: point["round"] or 0),
        "chain": "verified",
        "words": use.words,
    }


NO_LEDGER: dict[str, Any] = {
    "unit": "epsilon",
    "releases_in_all": 0,
    "classes": [],
    "releases": [],
    "chain": "none",
    "words": "nothing is booked: this peer's releases have no budget",
}


class LedgerWatch:
    """The summary of a ledger that grows, made anew now and then."""

    def __init__(self, path: Path, witness: Path | None, log: Log) -> None:
        self._path, self._witness, self._log = path, witness, log
        self._lock, self._due, self._due_unasked = asyncio.Lock(), 0.0, 0.0
        self._releases = 0
        self._task: asyncio.Task[dict[str, Any]] | None = None
        self.latest = NO_LEDGER
        """The summary that was made last."""

    def freshen(self, releases: int) -> None:
        """Have a summary made in the background, where the ledger has grown and there is time for it.

        Args:
          releases: That the ledger holds by now.
        """
        busy = self._task is not None and not self._task.done()
        if not busy and releases != self._releases and time.monotonic() >= self._due_unasked:
            self._releases, self._task = releases, asyncio.create_task(self.look())

    def close(self) -> None:
        """Make no more summaries."""
        if self._task is not None:
            self._task.cancel()

    async def look(self) -> dict[str, Any]:
        """Return a summary that is not too old."""
        async with self._lock:
            began = time.monotonic()
            if began >= self._due:
                self.latest = await asyncio.to_thread(self._read)
                now = time.monotonic()
                self._due = now + max(SHORTEST, (now - began) / SHARE)
                self._due_unasked = now + max(UNASKED_SHORTEST, (now - began) / UNASKED_SHARE)
            return self.latest

    def _read(self) -> dict[str, Any]:
        try:
            return inspect(self._path, summary_of, self._witness)
        except LedgerError as fault:
            self._log.error("the ledger cannot be verified", fault)
            words = "the ledger does not verify: the peer's log says why (`tacit ledger verify` on its host)"
            return {**NO_LEDGER, "chain": "broken", "words": words}


def _class(name: str, use: Any) -> dict[str, Any]:
    spent, left = _finite(use.spent), _finite(use.left)
    return {"name": name, "unit": use.unit, "limit": use.limit, "spent": spent, "left": left, "runs_out": use.runs_out}


def _finite(value: float) -> float:
    """Return a value that JSON has a number for: an infinite cost as the largest."""
    return min(value, 1.7976931348623157e308)
