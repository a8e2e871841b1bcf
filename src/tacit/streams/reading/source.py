"""Columns of an open table, whatever they hold: numbers, words or times, each with its gaps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, NoReturn

import numpy as np
from numpy.typing import NDArray

from tacit.core import limits
from tacit.core.errors import DataError
from tacit.core.extras import require
from tacit.streams.learnt import Learnt

MISSING_WORDS = frozenset({"", "#N/A", "N/A", "NA", "n/a", "NULL", "null", "NaN", "nan", "-NaN", "-nan"})
"""Words for a missing value in a column of text; in a column of numbers Arrow takes the same for one."""
LEAVE_OUT = "leave the column out by features=[...]"
VALUE_BYTES = 24
"""Of a value while a table is made: as it was read, in double and in single precision, and whether it was missing."""
COLUMN_BYTES = 1024
"""Of a column, however few rows it has: its name, and what is noted of it."""


def refuse_large(name: str, rows: int, count: int) -> None:
    """Refuse a table of so many rows and columns that the memory for it is above the limit."""
    wanted = rows * count * VALUE_BYTES + count * COLUMN_BYTES
    limits.refuse_beyond(wanted, f"{name}: {rows:,} rows of {count:,} columns", DataError)


class Column(NamedTuple):
    """One column of a table."""

    kind: Literal["number", "word", "time"]
    values: NDArray[Any]
    """Numbers, text or datetime64; anything where the value is missing."""
    missing: NDArray[np.bool_]

    def spellings(self) -> list[NDArray[Any]]:
        """Return the values as text, in every way that a list of categories may write them."""
        if self.kind == "word":
            return [self.values.astype(str)]
        if self.values.dtype.kind == "b":
            return [np.where(self.values, *words) for words in (("true", "false"), ("True", "False"), ("1", "0"))]
        if self.values.dtype.kind in "iu":
            return [self.values.astype(str)]
        found, number = np.unique(self.values, return_inverse=True)
        return [np.array([_digits(value) for value in found])[number]]

    def numbered(self, known: tuple[str, ...]) -> NDArray[np.int64]:
        """Return (rows,) the number of each value among words that are known; -1: it is none of them."""
        number = np.full(len(self.values), -1)
        order = np.argsort(known)
        ordered = np.array(known)[order]
        for words in self.spellings():
            place = np.minimum(np.searchsorted(ordered, words), len(known) - 1)
            number = np.where((number < 0) & (ordered[place] == words), order[place], number)
        return number


def _digits(value: Any) -> str:
    return np.format_float_positional(float(value), trim="-")


@dataclass(frozen=True)
class Source:
    """The columns of an open table."""

    name: str
    columns: tuple[str, ...]
    features: tuple[str, ...]
    """Columns that may be features where none are named."""
    column: Callable[[str], Any]
    """Name -> numpy array or Arrow column."""
    row: Callable[[int], str]
    """Index -> how the row is called in the file."""
    learnt: tuple[Learnt, ...] = ()
    """Facts that reading depends on besides each row."""
    _read: dict[str, Column] = field(default_factory=dict)

    def require(self, *names: str) -> None:
        """Refuse a table that lacks one of these columns."""
        for name in names:
            if name not in self.columns:
                headless = self.columns and all(is_number(column) for column in self.columns)
                remedy = "add a header line, which is missing" if headless else "name one of these"
                raise DataError(f"{self.name}: there is no column {name!r}, only {', '.join(self.columns)}; {remedy}")

    def raw(self, name: str) -> Column:
        """Return a column as it stands: text stays text."""
        column = self.column(name)
        return _of_array(column) if isinstance(column, np.ndarray) else _of_arrow(column)

    def read(self, name: str, remedy: str = LEAVE_OUT) -> Column:
        """Return a column that the table has; `remedy` is said of text among its numbers."""
        if name not in self._read:
            found = self.raw(name)
            self._read[name] = self._parsed(name, found, remedy) if found.kind == "word" else found
        return self._read[name]

    def _parsed(self, name: str, column: Column, remedy: str) -> Column:
        """Turn text that is numbers into numbers; a column with both has a slip in it."""
        there = np.flatnonzero(~column.missing)
        numeric = np.array([is_number(column.values[row]) for row in there], bool)
        if not numeric.any():
            return column
        if not numeric.all():
            row = int(there[np.argmin(numeric)])
            self.refuse(row, name, f"{str(column.values[row])!r} is not a number; mend it, or {remedy}")
        numbers = np.zeros(len(column.values))
        numbers[there] = [float(column.values[row]) for row in there]
        return Column("number", numbers, column.missing)

    def refuse(self, row: int, column: str, fault: str) -> NoReturn:
        """Refuse a cell."""
        raise DataError(f"{self.name}, {self.row(row)}, column {column!r}: {fault}")

    def refuse_missing(
        self, name: str, column: Column, remedy: str = "fill it in, or leave that row or column out"
    ) -> None:
        """Refuse a column with missing values."""
        if column.missing.any():
            self.refuse(int(np.argmax(column.missing)), name, f"the value is missing; {remedy}")

    def refuse_strange(self, name: str, column: Column, known: tuple[str, ...], strange: Any, what: str) -> None:
        """Refuse words that are not among those known."""
        if strange.any():
            row = int(np.argmax(strange))
            word = str(column.spellings()[0][row])
            self.refuse(row, name, f"{word!r} is not among its {what} ({listed(known)}); mend it, or add it there")


def is_number(value: Any) -> bool:
    """Whether text in a data file is a number."""
    try:
        float(value)
    except (TypeError, ValueError):
        return False
    return "_" not in str(value)  # Python reads 1_000 as a number; in a data file it is a slip


def listed(words: Any) -> str:
    """Return the first few of some words."""
    shown = ", ".join(map(str, words[:5]))
    return f"{shown}, ..." if len(words) > 5 else shown


def _of_array(array: NDArray[Any]) -> Column:
    if array.dtype.kind in "fiub":
        return Column("number", array, np.isnan(array) if array.dtype.kind == "f" else np.zeros(len(array), bool))
    if array.dtype.kind == "M":
        return Column("time", array, np.isnat(array))
    words = array.astype(str).astype(object)
    return Column("word", words, np.array([word in MISSING_WORDS for word in words], bool))


def _of_arrow(column: Any) -> Column:
    pyarrow, types = require("pyarrow", extra="data"), require("pyarrow.types", extra="data")

    kind, missing = column.type, np.asarray(column.is_null().to_numpy(), bool)
    if types.is_null(kind):
        return Column("number", np.zeros(len(column)), missing)
    if types.is_temporal(kind) and not types.is_duration(kind) and not types.is_time(kind):
        return Column("time", np.asarray(column.cast(pyarrow.timestamp("us")).to_numpy()), missing)
    if types.is_boolean(kind) or types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind):
        if (types.is_integer(kind) or types.is_boolean(kind)) and not missing.any():
            return Column("number", np.asarray(column.to_numpy()), missing)
        numbers = np.asarray(column.cast(pyarrow.float64()).fill_null(np.nan).to_numpy(), np.float64)
        return Column("number", numbers, np.isnan(numbers))
    words = np.array(["" if value is None else str(value) for value in column.to_pylist()], object)
    return Column("word", words, np.array([word in MISSING_WORDS for word in words], bool))
