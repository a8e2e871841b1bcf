"""Streams over samples in memory: each agent reads its own rows, some of them or all of them in a round."""

from __future__ import annotations

import math
from typing import Any, Literal

import jax
import numpy as np
from numpy.typing import NDArray

from tacit.core import limits
from tacit.core.checks import one_of, whole_number
from tacit.core.contract import Tree
from tacit.core.errors import ConfigError, DataError
from tacit.streams.batch import Batch, Task
from tacit.streams.stream import INT32_MAX, ReadCounts, Stream, leaf_spec
from tacit.streams.validate import Assignment, check_assignment, check_features, check_labels

Exhausted = Literal["cycle", "mask", "stop"]
EXHAUSTED: tuple[Exhausted, ...] = ("cycle", "mask", "stop")


class ArrayStream(Stream):
    """A stream over rows of arrays. Make it with `from_arrays`."""

    def __init__(
        self,
        x: NDArray[Any],
        y: NDArray[Any],
        order: NDArray[np.int32],
        starts: NDArray[np.int64],
        *,
        batch: int,
        rounds: int | None,
        exhausted: Exhausted,
        passes: int,
        name: str,
        description: str,
    ) -> None:
        self._x, self._y = x, y
        self._order, self._starts = order, starts[:-1]
        self._batch, self._exhausted, self._passes = batch, exhausted, passes
        self.agents = len(starts) - 1
        self.data_size = np.diff(starts).astype(np.int32)
        self._pass = -(-int(self.data_size.max()) // batch)
        """Rounds in which the agent with most rows reads each of them once."""
        self.name, self.description = name, description
        self.rounds = self._lifetime(rounds)
        again = self._pass if passes > 1 else INT32_MAX
        self.period = self._common_period() if self.rounds is None else min(self.rounds, again)

    def batch_spec(self) -> Tree:
        """Return the shapes and types of one agent's batch."""
        lead = () if self._batch == 1 else (self._batch,)
        weight = leaf_spec(lead, np.float32) if self._exhausted == "mask" else None
        return Batch(leaf_spec(lead + self._x.shape[1:], self._x.dtype), leaf_spec(lead, self._y.dtype), weight)

    def chunk(self, start: int, stop: int) -> Tree:
        """Gather rounds start..stop-1 from the rows."""
        return self.rows(start, stop, np.arange(self.agents))

    def rows(self, start: int, stop: int, agents: NDArray[Any]) -> Tree:
        """Gather rounds start..stop-1 of some agents, reading no others'."""
        self.refuse_outside(start, stop)
        size = self.data_size[agents].astype(np.int64)[:, None]
        read = self._places(start, stop)[:, None]
        row = self._order[self._starts[agents, None] + read % size]
        there = np.broadcast_to(read < size, row.shape)
        if self._batch == 1:
            row, there = row[..., 0], there[..., 0]
        x, y = self._x[row], self._y[row]
        if self._exhausted != "mask":
            return Batch(x, y)
        x[~there], y[~there] = 0, 0
        return Batch(x, y, there.astype(np.float32))

    def backing(self) -> tuple[NDArray[Any], ...]:
        """Return the rows and the order in which they are read."""
        return self._x, self._y, self._order, self._starts

    def records(self, agent: int, start: int, stop: int) -> NDArray[np.int64] | None:
        """Return (rounds, places) which of an agent's rows each place holds, in the order in which it reads them."""
        read, size = self._places(start, stop), int(self.data_size[agent])
        if self._exhausted == "cycle":
            return read % size
        return np.where(read < size, read, -1) if self._passes > 1 else None

    def read_counts(self, rounds: int) -> ReadCounts:
        """Return how often rows are read in the first `rounds` rounds, also by agents that are not like others."""
        size, whole = self.data_size.astype(np.int64), 0
        if self._exhausted == "cycle":
            often, rest = np.divmod(rounds * self._batch, size)
        else:
            whole, left = (rounds // self._pass, rounds % self._pass) if self._passes > 1 else (0, rounds)
            often, rest = np.divmod(np.minimum(left * self._batch, size), size)
        unread = np.where((whole == 0) & (often == 0), size - rest, 0)
        return ReadCounts(
            int((whole + often).min()), int((whole + often + (rest > 0)).max()), int(unread.sum()), int(size.sum())
        )

    def alike(self) -> NDArray[np.int64]:
        """Return (agents,) a class for each agent: those with equally many rows."""
        return self.data_size.astype(np.int64)

    def _places(self, start: int, stop: int) -> NDArray[np.int64]:
        """Return (rounds, batch) the numbers of the rows that come up, counted on where an agent has no more."""
        rounds = np.arange(start, stop)
        if self._passes > 1:
            rounds %= self._pass
        return np.asarray(rounds[:, None] * self._batch + np.arange(self._batch))

    def _lifetime(self, rounds: int | None) -> int | None:
        if self._exhausted == "cycle":
            return rounds
        if self._exhausted == "mask":
            whole = self._passes * self._pass
            if self._passes > 1 and rounds is not None and rounds > whole:
                raise DataError(
                    f"{self.name}: rounds={rounds}, but passes={self._passes} of {self._pass} rounds are over after "
                    f"{whole}; say passes={-(-rounds // self._pass)}, or leave rounds out"
                )
            return whole if rounds is None else rounds
        least = int(self.data_size.min())
        supply = least // self._batch
        if supply < max(1, rounds or 1):
            wanted = "one round" if rounds is None else f"{rounds} rounds"
            raise DataError(
                f"{self.name}: agent {int(np.argmin(self.data_size))} has {least} samples, enough for "
                f"{supply} rounds of {self._batch}, but {wanted} must be possible with exhausted='stop'; say "
                "exhausted='cycle' or 'mask', or take fewer rounds, a smaller batch or fewer agents"
            )
        return supply if rounds is None else rounds

    def _common_period(self) -> int | None:
        period = 1
        for size in np.unique(self.data_size).tolist():
            period = math.lcm(period, size // math.gcd(size, self._batch))
            if period > INT32_MAX:
                return None  # it does repeat, but no run lasts that long
        return period


def from_arrays(
    x: Any,
    y: Any,
    assignment: Assignment,
    *,
    batch: int = 1,
    rounds: int | None = None,
    exhausted: Exhausted = "mask",
    passes: int = 1,
    shuffle_seed: int | None = 0,
    task: Task = "binary",
    name: str = "arrays",
    description: str = "samples given as arrays",
) -> Stream:
    """Stream in which each agent reads its own rows, `batch` of them in a round.

    Each row is read once, unless `passes` or `exhausted="cycle"` ask for more: what a run predicts of a row that it has
    learnt from before says how well it remembers, not how well it predicts. Rows in float64 are kept so, for runs in
    that precision; others read them in their own.

    Args:
      x: Features (rows, columns), or images (rows, height, width, ...); finite numbers.
      y: Labels (rows,); see `task`.
      assignment: One array of row indices per agent (see `tacit.streams.partition`), or one agent id per row.
      batch: Rows per agent and round, at least 1.
      rounds: Length of the stream; None: "cycle" is endless, "mask" lasts as long as the largest agent has rows, times
        the `passes`, "stop" as long as the smallest has.
      exhausted: Behaviour where an agent is out of rows. "mask" goes on with weight 0 (that agent's rounds are over,
        the run is not); "cycle" starts over in the same order, so that one with few rows reads them more often than
        others (`Stream.read_counts`); "stop" ends the stream for all when the first agent has no whole batch left.
      passes: Times that every row is read, with "mask": a pass lasts as long as the largest agent has rows.
      shuffle_seed: Seed of the order in which rows are read; None keeps the order given, as for a series in time.
      task: "binary" (labels -1/+1 or 0/1), "multiclass" (0, 1, 2, ...) or "regression".
      name: Short name for legends and files.
      description: One sentence for reports.

    Example:
      >>> import numpy as np, tacit
      >>> x, y = np.ones((20, 3)), np.tile([0, 1], 10)
      >>> tacit.streams.from_arrays(x, y, tacit.streams.partition.iid(20, agents=5))
      Stream(arrays, 5 agents, 3 features, 4 rounds)
    """
    whole_number("batch", batch)
    whole_number("passes", passes)
    if rounds is not None:
        whole_number("rounds", rounds)
    one_of("exhausted", exhausted, EXHAUSTED)
    if passes > 1 and exhausted != "mask":
        raise ConfigError(
            f"passes={passes} and exhausted={exhausted!r}: passes are counted where an agent waits for the others at "
            "the end of each; say exhausted='mask', or leave passes out"
        )
    features = check_features(x, exact=True)
    labels = check_labels(y, len(features), task, exact=True)
    order, starts = check_assignment(assignment, len(features))
    wanted = (len(starts) - 1) * batch * (features[0].nbytes + 32)
    limits.refuse_beyond(wanted, f"a round of {len(starts) - 1:,} agents x batch {batch:,}")
    if shuffle_seed is not None:
        whole_number("shuffle_seed", shuffle_seed, least=0)
        holder = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
        order = order[np.lexsort((np.random.default_rng(shuffle_seed).random(len(order)), holder))]
    return ArrayStream(
        features,
        labels,
        order,
        starts,
        batch=batch,
        rounds=rounds,
        exhausted=exhausted,
        passes=passes,
        name=name,
        description=description,
    )


class WholeStream(Stream):
    """The same batch in every round: all rows of each agent. Make it with `whole`."""

    def __init__(
        self,
        x: NDArray[Any],
        y: NDArray[Any],
        order: NDArray[np.int32],
        starts: NDArray[np.int64],
        *,
        name: str,
        description: str,
    ) -> None:
        self.agents, self.rounds, self.period = len(starts) - 1, None, 1
        self.data_size = np.diff(starts).astype(np.int32)
        self.name, self.description = name, description
        there = np.arange(self.data_size.max()) < self.data_size[:, None]
        self._batch = Batch(
            _padded(x[order], there), _padded(y[order], there), None if there.all() else there.astype(np.float32)
        )

    def batch_spec(self) -> Tree:
        """Return the shapes and types of one agent's batch."""
        return jax.tree.map(lambda leaf: leaf_spec(leaf.shape[1:], leaf.dtype), self._batch)

    def chunk(self, start: int, stop: int) -> Tree:
        """Return the data sets once per round; the rounds share their memory, and cannot be written to."""
        self.refuse_outside(start, stop)
        return jax.tree.map(lambda leaf: np.broadcast_to(leaf, (stop - start, *leaf.shape)), self._batch)

    def rows(self, start: int, stop: int, agents: NDArray[Any]) -> Tree:
        """Return the data sets of some agents once per round."""
        self.refuse_outside(start, stop)
        return jax.tree.map(
            lambda leaf: np.broadcast_to(leaf[agents], (stop - start, len(agents), *leaf.shape[1:])), self._batch
        )


def whole(
    x: Any,
    y: Any,
    assignment: Assignment,
    *,
    task: Task = "binary",
    name: str = "whole",
    description: str = "samples given as arrays, all of them in every round",
) -> Stream:
    """Endless stream whose every round brings an agent all its rows, in the order given, to sample from.

    A batch has as many places as the largest data set has rows: an agent's own rows come first, so that row indices
    below `data_size` are its samples; the places after them are zeros of weight 0. Where all have equally many rows
    there are no weights. In n rounds each sample may be read n times, and `Stream.reads` says so.

    Args:
      x: Features (rows, columns), finite numbers.
      y: Labels (rows,).
      assignment: One array of row indices per agent, or one agent id per row.
      task: "binary", "multiclass" or "regression", as of `from_arrays`.
      name: Short name for legends and files.
      description: One sentence for reports.

    Example:
      >>> import numpy as np, tacit
      >>> stream = tacit.streams.whole(np.ones((20, 3)), np.tile([0, 1], 10), [range(12), range(12, 20)])
      >>> stream.data_size
      array([12,  8], dtype=int32)
    """
    features = check_features(x, exact=True)
    labels = check_labels(y, len(features), task, exact=True)
    order, starts = check_assignment(assignment, len(features))
    return WholeStream(features, labels, order, starts, name=name, description=description)


def _padded(rows: NDArray[Any], there: NDArray[np.bool_]) -> NDArray[Any]:
    places = np.zeros(there.shape + rows.shape[1:], rows.dtype)
    places[there] = rows
    return places
