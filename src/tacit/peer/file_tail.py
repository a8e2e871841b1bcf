"""Samples from a file that grows: CSV or JSON lines, followed by name as `tail -F` does.

A file is known by its first records, not by its name or inode. While those are the same it is the same file, and is
read on from the cursor; where they differ it is a new one, and is read from its beginning. So a copy that takes the
place of the file is not read twice, and a rotated log is finished before its successor is begun: if it is not open any
more, it is looked for by its inode in its folder. Of two rotations while the peer is away the file between is missed.

A file that is the same by its first records but shorter than what was read of it, or changed there, is refused: its
records might be used again, which the ledger would not know of.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import os
import stat
import threading
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Literal

from tacit.errors import ConfigError, DataError
from tacit.peer.logs import Log
from tacit.peer.row_formats import CHUNK, LONGEST_LINE, CsvRows, Header, JsonRows
from tacit.peer.sources import Cursor, Sample, SampleForm, Taken

HEAD_LINES = 8
"""By how many of its first records, within the first CHUNK bytes of them, a file is known."""
TAIL = 4096
"""Bytes before the cursor that must be what they were."""

FileFormat = Literal["csv", "jsonl"]


@dataclass(frozen=True)
class Place:
    """How far a file was read, and by what it is known again."""

    offset: int = 0
    line: int = 0
    """Lines before the offset."""
    skipping: bool = False
    """Whether the offset is inside of a line that is too long."""
    inode: int | None = None
    head: tuple[str, ...] = ()
    tail: str = ""


class FileTail:
    """A source that follows a file; rows that cannot be used are counted, logged and skipped.

    `take` raises DataError while the file as a whole cannot be used (cut short, rewritten, compressed, a column is
    missing), and works again when it was put right.
    """

    def __init__(
        self,
        path: str | Path,
        form: SampleForm,
        *,
        format: FileFormat,
        label: str,
        features: Sequence[str] | None = None,
        on_bad: Callable[[DataError], None] | None = None,
        poll: float = 0.05,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        """Follow `path`, which need not be there yet, looking every `poll` seconds.

        Without `features` a CSV file's are all columns but the label, in the order of its header line; a JSON line's
        are the list under "x". `on_bad` gets the fault of each row that is skipped.
        """
        if format not in ("csv", "jsonl"):
            raise ConfigError(f"format {format!r}: expected csv or jsonl")
        if features is not None and len(features) != form.features:
            raise ConfigError(f"{len(features)} columns are named as features; expected {form.features}, as in the job")
        if features is not None and (label in features or len(set(features)) != len(features)):
            raise ConfigError(f"features {', '.join(features)}: name each column once, and the label {label!r} apart")
        self.path = Path(path)
        self.bad = 0
        """Rows that were skipped since the start."""
        self._rows = (CsvRows if format == "csv" else JsonRows)(str(path), form, label, features)
        self._on_bad, self._poll, self._clock, self._sleep = on_bad, poll, clock, sleep
        self._log, self._lock = Log(), threading.Lock()
        self._place, self._file = Place(), _NO_FILE

    def resume(self, cursor: Cursor) -> None:
        """Go on from a stored cursor."""
        try:
            self._place = Place(**{**cursor, "head": tuple(cursor["head"])})
        except (TypeError, KeyError) as fault:
            raise DataError(
                f"{self.path}: the stored cursor is not one of a file; it was stored for another stream: give that one "
                "back to the peer, or begin a new store"
            ) from fault

    async def take(self, limit: int, patience: float) -> Taken:
        """Return the next `limit` samples, or fewer when `patience` seconds have passed."""
        deadline = self._clock() + patience
        samples: list[Sample] = []
        place = self._place  # kept here until all is done: if the caller is cancelled, nothing has happened
        while True:
            before = place
            try:
                more, faults, place = await asyncio.to_thread(self._advance, place, limit - len(samples))
            except DataError:
                if samples:
                    break  # of what comes before the fault; the next call meets it again
                raise
            samples += more
            self._report(faults)
            left = deadline - self._clock()
            if len(samples) >= limit or left <= 0:
                break
            if place == before:
                await self._sleep(min(self._poll, left))
        self._place = place
        return Taken(samples, json.loads(json.dumps(asdict(place))))

    async def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._leave()

    def _report(self, faults: list[DataError]) -> None:
        for fault in faults:
            self.bad += 1
            self._log.seldom(f"row of {self.path}", "row skipped", fault=str(fault), skipped=self.bad)
            if self._on_bad is not None:
                self._on_bad(fault)

    def _advance(self, place: Place, limit: int) -> tuple[list[Sample], list[DataError], Place]:
        """Read one chunk; or, at the end of a file that was rotated away, go over to the new one."""
        with self._lock:
            if self._file.inode != place.inode:
                self._leave()
            if self._file is _NO_FILE:
                place = self._enter(place, look_back=True)
                if self._file is _NO_FILE:
                    return [], [], place
                if self._place.inode is None:
                    self._place = place  # from now on this file is to be finished, even if the caller is cancelled
            replaced = self._replaced()  # asked before the old file is read, so that its last lines are not missed
            samples, faults, after = self._read(place, limit)
            if not replaced or after != place:
                return samples, faults, after
            unfinished = self._file.size() > place.offset
            fault = DataError(f"{self.path}, line {place.line + 1}: the rotated file ends in the middle of this line")
            old, self._file = self._file, _NO_FILE
            try:
                place = self._enter(place, look_back=False)
            finally:
                if self._file is _NO_FILE:
                    self._file = old  # until the new one can be read
            if self._file is old:
                return [], [], place
            old.close()
            return [], [fault] if unfinished else [], place

    def _replaced(self) -> bool:
        """Tell whether another file with something in it has taken the place of the open one."""
        try:
            found = self.path.stat()
        except OSError:
            return False
        return found.st_ino != self._file.inode and found.st_size > 0

    def _leave(self) -> None:
        self._file.close()
        self._file = _NO_FILE

    def _enter(self, place: Place, look_back: bool) -> Place:
        """Open the file at the path; or, with `look_back`, the one that was rotated away before it was finished."""
        file = _File.opened(self.path)
        try:
            header, known = (None, None) if file is _NO_FILE else self._look(file, place)
            old = self._rotated(place) if look_back and not known else _NO_FILE
        except BaseException:
            file.close()
            raise
        if old is not _NO_FILE:
            file.close()
            self._file = old
            return place
        if header is None or known is None:  # there is nothing to read in it yet
            file.close()
            return place
        self._file = file
        return replace(place, inode=file.inode) if known and place.head else _first_place(file, header)

    def _look(self, file: _File, place: Place) -> tuple[Header | None, bool | None]:
        """Return a file's header, and whether it is the file of a place; None where it has too little in it to tell."""
        header = self._rows.header(file.read)
        if header is None:
            return None, None
        if not place.head:
            return header, place.inode in (None, file.inode)
        head = file.head(header.start)
        if not head:
            return header, None
        return header, all(mine == there for mine, there in zip(place.head, head, strict=False))

    def _rotated(self, place: Place) -> _File:
        """Find the file of a place under another name in the folder."""
        if place.inode is None:
            return _NO_FILE
        names = []
        with contextlib.suppress(OSError), os.scandir(self.path.parent) as entries:
            similar = [entry for entry in entries if entry.name.startswith(self.path.stem)]
            # The inode in a directory entry may differ from the file's own on a layered file system.
            names = [e.name for e in similar if e.stat(follow_symlinks=False).st_ino == place.inode]
        for name in names:
            file = _File.opened(self.path.with_name(name))
            try:
                if file is not _NO_FILE and name != self.path.name and self._look(file, place)[1]:
                    return file
            except DataError:
                pass  # not a file of ours
            file.close()
        return _NO_FILE

    def _read(self, place: Place, limit: int) -> tuple[list[Sample], list[DataError], Place]:
        file = self._file
        size = file.size()
        if size == place.offset:
            return [], [], place
        header, known = self._look(file, place)
        if header is None or known is None:
            return [], [], place
        if not known:  # emptied and begun anew in place
            place = _first_place(file, header)
        elif size < place.offset:
            raise DataError(
                f"{self.path}: {place.offset} bytes of it were read, but it has only {size} now; its records might be "
                "used twice: put the whole file back, or begin a new one with new records"
            )
        elif place.head and file.tail(place.offset) != place.tail:
            raise DataError(
                f"{self.path}: what stands before line {place.line + 1} has changed since it was read; records might "
                "be used twice: put the file back as it was and only append to it, or begin a new one with new records"
            )
        samples, faults, offset, line, skipping = self._parse(file, header, place, limit)
        if offset == place.offset:
            return [], [], place
        head = place.head if len(place.head) == HEAD_LINES else file.head(header.start, offset)
        return samples, faults, Place(offset, line, skipping, file.inode, head, file.tail(offset))

    def _parse(
        self, file: _File, header: Header, place: Place, limit: int
    ) -> tuple[list[Sample], list[DataError], int, int, bool]:
        """Return samples, faults, and where the next line begins; a line without an end is left for later."""
        offset, line, samples, faults = place.offset, place.line, list[Sample](), list[DataError]()
        data = file.read(offset, CHUNK)
        if len(data) == CHUNK and b"\n" not in data:
            data = file.read(offset, LONGEST_LINE + 1)
        start = 0
        if place.skipping:
            start = data.find(b"\n") + 1
            if not start:
                return samples, faults, offset + len(data), line, True
            line += 1
        while len(samples) < limit and (end := data.find(b"\n", start)) >= 0:
            line += 1
            try:
                if data[start:end].strip():
                    samples.append(self._rows.sample(header, data[start:end], f"{self.path}, line {line}"))
            except DataError as fault:
                faults.append(fault)
            start = end + 1
        if start == 0 and len(data) > LONGEST_LINE:
            faults.append(DataError(f"{self.path}, line {line + 1}: longer than {LONGEST_LINE} bytes"))
            return samples, faults, offset + len(data), line, True
        return samples, faults, offset + start, line, False


class _File:
    """An open file, read by position."""

    def __init__(self, descriptor: int, inode: int | None) -> None:
        self._descriptor, self.inode = descriptor, inode

    @classmethod
    def opened(cls, path: Path) -> _File:
        """Open a regular file, or return _NO_FILE where there is none."""
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)  # a pipe must not block here
        except FileNotFoundError:
            return _NO_FILE
        except OSError as fault:
            raise DataError(f"{path}: it cannot be read ({fault.strerror}); check its owner and rights") from fault
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            os.close(descriptor)
            raise DataError(f"{path}: expected a regular file; a pipe or folder cannot be resumed after a crash")
        return cls(descriptor, found.st_ino)

    def size(self) -> int:
        return os.fstat(self._descriptor).st_size

    def read(self, offset: int, length: int) -> bytes:
        return os.pread(self._descriptor, length, offset)

    def head(self, start: int, stop: int | None = None) -> tuple[str, ...]:
        """Return hashes of the first records behind the header, up to `stop`; a record that goes on is left out."""
        length = CHUNK if stop is None else min(CHUNK, stop - start)
        data = self.read(start, length)
        lines = data.split(b"\n")
        if len(data) < CHUNK or not lines[-1]:
            lines.pop()
        return tuple(_digest(line) for line in lines[:HEAD_LINES])

    def tail(self, offset: int) -> str:
        start = max(0, offset - TAIL)
        return _digest(self.read(start, offset - start))

    def close(self) -> None:
        if self is not _NO_FILE:
            os.close(self._descriptor)


_NO_FILE = _File(-1, None)


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:32]


def _first_place(file: _File, header: Header) -> Place:
    return Place(header.start, header.lines, inode=file.inode)
