"""Columns of a table brought to one scale: by bounds that are known beforehand, or by the data themselves.

Bounds reveal nothing. Means and deviations of the data are made of records, and every scaled value carries them: over
all rows they cross from owner to owner, and an owner's own still tie its records to each other. No privacy account
covers either: a private run takes them only where they are declared public (`tacit.streams.learnt`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from tacit.core.errors import ConfigError
from tacit.streams.arrays import from_arrays
from tacit.streams.files import Table
from tacit.streams.learnt import Learnt, declared
from tacit.streams.stream import Stream
from tacit.streams.validate import Assignment

NO_BOUNDS: Mapping[str, Sequence[float]] = {}
ScaledBy = Literal["everyone", "owner"]


def scaled(table: Table, by: ScaledBy | None = "everyone", bounds: Mapping[str, Sequence[float]] = NO_BOUNDS) -> Table:
    """Return the table with columns of one scale; what was missing is 0 afterwards.

    A column with bounds [low, high] goes to -1 ... 1, and what lies outside is moved to the edge. Others get mean 0
    and standard deviation 1 over the rows of "everyone", or over those of each "owner"; None leaves them as they are,
    and so are columns of 0 and 1 that were made of categories.
    """
    x = table.x.astype(np.float64)
    absent = np.zeros(x.shape, bool) if table.absent is None else table.absent
    marks = np.zeros(x.shape[1], bool) if table.marks is None else table.marks
    bounded = _bounded(table, bounds, marks)
    for column, (low, high) in bounded.items():
        x[:, column] = np.clip(2 * (x[:, column] - low) / (high - low) - 1, -1, 1)
    free = ~marks
    free[list(bounded)] = False
    if by == "owner" and table.owner is None:
        raise ConfigError(
            "columns cannot be scaled by owner: the table has no owner column; name one, or scale by everyone"
        )
    learnt = table.learnt
    if by is not None and free.any():
        names = ", ".join(name for name, mark in zip(table.columns, free, strict=True) if mark)
        whose = "all rows" if by == "everyone" else "each owner's rows"
        remedy = "bounds = {... = [low, high]} for each column, or standardise = false (in Python by=None)"
        learnt = (*learnt, Learnt("scaling", f"mean and deviation of {names} over {whose}", remedy))
        groups = np.zeros(len(x), np.int64) if by == "everyone" or table.owner is None else table.owner
        for group in range(int(groups.max()) + 1):
            rows = groups == group
            x[np.ix_(rows, free)] = _standardised(x[np.ix_(rows, free)], absent[np.ix_(rows, free)])
    x[absent] = 0
    return table._replace(x=x.astype(np.float32), learnt=learnt)


def _standardised(x: NDArray[np.float64], absent: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Scale by mean and deviation of what is there; a constant column becomes 0."""
    there = ~absent
    count = np.maximum(there.sum(axis=0), 1)
    mean = np.where(there, x, 0).sum(axis=0) / count
    spread = np.sqrt(np.where(there, np.square(x - mean), 0).sum(axis=0) / count)
    return np.asarray((x - mean) / np.where(spread > 0, spread, 1))


def _bounded(
    table: Table, bounds: Mapping[str, Sequence[float]], marks: NDArray[np.bool_]
) -> dict[int, tuple[float, float]]:
    numbers = [name for name, mark in zip(table.columns, marks, strict=True) if not mark]
    found = {}
    for name, pair in bounds.items():
        if name not in numbers:
            raise ConfigError(f"bounds of {name!r}: expected a column of numbers, one of {', '.join(numbers)}")
        if len(pair) != 2 or not -np.inf < pair[0] < pair[1] < np.inf:
            raise ConfigError(f"bounds of {name!r} are {list(pair)}: expected two numbers, the lower one first")
        found[table.columns.index(name)] = (float(pair[0]), float(pair[1]))
    return found


def from_table(
    table: Table, assignment: Assignment | None = None, *, public: Collection[str] = (), **settings: Any
) -> Stream:
    """Make a stream of a table, as `from_arrays` makes one of arrays, that remembers what was learnt from all rows.

    `table` is what `read_table` or `scaled` has returned. `assignment` says which rows are whose; without it the
    table's owner column does. `public` names the kinds of what was learnt that everybody may know: some of
    "categories", "classes", "missing", "scaling" and "rows". A private run rests on these and says so, and refuses
    others. `settings` are `batch`, `rounds`, `exhausted`, `shuffle_seed`, `name` and `description` of `from_arrays`.
    """
    owner = table.owner if assignment is None else assignment
    if owner is None:
        raise ConfigError("the table has no owner column: name one in read_table, or give an assignment")
    stream = from_arrays(table.x, table.y, owner, **{"task": table.task, **settings})
    stream.learnt = declared(table.learnt, public)
    return stream
