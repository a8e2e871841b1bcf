"""Streams: every agent's batch of a slice of rounds, as the runtimes ask for it.

A stream is random access and pure: a slice of rounds is the same whatever was asked for before. So the simulator reads
chunk by chunk (rounds x agents x features need not fit in memory), a restarted run goes on where it stood, and a peer
reads just its own rounds.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import numpy as np
from numpy.typing import NDArray

from tacit.core.checks import whole_number
from tacit.core.contract import Tree
from tacit.core.errors import DataError
from tacit.streams.learnt import Learnt

if TYPE_CHECKING:
    from tacit.streams.reading.preprocessing import Preprocessing

INT32_MAX = np.iinfo(np.int32).max


def leaf_spec(shape: tuple[int, ...], dtype: Any) -> Any:
    """Return the shape and type of one leaf of a batch, a `jax.ShapeDtypeStruct`."""
    return jax.ShapeDtypeStruct(shape, np.dtype(dtype))


class ReadCounts(NamedTuple):
    """How often the records of a run were read."""

    least: int
    """Fewest readings of a record; 0 where some were not reached."""
    most: int
    """Most readings of a record. Above 1, a figure of every round is one of training: its record was learnt before."""
    unread: int = 0
    """Records that were not reached; 0 also where it is not known how many there are."""
    records: int | None = None
    """Of all agents; None: no end of them, or it is not known."""

    def joined(self, other: ReadCounts) -> ReadCounts:
        """Return the counts of two streams together, of which the second is the same data in another repeat.

        Args:
          other: Counts of the second.
        """
        least, most = min(self.least, other.least), max(self.most, other.most)
        return ReadCounts(least, most, max(self.unread, other.unread), self.records)


def places_in(batch: Tree) -> tuple[int, bool]:
    """Return how many places for records a batch has, and whether some may be empty."""
    y = getattr(batch, "y", None)
    return 1 if y is None or not y.shape else y.shape[0], getattr(batch, "weight", None) is not None


class Stream(ABC):
    """Source of batches: (round, agent) -> batch, with rounds counted from 0.

    For data of your own use `from_arrays`, `from_table` or `from_function`; a subclass defines `batch_spec` and `chunk`
    and sets the attributes below.

    Example:
      >>> import tacit
      >>> stream = tacit.streams.logistic_drift(agents=8, dim=5)
      >>> stream
      Stream(logistic_drift, 8 agents, 5 features, endless)
      >>> stream.chunk(0, 3).x.shape
      (3, 8, 5)
    """

    agents: int
    """How many agents it feeds."""
    rounds: int | None
    """How many rounds it has; None: endless."""
    period: int | None
    """Batches repeat after this many rounds; for a finite one at most its rounds; None: never."""
    data_size: NDArray[np.int32]
    """(agents,) number of own samples; 0 where there is no end of them."""
    name: str
    """A short name for legends and files."""
    description: str
    """One sentence for reports, which says where a data set is only a part of the original."""
    learnt: tuple[Learnt, ...] = ()
    """Facts learnt from all rows when it was made, and whether these are declared public."""
    preprocessing: Preprocessing | None = None
    """Record of how rows were made of a table's columns, to be applied to other tables; None: there is none."""
    arrivals: NDArray[np.bool_] | None = None
    """(rounds, agents) whether a round brings an agent a sample; None: every round brings one to all."""

    @abstractmethod
    def batch_spec(self) -> Tree:
        """Return the shapes and types of one agent's batch, a pytree of `jax.ShapeDtypeStruct`."""

    @abstractmethod
    def chunk(self, start: int, stop: int) -> Tree:
        """Return rounds start..stop-1 as a pytree of numpy arrays (stop - start, agents, ...).

        Args:
          start: First round, counted from 0.
          stop: Round after the last.
        """

    def rows(self, start: int, stop: int, agents: NDArray[Any]) -> Tree:
        """Return rounds start..stop-1 of some agents, (stop - start, len(agents), ...) as in `chunk`.

        A process that simulates some of the agents asks for these alone. As long as a stream does not say otherwise,
        they are taken out of everybody's.

        Args:
          start: First round, counted from 0.
          stop: Round after the last.
          agents: Their numbers, in any order, some perhaps more than once.
        """
        found = self.chunk(start, stop)
        if np.array_equal(agents, np.arange(self.agents)):
            return found
        return jax.tree.map(lambda leaf: leaf[:, agents], found)

    def backing(self) -> tuple[NDArray[Any], ...]:
        """Return the arrays of which all batches are made; none where there are no such arrays, or it is not known.

        By these a checkpoint knows data that are too large to be read through.
        """
        return ()

    def records(self, agent: int, start: int, stop: int) -> NDArray[np.int64] | None:
        """Return (rounds, places) which of an agent's records stand in its batches of rounds start..stop-1.

        Records are numbered from 0 on, agent by agent; -1 is a place without one. None: no record comes twice. By these
        numbers privacy accounts know a record again, so that a stream must tell all that it reads again. As long as a
        stream does not say otherwise, a batch is one record, which comes again after `period` rounds.

        Args:
          agent: Agent, counted from 0.
          start: First round, counted from 0.
          stop: Round after the last.
        """
        if self.period is None or (self.rounds is not None and self.period >= self.rounds):
            return None
        return np.arange(start, stop)[:, None] % self.period

    def alike(self) -> NDArray[np.int64]:
        """Return (agents,) a class for each agent: those of one class read their records in the same order.

        As long as a stream does not say otherwise, each of its agents reads in an order of its own, unless `records`
        is that of all streams.
        """
        own = type(self).records is not Stream.records
        return np.arange(self.agents) if own else np.zeros(self.agents, np.int64)

    def numbered(self, agent: int, start: int, stop: int) -> NDArray[np.int64] | None:
        """Return `records`, having checked that they fit the batches: one number per place, or one for all of it.

        Args:
          agent: Agent, counted from 0.
          start: First round, counted from 0.
          stop: Round after the last.
        """
        found = self.records(agent, start, stop)
        if found is None:
            return None
        spec, length = self.batch_spec(), stop - start
        places, gaps = places_in(spec) if hasattr(spec, "y") else (found.shape[-1], True)  # of a kind of its own
        fits = found.shape in ((length, 1), (length, places)) and places > 0 and found.dtype.kind == "i"
        if not fits or found.min(initial=0) < (-1 if gaps else 0):
            raise DataError(
                f"{self.name}: agent {agent}'s records of rounds {start} to {stop} are numbered by an array "
                f"{found.dtype}{list(found.shape)} from {found.min(initial=0)} on; expected whole numbers "
                f"{[length, places]}, one for each place of a batch, or {[length, 1]}, one for each batch, from 0 on "
                "(-1 for an empty place, where batches have weights)"
            )
        return found

    def records_in_round(self, agent: int, round_: int) -> tuple[int, ...] | None:
        """Return the numbers of the records in an agent's batch of one round; see `records`.

        Args:
          agent: Agent, counted from 0.
          round_: Round t = 1, 2, ...: here the first one is 1.
        """
        found = self.numbered(agent, round_ - 1, round_)
        return None if found is None else tuple(found[0].tolist())

    def reads(self, rounds: int) -> NDArray[np.int64]:
        """Return (agents,) how often a record is read at most in the first `rounds` rounds.

        An argument of parallel composition ("each record is used in one round") holds only where this is 1.

        Args:
          rounds: Number of rounds, 0 or more.
        """
        _, first, which = np.unique(self.alike(), return_index=True, return_inverse=True)
        return np.array([self._most_read(int(agent), rounds) for agent in first], np.int64)[which]

    def _most_read(self, agent: int, rounds: int) -> int:
        numbers = self.numbered(agent, 0, rounds)
        if numbers is None:
            return 1
        return int(np.unique(numbers[numbers >= 0], return_counts=True)[1].max(initial=0))

    def read_counts(self, rounds: int) -> ReadCounts:
        """Return how often records are read in the first `rounds` rounds, by the stream's own numbers of them.

        Args:
          rounds: Number of rounds, 0 or more.
        """
        counts = []
        for agent in np.unique(self.alike(), return_index=True)[1].tolist():
            numbers = self.numbered(agent, 0, rounds)
            if numbers is not None:
                counts.append(np.unique(numbers[numbers >= 0], return_counts=True)[1])
        times = np.concatenate([*counts, []] if counts else [[min(rounds, 1)]])  # without numbers none comes twice
        return ReadCounts(int(times.min()), int(times.max())) if times.size else ReadCounts(0, 0)

    def refuse_outside(self, start: int, stop: int) -> None:
        """Refuse a slice of rounds that the stream does not have.

        Args:
          start: First round, counted from 0.
          stop: Round after the last.
        """
        last = "endless" if self.rounds is None else str(self.rounds)
        if not 0 <= start <= stop or (self.rounds is not None and stop > self.rounds):
            raise DataError(
                f"{self.name}: rounds {start} to {stop} were asked for, but the stream has rounds 0 to "
                f"{last}; run fewer rounds, or make a stream that lasts longer (rounds=..., or "
                "rows that are read again: passes=..., exhausted='cycle')"
            )

    def __repr__(self) -> str:
        x, y = (getattr(self.batch_spec(), leaf, None) for leaf in ("x", "y"))
        width = "" if x is None or y is None else f", {math.prod(x.shape[len(y.shape) :])} features"
        rounds = "endless" if self.rounds is None else f"{self.rounds} rounds"
        return f"Stream({self.name}, {self.agents} agents{width}, {rounds})"


class FunctionStream(Stream):
    """A stream whose chunks come from a function. Make it with `from_function`."""

    def __init__(
        self,
        function: Callable[[int, int], Tree],
        *,
        agents: int,
        rounds: int | None,
        period: int | None,
        data_size: NDArray[np.int32],
        records: Callable[[int, int, int], NDArray[np.int64] | None] | None,
        name: str,
        description: str,
    ) -> None:
        self._function, self._records, self._repeats = function, records, period is not None
        self.agents, self.rounds, self.data_size = agents, rounds, data_size
        self.period = rounds if period is None else period
        self.name, self.description = name, description
        first = self._checked(0, 1)
        self._spec: Tree = jax.tree.map(lambda leaf: leaf_spec(leaf.shape[2:], leaf.dtype), first)

    def records(self, agent: int, start: int, stop: int) -> NDArray[np.int64] | None:
        """Ask the function that was given for this; without one a batch is one record.

        Of an agent with so many samples and no period, they are taken to be read one after the other, over and over.
        """
        if self._records is not None:
            return self._records(agent, start, stop)
        size, places = int(self.data_size[agent]), places_in(self._spec)[0]
        if self._repeats or size == 0:
            return super().records(agent, start, stop)
        return (np.arange(start, stop)[:, None] * places + np.arange(places)) % size

    def alike(self) -> NDArray[np.int64]:
        """Return a class for each agent: by how many samples it has, or its own where a function tells."""
        return self.data_size.astype(np.int64) if self._records is None else np.arange(self.agents)

    def batch_spec(self) -> Tree:
        """Return the shapes and types of one agent's batch, as the function's first round showed them."""
        return self._spec

    def chunk(self, start: int, stop: int) -> Tree:
        """Ask the function, and check what it gave."""
        self.refuse_outside(start, stop)
        tree = self._checked(start, stop)
        found, expected = str(jax.tree.structure(tree)), str(jax.tree.structure(self._spec))
        if found != expected:
            raise DataError(
                f"{self.name}: for rounds {start} to {stop} the function gave {found}, but {expected} for "
                "the first round; it must always give the same pytree"
            )
        return jax.tree.map(self._like_the_first, self._spec, tree)

    def _checked(self, start: int, stop: int) -> Tree:
        def check(leaf: Any) -> NDArray[Any]:
            array = np.asarray(leaf)
            if array.shape[:2] != (stop - start, self.agents):
                raise DataError(
                    f"{self.name}: the function gave an array of shape {array.shape} for rounds {start} to "
                    f"{stop}; expected leading axes (rounds, agents) = ({stop - start}, {self.agents})"
                )
            return array

        return jax.tree.map(check, self._function(start, stop))

    def _like_the_first(self, spec: jax.ShapeDtypeStruct, leaf: NDArray[Any]) -> NDArray[Any]:
        if (leaf.shape[2:], leaf.dtype) != (spec.shape, spec.dtype):
            raise DataError(
                f"{self.name}: an agent's batch has a leaf {leaf.dtype}{leaf.shape[2:]}, but "
                f"{spec.dtype}{spec.shape} in the first round; pad batches to one size and mark the padding "
                "by a weight of 0"
            )
        return leaf


def from_function(
    function: Callable[[int, int], Tree],
    *,
    agents: int,
    rounds: int | None = None,
    period: int | None = None,
    data_size: NDArray[Any] | int = 0,
    records: Callable[[int, int, int], NDArray[np.int64] | None] | None = None,
    name: str = "custom",
    description: str = "a stream given as a function",
) -> Stream:
    """Stream of a function; it is called once at once, for round 0, to learn the shapes.

    Args:
      function: (start, stop) -> pytree of arrays (stop - start, agents, ...). It must be pure: the same rounds whatever
        was asked for before.
      agents: Number of agents, at least 1.
      rounds: Length of the stream; None: endless.
      period: Rounds after which batches repeat; None: they do not.
      data_size: Number of samples of each agent, or one number for all; 0: no end of them.
      records: (agent, start, stop) -> numbers of records, as `Stream.records`, where records come again in other
        batches; None: a batch is one record.
      name: Short name for legends and files.
      description: One sentence for reports.

    Example:
      >>> import numpy as np, tacit
      >>> def rounds(start, stop):
      ...     return tacit.streams.Batch(np.ones((stop - start, 5, 2)), np.ones((stop - start, 5)))
      >>> tacit.streams.from_function(rounds, agents=5, rounds=20)
      Stream(custom, 5 agents, 2 features, 20 rounds)
    """
    whole_number("agents", agents)
    for setting, value in (("rounds", rounds), ("period", period)):
        if value is not None:
            whole_number(setting, value)
    sizes = np.broadcast_to(np.asarray(data_size, np.int32), (agents,))
    return FunctionStream(
        function,
        agents=agents,
        rounds=rounds,
        period=period,
        data_size=sizes,
        records=records,
        name=name,
        description=description,
    )
