"""Samples from a file that grows: CSV or JSON lines, followed by name as `tail -F` does.

A file is recognised by the content that was read of it, not by its name or inode. While that is the same it is read on
from the cursor; any other file is new, and `known_records` says which of its rows are new records. A rotated log is
finished before its successor is begun: if it is not open any more, it is looked for by its inode in its folder. Of two
rotations while the peer is away the file between is missed.

With a `key` a record is known by these columns alone, and is not used again wherever and however often it comes.

Every row takes a place in a batch; an unusable row, and one whose key came before, takes a place without a sample. So
the content of a record never moves the records behind it into other batches. Only known rows of a new file take no
place.
"""

from __future__ import annotations

import asyncio
import json
import os
import threading
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Literal

from tacit.core.errors import ConfigError, DataError
from tacit.peer.sources.followed_file import NO_FILE, NOT_SCANNED, FollowedFile, Line, Place
from tacit.peer.sources.known_records import FileScan, KnownRecords
from tacit.peer.sources.not_learnt import NotLearnt
from tacit.peer.sources.queue import Cursor, Sample, SampleForm, Seen, Taken
from tacit.peer.sources.rows import CsvRows, Header, JsonRows
from tacit.privacy.ledger.open_files import SHORT

FileFormat = Literal["csv", "jsonl"]


@dataclass
class _Step:
    """Result of one look at the file."""

    place: Place
    samples: list[Sample | None] = field(default_factory=list)
    seen: list[Seen] = field(default_factory=list)
    faults: list[DataError] = field(default_factory=list)
    known: int = 0
    """Rows that were used before."""
    busy: bool = False
    """Whether there is more to do at once."""
    over: bool = False
    """Whether the samples taken have to be used before the file is read further."""


class FileTail:
    """A source that follows a file; unusable rows are counted, logged, and take a place without a sample.

    `take` raises DataError while the file as a whole cannot be used (records that were read are missing from it, it is
    compressed, a column is missing), and works again when the file is mended. The samples of one `take` have to be
    committed, or are lost, before the next one.
    """

    def __init__(
        self,
        path: str | Path,
        form: SampleForm,
        *,
        format: FileFormat,
        label: str,
        known: KnownRecords,
        features: Sequence[str] | None = None,
        key: Sequence[str] = (),
        not_learnt: NotLearnt | None = None,
        poll: float = 0.05,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        """Follow `path`, which need not be there yet, looking every `poll` seconds.

        Without `features` a CSV file's are all columns but the label and the key, in the order of its header line; a
        JSON line's are the list under "x". `known` are the records that were used; `key` names the columns by which
        they are known, all unless given.
        """
        if format not in ("csv", "jsonl"):
            raise ConfigError(f"format {format!r}: expected csv or jsonl")
        if features is not None and len(features) != form.features:
            raise ConfigError(f"{len(features)} columns are named as features; expected {form.features}, as in the job")
        if features is not None and (label in features or len(set(features)) != len(features)):
            raise ConfigError(f"features {', '.join(features)}: name each column once, and the label {label!r} apart")
        self.path = Path(path)
        self.not_learnt = not_learnt or NotLearnt(str(path))
        self._rows = (CsvRows if format == "csv" else JsonRows)(str(path), form, label, features, key)
        self._known, self._key = known, tuple(key)
        self._poll, self._clock, self._sleep = poll, clock, sleep
        self._lock = threading.Lock()
        self._place, self._file = Place(key=self._key), NO_FILE
        self._scan: FileScan | None = None
        self._refused: tuple[tuple[int, ...], str] | None = None
        """The version of a file that was refused, and why: it is not looked through again until it changes."""
        self._taken: set[bytes] = set()
        """Digests of the last rows taken: no key is taken twice, even before the store holds it."""

    def resume(self, cursor: Cursor) -> None:
        """Go on from a stored cursor."""
        try:
            place = Place(**{**cursor, "key": tuple(cursor["key"])})
        except (TypeError, KeyError) as fault:
            raise DataError(
                f"{self.path}: the stored cursor is not one of a file; it was stored for another stream: give that one "
                "back to the peer, or begin a new store"
            ) from fault
        if place.key != self._key and self._known.used_of_files():
            before, now = (", ".join(key) or "all columns" for key in (place.key, self._key))
            raise DataError(
                f"{self.path}: records are to be known by {now} ([stream] key), but those that were used are known by "
                f"{before}, and would be used again; put the key back, or begin a new store with what is left of the "
                "budget"
            )
        self._place = replace(place, key=self._key)

    async def take(self, limit: int, patience: float) -> Taken:
        """Return the next `limit` rows, or fewer when `patience` seconds have passed or another file begins."""
        deadline = self._clock() + patience
        samples: list[Sample | None] = []
        seen: list[Seen] = []
        place = self._place  # kept here until all is done: if the caller is cancelled, nothing has happened
        while True:
            before = place
            try:
                step = await asyncio.to_thread(self._advance, place, limit - len(samples), [*seen])
            except DataError:
                if seen:
                    break  # of what comes before the fault; the next call meets it again
                raise
            place = step.place
            samples += step.samples
            seen += step.seen
            self.not_learnt.report(step.faults, step.known)
            left, more = deadline - self._clock(), place != before or step.busy
            # A batch is not cut short while rows are there, or the length of one would move others into other batches.
            if len(samples) >= limit or step.over or (left <= 0 and not (more and samples)):
                break
            if not more:
                await self._sleep(min(self._poll, left))
        self._place = place
        self._taken = {digest for _, digest in seen}
        return Taken(samples, json.loads(json.dumps(asdict(place))), seen)

    async def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._leave()

    # -- which file ----------------------------------------------------------------------------------------------------

    def _advance(self, place: Place, limit: int, seen: list[Seen]) -> _Step:
        """Read one chunk; or, at the end of a file that was rotated away, go over to the new one."""
        with self._lock:
            if self._file.inode != place.inode:
                self._leave()
            if self._file is NO_FILE:
                place = self._enter(place, look_back=True)
                if self._file is NO_FILE:
                    return _Step(place)
                if self._place.inode is None:
                    self._place = place  # from now on this file is to be finished, even if the caller is cancelled
            replaced = self._replaced()  # asked before the old file is read, so that its last lines are not missed
            step = self._read(place, limit, seen)
            if not replaced or step.place != place or step.busy or step.over:
                return step
            old, self._file = self._file, NO_FILE
            try:
                entered = self._enter(place, look_back=False)
            finally:
                if self._file is NO_FILE:
                    self._file = old  # until the new one can be read
            if self._file is old or limit < 1:
                return _Step(place)
            cut = old.unfinished(place)
            if cut is None and not seen:
                old.close()
                return _Step(entered, busy=True)
            self._file.close()
            self._file = old  # until all that was taken of it is used
            step = _Step(place, over=cut is None)
            if cut is not None:
                self._use(step, cut, None, set())
                step.place = old.behind(place, cut, "")
            return step

    def _replaced(self) -> bool:
        """Whether another file that is not empty has taken the place of the open one."""
        try:
            found = self.path.stat()
        except OSError:
            return False
        return found.st_ino != self._file.inode and found.st_size > 0

    def _leave(self) -> None:
        self._file.close()
        self._file = NO_FILE
        self._forget_scan()

    def _forget_scan(self) -> None:
        if self._scan is not None:
            self._scan.close()
        self._scan = None

    def _enter(self, place: Place, look_back: bool) -> Place:
        """Open the file at the path; or, with `look_back`, the one that was rotated away before it was finished."""
        file = FollowedFile.opened(self.path)
        try:
            header, known = (None, None) if file is NO_FILE else self._recognise(file, place)
            old = self._rotated(place) if look_back and not known else NO_FILE
        except BaseException:
            file.close()
            raise
        if old is not NO_FILE:
            file.close()
            self._file = old
            return place
        if header is None or known is None:  # there is nothing to read in it yet
            file.close()
            return place
        self._file = file
        if not known:
            return self._met(file, header, place)
        return replace(place, inode=file.inode) if place.tail else file.beginning(header, place, place.until)

    def _recognise(self, file: FollowedFile, place: Place) -> tuple[Header | None, bool | None]:
        """Return a file's header, and whether it is the file of a place; None where it is too short to tell."""
        header = self._rows.header(file.read)
        if header is None:
            return None, None
        if file.is_that_of(place):
            return header, True
        return header, False if file.has_row(header) else None

    def _rotated(self, place: Place) -> FollowedFile:
        """Find the file of a place under another name in the folder."""
        if place.inode is None:
            return NO_FILE
        names = []
        try:
            with os.scandir(self.path.parent) as entries:
                similar = [entry for entry in entries if entry.name.startswith(self.path.stem)]
                # The inode in a directory entry may differ from the file's own on a layered file system.
                names = [e.name for e in similar if e.stat(follow_symlinks=False).st_ino == place.inode]
        except OSError as fault:
            if fault.errno in SHORT:  # it may be there all the same: its rows must not be passed over
                raise DataError(f"{self.path.parent}: it cannot be looked through ({fault.strerror})") from fault
        for name in names:
            file = FollowedFile.opened(self.path.with_name(name))
            try:
                if file is not NO_FILE and name != self.path.name and self._recognise(file, place)[1]:
                    return file
            except DataError:
                pass  # not a file of ours
            file.close()
        return NO_FILE

    def _met(self, file: FollowedFile, header: Header, place: Place) -> Place:
        """Return the beginning of a new file."""
        self._forget_scan()
        return file.beginning(header, place, file.size() if self._key else NOT_SCANNED)

    # -- which rows ----------------------------------------------------------------------------------------------------

    def _read(self, place: Place, limit: int, seen: list[Seen]) -> _Step:
        file = self._file
        header = None if file.size() == place.offset else self._rows.header(file.read)
        if header is None:
            return _Step(place)
        if not file.goes_on_from(place):  # rewritten in place, cut short, or emptied and begun anew
            if seen or not file.has_row(header):
                return _Step(place, over=bool(seen))
            place = self._met(file, header, place)
        if not self._key and place.offset < place.until:
            step = self._scanned(file, header, place, bool(seen))
            if step.over or step.place.until == NOT_SCANNED:
                return step
            place = step.place
        return self._told_apart(file, header, place, limit, seen)

    def _scanned(self, file: FollowedFile, header: Header, place: Place, pending: bool) -> _Step:
        """Scan a new file; the place that is returned says whether the scan is complete, and reading may begin.

        No sample may be `pending`, taken and not used yet: it would not be known.
        """
        scan = self._scan
        if scan is None or scan.file is not file or scan.at != place.offset:
            if pending:
                return _Step(place, over=True)
            place = self._met(file, header, place)
            if self._refused is not None and self._refused[0] == file.version():
                raise DataError(self._refused[1])
            scan = self._scan = FileScan(file, header, self._rows, self._known)
        if place.until != NOT_SCANNED:
            return _Step(place)
        scan.go_on()
        if not scan.finished:
            return _Step(place, busy=True)
        try:
            number = scan.number(place)
        except DataError as fault:
            self._refused = scan.version, str(fault)
            self._forget_scan()
            raise
        if number is None:
            self._forget_scan()
            return _Step(place)
        return _Step(replace(place, number=number, until=scan.end))

    def _told_apart(self, file: FollowedFile, header: Header, place: Place, limit: int, seen: list[Seen]) -> _Step:
        """Return the places of a chunk's rows, up to the first one that the file's scan did not find."""
        step, last, columns = _Step(place), None, ""
        taken = self._taken | {digest for _, digest in seen}
        for line in file.lines(self._rows, header, place.offset, place.line, place.skipping):
            if len(step.samples) >= limit:
                break
            if line.row is not None:
                known = self._is_known(line, place, taken)
                if known is None:
                    step.over = bool(seen or step.seen)
                    step.busy = not step.over
                    break
                columns = columns or line.row.columns
                if known and line.start < place.until:
                    step.known += 1
                else:
                    self._use(step, line, known, taken)
            last = line
        if last is not None and not file.goes_on_from(place):  # it was changed meanwhile
            self._forget_scan()
            return _Step(place, busy=True)
        if last is not None:
            step.place = file.behind(place, last, columns)
        if self._scan is not None:
            self._scan.at = step.place.offset
            if self._scan.at >= place.until:
                self._forget_scan()
        if step.busy:
            step.place = self._met(file, header, step.place)
        return step

    def _is_known(self, line: Line, place: Place, taken: set[bytes]) -> bool | None:
        """Whether a row was used before; None where the whole file has to be scanned to tell."""
        assert line.row is not None  # only rows are asked about
        digest = line.row.digest
        if self._key:
            return digest in taken or bool(self._known.uses(digest))
        if line.start < place.until:
            return None if self._scan is None else self._scan.is_known(digest)
        earlier = place.number > 1 and any(number != place.number for number, _ in self._known.uses(digest))
        return None if earlier else False

    def _use(self, step: _Step, line: Line, known: bool | None, taken: set[bytes]) -> None:
        """Give a row its place, and remember it."""
        assert line.row is not None  # only rows take places
        step.samples.append(None if known else line.row.sample)
        if known:
            step.known += 1
            return
        if line.row.fault is not None:
            step.faults.append(line.row.fault)
        step.seen.append(Seen(step.place.number, line.row.digest))
        taken.add(line.row.digest)
