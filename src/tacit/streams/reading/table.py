"""Tables: rows of numbers and labels out of a file, checked, with the record of how they were made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tacit.core.errors import DataError
from tacit.streams.batch import Task
from tacit.streams.learnt import Learnt
from tacit.streams.reading import columns
from tacit.streams.reading.columns import Missing, TimePart
from tacit.streams.reading.formats import open_source
from tacit.streams.reading.labels import class_numbers, find_classes
from tacit.streams.reading.options import PLAIN, Reading
from tacit.streams.reading.preprocessing import Preprocessing
from tacit.streams.reading.source import Source


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
    """(columns,) which columns of x need no scaling: 0 and 1 of categories and gaps, and sines of times."""
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

    def rows(self, chosen: NDArray[Any]) -> Table:
        """Return a table of some of the rows, or of all in another order.

        Args:
          chosen: Their numbers; or (rows,) whether each is one of them.
        """
        parts = {name: getattr(self, name) for name in ("x", "y", "owner", "absent", "exact")}
        return self._replace(**{name: part[chosen] for name, part in parts.items() if part is not None})


def read_table(
    data: Any,
    label: str,
    features: Sequence[str] | None = None,
    task: Task = "binary",
    owner: str | None = None,
    time: str | None = None,
    missing: Missing = "refuse",
    categories: Mapping[str, Sequence[str]] | None = None,
    classes: Sequence[str] | int | None = None,
    time_features: Mapping[str, Sequence[TimePart]] | None = None,
    encoding: str | None = None,
    separator: str | None = None,
    decimal: Literal[".", ","] = ".",
    quote: str = '"',
    missing_marks: Sequence[str] | None = None,
    time_format: str | None = None,
) -> Table:
    """Features and labels from files (CSV, Parquet, NPZ), a data frame, or a query.

    A CSV file has a header line. An NPZ file has an array (rows,) for the label, and either a matrix `X` (or `x`), with
    names in `columns` where it has them, or one array (rows,) per column. Text becomes one column of 0 and 1 per
    category. What was learnt from all rows because it was not listed is noted in `Table.learnt`: a private run is
    refused unless it is declared public (`from_table`). `Table.preprocessing` does the same to other tables.

    What does not fit is refused with its line, and with the setting that would make it fit: nothing is guessed.

    Args:
      data: Path of a file, whose ending says the format (.csv, .tsv, .txt, these with .gz, .parquet, .npz); a pattern
        such as ``"data/*.csv"`` or a list of paths, whose columns have to agree; a data frame of pandas, polars or
        Arrow; or an `SqlQuery`. All but NPZ files need ``pip install 'tacit[data]'``.
      label: Column of the labels.
      features: Columns of the features; None: all other columns.
      task: "binary", "multiclass" or "regression".
      owner: Column that says whose row it is; None: of several files each is an owner's, otherwise rows have no owner.
      time: Column of times or numbers by which rows are put in order; None: as in the file.
      missing: "refuse" gaps; "indicate": a gap becomes 0, and a further column of 0 and 1 says where that is so; a list
        of columns: these have such a column, whether or not there is a gap.
      categories: Column -> its categories; None: those that the file holds.
      classes: Labels, words or numbers, in the order of their classes; a number C where labels are 0 ... C - 1, though
        some may not occur; None: those that the file holds, by number or by the alphabet.
      time_features: Column of times -> its parts that are features: some of "hour", "weekday" and "month", each as sine
        and cosine of its turn.
      encoding: Encoding of text files that are neither UTF-8 nor UTF-16 with its mark, e.g. "cp1252".
      separator: Mark between fields; None: a comma, or a tab in .tsv files.
      decimal: Mark before the fraction of a number in text.
      quote: Mark around fields that hold separators; "": there is none.
      missing_marks: Words that stand for a gap, besides NA, null and the like, e.g. ``["?", "-"]``; None: a word that
        looks like such a mark is refused.
      time_format: Format of times in text, e.g. "%d.%m.%Y %H:%M"; None: 2015-02-04 17:51:00.

    Example:
      >>> import numpy as np, pathlib, tacit, tempfile
      >>> with tempfile.TemporaryDirectory() as folder:
      ...     file = pathlib.Path(folder) / "data.npz"
      ...     np.savez(file, X=np.ones((20, 3)), sold=np.tile([0, 1], 10), shop=np.repeat([7, 8], 10))
      ...     tacit.streams.read_table(file, label="sold", owner="shop")
      Table(20 rows, 3 columns, binary, 2 owners)
    """
    marks = None if missing_marks is None else tuple(missing_marks)
    source = open_source(data, Reading(encoding, separator, decimal, quote, marks, time_format))
    times = time_features or {}
    taken = {name for name in (label, owner, time) if name is not None}
    others = tuple(n for n in source.features if n not in taken) if features is None else tuple(features)
    names = tuple(dict.fromkeys((*others, *times)))
    source.require(*(name for name in (label, owner, time) if name is not None), *names)
    if not names or taken & (set(names) - ({time} if time in times else set())):
        raise DataError(
            f"{source.name}: features {', '.join(names) or '(none)'}; expected at least one column besides "
            f"{', '.join(sorted(taken))}"
        )
    if source.rows == 0:
        raise DataError(f"{source.name}: there are no rows below the header; expected at least one")
    known, of_labels = find_classes(source, label, task, classes)
    y = class_numbers(source, label, task, known)
    inputs, of_columns = columns.find_inputs(source, names, missing, categories or {}, times)
    given = columns.encoded(source, inputs)
    if len(given.x) != len(y):
        raise DataError(
            f"{source.name}: column {names[0]!r} has {len(given.x)} rows, but column {label!r} has {len(y)}"
        )
    holder, holders = _owners(source, owner)
    if holder is not None and len(holder) != len(y):
        raise DataError(f"{source.name}: owner column {owner!r} has {len(holder)} rows, but the table has {len(y)}")
    record = Preprocessing(inputs, label, task, known, owner, holders, reading=source.reading)
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
    return table if time is None else table.rows(columns.time_order(source, time))


def read_owners(data: Any, owner: str | None = None, reading: Reading = PLAIN) -> tuple[str, ...]:
    """Owners of a table's rows, in the order of their agents' numbers.

    Args:
      data: What `read_table` takes.
      owner: Its owner column; None: each of several files is an owner's.
      reading: How text is read.

    Example:
      >>> import numpy as np, pathlib, tacit, tempfile
      >>> with tempfile.TemporaryDirectory() as folder:
      ...     file = pathlib.Path(folder) / "data.npz"
      ...     np.savez(file, shop=np.repeat(["north", "south"], 10))
      ...     tacit.streams.read_owners(file, "shop")
      ('north', 'south')
    """
    return _owners(open_source(data, reading), owner)[1]


def read_classes(
    data: Any, label: str, task: Task, classes: Sequence[str] | None = None, reading: Reading = PLAIN
) -> tuple[str, ...]:
    """Classes of a table's labels, in the order of their numbers; none for a regression.

    Args:
      data: What `read_table` takes.
      label: Its label column.
      task: "binary", "multiclass" or "regression".
      classes: The classes, where they are known; None: those that the table holds.
      reading: How text is read.

    Example:
      >>> import numpy as np, pathlib, tacit, tempfile
      >>> with tempfile.TemporaryDirectory() as folder:
      ...     file = pathlib.Path(folder) / "data.npz"
      ...     np.savez(file, grade=np.array([7, 3, 1, 3]))
      ...     tacit.streams.read_classes(file, "grade", "multiclass")
      ('1', '3', '7')
    """
    if classes is not None:
        return tuple(map(str, classes))
    source = open_source(data, reading)
    source.require(label)
    return find_classes(source, label, task)[0]


def _owners(source: Source, owner: str | None) -> tuple[NDArray[np.int64] | None, tuple[str, ...]]:
    """Return the agent of each row, and the owner of each agent: by a column, or by file."""
    if owner is not None:
        return columns.find_owners(source, owner)
    if not source.several:
        return None, ()
    order = sorted(range(len(source.files)), key=source.files.__getitem__)
    number = np.empty(len(order), np.int64)
    number[order] = np.arange(len(order))
    empty = next((k for k in order if k and source.ends[k] == source.ends[k - 1]), 0 if source.ends[0] == 0 else None)
    if empty is not None:
        raise DataError(f"{source.name}: file {source.files[empty]!r} has no rows; leave it out")
    return number[source.file_of_row], tuple(source.files[k] for k in order)
