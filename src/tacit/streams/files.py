"""Tables from files: CSV (also .csv.gz), Parquet and NPZ. Nothing that is read can run code."""

from __future__ import annotations

import csv
import gzip
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import numpy as np
from numpy.typing import NDArray

from tacit.errors import DataError
from tacit.streams.validate import Origin, Task, check_features, check_labels


class Table(NamedTuple):
    """A data set out of a file, checked."""

    x: NDArray[np.float32]
    """(rows, columns)."""
    y: NDArray[Any]
    """(rows,), as `tacit.streams.validate.check_labels` gives it for the task."""
    columns: tuple[str, ...]
    """Names of the columns of x."""
    owner: NDArray[np.int64] | None = None
    """(rows,) agent id per row, an assignment for `from_arrays`; None where no owner column was named."""
    owners: tuple[str, ...] = ()
    """Who agent 0, 1, ... is in the file."""


@dataclass(frozen=True)
class _Source:
    """The columns of an open file."""

    name: str
    columns: tuple[str, ...]
    features: tuple[str, ...]
    """Columns that may be features where none are named."""
    column: Callable[[str], Any]
    """Name -> numpy array or Arrow column."""
    row: Callable[[int], str]


def read_table(
    path: str | Path,
    label: str,
    features: Sequence[str] | None = None,
    task: Task = "binary",
    owner: str | None = None,
) -> Table:
    """Read features and labels from a CSV, CSV.GZ, Parquet or NPZ file.

    `features` are all other columns unless named. `owner` names the column that says whose row it is. A CSV
    file has a header line. An NPZ file has an array (rows,) for the label, and either a matrix `X` (or `x`),
    with names in `columns` where it has them, or one array (rows,) per column.
    """
    path = Path(path)
    source = _open(path)
    taken = {label} if owner is None else {label, owner}
    names = tuple(n for n in source.features if n not in taken) if features is None else tuple(features)
    for name in (label, *names, *(() if owner is None else (owner,))):
        if name not in source.columns:
            _refuse_column(source, name)
    if not names or taken & set(names):
        raise DataError(
            f"{path}: features {', '.join(names) or '(none)'}; expected at least one column besides "
            f"{', '.join(sorted(taken))}"
        )
    origin = Origin(str(path), names, repr(label), source.row)
    values = [_numbers(source, name, is_label=False) for name in names]
    lengths = {name: len(column) for name, column in zip(names, values, strict=True)}
    y = _numbers(source, label, is_label=True)
    if len(y) == 0:
        raise DataError(f"{path}: there are no rows below the header; expected at least one")
    for name, length in lengths.items():
        if length != len(y):
            raise DataError(f"{path}: column {name!r} has {length} rows, but column {label!r} has {len(y)}")
    x = check_features(np.stack(values, axis=1), origin)
    labels = check_labels(y, len(x), task, origin)
    if owner is None:
        return Table(x, labels, names)
    ids, owners = _owners(source, owner, len(x))
    return Table(x, labels, names, ids, owners)


def _open(path: Path) -> _Source:
    name = path.name.lower()
    opener = next((opener for ending, opener in _OPENERS.items() if name.endswith(ending)), None)
    if opener is None:
        raise DataError(f"{path}: expected a file that ends in {', '.join(_OPENERS)}; convert it to one of these")
    if not path.is_file():
        raise DataError(f"{path}: there is no such file; check the path (this folder is {Path.cwd()})")
    source = opener(path)
    _refuse_doubled(path, source.columns)
    return source


def _open_csv(path: Path) -> _Source:
    import pyarrow
    from pyarrow import csv as arrow_csv

    try:
        table = arrow_csv.read_csv(str(path))
    except (pyarrow.ArrowException, OSError) as fault:
        _explain_csv(path, fault)
    names = tuple(table.column_names)
    return _Source(str(path), names, names, table.column, lambda row: f"line {_csv_line(path, row)}")


def _open_parquet(path: Path) -> _Source:
    import pyarrow
    from pyarrow import parquet

    try:
        table = parquet.read_table(str(path))
    except (pyarrow.ArrowException, OSError) as fault:
        raise DataError(f"{path}: not a Parquet file that can be read ({fault}); write it anew") from fault
    names = tuple(table.column_names)
    return _Source(str(path), names, names, table.column, lambda row: f"row {row + 1} (the first is row 1)")


def _open_npz(path: Path) -> _Source:
    try:
        with np.load(path, allow_pickle=False) as archive:
            arrays = {name: np.asarray(archive[name]) for name in archive.files}
    except (ValueError, OSError, EOFError, zipfile.BadZipFile, zlib.error) as fault:
        raise DataError(
            f"{path}: not an NPZ file of plain arrays ({fault}); save it by numpy.savez, without object arrays"
        ) from fault
    columns: dict[str, NDArray[Any]] = {}
    matrix = next((arrays[name] for name in ("X", "x") if name in arrays and arrays[name].ndim == 2), None)
    if matrix is not None:
        given = arrays.get("columns")
        named = given is not None and given.shape == (matrix.shape[1],)
        names = [str(n) for n in given] if named and given is not None else [f"x{j}" for j in range(matrix.shape[1])]
        _refuse_doubled(path, names)
        columns = dict(zip(names, matrix.T, strict=True))
    features = tuple(columns)
    columns |= {name: array for name, array in arrays.items() if array.ndim == 1 and name not in columns}
    return _Source(
        str(path),
        tuple(columns),
        features or tuple(columns),
        columns.__getitem__,
        "row {} (counted from 0)".format,
    )


_OPENERS: dict[str, Callable[[Path], _Source]] = {
    ".csv": _open_csv,
    ".csv.gz": _open_csv,
    ".parquet": _open_parquet,
    ".npz": _open_npz,
}


def _csv_records(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Yield line number and fields of each record that is not blank; only used to explain a fault."""
    opener = gzip.open if path.name.lower().endswith(".gz") else open
    with opener(path, "rt", encoding="utf-8-sig", errors="replace", newline="") as text:
        reader = csv.reader(text)
        for fields in reader:
            if fields:
                yield reader.line_num, fields


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


def _numbers(source: _Source, name: str, *, is_label: bool) -> NDArray[Any]:
    column = source.column(name)
    if isinstance(column, np.ndarray):
        if column.dtype.kind not in "fiub":
            _refuse_text(source, name, 0, column[0] if len(column) else "", is_label)
        return column
    import pyarrow

    kind = column.type
    if column.null_count and not pyarrow.types.is_null(kind):
        _refuse_missing(source, name, column.is_null().to_pylist().index(True))
    if pyarrow.types.is_boolean(kind):
        return np.asarray(column.cast(pyarrow.uint8()).to_numpy())
    if pyarrow.types.is_integer(kind) or pyarrow.types.is_floating(kind):
        return np.asarray(column.to_numpy())
    if pyarrow.types.is_decimal(kind):
        return np.asarray(column.cast(pyarrow.float64()).to_numpy())
    if pyarrow.types.is_null(kind):
        if len(column):
            _refuse_missing(source, name, 0)
        return np.empty(0)
    numbers = np.empty(len(column))
    for row, value in enumerate(column.to_pylist()):
        if value == "":
            _refuse_missing(source, name, row)
        if not _is_number(value):
            _refuse_text(source, name, row, value, is_label)
        numbers[row] = float(value)
    return numbers


def _owners(source: _Source, name: str, rows: int) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    column = source.column(name)
    if isinstance(column, np.ndarray):
        missing = np.isnan(column) if column.dtype.kind == "f" else np.zeros(len(column), bool)
        values = column
    else:
        values = np.array(column.to_pylist(), object)
        missing = np.array([value is None or value == "" or str(value) == "nan" for value in values])
    if len(values) != rows:
        raise DataError(f"{source.name}: owner column {name!r} has {len(values)} rows, but the table has {rows}")
    if missing.any():
        _refuse_missing(source, name, int(np.argmax(missing)))
    owners, ids = np.unique(values, return_inverse=True)
    return ids.astype(np.int64), tuple(str(owner) for owner in owners)


def _refuse_column(source: _Source, name: str) -> NoReturn:
    headless = source.columns and all(_is_number(column) for column in source.columns)
    remedy = "add a header line, which is missing" if headless else "name one of these"
    raise DataError(f"{source.name}: there is no column {name!r}, only {', '.join(source.columns)}; {remedy}")


def _refuse_doubled(path: Path, columns: Sequence[str]) -> None:
    for column in columns:
        if columns.count(column) > 1:
            raise DataError(f"{path}: column {column!r} occurs more than once; give each column a name of its own")


def _refuse_missing(source: _Source, name: str, row: int) -> NoReturn:
    raise DataError(
        f"{source.name}, {source.row(row)}, column {name!r}: the value is missing; fill it in, or leave that "
        "row or column out"
    )


def _refuse_text(source: _Source, name: str, row: int, value: Any, is_label: bool) -> NoReturn:
    remedy = "map labels to 0/1 (or 0, 1, 2, ...)" if is_label else "leave the column out by features=[...]"
    raise DataError(
        f"{source.name}, {source.row(row)}, column {name!r}: {str(value)!r} is not a number; mend it, or {remedy}"
    )


def _is_number(value: Any) -> bool:
    try:
        float(value)
    except (TypeError, ValueError):
        return False
    return "_" not in str(value)  # Python reads 1_000 as a number; in a data file it is a slip
