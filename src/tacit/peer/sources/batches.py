"""Batches for a peer's rounds, from a source of samples or from a stream."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import jax
import numpy as np

from tacit.core.contract import Batch
from tacit.core.errors import DataError
from tacit.peer.sources.queue import SampleForm, Seen, Source, Taken, batch_of

if TYPE_CHECKING:
    from tacit.streams import Stream


class RoundBatch(NamedTuple):
    """A round's data, and what to commit together with its messages."""

    batch: Batch
    records: tuple[int, ...] | None = None
    """Numbers of the records in it, -1 for an empty place; None: no record comes again."""
    cursor: Any = None
    used: int | None = None
    samples: int = 0
    """Number of samples in it, where these are counted."""
    seen: Sequence[Seen] = ()
    """Marks by which its records are known again."""


def empty_round(batch: Batch, cursor: Any) -> RoundBatch:
    """Return a round without data, of the shape of a batch; the data source stays where it is."""
    nothing = jax.tree.map(np.zeros_like, batch)
    return RoundBatch(nothing, (-1,) * np.size(nothing.weight), cursor)


class Feed(Protocol):
    """A source of batches."""

    def resume(self, cursor: Any) -> None:
        """Go on from the cursor of the last commit."""

    async def next(self, round_: int) -> RoundBatch:
        """Return the batch of a round; it may be empty, so that a slow stream does not hold up neighbours."""

    async def close(self) -> None:
        """Let go of files and tasks."""


class SampleFeed:
    """Batches of the samples that a source has within some patience, padded to a fixed size."""

    def __init__(
        self,
        source: Source,
        form: SampleForm,
        *,
        size: int,
        dtype: str,
        patience: float,
        bias: bool = False,
        on_fault: Callable[[DataError], None] = lambda fault: None,
    ) -> None:
        """Wait up to `patience` seconds for `size` samples.

        With `bias` a one is added to the features. While the source cannot be used, `on_fault` is called and rounds go
        on without samples.
        """
        self.source, self._form, self._size, self._dtype = source, form, size, dtype
        self._patience, self._bias, self._on_fault = patience, bias, on_fault
        self._cursor: Any = None
        self.fault: DataError | None = None
        """Fault of the source while it cannot be used."""

    def resume(self, cursor: Any) -> None:
        """Go on from the cursor of the last commit."""
        self.source.resume(cursor)
        self._cursor = cursor

    async def next(self, round_: int) -> RoundBatch:
        """Return the samples that have come."""
        taken = Taken((), self._cursor)
        try:
            taken = await self.source.take(self._size, self._patience)
            self._cursor, self.fault = taken.cursor, None
        except DataError as fault:
            self.fault = fault
            self._on_fault(fault)
            await asyncio.sleep(self._patience)
        batch = batch_of(taken.samples, self._size, self._form.features, self._dtype)
        if self._bias:
            batch = batch._replace(x=with_one(batch.x, np.asarray(batch.weight) > 0))
        usable = sum(sample is not None for sample in taken.samples)
        return RoundBatch(batch, cursor=self._cursor, used=taken.used, samples=usable, seen=taken.seen)

    async def close(self) -> None:
        """Close the source."""
        await self.source.close()


class StreamFeed:
    """One agent's share of a stream: round t gets the stream's batch t - 1, as in the simulator."""

    def __init__(self, stream: Stream | None, agent: int, dtype: str) -> None:
        """Take the stream, or None for a role without data."""
        self._stream, self._agent, self._dtype = stream, agent, dtype
        self._own = np.array([agent])

    def resume(self, cursor: Any) -> None:
        """Do nothing: the number of the round is enough."""

    async def next(self, round_: int) -> RoundBatch:
        """Return the batch of a round."""
        if self._stream is None:
            return RoundBatch(())
        if self._stream.rounds is not None and round_ > self._stream.rounds:
            raise DataError(f"stream {self._stream.name!r} has {self._stream.rounds} rounds, not {round_}")
        rows = self._stream.rows(round_ - 1, round_, self._own)
        batch = jax.tree.map(lambda leaf: in_precision(leaf[0, 0], self._dtype), rows)
        return RoundBatch(batch, records=self._stream.records_in_round(self._agent, round_))

    async def close(self) -> None:
        """Do nothing."""


def with_one(x: Any, present: Any = 1) -> np.ndarray:
    """Return features with a one added, where there is a sample."""
    ones = np.broadcast_to(np.asarray(present, x.dtype), x.shape[:-1])[..., None]
    return np.concatenate([x, ones], axis=-1)


NARROW = {"int64": np.int32, "uint64": np.uint32, "complex128": np.complex64}
"""JAX's types for 64-bit values in 32-bit mode."""


def in_precision(leaf: np.ndarray, dtype: str) -> np.ndarray:
    """Return floats in the run's precision, and other numbers in JAX's types for it."""
    if np.issubdtype(leaf.dtype, np.floating):
        return np.asarray(leaf, dtype)
    return np.asarray(leaf, leaf.dtype if dtype == "float64" else NARROW.get(leaf.dtype.name, leaf.dtype))
