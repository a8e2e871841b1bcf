"""The learners' data on the device: one period of them for the whole run, or chunk by chunk, read ahead."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tacit.core.contract import Array, Batch, Tree
from tacit.core.errors import DataError
from tacit.simulator.layout import RoleLayout
from tacit.simulator.shards.devices import AGENTS, SLOTS, Devices, Spec
from tacit.streams import Stream

RESIDENT_BYTES, RESIDENT_SHARE = 2**30, 0.25
"""A stream whose period is at most this large, or this share of an accelerator's memory, is put on the device once."""
CHUNK_BYTES = 2**28
"""Otherwise rounds are fed in chunks of at most this size, the next one read while one runs."""
LONGEST_CHUNK = 4096


class RoundData:
    """Batches of the learners of all repeats, round by round."""

    def __init__(
        self,
        streams: Sequence[Stream],
        learners: RoleLayout,
        repeats: int,
        rounds: int,
        dtype: jnp.dtype,
        prepare: Callable[[Batch], Batch] | None = None,
        devices: Devices | None = None,
    ) -> None:
        """Take one stream for all repeats, or one for each; `prepare` is done to every batch as it is put there."""
        self._devices = devices or Devices(1)
        self.streams, self.learners, self.repeats, self.rounds, self.dtype = streams, learners, repeats, rounds, dtype
        self.shared = len(streams) < repeats or repeats == 1
        self.spec: Tree = jax.tree.map(
            lambda leaf: jax.ShapeDtypeStruct(leaf.shape, self._precise(leaf.dtype)), streams[0].batch_spec()
        )
        """Shapes of one agent's batch, prepared."""
        self.as_given: Tree = self.spec
        self._prepare: Callable[[Tree], Tree] | None = None
        if prepare is not None:
            self.spec = jax.eval_shape(prepare, self.spec)
            self._prepare = jax.jit(jax.vmap(jax.vmap(prepare)))
        for repeat, stream in enumerate(streams):
            if stream.batch_spec() != streams[0].batch_spec():
                raise DataError(
                    f"stream {stream.name!r} of repeat {repeat} has batches {stream.batch_spec()}, that of repeat 0 "
                    f"{streams[0].batch_spec()}; all run as one, so give them the same shapes, padded with weight 0"
                )
        self._held: np.ndarray | None = None
        """Shard by shard, the agents whose rows it reads, where repeats read the same; None: on one device."""
        if self._repeated and learners.shards > 1:
            self._held, place = held_by(learners)
            self._place = self._devices.put(place, AGENTS)
        self.period = self._resident_period()
        """Rounds that stay on the device; None: they are fed in chunks."""
        self.chunk = self._chunk_length()
        """Rounds that are run at once, at most."""

    def _precise(self, dtype: Any) -> Any:
        return self.dtype if jnp.issubdtype(dtype, jnp.floating) else jax.dtypes.canonicalize_dtype(dtype)

    def _bytes_per_round(self) -> int:
        leaf_bytes = sum(math.prod(s.shape) * s.dtype.itemsize for s in jax.tree.leaves(self.spec))
        return max(1, int(leaf_bytes) * self.streams[0].agents * len(self.streams))

    def _resident_period(self) -> int | None:
        periods = {s.period if s.period is not None else s.rounds for s in self.streams}
        if None in periods or len(periods) > 1:
            return None
        period = min(periods.pop() or 0, self.rounds) if len(periods) == 1 else 0
        return period if period * self._bytes_per_round() <= _resident_bytes() else None

    def _chunk_length(self) -> int:
        if self.period is not None:
            return min(self.rounds, LONGEST_CHUNK)
        return int(np.clip(CHUNK_BYTES // self._bytes_per_round(), 1, min(self.rounds, LONGEST_CHUNK)))

    # -- on the host ---------------------------------------------------------------------------------------------------

    def resident(self) -> Tree | None:
        """Put the data that stay on the device there."""
        return None if self.period is None else self._fetch(0, self.period, self.period)

    def abstract_chunk(self) -> Tree:
        """Return the shapes of a chunk."""
        lead = (self.chunk, self._columns)
        chunk = jax.tree.map(lambda s: jax.ShapeDtypeStruct((*lead, *s.shape), s.dtype), self.spec)
        placed = self._devices.shapes(chunk, SLOTS)
        return placed if self._held is None else (placed, self._place)

    def pieces(self, done: int, every: int, resident: Tree | None) -> Iterator[tuple[Any, Any, Tree]]:
        """(first round, number of rounds, data) up to each recorded round, reading ahead."""
        stops = []
        at = done
        while at < self.rounds:
            at = min(at + self.chunk, (at // every + 1) * every, self.rounds)
            stops.append(at)
        starts = [done, *stops][:-1]
        if resident is not None:
            for first, stop in zip(starts, stops, strict=True):
                yield np.int32(first), np.int32(stop - first), resident
            return
        with ThreadPoolExecutor(1) as reader:
            ahead: Future[Tree] | None = None
            for k, (first, stop) in enumerate(zip(starts, stops, strict=True)):
                job = ahead or reader.submit(self._fetch, first, stop - first, self.chunk)
                if k + 1 < len(stops):
                    ahead = reader.submit(self._fetch, starts[k + 1], stops[k + 1] - starts[k + 1], self.chunk)
                yield np.int32(first), np.int32(stop - first), job.result()

    def _fetch(self, first: int, count: int, padded: int) -> Tree:
        """Rounds first..first+count of every repeat on the device, in internal order, padded to a fixed length."""

        def leaf(data: np.ndarray) -> np.ndarray:
            if count < padded:
                data = np.concatenate([data, np.zeros((padded - count, *data.shape[1:]), data.dtype)])
            return np.asarray(data, self._precise(data.dtype))

        with jax.enable_x64(self.dtype == jnp.float64):  # a setting of the thread, and the reader has its own
            rows = jax.tree.map(leaf, self._rows(first, first + count))
            found = self._devices.put_own(rows, SLOTS, (padded, self._columns))
            ready = found if self._prepare is None else self._prepare(found)
            return ready if self._held is None else (ready, self._place)

    def _rows(self, first: int, last: int) -> Tree:
        """Return the rows that this process holds, of all of its learners in internal order."""
        if self._held is not None:
            return self.streams[0].rows(first, last, self._devices.own(self._held))
        if self._repeated:
            return self.streams[0].chunk(first, last)
        ids = self._devices.own(self.learners.order)
        repeat, agent = np.divmod(ids, self.learners.agents)
        if len(self.streams) == 1:
            return self.streams[0].rows(first, last, agent)
        parts = [stream.rows(first, last, agent[repeat == r]) for r, stream in enumerate(self.streams)]
        place = np.empty(ids.size, np.int64)
        place[np.argsort(repeat, kind="stable")] = np.arange(ids.size)
        in_turn = np.all(np.diff(repeat) >= 0)

        def leaf(*found: np.ndarray) -> np.ndarray:
            together = np.concatenate(found, axis=1)
            return together if in_turn else together[:, place]

        return jax.tree.map(leaf, *parts)

    # -- in compiled code ----------------------------------------------------------------------------------------------

    def batch(self, data: Tree, index: Array, agent: Array) -> Batch:
        """Return everybody's batches of one round, given the learners' numbers."""

        rows, place = data if self._held is not None else (data, agent)

        def leaf(values: Array) -> Array:
            now: Array = jax.lax.dynamic_index_in_dim(values, index, keepdims=False)
            return now[place] if self._repeated else now

        return jax.tree.map(leaf, rows)

    def batches_of(self, data: Tree, index: Array, agent: Array, position: Array) -> Batch:
        """Return the batches of some learners, reading no others'."""
        rows, column = data if self._held is not None else (data, agent)
        place = jnp.minimum(position, agent.size - 1)
        place = column[place] if self._repeated else place
        return jax.tree.map(lambda values: values[index, place], rows)

    @property
    def _repeated(self) -> bool:
        """Whether all repeats read the same rows."""
        return self.shared and self.repeats > 1

    @property
    def _columns(self) -> int:
        """Columns of a chunk: learners, each by itself or once for all repeats."""
        if self._held is not None:
            return self._held.size
        return self.learners.agents if self._repeated else self.learners.order.size

    @property
    def where(self) -> Spec:
        """Where a chunk lies."""
        return SLOTS if self._held is None else (SLOTS, AGENTS)


def held_by(learners: RoleLayout) -> tuple[np.ndarray, np.ndarray]:
    """Return the agents whose rows each shard reads, equally many, shard by shard; and each learner's place there."""
    agent = (learners.order % learners.agents).reshape(learners.shards, -1)
    parts = [np.unique(one, return_inverse=True) for one in agent]
    longest = max(held.size for held, _ in parts)
    held = np.concatenate([np.pad(held, (0, longest - held.size), mode="edge") for held, _ in parts])
    return held, np.concatenate([place for _, place in parts]).astype(np.int32)


def _resident_bytes() -> int:
    """Return how large data may be to be kept on the device."""
    memory = jax.local_devices()[0].memory_stats()  # None on the CPU
    return max(RESIDENT_BYTES, int(RESIDENT_SHARE * memory["bytes_limit"]) if memory else 0)
