"""Streams made of another one: some of its agents, or all of them with other labels."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

import jax
import numpy as np
from numpy.typing import NDArray

from tacit.core.contract import Tree
from tacit.core.errors import DataError
from tacit.streams.stream import ReadCounts, Stream

Relabel = Callable[[Any], Any]
"""Labels -> other labels, of the same shape and type."""


class _Derived(Stream):
    """A stream that is another one, of which agents are left out or labels are changed."""

    def __init__(self, stream: Stream, agents: tuple[int, ...], labels: Mapping[int, Relabel]) -> None:
        self._stream, self._agents, self._labels = stream, np.array(agents), labels
        self.agents, self.rounds, self.period = len(agents), stream.rounds, stream.period
        self.data_size = stream.data_size[self._agents]
        self.name, self.description, self.learnt = stream.name, stream.description, stream.learnt
        self.preprocessing = stream.preprocessing
        self.arrivals = None if stream.arrivals is None else stream.arrivals[:, self._agents]

    def batch_spec(self) -> Tree:
        """Return the shapes and types of one agent's batch."""
        return self._stream.batch_spec()

    def chunk(self, start: int, stop: int) -> Tree:
        """Return rounds start..stop-1."""
        found = jax.tree.map(lambda leaf: leaf[:, self._agents], self._stream.chunk(start, stop))
        if not self._labels:
            return found
        y = np.array(found.y)
        for agent, relabel in self._labels.items():
            y[:, agent] = relabel(y[:, agent])
        return found._replace(y=y)

    def backing(self) -> tuple[NDArray[Any], ...]:
        """Return the arrays of which all batches are made, as far as the stream tells."""
        return self._stream.backing()

    def records(self, agent: int, start: int, stop: int) -> NDArray[np.int64] | None:
        """Return which of an agent's records stand in its batches."""
        return self._stream.records(int(self._agents[agent]), start, stop)

    def alike(self) -> NDArray[np.int64]:
        """Return a class for each agent."""
        found: NDArray[np.int64] = self._stream.alike()[self._agents]
        return found

    def read_counts(self, rounds: int) -> ReadCounts:
        """Return how often records are read, those of agents that are left out as well."""
        return self._stream.read_counts(rounds)


@lru_cache(maxsize=64)
def part_of(stream: Stream, agents: tuple[int, ...]) -> Stream:
    """Return the stream of some agents alone; the same object each time, so that runs share its comparator."""
    return _Derived(stream, agents, {})


def relabelled(stream: Stream, labels: Mapping[int, Relabel]) -> Stream:
    """Return the stream with other labels for some of its agents."""
    if labels and not hasattr(stream.batch_spec(), "y"):
        raise DataError(f"stream {stream.name!r} has batches without labels y, which could be changed")
    return _Derived(stream, tuple(range(stream.agents)), labels) if labels else stream
