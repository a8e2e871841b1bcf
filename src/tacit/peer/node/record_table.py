"""Table of the file records that a peer has used, in its store.

A row says how often a record with a digest was used from the file of a number. The rows' hashes add up to a number that
the store's seal covers, so that no row can be changed, lost or added without notice, and a commit costs what it adds.
"""

from __future__ import annotations

import hashlib
import sqlite3
from collections import Counter
from collections.abc import Sequence

from tacit.peer.sources.queue import Seen
from tacit.privacy.ledger import Ledger

MODULUS = 2**256


def add(connection: sqlite3.Connection, total: int, seen: Sequence[Seen]) -> int:
    """Write used records; returns the new total of all rows."""
    for (file, digest), times in Counter(seen).items():
        where = "WHERE digest = ? AND file = ?"
        found = connection.execute(f"SELECT times FROM record {where}", (digest, file)).fetchone()
        before = 0 if found is None else found[0]
        connection.execute("INSERT OR REPLACE INTO record VALUES (?, ?, ?)", (digest, file, before + times))
        total += _hash(digest, file, before + times) - (_hash(digest, file, before) if before else 0)
    return total % MODULUS


def total(connection: sqlite3.Connection) -> int:
    """Return the total of all rows, in constant memory."""
    rows = connection.execute("SELECT digest, file, times FROM record")
    return sum(_hash(*row) for row in rows) % MODULUS


def _hash(digest: bytes, file: int, times: int) -> int:
    return int.from_bytes(hashlib.sha256(f"{digest.hex()} {file} {times}".encode()).digest())


class UsedRecords:
    """Records used by the last commit or before."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    def uses(self, digest: bytes) -> list[tuple[int, int]]:
        """Return how often a record of this digest was used: (number of its file, times), the newest file first."""
        query = "SELECT file, times FROM record WHERE digest = ? ORDER BY file DESC"
        return self._ledger.read(lambda connection: connection.execute(query, (digest,)).fetchall())

    def used_of_files(self) -> dict[int, int]:
        """Return the number of each file -> how many of its records were used."""
        query = "SELECT file, sum(times) FROM record GROUP BY file"
        return self._ledger.read(lambda connection: dict(connection.execute(query).fetchall()))
