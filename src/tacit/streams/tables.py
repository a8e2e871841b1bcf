"""Tables brought to one scale, by bounds that are known beforehand or by the data themselves, and streams over them.

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
from tacit.streams.learnt import Learnt, declared
from tacit.streams.reading.columns import Encoded, Input
from tacit.streams.reading.preprocessing import Preprocessing, Scale
from tacit.streams.reading.table import Table
from tacit.streams.stream import Stream
from tacit.streams.validate import Assignment

NO_BOUNDS: Mapping[str, Sequence[float]] = {}
ScaledBy = Literal["everyone", "owner"]


def scaled(
    table: Table,
    by: ScaledBy | None = "everyone",
    bounds: Mapping[str, Sequence[float]] = NO_BOUNDS,
    *,
    bias: bool = False,
    unit: bool = False,
) -> Table:
    """Table with columns of one scale; missing values are 0 afterwards.

    Columns of 0 and 1 that were made of categories stay as they are. `Table.preprocessing` scales other tables alike.

    Args:
      table: Result of `read_table`; it is scaled once.
      by: Columns without bounds get mean 0 and standard deviation 1 over the rows of "everyone", or over those of each
        "owner"; None leaves them as they are.
      bounds: Column -> [low, high], which goes to -1 ... 1; values outside are moved to the edge.
      bias: Whether a last column of ones is added, so that a linear model has an intercept.
      unit: Whether every row, ones included, is brought to norm 1 in the end.

    Example:
      >>> import numpy as np
      >>> from tacit.streams import Table, scaled
      >>> table = Table(np.array([[0.0], [5.0], [10.0]], np.float32), np.array([1, -1, 1]), ("age",))
      >>> scaled(table, bounds={"age": [0, 10]}).x[:, 0].tolist()
      [-1.0, 0.0, 1.0]
    """
    if by == "owner" and table.owner is None:
        raise ConfigError(
            "columns cannot be scaled by owner: the table has no owner column; name one, or scale by everyone"
        )
    x = table.x.astype(np.float64) if table.exact is None else table.exact
    absent = np.zeros(x.shape, bool) if table.absent is None else table.absent
    marks = np.zeros(x.shape[1], bool) if table.marks is None else table.marks
    known = _bounded(table, bounds, marks)
    free = [k for k, mark in enumerate(marks) if not mark and table.columns[k] not in known]
    learnt, found = table.learnt, []
    if by is not None and free:
        names = ", ".join(table.columns[k] for k in free)
        whose = "all rows" if by == "everyone" else "each owner's rows"
        remedy = "bounds = {... = [low, high]} for each column, or standardise = false (in Python by=None)"
        learnt = (*learnt, Learnt("scaling", f"mean and deviation of {names} over {whose}", remedy))
        groups = np.zeros(len(x), np.int64) if by == "everyone" or table.owner is None else table.owner
        found = [Scale(table.columns[k], by, _mean_and_deviation(x[:, k], ~absent[:, k], groups)) for k in free]
    scales = (*(Scale(name, "bounds", (pair,)) for name, pair in known.items()), *found)
    record = table.preprocessing or Preprocessing(tuple(Input(name, "number") for name in table.columns), "y", "binary")
    record = record.with_scales(scales, bias, unit)
    return table._replace(
        x=record.finish(Encoded(x, absent), table.owner, None),
        columns=record.columns,
        learnt=learnt,
        marks=np.append(marks, True) if bias else marks,
        absent=np.pad(absent, ((0, 0), (0, 1))) if bias else absent,
        preprocessing=None if table.preprocessing is None else record,
        exact=None,
    )


def _mean_and_deviation(
    values: NDArray[np.float64], there: NDArray[np.bool_], groups: NDArray[np.int64]
) -> tuple[tuple[float, float], ...]:
    """Return mean and deviation of what is there, group by group."""
    count = np.maximum(np.bincount(groups, there), 1)
    mean = np.bincount(groups, np.where(there, values, 0)) / count
    spread = np.sqrt(np.bincount(groups, np.where(there, np.square(values - mean[groups]), 0)) / count)
    return tuple(zip(mean.tolist(), spread.tolist(), strict=True))


def _bounded(
    table: Table, bounds: Mapping[str, Sequence[float]], marks: NDArray[np.bool_]
) -> dict[str, tuple[float, float]]:
    numbers = [name for name, mark in zip(table.columns, marks, strict=True) if not mark]
    found = {}
    for name, pair in bounds.items():
        if name not in numbers:
            raise ConfigError(f"bounds of {name!r}: expected a column of numbers, one of {', '.join(numbers)}")
        if len(pair) != 2 or not -np.inf < pair[0] < pair[1] < np.inf:
            raise ConfigError(f"bounds of {name!r} are {list(pair)}: expected two numbers, the lower one first")
        found[name] = (float(pair[0]), float(pair[1]))
    return found


def from_table(
    table: Table, assignment: Assignment | None = None, *, public: Collection[str] = (), **settings: Any
) -> Stream:
    """Stream over a table, as `from_arrays` makes one of arrays, that remembers what was learnt from all rows.

    Args:
      table: Result of `read_table` or `scaled`.
      assignment: One array of row indices per agent, or one agent id per row; None: the table's owner column.
      public: Kinds of learnt facts that every agent may know: some of "categories", "classes", "missing", "scaling" and
        "rows". A private run rests on these and says so, and refuses others.
      settings: `batch`, `rounds`, `exhausted`, `passes`, `shuffle_seed`, `name` and `description` of `from_arrays`.

    Example:
      >>> import numpy as np
      >>> from tacit.streams import Table, from_table
      >>> table = Table(np.ones((20, 3), np.float32), np.tile([1, -1], 10), ("a", "b", "c"))
      >>> from_table(table, np.repeat([0, 1], 10), batch=2)
      Stream(arrays, 2 agents, 3 features, 5 rounds)
    """
    owner = table.owner if assignment is None else assignment
    if owner is None:
        raise ConfigError("the table has no owner column: name one in read_table, or give an assignment")
    stream = from_arrays(table.x, table.y, owner, **{"task": table.task, **settings})
    stream.learnt, stream.preprocessing = declared(table.learnt, public), table.preprocessing
    return stream
