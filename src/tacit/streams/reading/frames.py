"""Data frames of pandas, polars and others, taken over column by column as Arrow."""

from __future__ import annotations

from typing import Any

import numpy as np

from tacit.core import limits
from tacit.core.errors import DataError
from tacit.core.extras import require
from tacit.streams.reading.options import Reading
from tacit.streams.reading.source import Source


def is_frame(data: Any) -> bool:
    """Whether something is a data frame: a table that offers its columns to Arrow, or one of pandas."""
    return hasattr(data, "__arrow_c_stream__") or (hasattr(data, "columns") and hasattr(data, "dtypes"))


def open_frame(frame: Any, reading: Reading) -> Source:
    """Open a data frame; its index is no column.

    Args:
      frame: Of pandas, polars, Arrow or whatever offers its columns as an Arrow stream.
      reading: Marks in columns of text.
    """
    pyarrow = require("pyarrow", extra="data")
    if hasattr(frame, "dtypes") and hasattr(frame, "iloc"):  # pandas: by column, since one may hold anything
        columns = {str(name): as_column(frame.iloc[:, k]) for k, name in enumerate(frame.columns)}
        if len(columns) < len(frame.columns):
            raise DataError("the data frame has two columns of one name; give each column a name of its own")
    else:
        table = pyarrow.table(frame)
        limits.refuse_beyond(table.nbytes, f"the data frame: {table.num_rows:,} rows", DataError)
        columns = {name: table.column(k) for k, name in enumerate(table.column_names)}
        if len(columns) < table.num_columns:
            raise DataError("the data frame has two columns of one name; give each column a name of its own")
    names = tuple(columns)
    return Source("the data frame", names, names, columns.__getitem__, "row {} (counted from 0)".format, (), reading)


def as_column(values: Any) -> Any:
    """Return values of any kind as an Arrow column; those of several kinds as text, in which a slip is then found."""
    pyarrow = require("pyarrow", extra="data")
    try:
        column = pyarrow.array(values, from_pandas=True)
    except (pyarrow.ArrowException, TypeError, ValueError, OverflowError):
        column = pyarrow.array([_text(value) for value in values], pyarrow.large_string())
    return column if isinstance(column, pyarrow.ChunkedArray) else pyarrow.chunked_array([column])


def _text(value: Any) -> str | None:
    missing = value is None or (isinstance(value, float | np.floating) and np.isnan(value))
    return None if missing else value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
