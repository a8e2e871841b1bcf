"""Records that were used, known again in a file that is met anew: rewritten, replaced, rotated, emptied and refilled.

Every row that took a place in a batch has left its digest, and the number of its file, in the peer's store. Of a file
that is met anew all rows are looked through before the first one is used. If it holds all records that were read of an
earlier file, it is a new version of that: they are passed over, and the other rows are new records. If it holds none
of any, it is a successor, and all of its rows are new. If it holds some but not all of an earlier file's, a row that is
not known may be a correction of one that is missing, and the file is refused.

Equal rows are matched as often as they were used: the second of two equal rows is a record of its own. How often which
row is in the file is kept in a temporary database, which SQLite moves to the disk when it grows.
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Protocol

from tacit.core.errors import DataError
from tacit.peer.sources.followed_file import FollowedFile, Place
from tacit.peer.sources.rows import Header, Rows

CHUNKS_AT_ONCE = 16
"""So many are looked through before whoever waits may have a word."""


class KnownRecords(Protocol):
    """Those that were used, by the last commit. Calls may come from any thread."""

    def uses(self, digest: bytes) -> Sequence[tuple[int, int]]:
        """Return how often such a record was used: (number of the file, times), the newest file first."""

    def used_of_files(self) -> Mapping[int, int]:
        """Return the number of each file -> how many of its records were used."""


class LookThrough:
    """A file that is met anew: first all of it is looked through, then its rows are told apart one by one."""

    def __init__(self, file: FollowedFile, header: Header, rows: Rows, known: KnownRecords) -> None:
        """Look through what the file holds now; what is appended later is not this one's business."""
        self.file, self._header, self._rows, self._known = file, header, rows, known
        self.version, self.end, self.finished = file.version(), file.size(), False
        self.at = header.start
        """How far `is_known` was asked."""
        self._offset, self._line, self._skipping = header.start, header.lines, False
        self._columns = ""
        self._matched: Counter[int] = Counter()
        self._count = self._unknown = 0
        # Each row's digest, how often it is there, and how often it was met when the rows were read.
        self._there = sqlite3.connect("", isolation_level=None, check_same_thread=False)
        self._there.execute("PRAGMA journal_mode = OFF")
        self._there.execute("CREATE TABLE there (digest BLOB PRIMARY KEY, rows INTEGER, met INTEGER) WITHOUT ROWID")

    def go_on(self) -> None:
        """Look through some more."""
        for _ in range(CHUNKS_AT_ONCE):
            before = self._offset
            for line in self.file.lines(self._rows, self._header, self._offset, self._line, self._skipping):
                if line.start >= self.end:
                    break
                self._offset, self._line, self._skipping = line.offset, line.line, line.skipping
                if line.row is not None:
                    self._columns = self._columns or line.row.columns
                    self._count_in(line.row.digest)
            if self._offset == before or self._offset >= self.end:
                self.finished, self.end = True, self._offset
                return

    def number(self, place: Place) -> int | None:
        """Return which number the file has, or refuse it; None where there is no row in it."""
        used = self._known.used_of_files()
        if not self._count:
            return None
        for number, total in sorted(used.items(), reverse=True):
            if 0 < self._matched[number] < total:
                raise DataError(
                    f"{self.file.path}: {self._matched[number]} of the {total} records that were read of an earlier "
                    f"version of it, or of another file there, are in it, the others are not, and {self._unknown} rows "
                    "are new or corrected; records might be used twice: put the file back as it was and append to it, "
                    "or begin a new file that holds new records only (in a new store, name the column that tells "
                    "records apart: [stream] key)"
                )
        if not self._matched and place.columns and self._columns and self._columns != place.columns:
            raise DataError(
                f"{self.file.path}: its columns are not those of the file that was read before, so that its records "
                "cannot be compared; they might be used twice: put the columns back as they were (in a new store, name "
                "the column that tells records apart: [stream] key)"
            )
        newest = max(used, default=place.number)
        return newest if self._matched[newest] or not used else newest + 1

    def is_known(self, digest: bytes) -> bool | None:
        """Tell whether the next row was used before; None where it was not there when the file was looked through."""
        update = "UPDATE there SET met = met + 1 WHERE digest = ? RETURNING met, rows"
        found = self._there.execute(update, (digest,)).fetchall()
        if not found or found[0][0] > found[0][1]:
            return None
        return bool(found[0][0] <= sum(times for _, times in self._known.uses(digest)))

    def close(self) -> None:
        """Let go of the temporary database."""
        self._there.close()

    def _count_in(self, digest: bytes) -> None:
        self._count += 1
        upsert = "INSERT INTO there VALUES (?, 1, 0) ON CONFLICT DO UPDATE SET rows = rows + 1 RETURNING rows"
        left = self._there.execute(upsert, (digest,)).fetchall()[0][0]
        for number, times in self._known.uses(digest):
            if left <= times:
                self._matched[number] += 1
                return
            left -= times
        self._unknown += 1
