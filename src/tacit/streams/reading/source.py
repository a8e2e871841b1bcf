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
from tacit.streams.reading.options import PLAIN, Reading
from tacit.streams.reading.words import (
    LARGEST_WHOLE,
    MISSING_WORDS,
    SlipError,
    candidates,
    is_missing,
    is_number,
    parse,
    with_point,
)

VALUE_BYTES = 24
"""Of a value while a table is made: as it was read, in double and in single precision, and whether it was missing."""
COLUMN_BYTES = 1024
"""Of a column, however few rows it has: its name, and what is noted of it."""


def refuse_large(name: str, rows: int, count: int) -> None:
    """Refuse a table of so many rows and columns that the memory for it is above the limit."""
    wanted = rows * count * VALUE_BYTES + count * COLUMN_BYTES
    limits.refuse_beyond(wanted, f"{name}: {rows:,} rows of {count:,} columns", DataError)


class Words(NamedTuple):
    """A column of text by its different words."""

    different: list[str]
    """Without blanks around them."""
    which: NDArray[np.int64]
    """(rows,) number of each row's word."""

    def read(self, reading: Reading) -> Column:
        """Return the column by what its words are; see `parse`."""
        parsed = parse(self.different, reading)
        return Column(
            parsed.kind,
            parsed.values[self.which],
            parsed.missing[self.which],
            None if parsed.local is None else parsed.local[self.which],
            None if parsed.inexact is None else parsed.inexact[self.which],
            self if parsed.kind == "word" else None,
        )

    def plain(self, reading: Reading) -> Column:
        """Return the column as words, whatever they are."""
        missing = is_missing(self.different, reading)[self.which]
        words = self._replace(different=[with_point(word, reading) for word in self.different])
        return Column("word", np.array(words.different, object)[self.which], missing, words=words)


class Column(NamedTuple):
    """One column of a table."""

    kind: Literal["number", "word", "time"]
    values: NDArray[Any]
    """Numbers, truths, text or datetime64; anything where the value is missing."""
    missing: NDArray[np.bool_]
    local: NDArray[Any] | None = None
    """Times as the clock showed them, where `values` are those of Greenwich."""
    inexact: NDArray[np.bool_] | None = None
    """Where a whole number is beyond those of double precision."""
    words: Words | None = None
    """Of text, its different words."""

    def distinct(self) -> tuple[list[Any], NDArray[np.int64]]:
        """Return the different values, gaps among them, and (rows,) which of them each row has."""
        if self.words is not None:
            return self.words
        found, which = np.unique(self.values, return_inverse=True)
        return found.tolist(), which

    def numbered(self, known: tuple[str, ...]) -> NDArray[np.int64]:
        """Return (rows,) the number of each value among words that are known; -1: it is none of them."""
        place = {word: k for k, word in enumerate(known)}
        found, which = self.distinct()
        numbers = [next((place[word] for word in candidates(each) if word in place), -1) for each in found]
        return np.array(numbers, np.int64)[which]

    def shown(self, row: int) -> str:
        """Return one value as text."""
        if self.kind == "time":
            return str(self.values[row].astype("datetime64[s]")).replace("T", " ")
        return candidates(self.values[row])[0]


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
    reading: Reading = PLAIN
    """Marks of decimals, gaps and times in text."""
    files: tuple[str, ...] = ()
    """Names of the files that rows came from, without their ending; none where there was no file."""
    ends: tuple[int, ...] = ()
    """Number of rows up to the end of each file."""
    several: bool = False
    """Whether it was given as several files, each of which is an owner's."""
    _read: dict[str, Column] = field(default_factory=dict)

    def require(self, *names: str) -> None:
        """Refuse a table that lacks one of these columns."""
        for name in names:
            if name not in self.columns:
                headless = self.columns and all(is_number(column) for column in self.columns)
                remedy = "add a header line, which is missing" if headless else "name one of these"
                raise DataError(f"{self.name}: there is no column {name!r}, only {', '.join(self.columns)}; {remedy}")

    @property
    def rows(self) -> int:
        """Number of rows."""
        return len(self.column(self.columns[0]))

    @property
    def file_of_row(self) -> NDArray[np.int64]:
        """(rows,) number of the file that a row came from."""
        return np.repeat(np.arange(len(self.ends)), np.diff(self.ends, prepend=0))

    def read(self, name: str) -> Column:
        """Return a column that the table has, by what it holds; a slip in it is refused with its place."""
        if name not in self._read:
            found = self._open(name)
            try:
                self._read[name] = found.read(self.reading) if isinstance(found, Words) else found
            except SlipError as slip:
                assert isinstance(found, Words)
                self.refuse(int(np.argmax(found.which == slip.word)), name, str(slip))
        return self._read[name]

    def words(self, name: str) -> Column:
        """Return a column that the table has; what is text stays text, since it is compared with a list."""
        found = self._open(name, as_text=True)
        return found.plain(self.reading) if isinstance(found, Words) else found

    def _open(self, name: str, as_text: bool = False) -> Column | Words:
        column = self.column(name)
        return _of_array(column) if isinstance(column, np.ndarray) else _of_arrow(self, name, column, as_text)

    def refuse(self, row: int, column: str, fault: str) -> NoReturn:
        """Refuse a cell."""
        raise DataError(f"{self.name}, {self.row(row)}, column {column!r}: {fault}")

    def refuse_missing(
        self, name: str, column: Column, remedy: str = "fill it in, or leave that row or column out"
    ) -> None:
        """Refuse a column with missing values."""
        if column.missing.any():
            self.refuse(int(np.argmax(column.missing)), name, f"the value is missing; {remedy}")

    def refuse_strange(
        self,
        name: str,
        column: Column,
        known: tuple[str, ...],
        strange: Any,
        what: str,
        remedy: str = "add it there",
    ) -> None:
        """Refuse words that are not among those known."""
        if strange.any():
            row = int(np.argmax(strange))
            self.refuse(
                row, name, f"{column.shown(row)!r} is not among its {what} ({listed(known)}); mend it, or {remedy}"
            )

    def refuse_inexact(self, name: str, column: Column, remedy: str) -> None:
        """Refuse whole numbers that double precision would round."""
        inexact = column.inexact
        if inexact is None and column.kind == "number" and column.values.dtype.kind in "iu":
            beyond = (column.values > LARGEST_WHOLE) | (column.values < -LARGEST_WHOLE)
            inexact = beyond & ~column.missing
        if inexact is not None and inexact.any():
            row = int(np.argmax(inexact))
            self.refuse(
                row,
                name,
                f"{column.shown(row)} is beyond {LARGEST_WHOLE:.0f} (2^53), so that it would be rounded; {remedy}",
            )


def listed(words: Any) -> str:
    """Return the first few of some words."""
    shown = ", ".join(map(str, words[:5]))
    return f"{shown}, ..." if len(words) > 5 else shown


def _of_array(array: NDArray[Any]) -> Column | Words:
    if array.dtype.kind in "fiub":
        return Column("number", array, np.isnan(array) if array.dtype.kind == "f" else np.zeros(len(array), bool))
    if array.dtype.kind == "M":
        return Column("time", array.astype("datetime64[us]"), np.isnat(array))
    words, which = np.unique([str(each).strip() for each in array], return_inverse=True)
    return Words([str(word) for word in words], which)


def _of_arrow(source: Source, name: str, column: Any, as_text: bool) -> Column | Words:
    pyarrow, types = require("pyarrow", extra="data"), require("pyarrow.types", extra="data")
    kind, missing = column.type, np.asarray(column.is_null().to_numpy(), bool)
    if types.is_dictionary(kind):
        column, kind = column.cast(kind.value_type), kind.value_type
    if types.is_null(kind):
        return Column("number", np.zeros(len(column)), missing)
    if types.is_boolean(kind):
        return Column("number", np.asarray(column.fill_null(False).to_numpy(), bool), missing)
    if types.is_date(kind) or types.is_timestamp(kind):
        return _of_times(column, missing)
    if types.is_duration(kind):
        column = column.cast(pyarrow.duration("us"), safe=False).cast(pyarrow.int64()).cast(pyarrow.float64())
        kind = column.type
    if types.is_integer(kind) and not missing.any():
        return Column("number", np.asarray(column.to_numpy()), missing)
    if types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind):
        numbers = np.asarray(column.cast(pyarrow.float64(), safe=False).fill_null(np.nan).to_numpy(), np.float64)
        beyond = (np.abs(np.nan_to_num(numbers)) > LARGEST_WHOLE) if not types.is_floating(kind) else None
        return Column("number", numbers, np.isnan(numbers), None, beyond)
    return _of_text(source, name, column, as_text)


def _of_times(column: Any, missing: NDArray[np.bool_]) -> Column:
    pyarrow, compute = require("pyarrow", extra="data"), require("pyarrow.compute", extra="data")

    def plain(times: Any) -> NDArray[Any]:
        return np.asarray(times.cast(pyarrow.timestamp("us"), safe=False).to_numpy(), "datetime64[us]")

    local = plain(compute.local_timestamp(column)) if getattr(column.type, "tz", None) else None
    return Column("time", plain(column), missing, local)


def _of_text(source: Source, name: str, column: Any, as_text: bool) -> Column | Words:
    """Return a column of text by its words; one of numbers at once, if all are and none is compared with a list."""
    pyarrow, compute, types = (require(f"pyarrow{part}", extra="data") for part in ("", ".compute", ".types"))
    if not (types.is_string(column.type) or types.is_large_string(column.type) or types.is_string_view(column.type)):
        try:
            column = column.cast(pyarrow.large_string())
        except pyarrow.ArrowException:
            row = int(np.argmin(np.asarray(column.is_null().to_numpy(), bool)))
            source.refuse(
                row, name, f"a value of type {column.type}; expected numbers, words or times: write it as text"
            )
    words = compute.utf8_trim_whitespace(column.cast(pyarrow.large_string()).fill_null(""))
    fast = None if as_text else _numbers_at_once(words, source.reading)
    if fast is not None:
        return fast
    coded = words.combine_chunks().dictionary_encode()
    coded = coded.combine_chunks() if isinstance(coded, pyarrow.ChunkedArray) else coded
    return Words(coded.dictionary.to_pylist(), np.asarray(coded.indices.to_numpy(), np.int64))


def _numbers_at_once(words: Any, reading: Reading) -> Column | None:
    """Return text that is all numbers of a moderate size, or gaps; None: it has to be looked at word by word."""
    pyarrow, compute = require("pyarrow", extra="data"), require("pyarrow.compute", extra="data")
    if reading.decimal != "." or len(words) == 0:
        return None
    marks = pyarrow.array(sorted(MISSING_WORDS.union(reading.missing_marks or ())), words.type)
    gaps = compute.is_in(words, value_set=marks)
    try:
        numbers = compute.if_else(gaps, pyarrow.scalar(None, words.type), words).cast(pyarrow.float64())
    except pyarrow.ArrowInvalid:
        return None
    missing = np.asarray(gaps.to_numpy(), bool)
    values = np.asarray(numbers.fill_null(0.0).to_numpy(), np.float64)
    if missing.all() or (np.abs(values) >= LARGEST_WHOLE).any() or not np.isfinite(values).all():
        return None
    whole = not missing.any() and bool((values == np.floor(values)).all())
    if whole and compute.all(compute.match_substring_regex(words, r"^-?\d+$")).as_py():
        return Column("number", values.astype(np.int64), missing)
    return Column("number", values, missing)
