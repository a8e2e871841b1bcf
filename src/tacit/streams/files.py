"""Tables from files: CSV (also .csv.gz), Parquet and NPZ. Nothing that is read can run code."""

from __future__ import annotations

import csv
import itertools
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import numpy as np
from numpy.typing import NDArray

from tacit.core.errors import DataError
from tacit.core.extras import require
from tacit.streams import columns
from tacit.streams.bounded import open_bytes, read_parquet, text_lines
from tacit.streams.columns import Missing, Source, is_number, refuse_large
from tacit.streams.learnt import Learnt
from tacit.streams.npz import read_npz
from tacit.streams.validate import Origin, Task, check_features, check_labels


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
    """Label in the file of class 0, 1, ..., of two classes -1 and +1; empty where labels are numbers there."""
    marks: NDArray[np.bool_] | None = None
    """(columns,) which columns of x hold 0 and 1 only, made of a category or of what is missing."""
    absent: NDArray[np.bool_] | None = None
    """(rows, columns) which numbers were missing, and are 0."""
    task: Task = "binary"
    """Kind of the labels."""
    learnt: tuple[Learnt, ...] = ()
    """Facts that x and y were made by, where learnt from all rows."""

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
    classes: Sequence[str] | None = None,
) -> Table:
    """Features and labels from a CSV, CSV.GZ, Parquet or NPZ file.

    A CSV file has a header line. An NPZ file has an array (rows,) for the label, and either a matrix `X` (or `x`), with
    names in `columns` where it has them, or one array (rows,) per column. Text becomes one column of 0 and 1 per
    category. What was learnt from all rows because it was not listed is noted in `Table.learnt`: a private run is
    refused unless it is declared public (`from_table`).

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
      classes: Labels that are text, in the order of their numbers; None: those that the file holds, by the alphabet.

    Example:
      >>> import numpy as np, pathlib, tacit, tempfile
      >>> with tempfile.TemporaryDirectory() as folder:
      ...     file = pathlib.Path(folder) / "data.npz"
      ...     np.savez(file, X=np.ones((20, 3)), sold=np.tile([0, 1], 10), shop=np.repeat([7, 8], 10))
      ...     tacit.streams.read_table(file, label="sold", owner="shop")
      Table(20 rows, 3 columns, binary, 2 owners)
    """
    path = Path(path)
    source = _open(path)
    taken = {name for name in (label, owner, time) if name is not None}
    names = tuple(n for n in source.features if n not in taken) if features is None else tuple(features)
    for name in (*taken, *names):
        if name not in source.columns:
            _refuse_column(source, name)
    if not names or taken & set(names):
        raise DataError(
            f"{path}: features {', '.join(names) or '(none)'}; expected at least one column besides "
            f"{', '.join(sorted(taken))}"
        )
    found = columns.labels(source, label, task, classes)
    given = found.values
    if len(given) == 0:
        raise DataError(f"{path}: there are no rows below the header; expected at least one")
    encoded = columns.features(source, names, missing, categories or {})
    if len(encoded.x) != len(given):
        raise DataError(f"{path}: column {names[0]!r} has {len(encoded.x)} rows, but column {label!r} has {len(given)}")
    origin = Origin(str(path), encoded.names, repr(label), source.row)
    x = check_features(encoded.x, origin)
    y = check_labels(given, len(x), task, origin)
    holder, holders = (None, ()) if owner is None else columns.owners(source, owner)
    if holder is not None and len(holder) != len(x):
        raise DataError(f"{path}: owner column {owner!r} has {len(holder)} rows, but the table has {len(x)}")
    learnt = (*encoded.learnt, *found.learnt, *source.learnt)
    table = Table(x, y, encoded.names, holder, holders, found.classes, encoded.marks, encoded.absent, task, learnt)
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
    source = _open(Path(path))
    if owner not in source.columns:
        _refuse_column(source, owner)
    return columns.owners(source, owner)[1]


def _in_order(table: Table, order: NDArray[np.int64]) -> Table:
    return table._replace(
        x=table.x[order],
        y=table.y[order],
        owner=None if table.owner is None else table.owner[order],
        absent=None if table.absent is None else table.absent[order],
    )


def _open(path: Path) -> Source:
    name = path.name.lower()
    opener = next((opener for ending, opener in _OPENERS.items() if name.endswith(ending)), None)
    if opener is None:
        raise DataError(f"{path}: expected a file that ends in {', '.join(_OPENERS)}; convert it to one of these")
    if not path.is_file():
        raise DataError(f"{path}: there is no such file; check the path (this folder is {Path.cwd()})")
    source = opener(path)
    _refuse_doubled(path, source.columns)
    return source


def _open_csv(path: Path) -> Source:
    pyarrow, arrow_csv = require("pyarrow", extra="data"), require("pyarrow.csv", extra="data")
    _refuse_doubled(path, _header(path))
    try:
        with open_bytes(path) as content:
            table = arrow_csv.read_csv(content)
    except (pyarrow.ArrowException, OSError, EOFError, zlib.error) as fault:
        _explain_csv(path, fault)
    names = tuple(table.column_names)
    return Source(str(path), names, names, table.column, lambda row: f"line {_csv_line(path, row)}", _blank(path))


def _open_parquet(path: Path) -> Source:
    pyarrow = require("pyarrow", extra="data")
    try:
        table = read_parquet(path)
    except (pyarrow.ArrowException, OSError) as fault:
        raise DataError(f"{path}: not a Parquet file that can be read ({fault}); write it anew") from fault
    names = tuple(table.column_names)
    return Source(str(path), names, names, table.column, lambda row: f"row {row + 1} (the first is row 1)")


def _open_npz(path: Path) -> Source:
    arrays = read_npz(path)
    columns: dict[str, NDArray[Any]] = {}
    matrix = next((arrays[name] for name in ("X", "x") if name in arrays and arrays[name].ndim == 2), None)
    if matrix is not None:
        refuse_large(str(path), *matrix.shape)
        given = arrays.get("columns")
        named = given is not None and given.shape == (matrix.shape[1],)
        names = [str(n) for n in given] if named and given is not None else [f"x{j}" for j in range(matrix.shape[1])]
        _refuse_doubled(path, names)
        columns = dict(zip(names, matrix.T, strict=True))
    features = tuple(columns)
    columns |= {name: array for name, array in arrays.items() if array.ndim == 1 and name not in columns}
    return Source(
        str(path),
        tuple(columns),
        features or tuple(columns),
        columns.__getitem__,
        "row {} (counted from 0)".format,
    )


_OPENERS: dict[str, Callable[[Path], Source]] = {
    ".csv": _open_csv,
    ".csv.gz": _open_csv,
    ".parquet": _open_parquet,
    ".npz": _open_npz,
}


def _header(path: Path) -> list[str]:
    """Return the first line's names; none where it cannot be read, which is then explained."""
    try:
        return next(csv.reader(text_lines(path)), [])
    except (OSError, EOFError, zlib.error, csv.Error):
        return []


def _csv_records(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Yield line number and fields of each record that is not blank; only used to explain a fault."""
    reader = csv.reader(text_lines(path))
    for fields in reader:
        if fields:
            yield reader.line_num, fields


def _blank(path: Path) -> tuple[Learnt, ...]:
    """Note a blank line between records: it is none, so that a record that became blank would move those after it."""
    with open_bytes(path) as content:
        lines_after = itertools.dropwhile(bytes.strip, content)
        if not any(map(bytes.strip, lines_after)):
            return ()
    last = 0
    for line, fields in _csv_records(path):
        lines = sum(field.count("\n") for field in fields)  # inside of quotes
        if line - lines > last + 1:
            what = f"{path.name} has a record less: line {last + 1} is blank"
            return (Learnt("rows", what, "a record there, or no line"),)
        last = line
    return ()


def _csv_line(path: Path, row: int) -> int:
    records = _csv_records(path)
    return next(line for record, (line, _) in enumerate(records) if record == row + 1)


def _explain_csv(path: Path, fault: Exception) -> NoReturn:
    try:
        records = _csv_records(path)
        _, header = next(records, (0, []))
        for line, fields in records:
            if len(fields) != len(header):
                raise DataError(
                    f"{path}, line {line}: {len(fields)} fields, but the header names {len(header)} columns; "
                    "name every column in the header, and quote values that hold a comma"
                ) from fault
    except (OSError, EOFError, zlib.error, csv.Error):
        pass  # it cannot be read as text either: the first fault says why
    raise DataError(
        f"{path}: not a CSV file that can be read ({fault}); save it as UTF-8 with a header line"
    ) from fault


def _refuse_column(source: Source, name: str) -> NoReturn:
    headless = source.columns and all(is_number(column) for column in source.columns)
    remedy = "add a header line, which is missing" if headless else "name one of these"
    raise DataError(f"{source.name}: there is no column {name!r}, only {', '.join(source.columns)}; {remedy}")


def _refuse_doubled(path: Path, columns: Sequence[str]) -> None:
    for column, times in Counter(columns).items():
        if times > 1:
            raise DataError(f"{path}: column {column!r} occurs more than once; give each column a name of its own")
