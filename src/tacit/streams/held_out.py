"""Streams whose batches carry held-out records: for choosing settings, never for fitting."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tacit.core.contract import Array, Tree
from tacit.core.errors import DataError
from tacit.streams.batch import Batch
from tacit.streams.stream import Stream


class ValidatedBatch(NamedTuple):
    """A batch to fit, as `Batch`, and one to judge the fit by."""

    x: Array | NDArray[Any]
    y: Array | NDArray[Any]
    weight: Array | NDArray[Any] | None
    validation: Batch


class ValidatedStream(Stream):
    """Two streams side by side. Make it with `with_validation`."""

    def __init__(self, fitted: Stream, validation: Stream) -> None:
        self._fitted, self._validation = fitted, validation
        self.agents, self.rounds, self.period = fitted.agents, fitted.rounds, fitted.period
        self.data_size, self.name = fitted.data_size, fitted.name
        self.description = f"{fitted.description}; judged by {validation.description}"
        self.learnt = tuple(dict.fromkeys((*fitted.learnt, *validation.learnt)))
        self.preprocessing = fitted.preprocessing

    def batch_spec(self) -> Tree:
        """Return the shapes and types of one agent's batch."""
        x, y, weight = self._fitted.batch_spec()
        return ValidatedBatch(x, y, weight, self._validation.batch_spec())

    def numbered(self, agent: int, start: int, stop: int) -> NDArray[np.int64] | None:
        """Return `records`: both parts are checked by their own streams."""
        return self.records(agent, start, stop)

    def records(self, agent: int, start: int, stop: int) -> NDArray[np.int64] | None:
        """Return (rounds, places) of both, those that are judged by numbered apart from those that are fitted."""
        fitted, judged = (_numbered(stream, agent, start, stop) for stream in (self._fitted, self._validation))
        return np.concatenate([np.where(fitted < 0, -1, 2 * fitted), np.where(judged < 0, -1, 2 * judged + 1)], axis=1)

    def alike(self) -> NDArray[np.int64]:
        """Return (agents,) a class for each agent: those that are alike in both streams."""
        pairs = np.stack([self._fitted.alike(), self._validation.alike()], axis=1)
        return np.unique(pairs, axis=0, return_inverse=True)[1].reshape(-1)

    def chunk(self, start: int, stop: int) -> Tree:
        """Return the rounds of both."""
        return self.rows(start, stop, np.arange(self.agents))

    def rows(self, start: int, stop: int, agents: NDArray[Any]) -> Tree:
        """Return the rounds of some agents of both."""
        x, y, weight = self._fitted.rows(start, stop, agents)
        return ValidatedBatch(x, y, weight, self._validation.rows(start, stop, agents))


def _numbered(stream: Stream, agent: int, start: int, stop: int) -> NDArray[np.int64]:
    """Return which records stand in a stream's batches; of one that never repeats, a new one for each round."""
    found = stream.numbered(agent, start, stop)
    return np.arange(start, stop)[:, None] if found is None else found


def with_validation(stream: Stream, validation: Stream) -> Stream:
    """Stream whose batches have those of another beside their own, agent by agent.

    Args:
      stream: Records to fit.
      validation: Records to judge by, of the same agents, rounds and period: two of `tacit.streams.whole`, for
        instance.

    Example:
      >>> import numpy as np, tacit
      >>> x, y = np.ones((20, 3)), np.tile([0, 1], 10)
      >>> fitted, held_out = (tacit.streams.whole(x[rows], y[rows], [range(5)]) for rows in (slice(5), slice(5, 10)))
      >>> tacit.streams.with_validation(fitted, held_out)
      Stream(whole, 1 agents, 3 features, endless)
    """
    if (stream.agents, stream.rounds, stream.period) != (validation.agents, validation.rounds, validation.period):
        raise DataError(
            f"stream {stream.name!r} has {stream.agents} agents, {stream.rounds} rounds and a period of "
            f"{stream.period}, its validation {validation.agents}, {validation.rounds} and {validation.period}: make "
            "them the same"
        )
    if not isinstance(stream.batch_spec(), Batch):
        raise DataError(f"stream {stream.name!r} has batches of its own kind; expected x, y and weight")
    return ValidatedStream(stream, validation)
