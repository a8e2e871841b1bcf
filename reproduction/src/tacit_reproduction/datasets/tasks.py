"""Two-class tasks out of a data set of many classes, and clients of several clusters, each with its cluster's task.

A task tells the classes `negative` (y = -1) from the classes `positive` (y = +1). A class that several tasks share, and
classes that look alike, belong on the same side in all of them: else clusters that learn from each other are misled.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tacit.core.errors import DataError
from tacit.streams.arrays import whole
from tacit.streams.dataset import Dataset
from tacit.streams.stream import Stream

Ints = NDArray[np.int64]


class TwoClasses(NamedTuple):
    """The two sides of a task."""

    negative: tuple[int, ...]  # classes of label -1
    positive: tuple[int, ...]  # classes of label +1


class Labelled(NamedTuple):
    """Rows of a task."""

    x: NDArray[np.float32]
    y: NDArray[np.float32]  # (rows,) -1 or +1


def held_out(data: Dataset, task: TwoClasses, most: int) -> Labelled:
    """Return the rows of the test part whose class is in a task, in their order: of more than `most` a fixed choice."""
    part = data.parts["test"]
    rows = np.flatnonzero(np.isin(data.y[part], task.negative + task.positive)) + part.start
    if len(rows) > most:
        rows = np.sort(np.random.default_rng(0).choice(rows, most, replace=False))
    return Labelled(data.x[rows], np.where(np.isin(data.y[rows], task.positive), np.float32(1), np.float32(-1)))


def cluster_tasks(data: Dataset, tasks: Sequence[TwoClasses], clusters: Ints, sizes: Ints, seed: int) -> Stream:
    """Return the stream of clients in clusters: in every round each has all its rows (`tacit.streams.whole`).

    Client k learns `tasks[clusters[k]]` from `sizes[k]` rows of the training part, as many of both sides as can be, and
    inside a side of each class; what is left over falls on sides and classes at random. No row is handed out twice,
    also where clusters share a class. Batches have as many places as the largest client has rows.
    """
    train = data.parts["train"]
    classes = data.y[train]
    rng = np.random.default_rng(seed)
    rows, y = [], []
    need = [_shares(tasks[q], int(size), rng) for q, size in zip(clusters, sizes, strict=True)]
    labels = sorted({label for task in tasks for side in task for label in side})
    pools = {label: rng.permutation(np.flatnonzero(classes == label)) for label in labels}
    taken = dict.fromkeys(pools, 0)
    for q, shares in zip(clusters, need, strict=True):
        for label, count in shares.items():
            mine = pools[label][taken[label] : taken[label] + count]
            if len(mine) < count:
                raise DataError(f"{data.name} has {len(pools[label])} rows of class {label}; use fewer clients")
            rows.append(mine)
            y += count * [1 if label in tasks[q].positive else -1]
            taken[label] += count
    own = np.split(np.arange(sizes.sum()), np.cumsum(sizes)[:-1])
    x = data.x[np.concatenate(rows) + train.start]
    return whole(x, np.array(y), own, name=data.name, description=f"{data.description}; two-class tasks in clusters")


def _shares(task: TwoClasses, size: int, rng: np.random.Generator) -> dict[int, int]:
    """Return how many rows of each class a client of the task gets."""
    first = rng.integers(2)
    found: dict[int, int] = {}
    for side, label_set in enumerate(task):
        of_side = (size + (side == first)) // 2
        each, over = divmod(of_side, len(label_set))
        lucky = rng.permutation(len(label_set))[:over]
        found |= {label: each + (k in lucky) for k, label in enumerate(label_set)}
    return found
