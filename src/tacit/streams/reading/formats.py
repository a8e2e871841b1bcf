"""Formats of tables: CSV, Parquet and NPZ files, one or several, data frames and queries. Nothing read can run code."""

from __future__ import annotations

import glob
import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.core.errors import DataError
from tacit.core.extras import require
from tacit.streams.reading.bounded import read_parquet
from tacit.streams.reading.csv_file import open_csv, refuse_doubled
from tacit.streams.reading.frames import is_frame, open_frame
from tacit.streams.reading.npz import read_npz
from tacit.streams.reading.options import PLAIN, Reading
from tacit.streams.reading.source import Source, refuse_large
from tacit.streams.reading.sql import SqlQuery, open_query

TEXT_ENDINGS = (".csv", ".tsv", ".txt")


def open_source(data: Any, reading: Reading = PLAIN) -> Source:
    """Open a table; one that is open stays as it is.

    Args:
      data: Path of a file, whose ending says the format; a pattern such as ``"data/*.csv"``, or a list of paths; a data
        frame; or an `SqlQuery`.
      reading: Marks of text files and of columns of text.

    Returns:
      The open table, for `Preprocessing.apply` and `read_table`.

    Example:
      >>> import pathlib, tacit, tempfile
      >>> with tempfile.TemporaryDirectory() as folder:
      ...     file = pathlib.Path(folder) / "data.csv"
      ...     _ = file.write_text("age;cost\\n31;4,5\\n58;2,25\\n")
      ...     source = tacit.streams.open_source(file, tacit.streams.Reading(separator=";", decimal=","))
      >>> source.columns, source.rows, source.read("cost").values.tolist()
      (('age', 'cost'), 2, [4.5, 2.25])
    """
    if isinstance(data, Source):
        return data
    if isinstance(data, SqlQuery):
        source = open_query(data, reading)
    elif is_frame(data):
        source = open_frame(data, reading)
    elif isinstance(data, str | os.PathLike):
        paths = _matching(str(data))
        source = _open(Path(data), reading) if paths is None else _together(str(data), paths, reading)
    elif isinstance(data, Sequence) and all(isinstance(each, str | os.PathLike) for each in data):
        source = _together(f"{len(data)} files", [Path(each) for each in data], reading)
    else:
        raise DataError(
            f"a table of type {type(data).__name__}; expected a path, a list of paths, a data frame (pandas, polars, "
            "Arrow) or an SqlQuery"
        )
    refuse_doubled(source.name, source.columns)
    return source


def paths_of(data: Any) -> list[Path]:
    """Return the files of a table: of a path, a pattern or a list; none where it is no file."""
    if isinstance(data, str | os.PathLike):
        return _matching(str(data)) or [Path(data)]
    return [Path(each) for each in data] if isinstance(data, list | tuple) else []


def is_several(data: Any) -> bool:
    """Whether a table is given as several files, each of which is an owner's."""
    return _matching(data) is not None if isinstance(data, str) else isinstance(data, list | tuple)


def _matching(pattern: str) -> list[Path] | None:
    """Return the files of a pattern in the order of the alphabet; None: it is a path."""
    if not glob.has_magic(pattern) or Path(pattern).exists():
        return None
    whole = Path(pattern).absolute()
    found = [path for path in sorted(Path(whole.anchor).glob(str(whole.relative_to(whole.anchor)))) if path.is_file()]
    if not found:
        raise DataError(f"{pattern}: no file is called so; check the pattern (this folder is {Path.cwd()})")
    return found


def _open(path: Path, reading: Reading) -> Source:
    name = path.name.lower()
    opener = next((opener for ending, opener in _OPENERS.items() if name.endswith(ending)), None)
    if opener is None:
        raise DataError(f"{path}: expected a file that ends in {', '.join(_OPENERS)}; convert it to one of these")
    if not path.is_file():
        raise DataError(f"{path}: there is no such file; check the path (this folder is {Path.cwd()})")
    source = opener(path, reading)
    ending = next(ending for ending in _OPENERS if name.endswith(ending))
    return replace(source, files=(path.name[: -len(ending)],), ends=(source.rows if source.columns else 0,))


def _together(name: str, paths: Sequence[Path], reading: Reading) -> Source:
    """Open several files as one table; the rows of each follow those of the one before."""
    if len({path.resolve() for path in paths}) < len(paths) or not paths:
        raise DataError(f"{name}: {', '.join(map(str, paths)) or 'no file'}; expected files, each once")
    sources = [_open(path, reading) for path in paths]
    first = sources[0]
    for source in sources[1:]:
        here, there = set(source.columns), set(first.columns)
        if here != there:
            own, other = (", ".join(map(repr, sorted(names))) or "nothing" for names in (here - there, there - here))
            raise DataError(
                f"{source.name} has the columns {own}, where {first.name} has {other}; give all files the same columns"
            )
    ends = np.cumsum([source.rows for source in sources])
    names = [source.files[0] for source in sources]
    if len(set(names)) < len(names):  # files of one name in different folders
        above = Path(os.path.commonpath([path.resolve() for path in paths]))
        names = [str(path.resolve().relative_to(above).with_suffix("")) for path in paths]

    def row(index: int) -> str:
        k = int(np.searchsorted(ends, index, side="right"))
        return f"{paths[k].name}, {sources[k].row(index - int(ends[k - 1]) if k else index)}"

    return Source(
        name,
        first.columns,
        first.features,
        lambda column: _joined(name, column, [source.column(column) for source in sources]),
        row,
        tuple(dict.fromkeys(fact for source in sources for fact in source.learnt)),
        reading,
        tuple(names),
        tuple(ends.tolist()),
        several=True,
    )


def _joined(name: str, column: str, parts: list[Any]) -> Any:
    if all(isinstance(part, np.ndarray) for part in parts):
        return np.concatenate(parts)
    pyarrow = require("pyarrow", extra="data")
    tables = [pyarrow.table({column: part}) for part in parts]
    try:
        return pyarrow.concat_tables(tables, promote_options="permissive").column(column)
    except pyarrow.ArrowException as fault:
        kinds = ", ".join(dict.fromkeys(str(part.type) for part in parts))
        raise DataError(
            f"{name}: column {column!r} is of types {kinds}; write it as one of these everywhere"
        ) from fault


def _open_parquet(path: Path, reading: Reading) -> Source:
    pyarrow = require("pyarrow", extra="data")
    try:
        table = read_parquet(path)
    except (pyarrow.ArrowException, OSError) as fault:
        raise DataError(f"{path}: not a Parquet file that can be read ({fault}); write it anew") from fault
    names = tuple(table.column_names)
    refuse_doubled(str(path), names)
    return Source(str(path), names, names, table.column, lambda row: f"row {row + 1} (the first is row 1)", (), reading)


def _open_npz(path: Path, reading: Reading) -> Source:
    arrays = read_npz(path)
    columns: dict[str, NDArray[Any]] = {}
    matrix = next((arrays[name] for name in ("X", "x") if name in arrays and arrays[name].ndim == 2), None)
    if matrix is not None:
        refuse_large(str(path), *matrix.shape)
        given = arrays.get("columns")
        named = given is not None and given.shape == (matrix.shape[1],)
        names = [str(n) for n in given] if named and given is not None else [f"x{j}" for j in range(matrix.shape[1])]
        refuse_doubled(str(path), names)
        columns = dict(zip(names, matrix.T, strict=True))
    features = tuple(columns)
    columns |= {name: array for name, array in arrays.items() if array.ndim == 1 and name not in columns}
    return Source(
        str(path),
        tuple(columns),
        features or tuple(columns),
        columns.__getitem__,
        "row {} (counted from 0)".format,
        (),
        reading,
    )


_OPENERS: dict[str, Callable[[Path, Reading], Source]] = {
    **{ending + packed: open_csv for ending in TEXT_ENDINGS for packed in ("", ".gz")},
    ".parquet": _open_parquet,
    ".npz": _open_npz,
}
