"""An open file read by position, and places in it that can be recognised later.

A place holds two hashes of the bytes before it: one of the last blocks, compared whenever more is read, and one of
everything, compared whenever a file is opened. A file that has both is the one that was read, whatever its name and
inode are now.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from tacit.core.errors import DataError
from tacit.peer.sources.rows import CHUNK, LONGEST_LINE, Header, Row, Rows

BLOCK = 2**16
"""Bytes that are hashed together."""
NOT_SCANNED = 2**62
"""More than the length of any file."""


@dataclass(frozen=True)
class Place:
    """Offset up to which a file was read, with the hashes by which the file is recognised."""

    offset: int = 0
    line: int = 0
    """Lines before the offset."""
    skipping: bool = False
    """Whether the offset is inside of a line that is too long."""
    inode: int | None = None
    number: int = 1
    """Number of the file among those that were read; a new version of a file keeps its number."""
    until: int = 0
    """Offset up to which it may hold used records: its length when it was first seen."""
    chain: str = ""
    """Hash of all whole blocks before the offset."""
    tail: str = ""
    """Hash of the last of these and of what follows it; empty where nothing was read yet."""
    columns: str = ""
    """Digest of the column names of the first readable row."""
    key: tuple[str, ...] = ()
    """Columns by which records are known; empty: all."""


class Line(NamedTuple):
    """A row of a file."""

    start: int
    row: Row | None
    """None: a blank line, which is no row."""
    offset: int
    """Offset of the next line."""
    line: int
    skipping: bool = False


class FollowedFile:
    """An open file, read by position."""

    def __init__(self, path: Path, descriptor: int, inode: int | None) -> None:
        self.path, self._descriptor, self.inode = path, descriptor, inode

    @classmethod
    def opened(cls, path: Path) -> FollowedFile:
        """Open a regular file, or return NO_FILE where there is none."""
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)  # a pipe must not block here
        except FileNotFoundError:
            return NO_FILE
        except OSError as fault:
            raise DataError(f"{path}: it cannot be read ({fault.strerror}); check its owner and rights") from fault
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            os.close(descriptor)
            raise DataError(f"{path}: expected a regular file; a pipe or folder cannot be resumed after a crash")
        return cls(path, descriptor, found.st_ino)

    def size(self) -> int:
        """Return its length in bytes."""
        return os.fstat(self._descriptor).st_size

    def version(self) -> tuple[int, ...]:
        """Return inode, size and times, which differ after most changes."""
        found = os.fstat(self._descriptor)
        return found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns

    def read(self, offset: int, length: int) -> bytes:
        """Return bytes, fewer where it ends."""
        return os.pread(self._descriptor, length, offset)

    def close(self) -> None:
        """Close it."""
        if self is not NO_FILE:
            os.close(self._descriptor)

    # -- places --------------------------------------------------------------------------------------------------------

    def beginning(self, header: Header, before: Place, until: int) -> Place:
        """Return the place in front of the first row, where the file is not that of the place `before`."""
        return Place(
            header.start, header.lines, False, self.inode, before.number, until, columns=before.columns, key=before.key
        )

    def behind(self, place: Place, line: Line, columns: str) -> Place:
        """Return the place behind a line that follows the place."""
        chain, offset = place.chain, line.offset
        for block in range(place.offset // BLOCK if place.tail else 0, offset // BLOCK):
            chain = self._chained(chain, block)
        return replace(
            place,
            offset=offset,
            line=line.line,
            skipping=line.skipping,
            inode=self.inode,
            chain=chain,
            tail=self._tail(offset),
            columns=place.columns or columns,
        )

    def goes_on_from(self, place: Place) -> bool:
        """Whether the bytes just before a place are those that were read."""
        return not place.tail or (self.size() >= place.offset and self._tail(place.offset) == place.tail)

    def is_that_of(self, place: Place) -> bool:
        """Whether all bytes before a place are those that were read."""
        if not place.tail:
            return place.inode in (None, self.inode)
        if not self.goes_on_from(place):
            return False
        chain = ""
        for block in range(place.offset // BLOCK):
            chain = self._chained(chain, block)
        return chain == place.chain

    def _chained(self, chain: str, block: int) -> str:
        return _digest(chain.encode() + self.read(block * BLOCK, BLOCK))

    def _tail(self, offset: int) -> str:
        start = max(0, offset // BLOCK - 1) * BLOCK
        return _digest(self.read(start, offset - start))

    # -- rows ----------------------------------------------------------------------------------------------------------

    def lines(self, rows: Rows, header: Header, offset: int, line: int, skipping: bool) -> Iterator[Line]:
        """Yield the lines of one chunk; one without an end is left for later, and one that is too long is one row."""
        data = self.read(offset, CHUNK)
        if len(data) == CHUNK and b"\n" not in data:
            data = self.read(offset, LONGEST_LINE + 1)
        start = 0
        if skipping:
            start = data.find(b"\n") + 1
            if not start:
                if data:
                    yield Line(offset, None, offset + len(data), line, True)
                return
            line += 1
            yield Line(offset, None, offset + start, line)
        elif b"\n" not in data and len(data) > LONGEST_LINE:
            fault = DataError(f"{self.path}, line {line + 1}: longer than {LONGEST_LINE} bytes")
            yield Line(offset, Row.unreadable(data, fault), offset + len(data), line, True)
            return
        while (end := data.find(b"\n", start)) >= 0:
            line += 1
            text = data[start:end]
            row = rows.row(header, text, f"{self.path}, line {line}") if text.strip() else None
            yield Line(offset + start, row, offset + end + 1, line)
            start = end + 1

    def unfinished(self, place: Place) -> Line | None:
        """Return the last row of a rotated file if it has no line end."""
        data = self.read(place.offset, LONGEST_LINE)
        if place.skipping or not data.strip():
            return None
        fault = DataError(f"{self.path}, line {place.line + 1}: the rotated file ends in the middle of this line")
        return Line(place.offset, Row.unreadable(data, fault), place.offset + len(data), place.line + 1)

    def has_row(self, header: Header) -> bool:
        """Whether it holds a complete row."""
        data = self.read(header.start, LONGEST_LINE + 1)
        return len(data) > LONGEST_LINE or bool(data[: data.rfind(b"\n") + 1].strip())


NO_FILE = FollowedFile(Path(), -1, None)


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:32]
