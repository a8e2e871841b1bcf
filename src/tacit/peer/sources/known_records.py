"""Recognition of used records in a new file: one that was rewritten, replaced, rotated, or emptied and refilled.

Every row that took a place in a batch has left its digest, and the number of its file, in the peer's store. All rows of
a new file are scanned before the first one is used. If it holds all records that were read of an earlier file, it is a
new version of that: they are passed over, and the other rows are new records. If it holds none of any, it is a
successor, and all of its rows are new. If it holds some but not all of an earlier file's, an unknown row may be a
correction of a missing one, and the file is refused.

Equal rows are matched as often as they were used: the second of two equal rows is a record of its own. The number of
occurrences of each row is kept in a temporary database, which SQLite moves to the disk when it grows.
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
"""Chunks scanned before control returns to the caller."""


class KnownRecords(Protocol):
    """Records used by the last commit or before. Calls may come from any thread."""

    def uses(self, digest: bytes) -> Sequence[tuple[int, int]]:
        """Return how often a record of this digest was used: (number of the file, times), the newest file first."""

    def used_of_files(self) -> Mapping[int, int]:
        """Return the number of each file -> how many of its records were used."""


class FileScan:
    """Scan of a new file: first all rows are counted, then they are told apart one by one."""

    def __init__(self, file: FollowedFile, header: Header, rows: Rows, known: KnownRecords) -> None:
        """Scan the file as it is now; rows appended later are not part of the scan."""
        self.file, self._header, self._rows, self._known = file, header, rows, known
        self.version, self.end, self.finished = file.version(), file.size(), False
        self.at = header.start
        """Offset up to which `is_known` was asked."""
        self._offset, self._line, self._skipping = header.start, header.lines, False
        self._columns = ""
        self._matched: Counter[int] = Counter()
        self._count = self._unknown = 0
        # Each row's digest, how often it is there, and how often it was met when the rows were read.
        self._there = sqlite3.connect("", isolation_level=None, check_same_thread=False)
        self._there.execute("PRAGMA journal_mode = OFF")
        self._there.execute("CREATE TABLE there (digest BLOB PRIMARY KEY, rows INTEGER, met INTEGER) WITHOUT ROWID")

    def go_on(self) -> None:
        """Scan some more chunks."""
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
        """Return the number of the file, or refuse it; None where it has no row."""
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
        """Return whether the next row was used before; None where it was not there during the scan."""
        update = "UPDATE there SET met = met + 1 WHERE digest = ? RETURNING met, rows"
        found = self._there.execute(update, (digest,)).fetchall()
        if not found or found[0][0] > found[0][1]:
            return None
        return bool(found[0][0] <= sum(times for _, times in self._known.uses(digest)))

    def close(self) -> None:
        """Close the temporary database."""
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
