"""Formats of tables: CSV (also .csv.gz), Parquet and NPZ. Nothing that is read can run code."""

from __future__ import annotations

import csv
import itertools
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NoReturn

from numpy.typing import NDArray

from tacit.core.errors import DataError
from tacit.core.extras import require
from tacit.streams.learnt import Learnt
from tacit.streams.reading.bounded import open_bytes, read_parquet, text_lines
from tacit.streams.reading.npz import read_npz
from tacit.streams.reading.source import Source, refuse_large


def open_source(data: Any) -> Source:
    """Open a table by its path, whose ending says the format; one that is open stays as it is."""
    if isinstance(data, Source):
        return data
    path = Path(data)
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


def _refuse_doubled(path: Path, columns: Sequence[str]) -> None:
    for column, times in Counter(columns).items():
        if times > 1:
            raise DataError(f"{path}: column {column!r} occurs more than once; give each column a name of its own")
