"""A peer's durable state in one SQLite file, one commit for all: ledger, snapshot, outbox, samples, keys, used records.

A peer computes a phase, commits, and only then sends. One transaction books what is released, replaces the snapshot
and puts the messages into the outbox, so that after a crash at any point the peer is either before the phase, with
nothing booked and nothing sent, or after it, with the very same bytes to send again.

So noise may be drawn before the commit. What was drawn and not committed has been seen by nobody: it is as if it had
never been drawn, costs nothing, and the phase is done again with fresh noise under the same name. What was committed is
booked, and never drawn again.

State and ledger are tied together by a seal over the ledger's last entry, the snapshot, the outbox, the numbers of the
samples, the keys of masks and the digests of used records. It has no key: it finds damage, the witness old copies.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import NamedTuple

from tacit.core.errors import StoreError
from tacit.peer.masking.key_store import KeyRing, Pair, PairKey, read_keys
from tacit.peer.node import record_table
from tacit.peer.node.exchange import Parcel
from tacit.peer.node.pieces import Content, Pieces, free, load
from tacit.peer.node.staging import StagedLedger
from tacit.peer.operations.traces import NO_TRACES
from tacit.peer.sources.queue import Seen
from tacit.privacy.accounting import Budget
from tacit.privacy.events import Event
from tacit.privacy.ledger import Ledger
from tacit.privacy.ledger.store import PEER_SCHEMA

BYTES_PER_ROW = 100
REMEDY = (
    "put the file back from a copy that its witness accepts, or begin a new store with the budget that "
    "`tacit ledger show` says is left"
)

Key = tuple[str, str, int, int]
"""Receiver, link set, round and phase of a parcel."""


class Waiting(NamedTuple):
    """A row of the outbox."""

    id: int
    receiver: str
    links: str
    round: int
    phase: int
    content: Content

    @property
    def key(self) -> Key:
        """Key by which it is dropped."""
        return self.receiver, self.links, self.round, self.phase

    @property
    def fingerprint(self) -> bytes:
        """A hash of all of it."""
        *address, content = self
        return hashlib.sha256(_text(*address, *_listed(content))).digest()


class State(NamedTuple):
    """Content of a store beside the ledger, as references to pieces."""

    snapshot: Content | None
    used: int
    appended: int
    outbox: dict[Key, tuple[Waiting, bytes]]
    """Each row with its fingerprint, in the order in which they were added."""
    keys: KeyRing
    """Keys of the masks."""
    records: int = 0
    """The sum of the hashes of all rows of `record`."""

    def seal(self, last: bytes) -> bytes:
        """Tie this state to the ledger's last entry."""
        digest = hashlib.sha256(b"tacit peer store 2\n" + last + self.keys.digest)
        snapshot = [] if self.snapshot is None else _listed(self.snapshot)
        digest.update(_text(snapshot, self.used, self.appended, self.records, len(self.outbox)))
        for _, fingerprint in self.outbox.values():
            digest.update(fingerprint)
        return digest.digest()


class PeerStore:
    """The store of one peer. One thread commits; any thread may append samples and keep keys."""

    def __init__(self, ledger: Ledger) -> None:
        """Take over an open ledger; use `PeerStore.open` or `PeerStore.create`."""
        self.ledger = ledger
        self.staged = StagedLedger(ledger)
        self.records, self.traces = record_table.UsedRecords(ledger), NO_TRACES
        self._state, following = self._verified()
        self._pieces = Pieces(following)

    @classmethod
    def create(cls, path: Path, budget: Budget, job: str, witness: Path | None = None) -> PeerStore:
        """Begin a store where there is none; budget, job and use of a witness are fixed from here on."""
        return cls._taking(Ledger.create(path, budget, witness, job, _begin))

    @classmethod
    def open(cls, path: Path, budget: Budget | None = None, job: str = "", witness: Path | None = None) -> PeerStore:
        """Open a store as its last commit left it; `budget` and `job`, where given, must be those it was made with."""
        return cls._taking(Ledger.open(path, budget, witness, job))

    @classmethod
    def _taking(cls, ledger: Ledger) -> PeerStore:
        try:
            return cls(ledger)
        except BaseException:
            ledger.close()
            raise

    def snapshot(self) -> bytes | None:
        """Return the snapshot of the last commit that had one, or None if there was none yet."""
        content = self._state.snapshot
        return None if content is None else self._loaded([("the snapshot", content)])[0]

    def outbox(self) -> list[Parcel]:
        """Return the parcels that wait to be delivered, in the order in which they were added."""
        rows = [row for row, _ in self._state.outbox.values()]
        shared = {row.content: f"the parcel of round {row.round} to {row.receiver!r}" for row in rows}
        contents = dict(zip(shared, self._loaded([(name, content) for content, name in shared.items()]), strict=True))
        return [Parcel(row.links, row.phase, row.round, row.receiver, contents[row.content]) for row in rows]

    def commit(
        self,
        *,
        charges: Sequence[tuple[str, Event]] = (),
        snapshot: bytes | None = None,
        own: bytes = b"",
        parcels: Sequence[Parcel] = (),
        drop: Sequence[Key] = (),
        used: int | None = None,
        oldest: int = 0,
        seen: Sequence[Seen] = (),
    ) -> None:
        """Make all of it durable together; what was staged is booked with it.

        A snapshot, and `own` at its end, replaces the one before; a parcel whose content is that very object shares its
        pieces. `drop` takes parcels out of the outbox, those that are there: a receiver may confirm twice. Samples up
        to number `used` are used up, `seen` records known, keys of masks for rounds before `oldest` forgotten. After a
        failed write (LedgerError) the store is closed for good, as it was before or after.
        """
        self._refuse_repeated(parcels, drop)
        self._refuse_unknown(used)
        staged = self.staged.charges

        def write(connection: sqlite3.Connection) -> int:
            before = self._state
            outbox = dict(before.outbox)
            unneeded = [outbox.pop(key)[0].content for key in drop if key in outbox]
            content = before.snapshot
            if snapshot is not None and content is not None:
                unneeded.append(content)
            if used is not None:
                rows = connection.execute("SELECT first, pieces, digest FROM sample WHERE number <= ?", (used,))
                unneeded += [Content(*row) for row in rows]
                connection.execute("DELETE FROM sample WHERE number <= ?", (used,))
            kept = {row.content for row, _ in outbox.values()}
            if snapshot is None and content is not None:
                kept.add(content)
            free(connection, unneeded, kept)  # first what goes, then what comes: the space is used again at once
            gone = [(before.outbox[key][0].id,) for key in drop if key in before.outbox]
            connection.executemany("DELETE FROM parcel WHERE id = ?", gone)
            put: dict[int, Content] = {}
            if snapshot is not None:
                content, put[id(own)] = self._pieces.put_ending(connection, snapshot, own)
            written = len(snapshot or b"") + len(own) + self._put_parcels(connection, parcels, outbox, put)
            aged = before.keys.aged(oldest)
            keys = before.keys.written(connection, aged)
            records = record_table.add(connection, before.records, seen)
            self._state = State(content, before.used if used is None else used, before.appended, outbox, keys, records)
            _write_state(connection, self._state)
            return written + BYTES_PER_ROW * (len(gone) + len(staged) + len(charges) + len(aged) + len(seen))

        with self.traces.span("commit", messages=len(parcels)):
            self.ledger.charge_all([*staged, *charges], write)
        self.staged.booked(len(staged))

    @property
    def keys(self) -> Mapping[Pair, PairKey]:
        """Keys of the masks, for each receiver and partner."""
        return self._state.keys.pairs

    def keep_keys(self, pairs: Mapping[Pair, PairKey]) -> None:
        """Put keys on the disk, in the place of those of the same pairs; any thread may."""

        def write(connection: sqlite3.Connection) -> int:
            self._state = self._state._replace(keys=self._state.keys.written(connection, pairs))
            _write_state(connection, self._state)
            return 2 * BYTES_PER_ROW * len(pairs)

        self.ledger.charge_all((), write)

    def append_samples(self, contents: Sequence[bytes], seen: Sequence[Seen] = ()) -> int:
        """Put samples at the end of the queue, and return the number of the last; their records are known then."""
        last = self._state.appended

        def write(connection: sqlite3.Connection) -> int:
            nonlocal last
            last = self._state.appended  # as it is now, under the ledger's lock
            for content in contents:
                last += 1
                first, pieces, _ = self._pieces.put(connection, content)
                row = (last, first, pieces, _sample_digest(last, first, pieces, content))
                connection.execute("INSERT INTO sample (number, first, pieces, digest) VALUES (?, ?, ?, ?)", row)
            records = record_table.add(connection, self._state.records, seen)
            self._state = self._state._replace(appended=last, records=records)
            _write_state(connection, self._state)
            return sum(map(len, contents)) + BYTES_PER_ROW * (len(contents) + len(seen))

        if contents:
            self.ledger.charge_all((), write)
        return last

    def samples(self, limit: int) -> list[tuple[int, bytes]]:
        """Return the oldest samples that are not used up, at most `limit`, each with its number."""

        def read(connection: sqlite3.Connection) -> list[tuple[int, bytes, bool]]:
            query = "SELECT number, first, pieces, digest FROM sample ORDER BY number LIMIT ?"
            found = []
            for number, first, pieces, digest in connection.execute(query, (limit,)).fetchall():
                content = load(connection, first, pieces)
                found.append((number, content, _sample_digest(number, first, pieces, content) == digest))
            return found

        found = self.ledger.read(read)
        for number, _, known in found:
            if not known:
                raise self._damaged(f"sample {number}")
        return [(number, content) for number, content, _ in found]

    def close(self) -> None:
        """Close the file and release its lock; staged charges that were not committed are forgotten."""
        self.ledger.close()

    def __enter__(self) -> PeerStore:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _verified(self) -> tuple[State, int]:
        """Return the state, checked against its seal, and the number of the next piece."""
        path = self.ledger.path
        if not self.ledger.read(_is_store):
            raise StoreError(f"{path} is a ledger without a peer's state: name the peer's store, or create a new one")
        rows, outbox, samples, records, last, top, keys = self.ledger.read(_read_all)
        if len(rows) != 1:
            raise self._damaged("the row of the state")
        first, pieces, digest, used, appended, seal = rows[0]
        waiting = [Waiting(*row[:5], Content(*row[5:])) for row in outbox]
        state = State(
            None if first is None or pieces is None or digest is None else Content(first, pieces, digest),
            used,
            appended,
            {row.key: (row, row.fingerprint) for row in waiting},
            keys,
            records,
        )
        if len(state.outbox) != len(waiting) or state.seal(last) != seal:
            raise StoreError(
                f"{path}: snapshot, outbox and used records do not belong to the ledger's last entry: one of them was "
                f"changed or put back by itself, and to go on might release twice what was charged once; {REMEDY}"
            )
        expected = (appended - used, used + 1, appended) if appended > used else (0, None, None)
        if samples != expected:
            raise self._damaged(f"the queue of samples {used + 1} to {appended}")
        return state, top + 1

    def _refuse_repeated(self, parcels: Sequence[Parcel], drop: Iterable[Key]) -> None:
        taken = self._state.outbox.keys() - set(drop)
        for parcel in parcels:
            key = (parcel.receiver, parcel.links, parcel.round, parcel.phase)
            if key in taken:
                raise StoreError(
                    f"round {parcel.round}, phase {parcel.phase} to {parcel.receiver!r} over {parcel.links!r} is in "
                    "the outbox already: one message per receiver and phase"
                )
            taken.add(key)

    def _refuse_unknown(self, used: int | None) -> None:
        if used is not None and not self._state.used <= used <= self._state.appended:
            raise StoreError(
                f"samples cannot be used up to number {used}: {self._state.used} are used up and "
                f"{self._state.appended} were appended"
            )

    def _put_parcels(
        self,
        connection: sqlite3.Connection,
        parcels: Sequence[Parcel],
        outbox: dict[Key, tuple[Waiting, bytes]],
        put: dict[int, Content],
    ) -> int:
        """Put parcels into the outbox; `put` has contents, by identity, that are written already."""
        numbers = itertools.count(1 + max((row.id for row, _ in self._state.outbox.values()), default=0))
        # A broadcast is one object for all of its receivers.
        fresh = {id(p.content): p.content for p in parcels if id(p.content) not in put}
        put = {**put, **{key: self._pieces.put(connection, content) for key, content in fresh.items()}}
        rows = [Waiting(next(numbers), p.receiver, p.links, p.round, p.phase, put[id(p.content)]) for p in parcels]
        connection.executemany(f"INSERT INTO parcel VALUES (?{', ?' * 7})", ((*row[:5], *row.content) for row in rows))
        outbox.update({row.key: (row, row.fingerprint) for row in rows})
        return sum(map(len, fresh.values()))

    def _loaded(self, contents: Sequence[tuple[str, Content]]) -> list[bytes]:
        found = self.ledger.read(lambda connection: [load(connection, c.first, c.pieces) for _, c in contents])
        for (name, content), data in zip(contents, found, strict=True):
            if hashlib.sha256(data).digest() != content.digest:
                raise self._damaged(name)
        return found

    def _damaged(self, what: str) -> StoreError:
        return StoreError(f"{self.ledger.path} is damaged: {what} is not what was written; {REMEDY}")


def _begin(connection: sqlite3.Connection) -> int:
    for statement in PEER_SCHEMA:
        connection.execute(statement)
    _write_state(connection, State(None, 0, 0, {}, KeyRing()))
    return 0


def _is_store(connection: sqlite3.Connection) -> bool:
    return connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'state'").fetchone() is not None


def _last_hash(connection: sqlite3.Connection) -> bytes:
    last: bytes = connection.execute("SELECT hash FROM entry ORDER BY sequence DESC LIMIT 1").fetchone()[0]
    return last


def _write_state(connection: sqlite3.Connection, state: State) -> None:
    snapshot = (None, None, None) if state.snapshot is None else state.snapshot
    row = (1, *snapshot, state.used, state.appended, state.seal(_last_hash(connection)))
    connection.execute("INSERT OR REPLACE INTO state VALUES (?, ?, ?, ?, ?, ?, ?)", row)


class _Rows(NamedTuple):
    state: list[tuple[int | None, int | None, bytes | None, int, int, bytes]]
    outbox: list[tuple[int, str, str, int, int, int, int, bytes]]
    samples: tuple[int, int | None, int | None]
    records: int
    last: bytes
    top: int
    keys: KeyRing


def _read_all(connection: sqlite3.Connection) -> _Rows:
    return _Rows(
        connection.execute("SELECT first, pieces, digest, used, appended, seal FROM state").fetchall(),
        connection.execute(
            "SELECT id, receiver, links, round, phase, first, pieces, digest FROM parcel ORDER BY id"
        ).fetchall(),
        connection.execute("SELECT count(*), min(number), max(number) FROM sample").fetchone(),
        record_table.total(connection),
        _last_hash(connection),
        connection.execute("SELECT coalesce(max(id), 0) FROM piece").fetchone()[0],
        read_keys(connection),
    )


def _sample_digest(number: int, first: int, pieces: int, content: bytes) -> bytes:
    return hashlib.sha256(_text(number, first, pieces) + content).digest()


def _listed(content: Content) -> list[int | str]:
    return [content.first, content.pieces, content.digest.hex()]


def _text(*values: object) -> bytes:
    return json.dumps(values).encode()
