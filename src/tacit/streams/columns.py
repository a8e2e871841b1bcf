"""Columns of a file, whatever they hold, as columns of numbers.

Numbers, booleans and text that is all numbers stay one column. Other text becomes one column of 0 and 1 per category.
A column of times is no feature. Where a value is missing, the row is refused, or a column of 0 and 1 says so.

Categories, classes and columns with gaps are given, or learnt from all rows; `tacit.streams.learnt` says what that
means for a private run. What a column holds (numbers, words, times) follows from all rows too, but a record that would
change it is refused, or makes it a column of words.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, NoReturn

import numpy as np
from numpy.typing import NDArray

from tacit.core import limits
from tacit.core.errors import ConfigError, DataError
from tacit.streams.learnt import Learnt
from tacit.streams.validate import Task

Missing = Literal["refuse", "indicate"] | Sequence[str]
"""Treatment of gaps: refused; said by a further column wherever there are some; or in the columns listed."""
MOST_CATEGORIES = 50
"""A column with more words than this is more likely a name or a note than a category."""
MISSING_WORDS = frozenset({"", "#N/A", "N/A", "NA", "n/a", "NULL", "null", "NaN", "nan", "-NaN", "-nan"})
"""Words for a missing value in a column of text; in a column of numbers Arrow takes the same for one."""
LEAVE_OUT = "leave the column out by features=[...]"
VALUE_BYTES = 24
"""Of a value while a table is made: as it was read, in double and in single precision, and whether it was missing."""
COLUMN_BYTES = 1024
"""Of a column, however few rows it has: its name, and what is noted of it."""
LARGEST_WHOLE = 2.0**53
"""Above it not every whole number is one of double precision."""


def refuse_large(name: str, rows: int, count: int) -> None:
    """Refuse a table of so many rows and columns that the memory for it is above the limit."""
    wanted = rows * count * VALUE_BYTES + count * COLUMN_BYTES
    limits.refuse_beyond(wanted, f"{name}: {rows:,} rows of {count:,} columns", DataError)


class Column(NamedTuple):
    """One column of a file."""

    kind: Literal["number", "word", "time"]
    values: NDArray[Any]
    """Numbers, text or datetime64; anything where the value is missing."""
    missing: NDArray[np.bool_]


class Encoded(NamedTuple):
    """Columns of numbers that were made of one column of a file, or of several."""

    x: NDArray[np.float64]
    """(rows, columns); 0 where a value is missing."""
    names: tuple[str, ...]
    marks: NDArray[np.bool_]
    """(columns,) whether it holds 0 and 1 only, made of a category or of what is missing."""
    absent: NDArray[np.bool_]
    """(rows, columns) whether the number was missing."""
    learnt: tuple[Learnt, ...] = ()
    """Facts that the columns were made by, where learnt from all rows."""


@dataclass(frozen=True)
class Source:
    """The columns of an open file."""

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

    def read(self, name: str, remedy: str = LEAVE_OUT) -> Column:
        """Return a column that the file has; `remedy` is said of text among its numbers."""
        column = self.column(name)
        found = _of_array(column) if isinstance(column, np.ndarray) else _of_arrow(column)
        return self._parsed(name, found, remedy) if found.kind == "word" else found

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


def features(
    source: Source, names: Sequence[str], missing: Missing, categories: Mapping[str, Sequence[str]]
) -> Encoded:
    """Return the named columns as numbers, side by side."""
    if isinstance(missing, str) and missing not in ("refuse", "indicate"):
        raise ConfigError(f"missing={missing!r}: expected 'refuse', 'indicate' or a list of columns that may have gaps")
    for name in () if isinstance(missing, str) else missing:
        if name not in names:
            raise ConfigError(f"missing lists {name!r}, which is not among the features; remove it")
    for name in categories:
        if name not in names:
            raise ConfigError(f"categories of {name!r}, which is not among the features; remove them")
    parts = [_encoded(source, name, missing, categories.get(name)) for name in names]
    refuse_large(source.name, len(parts[0].x), sum(len(part.names) for part in parts))
    for name, part in zip(names, parts, strict=True):
        if len(part.x) != len(parts[0].x):
            raise DataError(
                f"{source.name}: column {name!r} has {len(part.x)} rows, but column {names[0]!r} has {len(parts[0].x)}"
            )
    gaps = Learnt("missing", "which columns have gaps", f'a list of all that may: missing = ["{names[0]}", ...]')
    return Encoded(
        np.concatenate([part.x for part in parts], axis=1),
        tuple(name for part in parts for name in part.names),
        np.concatenate([part.marks for part in parts]),
        np.concatenate([part.absent for part in parts], axis=1),
        (*(each for part in parts for each in part.learnt), *((gaps,) if missing == "indicate" else ())),
    )


class Labels(NamedTuple):
    """A label column."""

    values: NDArray[Any]
    """Numbers."""
    classes: tuple[str, ...] = ()
    """Where it is text: class k is the k-th of them."""
    learnt: tuple[Learnt, ...] = ()
    """Whether these were learnt from all rows."""


def labels(source: Source, name: str, task: Task, given: Sequence[str] | None = None) -> Labels:
    """Return the label column as numbers, by the classes that are given or else by those that it holds."""
    column = source.read(name, "map labels to 0/1 (or 0, 1, 2, ...)")
    source.refuse_missing(name, column, "fill it in, or leave that row out")
    if given is not None:
        return Labels(_class_numbers(source, name, column, task, given), tuple(map(str, given)))
    if column.kind == "number":
        return Labels(column.values)
    if column.kind == "time" or task == "regression":
        remedy = "name a label of numbers, or for classes use an objective such as logistic or softmax"
        source.refuse(0, name, f"{str(column.values[0])!r} is not a number, as a regression needs; {remedy}")
    classes, number = np.unique(column.values.astype(str), return_inverse=True)
    if task == "binary" and len(classes) != 2:
        raise DataError(
            f"{source.name}, column {name!r}: {len(classes)} different labels ({_listed(classes)}); expected two, or "
            "say task = 'multiclass' (with the objective softmax)"
        )
    learnt = Learnt("classes", f"the classes of label {name!r}", 'classes = ["...", "..."], in their order')
    return Labels(number, tuple(str(each) for each in classes), (learnt,))


def _class_numbers(source: Source, name: str, column: Column, task: Task, given: Sequence[str]) -> NDArray[np.int64]:
    known = np.array([str(each) for each in given])
    if task == "regression" or len(known) < 2 or (task == "binary" and len(known) != 2) or len(set(known)) < len(known):
        raise ConfigError(
            f"classes={list(given)!r} of label {name!r} with task {task!r}: expected two classes, each once, or for "
            "task 'multiclass' more; a regression has none"
        )
    words = _words(column)
    _refuse_strange(source, name, words, known, ~np.isin(words, known), "classes")
    return np.asarray((words[:, None] == known).argmax(axis=1))


def owners(source: Source, name: str) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    """Return the agent of each row, and the owner of agent 0, 1, ...: in order of number or alphabet."""
    raw = source.column(name)
    column = _of_array(raw) if isinstance(raw, np.ndarray) else _of_arrow(raw)
    source.refuse_missing(name, column)
    values = column.values.astype(str) if column.kind == "word" else column.values
    if column.kind == "number" and values.dtype.kind == "f":
        strange = (values != np.floor(values)) | (np.abs(values) >= LARGEST_WHOLE)
        if strange.any():
            row = int(np.argmax(strange))
            remedy = f"expected a whole number below {LARGEST_WHOLE:.0f}, or a name: write owners as text"
            source.refuse(row, name, f"{values[row]!s} is no owner; {remedy}")
        values = values.astype(np.int64)
    found, number = np.unique(values, return_inverse=True)
    return number.astype(np.int64), tuple(str(owner) for owner in found)


def time_order(source: Source, name: str) -> NDArray[np.int64]:
    """Return the order of the rows by a column of times or numbers; of equal ones, as in the file."""
    column = source.read(name)
    source.refuse_missing(name, column, "fill it in, or leave that row out")
    if column.kind == "word":
        source.refuse(
            0, name, f"{str(column.values[0])!r} is no time; write times as 2015-02-04 17:51:00, or as numbers"
        )
    return np.argsort(column.values, kind="stable")


def is_number(value: Any) -> bool:
    """Whether text in a data file is a number."""
    try:
        float(value)
    except (TypeError, ValueError):
        return False
    return "_" not in str(value)  # Python reads 1_000 as a number; in a data file it is a slip


def _encoded(source: Source, name: str, missing: Missing, categories: Sequence[str] | None) -> Encoded:
    column = source.read(name)
    listed = not isinstance(missing, str) and name in missing
    learnt: tuple[Learnt, ...] = ()
    if column.kind == "time":
        first = str(column.values[0].astype("datetime64[s]")).replace("T", " ")
        source.refuse(
            0, name, f"{first!r} is not a number but a time; leave it out, or order rows by it: time={name!r}"
        )
    if missing != "indicate" and not listed:
        remedy = f"fill it in, leave that row or column out, or say missing='indicate' or missing=[{name!r}]"
        source.refuse_missing(name, column, remedy)
    if len(column.values) and column.missing.all():
        source.refuse(0, name, "every value is missing; leave the column out")
    if column.kind == "number" and categories is None:
        names, values = [name], np.where(column.missing, 0, column.values)[:, None]
        absent = column.missing[:, None]
    else:
        if categories is None:
            remedy = f'categories = {{"{name}" = ["...", ...]}}'
            learnt = (Learnt("categories", f"the words of column {name!r}", remedy),)
        names, values = _one_hot(source, name, column, categories)
        absent = np.zeros(values.shape, bool)
    marks = np.full(len(names), column.kind == "word" or categories is not None)
    if listed or column.missing.any():
        names = [*names, f"{name} is missing"]
        values = np.concatenate([values, column.missing[:, None]], axis=1)
        absent = np.concatenate([absent, np.zeros((len(values), 1), bool)], axis=1)
        marks = np.append(marks, True)
    return Encoded(values.astype(np.float64), tuple(names), marks, absent, learnt)


def _one_hot(
    source: Source, name: str, column: Column, categories: Sequence[str] | None
) -> tuple[list[str], NDArray[np.bool_]]:
    there = ~column.missing
    words = _words(column)
    known = np.unique(words[there]) if categories is None else np.array([str(c) for c in categories])
    _refuse_strange(source, name, words, known, there & ~np.isin(words, known), "categories")
    if len(known) > MOST_CATEGORIES and categories is None:
        source.refuse(
            0,
            name,
            f"{str(words[0])!r} is one of {len(known):,} different words, more than {MOST_CATEGORIES}; leave the "
            "column out by features=[...], or list its categories",
        )
    refuse_large(f"{source.name}, column {name!r}", len(words), len(known))
    return [f"{name} = {word}" for word in known], words[:, None] == known


def _words(column: Column) -> NDArray[Any]:
    if column.kind == "word":
        return column.values.astype(str)
    return np.array([np.format_float_positional(float(value), trim="-") for value in column.values])


def _refuse_strange(
    source: Source, name: str, words: NDArray[Any], known: NDArray[Any], strange: NDArray[np.bool_], what: str
) -> None:
    if strange.any():
        row = int(np.argmax(strange))
        source.refuse(row, name, f"{str(words[row])!r} is not among its {what} ({_listed(known)}); add it")


def _listed(words: Sequence[Any] | NDArray[Any]) -> str:
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
    import pyarrow
    from pyarrow import types

    kind, missing = column.type, np.asarray(column.is_null().to_numpy(), bool)
    if types.is_null(kind):
        return Column("number", np.zeros(len(column)), missing)
    if types.is_temporal(kind) and not types.is_duration(kind) and not types.is_time(kind):
        return Column("time", np.asarray(column.cast(pyarrow.timestamp("us")).to_numpy()), missing)
    if types.is_boolean(kind) or types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind):
        if types.is_integer(kind) and not missing.any():
            return Column("number", np.asarray(column.to_numpy()), missing)
        numbers = np.asarray(column.cast(pyarrow.float64()).fill_null(np.nan).to_numpy(), np.float64)
        return Column("number", numbers, np.isnan(numbers))
    words = np.array(["" if value is None else str(value) for value in column.to_pylist()], object)
    return Column("word", words, np.array([word in MISSING_WORDS for word in words], bool))
