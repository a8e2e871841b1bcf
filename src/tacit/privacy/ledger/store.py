"""The ledger's file: a chain of sealed entries in SQLite, appended to by one process and read by any.

An entry's hash covers its number, its release, its event and the hash before it, so that nothing in the middle can be
changed, removed or put elsewhere without every later hash being wrong. No hash protects the end of the chain: an old
copy of the file is a valid ledger, which `tacit.privacy.ledger.witness` finds out.

A peer keeps its own tables in the same file (`tacit.peer.node.store`): one commit makes charges and state durable.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

from tacit.core.errors import LedgerError
from tacit.privacy.ledger.entries import (
    BEFORE_GENESIS,
    FORMAT,
    GENESIS,
    UNDERCOUNTING,
    Entry,
    Genesis,
    encode_genesis,
    sealed,
)
from tacit.privacy.ledger.open_files import await_free, when_free

T = TypeVar("T")
Also = Callable[[sqlite3.Connection], int]
"""Writes something in the same transaction as the entries, and returns about how many bytes that was."""

APPLICATION_ID = 0x74614C31
"""SQLite's mark of a ledger's file ("taL1")."""
PAGE_BYTES = 1 << 13
"""Of a new file: a commit of 3 MB takes little more than half the time that it takes with SQLite's own 4096."""
LONGEST_VALUE = 1 << 20
"""Bytes of one column: more than any event needs; a damaged length must not make us allocate gigabytes."""
SMALLEST_INTEGER = -(2**63)
BUSY_SECONDS = 10.0
"""How long to wait for a reader that is in the way of a checkpoint when the ledger is opened."""
SQLITE_FILES = 4
"""The database, its log, their index and the directory."""
SQLITE_FAILURES = (sqlite3.Error, UnicodeDecodeError)
"""The second comes out of the first when its message quotes damaged text."""

_SCHEMA = (
    """CREATE TABLE entry (
  sequence INTEGER PRIMARY KEY,
  release TEXT NOT NULL UNIQUE,
  event TEXT NOT NULL,
  previous BLOB NOT NULL,
  hash BLOB NOT NULL
) STRICT""",
    """CREATE TRIGGER entry_is_appended BEFORE INSERT ON entry
WHEN NEW.sequence IS NOT (SELECT coalesce(max(sequence) + 1, 0) FROM entry)
  OR EXISTS (SELECT 1 FROM entry WHERE release = NEW.release)
BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END""",
    """CREATE TRIGGER entry_is_not_changed BEFORE UPDATE ON entry
BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END""",
    """CREATE TRIGGER entry_is_not_deleted BEFORE DELETE ON entry
BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END""",
)
PEER_SCHEMA = (
    """CREATE TABLE piece (
  id INTEGER PRIMARY KEY,
  data BLOB NOT NULL
) STRICT""",
    """CREATE TABLE parcel (
  id INTEGER PRIMARY KEY,
  receiver TEXT NOT NULL,
  links TEXT NOT NULL,
  round INTEGER NOT NULL,
  phase INTEGER NOT NULL,
  first INTEGER NOT NULL,
  pieces INTEGER NOT NULL,
  digest BLOB NOT NULL
) STRICT""",
    """CREATE TABLE sample (
  number INTEGER PRIMARY KEY,
  first INTEGER NOT NULL,
  pieces INTEGER NOT NULL,
  digest BLOB NOT NULL
) STRICT""",
    """CREATE TABLE pair_key (
  receiver TEXT NOT NULL,
  partner TEXT NOT NULL,
  own BLOB NOT NULL,
  key BLOB NOT NULL,
  remote BLOB,
  span INTEGER NOT NULL,
  PRIMARY KEY (receiver, partner)
) STRICT""",
    """CREATE TABLE record (
  digest BLOB NOT NULL,
  file INTEGER NOT NULL,
  times INTEGER NOT NULL,
  PRIMARY KEY (digest, file)
) STRICT, WITHOUT ROWID""",
    """CREATE TABLE state (
  id INTEGER PRIMARY KEY CHECK (id = 1),
  first INTEGER,
  pieces INTEGER,
  digest BLOB,
  used INTEGER NOT NULL,
  appended INTEGER NOT NULL,
  seal BLOB NOT NULL
) STRICT""",
)
"""Tables of `tacit.peer.node.store`, here because a ledger's file may hold these beside its own and no others."""
_NEW_TABLES = ("CREATE TABLE pair_key", "CREATE TABLE record")
_PEER_SCHEMA_1 = tuple(table for table in PEER_SCHEMA if not table.startswith(_NEW_TABLES))
"""As it was in format 1."""
_APPEND = "INSERT INTO entry (sequence, release, event, previous, hash) VALUES (?, ?, ?, ?, ?)"
_PAGE = "SELECT sequence, release, event, previous, hash FROM entry WHERE sequence >= ? ORDER BY sequence LIMIT 1000"


def append(connection: sqlite3.Connection, entries: list[Entry], also: Also | None = None) -> int:
    """Append the entries, and what `also` writes, in one transaction; when this returns they are on the disk."""
    connection.execute("BEGIN IMMEDIATE")
    connection.executemany(_APPEND, entries)
    written = 0 if also is None else also(connection)
    connection.execute("COMMIT")
    return written


def number_of(connection: sqlite3.Connection, release: str) -> int | None:
    """Return the number of the entry that booked this release, or None."""
    row = connection.execute("SELECT sequence FROM entry WHERE release = ?", (release,)).fetchone()
    return None if row is None else int(row[0])


def walk(connection: sqlite3.Connection) -> Iterator[Entry]:
    """Yield every entry in order, having checked it; the first fault is raised and named. Memory does not grow."""
    try:
        _check_structure(connection)
        previous, position, begin = BEFORE_GENESIS, 0, SMALLEST_INTEGER
        # Page by page: a cursor left open by a caller who stops would keep the file locked.
        while rows := connection.execute(_PAGE, (begin,)).fetchall():
            for row in rows:
                entry = Entry(*row)
                if entry.sequence != position:
                    raise LedgerError(f"entry {position} is missing: the next in the file is entry {entry.sequence}")
                if entry.previous != previous:
                    raise LedgerError(f"entry {position} does not follow the entry before it: one of them was replaced")
                if entry.hash != sealed(*entry[:4]).hash:
                    raise LedgerError(f"entry {position} was changed: its hash is not that of its content")
                yield entry
                previous, position = entry.hash, position + 1
            begin = position
        if position == 0:
            raise LedgerError("entry 0 is missing: the ledger has no genesis")
    except (*SQLITE_FAILURES, MemoryError, AttributeError, TypeError, OverflowError) as error:
        # The last three: a damaged column of another type than the schema's, or a number that no ledger reaches.
        raise LedgerError(f"the file is damaged: {error or type(error).__name__}") from error


def write_new(path: Path, genesis: Genesis, also: Also | None, witnessed: Callable[[Entry], None]) -> None:
    """Write a ledger with its genesis, and what `also` adds.

    It appears under its name when it is complete and durable and `witnessed` has returned, or not at all.
    """
    for leftover in (path, *(_beside(path, suffix) for suffix in ("-wal", "-shm", "-journal"))):
        if os.path.lexists(leftover):
            raise LedgerError(
                f"{leftover} exists: a new ledger is written only where no other was; open it, or move it"
            )
    descriptor, name = when_free(lambda: tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent))
    os.close(descriptor)
    draft = Path(name)
    try:
        with contextlib.closing(_connect(draft, "rw")) as connection:
            connection.execute(f"PRAGMA page_size = {PAGE_BYTES}")
            connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            connection.execute(f"PRAGMA user_version = {FORMAT}")
            connection.execute("PRAGMA journal_mode = WAL")
            for statement in _SCHEMA:
                connection.execute(statement)
            first = sealed(0, GENESIS, encode_genesis(genesis), BEFORE_GENESIS)
            append(connection, [first], also)
        sync(draft)
        witnessed(first)
        path.hardlink_to(draft)  # unlike a rename, never replaces what is there
    finally:
        for suffix in ("", "-wal", "-shm"):
            _beside(draft, suffix).unlink(missing_ok=True)
    sync(path.parent)


def connect_writer(path: Path) -> sqlite3.Connection:
    """Open the ledger for appending, with every commit on the disk before it returns."""
    reading(path, lambda _: None)  # checks, read-only, that it is a ledger: another file is not touched
    if not os.access(path, os.W_OK):
        raise LedgerError(f"{path} is read-only: a ledger that cannot be written to allows no release; see its mode")
    connection = _connect(path, "rw")
    try:
        mode = connection.execute("PRAGMA journal_mode").fetchone()[0]
        if mode != "wal":
            raise LedgerError(f"{path}: journal mode {mode!r}, expected 'wal'; keep the ledger on a local disk")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA fullfsync = ON")  # macOS: fsync alone leaves data in the drive's cache
        connection.execute("PRAGMA checkpoint_fullfsync = ON")
        connection.execute("PRAGMA secure_delete = FAST")  # a key that was replaced is overwritten, not only unlinked
        connection.execute("PRAGMA wal_autocheckpoint = 0")  # it hides its errors; Ledger does it and sees them
    except BaseException:
        connection.close()
        raise
    return connection


def checkpoint(connection: sqlite3.Connection, mode: str) -> bool:
    """Move the log into the database ("PASSIVE": as far as readers allow, "TRUNCATE": all, and empty the log)."""
    busy, *_ = connection.execute(f"PRAGMA wal_checkpoint({mode})").fetchone()
    return not busy


def reading(path: Path, use: Callable[[sqlite3.Connection], T], formats: tuple[int, ...] = (FORMAT,)) -> T:
    """Let `use` read one consistent state of the file, which is never written to, also while a process appends.

    Where there is no log no process has it open, and the file is read as one that never changes, which leaves no
    -wal and -shm files behind and works on read-only media. If a writer comes meanwhile, `use` is called again.
    """
    log, before = _beside(path, "-wal"), _stamp(path)
    if log.exists():
        return _read(path, use, "ro", formats)
    fault: LedgerError | None = None
    try:
        result = _read(path, use, "ro&immutable=1", formats)
    except LedgerError as error:
        fault = error
    if log.exists() or _stamp(path) != before:
        return _read(path, use, "ro", formats)
    if fault is not None:
        raise fault
    return result


def sync(path: Path) -> None:
    """Put a file, or the names in a directory, on the disk."""
    descriptor = when_free(lambda: os.open(path, os.O_RDONLY))
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class WriterLock:
    """At most one process appends. The system frees the lock when its holder ends, however it ends."""

    def __init__(self, path: Path) -> None:
        import fcntl

        lock = _beside(path, ".lock")
        self._descriptor: int | None = when_free(lambda: os.open(lock, os.O_RDWR | os.O_CREAT, 0o600))
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            self.free()
            raise LedgerError(
                f"{path} is held by another process, or was opened here before: one at a time; close it there first"
            ) from error
        except BaseException:
            self.free()
            raise

    def free(self) -> None:
        """Let go of the lock (in a forked child: of the child's hold on it, not of the parent's)."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def _beside(path: Path, suffix: str) -> Path:
    return path.with_name(path.name + suffix)


def _stamp(path: Path) -> tuple[int, int, int]:
    if not path.is_file():
        what = "is a directory" if path.is_dir() else "does not exist"
        raise LedgerError(f"{path} {what}: expected a ledger; a new one is made with Ledger.create")
    facts = path.stat()
    return facts.st_ino, facts.st_mtime_ns, facts.st_size


def _connect(path: Path, mode: str) -> sqlite3.Connection:
    await_free(SQLITE_FILES)  # it says of no file why it cannot be opened
    connection = sqlite3.connect(
        f"{path.absolute().as_uri()}?mode={mode}",
        uri=True,
        timeout=BUSY_SECONDS,
        isolation_level=None,  # transactions are begun and ended here, in words
        check_same_thread=False,  # Ledger has a lock of its own
    )
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, LONGEST_VALUE)
    connection.execute("PRAGMA trusted_schema = OFF")
    connection.execute("PRAGMA cell_size_check = ON")
    return connection


def _read(path: Path, use: Callable[[sqlite3.Connection], T], mode: str, formats: tuple[int, ...]) -> T:
    try:
        with contextlib.closing(_connect(path, mode)) as connection:
            connection.execute("BEGIN")
            _check_identity(connection, formats)
            return use(connection)
    except (*SQLITE_FAILURES, LedgerError) as error:
        raise LedgerError(f"{path} cannot be used as a ledger: {error}") from error


def format_of(connection: sqlite3.Connection) -> int:
    """Return the format that a file says it has."""
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def _check_identity(connection: sqlite3.Connection, formats: tuple[int, ...]) -> None:
    owner = connection.execute("PRAGMA application_id").fetchone()[0]
    if owner != APPLICATION_ID:
        raise LedgerError(f"not a ledger: application id {owner:#x}, expected {APPLICATION_ID:#x}; nothing was changed")
    version = format_of(connection)
    if version == UNDERCOUNTING and version not in formats:
        raise LedgerError(
            f"a ledger of format {version}, of tacit 0.1.0, which may have spent more than it says and is not added "
            "to: `tacit ledger show` says how much it is at most; begin a new one with what is left of the budget then"
        )
    if version not in formats:
        raise LedgerError(f"a ledger of format {version}, expected {FORMAT}: use the version of tacit that wrote it")


def _check_structure(connection: sqlite3.Connection) -> None:
    """Check the parts outside the chain: the table's rules, and its index, which finds a release booked twice."""
    found = [row[0] for row in connection.execute("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL ORDER BY rowid")]
    peer = PEER_SCHEMA if format_of(connection) == FORMAT else _PEER_SCHEMA_1
    if found not in (list(_SCHEMA), [*_SCHEMA, *peer]):
        raise LedgerError("the table or its triggers are not those of a ledger: they were changed from outside")
    verdict = connection.execute("PRAGMA integrity_check(1)").fetchone()[0]
    if verdict != "ok":
        raise LedgerError(f"the file is damaged: {verdict}")
