"""Sources of samples, and the queue of samples pushed to a peer: after a crash none is used twice and none is lost.

A source hands out samples together with a cursor. The peer stores the cursor in the transaction that uses the samples,
and after a restart the source goes on from the stored one. A round does not wait for a slow source: it takes the
samples that have come and pads the batch (`batch_of`).
"""

from __future__ import annotations

import asyncio
import math
import struct
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Executor
from functools import partial
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import DTypeLike, NDArray

from tacit.core.checks import one_of, whole_number
from tacit.core.errors import ConfigError, DataError, TacitError
from tacit.streams import Batch
from tacit.streams.batch import TASKS, Task

Cursor = Any
"""Position in a source, as plain JSON."""

LARGEST = float(np.finfo(np.float32).max)


class Sample(NamedTuple):
    """One record: features and label."""

    x: NDArray[np.float64]
    """(features,)."""
    y: float


class Seen(NamedTuple):
    """Mark of a used record in the store, by which it is known when it comes again."""

    file: int
    """Number of the file that it came from; 1 for every other source."""
    digest: bytes


class Taken(NamedTuple):
    """Samples, and the cursor behind them."""

    samples: Sequence[Sample | None]
    """None: an unusable record, which takes its place."""
    cursor: Cursor
    seen: Sequence[Seen] = ()
    """Marks to store in the transaction that uses the samples."""
    used: int | None = None
    """Number up to which that transaction uses up the store's queue."""


class Source(Protocol):
    """A resumable stream of samples."""

    def resume(self, cursor: Cursor) -> None:
        """Go on from a stored cursor; called before the first `take`, and not at all in a new peer."""

    async def take(self, limit: int, patience: float) -> Taken:
        """Return `limit` samples as soon as they are there, or fewer after `patience` seconds."""

    async def close(self) -> None:
        """Let go of files and tasks."""


class SampleForm(NamedTuple):
    """Form of a job's samples; every sample is validated against it first."""

    features: int
    task: Task = "regression"
    """binary: y is -1/+1, or 0/1 where 0 becomes -1; multiclass: a class 0, 1, ...; regression: any number."""
    classes: int | None = None
    """Multiclass only: number of classes."""
    names: tuple[str, ...] | None = None
    """Names of the features, for messages; by default their positions."""
    class_names: tuple[str, ...] | None = None
    """Names of the classes in their order, by which labels may be given; None: they are numbers."""

    @property
    def labels(self) -> tuple[str | int, ...]:
        """All classes in their order, by name where they have one; none for a regression."""
        return self.class_names or self.codes

    @property
    def codes(self) -> tuple[int, ...]:
        """The numbers that stand for the classes."""
        return (-1, 1) if self.task == "binary" else tuple(range(self.classes or 0))

    @classmethod
    def of(
        cls,
        features: int,
        task: Task = "regression",
        classes: int | None = None,
        names: Sequence[str] | None = None,
        class_names: Sequence[str] | None = None,
    ) -> SampleForm:
        """Make a form from settings, or refuse them."""
        whole_number("features", features)
        one_of("task", task, TASKS)
        if (task == "multiclass") != (classes is not None):
            raise ConfigError(
                f"task={task!r} with classes={classes!r}: classes go with task='multiclass', and only there"
            )
        if classes is not None:
            whole_number("classes", classes, least=2)
        if names is not None and len(names) != features:
            raise ConfigError(f"{len(names)} names for {features} features; name each one, or none")
        form = cls(features, task, classes, None if names is None else tuple(names))
        if class_names is None:
            return form
        words = [name.strip() for name in class_names]
        if (
            not form.codes
            or len(words) != len(form.codes)
            or len(set(words)) < len(words)
            or not all(map(_is_word, words))
        ):
            wanted = f"{len(form.codes)} different words" if form.codes else "none, since labels are numbers here"
            raise ConfigError(
                f"class_names = {', '.join(class_names) or '(none)'}: expected {wanted}; a number is no name, because "
                "labels may be given as numbers too"
            )
        return form._replace(class_names=tuple(words))

    def check(self, x: object, y: object, where: str = "the sample") -> Sample:
        """Return a valid sample, or refuse it, naming the faulty column but never its value."""
        values = self.check_features(x, where)
        label = self._code(y, where)
        if self.task == "binary":
            if label not in (-1.0, 0.0, 1.0):
                raise DataError(f"{where}, label: expected -1/+1 or 0/1; map the labels to these")
            label = 1.0 if label == 1.0 else -1.0
        if self.classes is not None and not (label.is_integer() and 0 <= label < self.classes):
            raise DataError(f"{where}, label: expected a class 0 to {self.classes - 1}; number the classes from 0")
        return Sample(values, label)

    def _code(self, y: object, where: str) -> float:
        """Return the number of a label that is a number or the name of a class."""
        if self.class_names is None or not isinstance(y, str):
            return _number(y, f"{where}, label")
        if y.strip() not in self.class_names:
            raise DataError(f"{where}, label: no class of that name; expected one of {', '.join(self.class_names)}")
        return float(self.codes[self.class_names.index(y.strip())])

    def check_features(self, x: object, where: str = "the sample") -> NDArray[np.float64]:
        """Return valid features, or refuse them."""
        given = x.tolist() if hasattr(x, "tolist") else x  # arrays of NumPy, JAX and the like
        if not isinstance(given, list | tuple):
            raise DataError(f"{where}: x is {kind_of(x)}; expected a list of {self.features} numbers")
        if len(given) != self.features:
            raise DataError(f"{where}: x has {len(given)} values; expected {self.features}, the features of the job")
        names: Iterable[object] = range(self.features) if self.names is None else map(repr, self.names)
        return np.array([_number(v, f"{where}, column {n}") for v, n in zip(given, names, strict=True)], np.float64)


def kind_of(value: object) -> str:
    """Return the kind of a value in the words of JSON; the value itself is no business of a message."""
    kinds = {str: "text", bool: "true or false", dict: "an object", list: "a list", int: "a number", float: "a number"}
    return "null" if value is None else kinds.get(type(value), f"a {type(value).__name__}")


def _is_word(name: str) -> bool:
    try:
        float(name)
    except ValueError:
        return bool(name)
    return False


def _number(value: object, where: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float | np.integer | np.floating):
        raise DataError(f"{where}: {kind_of(value)} is not a number; fill it in, or leave the sample out")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not abs(number) <= LARGEST:
        fault = "is missing (NaN)" if math.isnan(number) else "is not a finite 32-bit number"
        raise DataError(f"{where}: the value {fault}; fill it in, or leave the sample out")
    return number


def batch_of(samples: Sequence[Sample | None], size: int, features: int, dtype: DTypeLike) -> Batch:
    """Return a batch of `size` rows, the same structure in every round.

    An unusable record is a row of zeros with weight -1, which methods see as weight 0; padding has weight 0.
    """
    if len(samples) > size:
        raise ConfigError(f"{len(samples)} samples for a batch of {size}; take no more than the batch holds")
    x, y, weight = np.zeros((size, features), dtype), np.zeros(size, dtype), np.zeros(size, dtype)
    for row, sample in enumerate(samples):
        weight[row] = -1 if sample is None else 1
        if sample is not None:
            x[row], y[row] = sample.x, sample.y
    return Batch(x[0], y[0], weight[0]) if size == 1 else Batch(x, y, weight)


_LAYOUT = struct.Struct("<BId")
_VERSION = 1
_NO_SAMPLE = b"\0"


def encode(sample: Sample | None) -> bytes:
    """Return a sample as bytes: version (1), number of features (4), y (8), x (8 each), little-endian.

    None, an unusable record that takes its place, is one byte.
    """
    if sample is None:
        return _NO_SAMPLE
    return _LAYOUT.pack(_VERSION, len(sample.x), sample.y) + sample.x.astype("<f8").tobytes()


def decode(content: bytes) -> Sample | None:
    """Return the sample that `encode` wrote."""
    if content == _NO_SAMPLE:
        return None
    if len(content) >= _LAYOUT.size:
        version, features, y = _LAYOUT.unpack_from(content)
        if version == _VERSION and len(content) == _LAYOUT.size + 8 * features:
            return Sample(np.frombuffer(content, "<f8", offset=_LAYOUT.size).astype(np.float64), y)
    raise DataError(
        f"a stored sample of {len(content)} bytes is not in layout {_VERSION}; it was written by another version of "
        "tacit: finish the queue with that version first"
    )


class SampleStore(Protocol):
    """Interface of the peer's store to the queue. Calls block, and are made in the executor's threads."""

    def append_samples(self, contents: Sequence[bytes], seen: Sequence[Seen] = ()) -> int:
        """Add samples in one transaction; return the number of the last ever added when they are durable.

        They are numbered 1, 2, ... without a gap. For no samples it returns that number at once. `seen` are the marks
        of their records, which are known from then on.
        """

    def samples(self, limit: int) -> list[tuple[int, bytes]]:
        """Return the oldest samples that no commit has used yet, with their numbers."""


_Entry = tuple[bytes, Seen | None]
"""A sample as bytes, with the mark of its record."""
_Result = TypeVar("_Result")


class QueueClosed(TacitError):  # noqa: N818 - it is what happened to the queue
    """The peer is stopping and takes no more samples."""


class SampleQueue:
    """Samples that were pushed to the peer, on the disk until they are used. One event loop uses it.

    The cursor is the number of the last sample taken; the commit that stores it drops the samples up to there.
    """

    def __init__(self, store: SampleStore, form: SampleForm, executor: Executor, capacity: int = 10_000) -> None:
        """Take the open store and the executor whose threads may use it; at most `capacity` samples wait."""
        whole_number("capacity", capacity)
        self._store, self._form, self._executor, self.capacity = store, form, executor, capacity
        self._waiting: list[tuple[_Entry, asyncio.Future[None]]] = []
        self._unwritten = 0
        self._writer: asyncio.Task[None] | None = None
        self._closed = False
        self._arrived, self._room = asyncio.Event(), asyncio.Event()
        self._appended = store.append_samples(())
        oldest = store.samples(1)
        self._taken = oldest[0][0] - 1 if oldest else self._appended

    @property
    def depth(self) -> int:
        """Number of samples that wait to be taken, those being written included."""
        return self._appended - self._taken + self._unwritten

    def resume(self, cursor: Cursor) -> None:
        """Go on behind the sample of a number; samples up to there that are still stored are passed over."""
        if isinstance(cursor, bool) or not isinstance(cursor, int) or not 0 <= cursor <= self._appended:
            raise DataError(
                f"cursor {cursor!r}: expected the number of a sample of the queue, 0 to {self._appended}; it was "
                "stored for another stream: give that one back to the peer, or begin a new store"
            )
        self._taken = cursor

    async def learn(self, x: object, y: object) -> None:
        """Add one sample; returns when it is durable, and waits while the queue is full.

        If the caller is cancelled, the sample may have been added or not.
        """
        content = encode(self._form.check(x, y))
        await self.has_room()
        await self._add([(content, None)])

    async def has_room(self) -> None:
        """Wait while the queue is full."""
        while self.depth >= self.capacity and not self._closed:
            self._room.clear()
            await self._room.wait()

    async def deliver(self, records: Sequence[tuple[Sample | None, Seen | None]]) -> None:
        """Add records with their marks, all in one commit; None in the place of one that cannot be used.

        They are let in even where the queue is full: `has_room` waits.
        """
        await self._add([(encode(sample), seen) for sample, seen in records])

    async def push(self, samples: Sequence[tuple[object, object]]) -> bool:
        """Add samples, all or none; False where there is no room for them now."""
        contents = [(encode(self._form.check(x, y, f"sample {i}")), None) for i, (x, y) in enumerate(samples)]
        if len(contents) > self.capacity:
            raise DataError(f"{len(contents)} samples at once; expected at most {self.capacity}: send them in parts")
        if self.depth + len(contents) > self.capacity and not self._closed:
            return False
        await self._add(contents)
        return True

    async def take(self, limit: int, patience: float) -> Taken:
        """Return the oldest `limit` samples, or fewer when `patience` seconds have passed."""
        deadline = time.monotonic() + patience
        while self._appended - self._taken < limit and (left := deadline - time.monotonic()) > 0:
            self._arrived.clear()
            try:
                async with asyncio.timeout(left):
                    await self._arrived.wait()
            except TimeoutError:
                break
        if self._appended == self._taken:
            return Taken([], self._taken)
        rows = await self._in_thread(lambda: self._rows(limit))
        samples = [decode(content) for _, content in rows]
        self._taken = rows[-1][0]
        self._room.set()
        return Taken(samples, self._taken, used=self._taken)

    async def close(self) -> None:
        """Write the samples that wait, and refuse new ones."""
        self._closed = True
        self._room.set()
        if self._writer is not None:
            await asyncio.wait([self._writer])

    def _rows(self, limit: int) -> list[tuple[int, bytes]]:
        """Return the oldest `limit` rows behind the last one taken; those before it may still wait for their commit."""
        ask = limit
        while True:
            found = self._store.samples(ask)
            rows = [(number, content) for number, content in found if number > self._taken][:limit]
            if len(rows) == limit or len(found) < ask:
                return rows
            ask *= 2

    async def _add(self, contents: Sequence[_Entry]) -> None:
        if self._closed:
            raise QueueClosed("the peer is stopping and takes no more samples; send them again when it runs")
        written = [asyncio.get_running_loop().create_future() for _ in contents]
        self._waiting += zip(contents, written, strict=True)
        self._unwritten += len(contents)
        if self._writer is None:
            self._writer = asyncio.create_task(self._write())
        await asyncio.gather(*written)

    async def _write(self) -> None:
        """Write all samples that wait in one commit, and again while more have come meanwhile."""
        while self._waiting:
            batch, self._waiting = self._waiting, []
            seen = [mark for (_, mark), _ in batch if mark is not None]
            append = partial(self._store.append_samples, [content for (content, _), _ in batch], seen)
            fault: Exception | None = None
            try:
                self._appended = await self._in_thread(append)
                self._arrived.set()
            except Exception as found:  # for the callers that wait
                fault = found
                self._room.set()
            self._unwritten -= len(batch)
            for _, written in batch:
                if written.done():  # its caller has gone
                    continue
                if fault is None:
                    written.set_result(None)
                else:
                    written.set_exception(fault)
        self._writer = None

    async def _in_thread(self, function: Callable[[], _Result]) -> _Result:
        return await asyncio.get_running_loop().run_in_executor(self._executor, function)
