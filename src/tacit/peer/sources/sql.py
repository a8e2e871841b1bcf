"""Samples from a table or query of a data base that grows, read by a column of whole numbers that grows with it.

The cursor is the largest number that was taken. Numbers are given before a transaction commits, so that a row may
appear behind a larger one: every look goes back by `look_back` numbers, and takes what was not there before. A used row
has left the digest of its `key` in the store, by default that of its number, and is passed over, corrected or not.

Every new row takes a place in a batch; an unusable one, and one whose key came before, takes a place without a sample.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from tacit.core.errors import DataError
from tacit.core.extras import require
from tacit.peer.sources.known_records import KnownRecords
from tacit.peer.sources.not_learnt import NotLearnt
from tacit.peer.sources.queue import Cursor, Sample, Seen, Taken
from tacit.peer.sources.rows import QueryRows
from tacit.streams.reading.sql import DataBase


@dataclass
class _Look:
    """Rows of one look at the data base."""

    after: int | None
    samples: list[Sample | None] = field(default_factory=list)
    seen: list[Seen] = field(default_factory=list)
    faults: list[DataError] = field(default_factory=list)
    known: int = 0


class GrowingQuery:
    """A source that asks a data base every `poll` seconds; `take` raises DataError while it cannot be asked.

    The samples of one `take` have to be committed, or are lost, before the next one.
    """

    def __init__(
        self,
        base: DataBase,
        order: str,
        rows: QueryRows,
        known: KnownRecords,
        *,
        table: str | None = None,
        query: str | None = None,
        poll: float = 1.0,
        look_back: int = 1000,
        not_learnt: NotLearnt | None = None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        """Read a table, or a query, in the order of its column `order`."""
        self._base, self._order, self._rows, self._known = base, order, rows, known
        self._table, self._query, self._poll, self._look_back = table, query, poll, look_back
        self.not_learnt = not_learnt or NotLearnt(base.shown)
        self._clock, self._sleep = clock, sleep
        self._after: int | None = None
        self._taken: set[bytes] = set()
        """Digests of the last rows taken."""
        self._engine: Any = None
        self._lock = threading.Lock()

    def resume(self, cursor: Cursor) -> None:
        """Go on from a stored cursor."""
        try:
            after, rows, key = cursor["after"], cursor["rows"], tuple(cursor["key"])
        except (TypeError, KeyError) as fault:
            raise DataError(
                "the stored cursor is not one of a data base; it was stored for another stream: give that one back to "
                "the peer, or begin a new store"
            ) from fault
        for name, before, now in (("table or query", rows, self._from), ("key", key, self._rows.key)):
            if before != now:
                raise DataError(
                    f"{self._base.shown}: [stream] {name} is {now!r}, and records were used of {before!r}; put it "
                    "back, or begin a new store with what is left of the budget"
                )
        self._after = after

    @property
    def _from(self) -> str:
        return self._table if self._table is not None else f"({self._query}) AS records"

    async def take(self, limit: int, patience: float) -> Taken:
        """Return the next `limit` rows, or fewer when `patience` seconds have passed."""
        deadline = self._clock() + patience
        while True:
            look = await asyncio.to_thread(self._look, limit)
            left = deadline - self._clock()
            if len(look.samples) >= limit or left <= 0:
                break
            await self._sleep(min(self._poll, left))
        self._after, self._taken = look.after, {digest for _, digest in look.seen}
        self.not_learnt.report(look.faults, look.known)
        cursor = {"after": self._after, "rows": self._from, "key": list(self._rows.key)}
        return Taken(look.samples, cursor, look.seen)

    async def close(self) -> None:
        """Close the connections."""
        await asyncio.to_thread(self._leave)

    def _leave(self) -> None:
        with self._lock:
            if self._engine is not None:
                self._engine.dispose()
            self._engine = None

    def _look(self, limit: int) -> _Look:
        """Return the new rows, `limit` at most."""
        look, taken, before = _Look(self._after), set(self._taken), None
        for row in self._asked(limit):
            number = row.get(self._order)
            if isinstance(number, bool) or not isinstance(number, int) or number == before:
                fault = "the same number twice" if number == before else "no whole number"
                raise DataError(
                    f"{self._base.shown}: column {self._order!r} ([stream] order) holds {fault}; expected one that "
                    "grows from row to row, as that of a primary key"
                )
            before = number
            found = self._rows.record(row, f"{self._base.shown}, {self._order} {number}")
            came = found.digest in taken or bool(self._known.uses(found.digest))
            if came and self._after is not None and number <= self._after:
                continue  # looked at again
            if len(look.samples) >= limit:
                break
            look.after = number if look.after is None else max(look.after, number)
            look.samples.append(None if came else found.sample)
            if came:
                look.known += 1
                continue
            if found.fault is not None:
                look.faults.append(found.fault)
            look.seen.append(Seen(1, found.digest))
            taken.add(found.digest)
        return look

    def _asked(self, limit: int) -> list[dict[str, Any]]:
        """Return the rows behind the cursor, and those that may have come late."""
        alchemy = require("sqlalchemy", extra="sql", purpose="kind = 'sql'")
        column = alchemy.column(self._order)
        if self._table is not None:
            schema, _, name = self._table.rpartition(".")
            rows: Any = alchemy.table(name, schema=schema or None)
        else:
            rows = alchemy.text(self._from)
        statement = alchemy.select(alchemy.literal_column("*")).select_from(rows).order_by(column)
        if self._after is not None:
            statement = statement.where(column > self._after - self._look_back)
        with self._lock:
            if self._engine is None:
                self._engine = self._base.engine()
            return self._base.rows(self._engine, statement.limit(limit + self._look_back))
