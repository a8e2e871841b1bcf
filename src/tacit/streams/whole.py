"""A stream in which every round brings each agent its whole data set, from which the algorithm samples itself."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
from numpy.typing import NDArray

from tacit.core.contract import Tree
from tacit.streams.stream import Batch, Stream, leaf_spec
from tacit.streams.validate import Assignment, Task, check_assignment, check_features, check_labels


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


def whole(
    x: Any,
    y: Any,
    assignment: Assignment,
    *,
    task: Task = "binary",
    name: str = "whole",
    description: str = "samples given as arrays, all of them in every round",
) -> Stream:
    """Make an endless stream whose every round brings an agent all its rows, in the order given.

    `assignment` is that of `from_arrays`. A batch has as many places as the largest data set has rows, also where that
    is one: an agent's own rows come first, so that row indices below `data_size` are its samples; the places after
    them are zeros of weight 0. Where all have equally many rows there are no weights. In n rounds each sample may be
    read n times, and `Stream.reads` says so.
    """
    features = check_features(x, exact=True)
    labels = check_labels(y, len(features), task, exact=True)
    order, starts = check_assignment(assignment, len(features))
    return WholeStream(features, labels, order, starts, name=name, description=description)


def _padded(rows: NDArray[Any], there: NDArray[np.bool_]) -> NDArray[Any]:
    places = np.zeros(there.shape + rows.shape[1:], rows.dtype)
    places[there] = rows
    return places
