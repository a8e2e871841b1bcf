"""Two-class tasks out of a data set of many classes, and clients of several clusters, each with its cluster's task.

A task tells the classes `negative` (y = -1) from the classes `positive` (y = +1). Which side is which matters as soon
as clusters learn from each other: the model of "1 against 8" helps "7 against 8" if 8 is +1 in both, and harms it
otherwise. So a class that several tasks share, and classes that look alike, belong on the same side in all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacit.core.errors import DataError
from tacit.streams.arrays import whole
from tacit.streams.dataset import Dataset
from tacit.streams.stream import Stream
from tacit.streams.validate import check_count

Ints = NDArray[np.int64]


class TwoClasses(NamedTuple):
    """The two sides of a task."""

    negative: tuple[int, ...]
    """Classes of label -1."""
    positive: tuple[int, ...]
    """Classes of label +1."""


class Labelled(NamedTuple):
    """Rows of a task."""

    x: NDArray[np.float32]
    y: NDArray[np.float32]
    """(rows,) -1 or +1."""


def binary_task(
    data: Dataset,
    negative: Sequence[int],
    positive: Sequence[int],
    part: str | None = "train",
    most: int | None = None,
    seed: int = 0,
) -> Labelled:
    """Return the rows of a part (None: all) whose class is in a two-class task, in their order.

    Of more than `most` a random choice is returned.
    """
    task = _checked_task(negative, positive)
    classes = _classes(data, part)
    _refuse_absent(data, classes, task, part)
    rows = np.flatnonzero(np.isin(classes, task.negative + task.positive))
    if most is not None:
        check_count("most", most)
        if len(rows) > most:
            rows = np.sort(np.random.default_rng(seed).choice(rows, most, replace=False))
    y = np.where(np.isin(classes[rows], task.positive), np.float32(1), np.float32(-1))
    return Labelled(data.x[rows + _begin(data, part)], y)


def cluster_tasks(
    data: Dataset,
    tasks: Sequence[TwoClasses],
    clusters: ArrayLike,
    sizes: ArrayLike,
    seed: int,
    part: str | None = "train",
) -> Stream:
    """Return the stream of clients in clusters: in every round each has all its rows (`tacit.streams.whole`).

    Client k learns `tasks[clusters[k]]` from `sizes[k]` rows of the part, as many of both sides as can be, and inside
    a side of each class; what is left over falls on sides and classes at random. No row is handed out twice, also where
    clusters share a class. Batches have as many places as the largest client has rows.
    """
    wanted = [_checked_task(*task) for task in tasks]
    labels, counts = _checked_clients(clusters, sizes, len(wanted))
    classes = _classes(data, part)
    for task in wanted:
        _refuse_absent(data, classes, task, part)
    rng = np.random.default_rng(seed)
    rows, y = [], []
    need = [_shares(wanted[q], int(size), rng) for q, size in zip(labels, counts, strict=True)]
    pools = {
        label: rng.permutation(np.flatnonzero(classes == label))
        for label in sorted({label for task in wanted for side in task for label in side})
    }
    for label, pool in pools.items():
        asked = sum(shares.get(label, 0) for shares in need)
        if asked > len(pool):
            raise DataError(
                f"{data.name}{_of(part)} has {len(pool)} rows of class {label}, but the clients need {asked}; "
                "use fewer clients or smaller sizes"
            )
    taken = dict.fromkeys(pools, 0)
    for q, shares in zip(labels, need, strict=True):
        for label, count in shares.items():
            rows.append(pools[label][taken[label] : taken[label] + count])
            y += count * [1 if label in wanted[q].positive else -1]
            taken[label] += count
    own = np.split(np.arange(counts.sum()), np.cumsum(counts)[:-1])
    x = data.x[np.concatenate(rows) + _begin(data, part)]
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


def _checked_task(negative: Sequence[int], positive: Sequence[int]) -> TwoClasses:
    task = TwoClasses(tuple(negative), tuple(positive))
    both = set(task.negative) & set(task.positive)
    if not task.negative or not task.positive or both:
        fault = f"class {min(both)} is on both" if both else "one is empty"
        raise DataError(
            f"task {task.negative} against {task.positive}: {fault}; expected two sides of different classes"
        )
    return task


def _checked_clients(clusters: ArrayLike, sizes: ArrayLike, tasks: int) -> tuple[Ints, Ints]:
    labels, counts = np.asarray(clusters, np.int64), np.asarray(sizes, np.int64)
    fit = labels.ndim == 1 and labels.shape == counts.shape and labels.size
    if not fit or labels.min() < 0 or labels.max() >= tasks or counts.min() < 2:
        raise DataError(
            f"clusters {labels} and sizes {counts}; expected for each client a cluster from 0 to {tasks - 1} and at "
            "least 2 rows, one of each side"
        )
    return labels, counts


def _begin(data: Dataset, part: str | None) -> int:
    return 0 if part is None else data.parts[part].start


def _classes(data: Dataset, part: str | None) -> NDArray[Any]:
    if part is None:
        return data.y
    if part not in data.parts:
        raise DataError(
            f"{data.name} has no part {part!r}; expected one of {', '.join(data.parts) or 'none'}, or None for all rows"
        )
    return data.y[data.parts[part]]


def _refuse_absent(data: Dataset, classes: NDArray[Any], task: TwoClasses, part: str | None) -> None:
    for label in task.negative + task.positive:
        if not np.any(classes == label):
            there = ", ".join(str(value) for value in np.unique(classes))
            raise DataError(f"{data.name}{_of(part)} has no row of class {label!r}; classes there: {there}")


def _of(part: str | None) -> str:
    return "" if part is None else f", part {part!r},"
