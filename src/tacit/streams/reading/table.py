"""Tables: rows of numbers and labels out of a file, checked, with the record of how they were made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tacit.core.errors import DataError
from tacit.streams.learnt import Learnt
from tacit.streams.reading import columns
from tacit.streams.reading.columns import Missing
from tacit.streams.reading.formats import open_source
from tacit.streams.reading.labels import class_numbers, find_classes
from tacit.streams.reading.preprocessing import Preprocessing
from tacit.streams.validate import Task


class Table(NamedTuple):
    """A data set out of a file, checked. Make it with `read_table`."""

    x: NDArray[np.float32]
    """(rows, columns)."""
    y: NDArray[Any]
    """(rows,), as `tacit.streams.validate.check_labels` gives it for the task."""
    columns: tuple[str, ...]
    """Names of the columns of x."""
    owner: NDArray[np.int64] | None = None
    """(rows,) agent id per row, an assignment for `from_arrays`; None where no owner column was named."""
    owners: tuple[str, ...] = ()
    """Owner in the file of agent 0, 1, ..."""
    classes: tuple[str, ...] = ()
    """Label in the file of class 0, 1, ..., of two classes -1 and +1; none for a regression."""
    marks: NDArray[np.bool_] | None = None
    """(columns,) which columns of x hold 0 and 1 only, made of a category or of what is missing."""
    absent: NDArray[np.bool_] | None = None
    """(rows, columns) which numbers were missing, and are 0."""
    task: Task = "binary"
    """Kind of the labels."""
    learnt: tuple[Learnt, ...] = ()
    """Facts that x and y were made by, where learnt from all rows."""
    preprocessing: Preprocessing | None = None
    """Record of how x and y were made, to be applied to other tables; None where arrays were given."""
    exact: NDArray[np.float64] | None = None
    """(rows, columns) x in double precision, as long as nothing is scaled."""

    def __repr__(self) -> str:
        owners = f", {len(self.owners)} owners" if self.owners else ""
        return f"Table({len(self.x)} rows, {len(self.columns)} columns, {self.task}{owners})"


def read_table(
    path: str | Path,
    label: str,
    features: Sequence[str] | None = None,
    task: Task = "binary",
    owner: str | None = None,
    time: str | None = None,
    missing: Missing = "refuse",
    categories: Mapping[str, Sequence[str]] | None = None,
    classes: Sequence[str] | int | None = None,
) -> Table:
    """Features and labels from a CSV, CSV.GZ, Parquet or NPZ file.

    A CSV file has a header line. An NPZ file has an array (rows,) for the label, and either a matrix `X` (or `x`), with
    names in `columns` where it has them, or one array (rows,) per column. Text becomes one column of 0 and 1 per
    category. What was learnt from all rows because it was not listed is noted in `Table.learnt`: a private run is
    refused unless it is declared public (`from_table`). `Table.preprocessing` does the same to other files.

    Args:
      path: The file; its ending says the format. CSV and Parquet need ``pip install 'tacit[data]'``.
      label: Column of the labels.
      features: Columns of the features; None: all other columns.
      task: "binary", "multiclass" or "regression".
      owner: Column that says whose row it is; None: rows have no owner.
      time: Column of times or numbers by which rows are put in order; None: as in the file.
      missing: "refuse" gaps; "indicate": a gap becomes 0, and a further column of 0 and 1 says where that is so; a list
        of columns: these have such a column, whether or not there is a gap.
      categories: Column -> its categories; None: those that the file holds.
      classes: Labels, words or numbers, in the order of their classes; a number C where labels are 0 ... C - 1, though
        some may not occur; None: those that the file holds, by number or by the alphabet.

    Example:
      >>> import numpy as np, pathlib, tacit, tempfile
      >>> with tempfile.TemporaryDirectory() as folder:
      ...     file = pathlib.Path(folder) / "data.npz"
      ...     np.savez(file, X=np.ones((20, 3)), sold=np.tile([0, 1], 10), shop=np.repeat([7, 8], 10))
      ...     tacit.streams.read_table(file, label="sold", owner="shop")
      Table(20 rows, 3 columns, binary, 2 owners)
    """
    source = open_source(path)
    taken = {name for name in (label, owner, time) if name is not None}
    names = tuple(n for n in source.features if n not in taken) if features is None else tuple(features)
    source.require(*(name for name in (label, owner, time) if name is not None), *names)
    if not names or taken & set(names):
        raise DataError(
            f"{source.name}: features {', '.join(names) or '(none)'}; expected at least one column besides "
            f"{', '.join(sorted(taken))}"
        )
    if len(source.raw(label).values) == 0:
        raise DataError(f"{source.name}: there are no rows below the header; expected at least one")
    known, of_labels = find_classes(source, label, task, classes)
    y = class_numbers(source, label, task, known)
    inputs, of_columns = columns.find_inputs(source, names, missing, categories or {})
    given = columns.encoded(source, inputs)
    if len(given.x) != len(y):
        raise DataError(
            f"{source.name}: column {names[0]!r} has {len(given.x)} rows, but column {label!r} has {len(y)}"
        )
    holder, holders = (None, ()) if owner is None else columns.find_owners(source, owner)
    if holder is not None and len(holder) != len(y):
        raise DataError(f"{source.name}: owner column {owner!r} has {len(holder)} rows, but the table has {len(y)}")
    record = Preprocessing(inputs, label, task, known, owner, holders)
    table = Table(
        record.finish(given, holder, source),
        y,
        record.columns,
        holder,
        holders,
        known,
        record.marks,
        given.absent,
        task,
        (*of_columns, *of_labels, *source.learnt),
        record,
        given.x,
    )
    return table if time is None else _in_order(table, columns.time_order(source, time))


def read_owners(path: str | Path, owner: str) -> tuple[str, ...]:
    """Owners of a file's rows, in the order of their agents' numbers.

    Args:
      path: The file.
      owner: Its owner column.

    Example:
      >>> import numpy as np, pathlib, tacit, tempfile
      >>> with tempfile.TemporaryDirectory() as folder:
      ...     file = pathlib.Path(folder) / "data.npz"
      ...     np.savez(file, shop=np.repeat(["north", "south"], 10))
      ...     tacit.streams.read_owners(file, "shop")
      ('north', 'south')
    """
    return columns.find_owners(open_source(path), owner)[1]


def _in_order(table: Table, order: NDArray[np.int64]) -> Table:
    def sorted_rows(rows: Any) -> Any:
        return None if rows is None else rows[order]

    return table._replace(
        x=table.x[order],
        y=table.y[order],
        owner=sorted_rows(table.owner),
        absent=sorted_rows(table.absent),
        exact=sorted_rows(table.exact),
    )
