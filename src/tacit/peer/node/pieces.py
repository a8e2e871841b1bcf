"""Contents of a peer's store: bytes of any length, kept as pieces with consecutive numbers.

Two contents may share pieces: a snapshot ends with the peer's own message, which is mostly what its parcels hold too.
"""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Iterable
from typing import NamedTuple

from tacit.privacy.ledger.store import LONGEST_VALUE

LONGEST_PIECE = LONGEST_VALUE // 2
"""Larger contents are split over rows; a row has a few bytes more than its content."""


class Content(NamedTuple):
    """Location of some bytes: pieces `first`, `first + 1`, ..."""

    first: int
    pieces: int
    digest: bytes

    @property
    def numbers(self) -> range:
        """Numbers of its pieces."""
        return range(self.first, self.first + self.pieces)


class Pieces:
    """Writer of contents, under numbers that are never used again."""

    def __init__(self, following: int) -> None:
        """Begin with the number of the next piece."""
        self._next = following

    def put(self, connection: sqlite3.Connection, content: bytes) -> Content:
        """Write a content."""
        return Content(*self._written(connection, content), hashlib.sha256(content).digest())

    def put_ending(self, connection: sqlite3.Connection, content: bytes, end: bytes) -> tuple[Content, Content]:
        """Write `content + end`, of which `end` is a content by itself; returns both."""
        (first, pieces), last = self._written(connection, content), self.put(connection, end)
        digest = hashlib.sha256(content)
        digest.update(end)
        return Content(first, pieces + last.pieces, digest.digest()), last

    def _written(self, connection: sqlite3.Connection, content: bytes) -> tuple[int, int]:
        first, view = self._next, memoryview(content)
        parts = [view[at : at + LONGEST_PIECE] for at in range(0, len(view), LONGEST_PIECE)]
        connection.executemany("INSERT INTO piece (id, data) VALUES (?, ?)", enumerate(parts, first))
        self._next += len(parts)
        return first, len(parts)


def load(connection: sqlite3.Connection, first: int, pieces: int) -> bytes:
    """Read a content back."""
    rows = connection.execute("SELECT data FROM piece WHERE id >= ? AND id < ? ORDER BY id", (first, first + pieces))
    return b"".join(data for (data,) in rows)


def free(connection: sqlite3.Connection, unneeded: Iterable[Content], kept: Iterable[Content]) -> None:
    """Delete the pieces of contents, but for those that others share."""
    numbers = {number for content in unneeded for number in content.numbers}
    numbers -= {number for content in kept for number in content.numbers}
    connection.executemany("DELETE FROM piece WHERE id = ?", [(number,) for number in sorted(numbers)])
