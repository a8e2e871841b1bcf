"""Columns of a table as columns of numbers: what each becomes is found once, and then done to any table.

Numbers, booleans and text that is all numbers stay one column. Other text becomes one column of 0 and 1 per category.
Of a time, hour, weekday and month become two columns each, if asked: sine and cosine of where the hand of a clock with
one turn a day, a week or a year would be, so that 23:00 is near 1:00. Where a value is missing, the row is refused, or
a column of 0 and 1 says so.

Categories and columns with gaps are given, or learnt from all rows; `tacit.streams.learnt` says what that means for a
private run. What a column holds (numbers, words, times) follows from all rows too, but a record that would change it is
refused, or makes it a column of words.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tacit.core.errors import ConfigError, DataError
from tacit.streams.learnt import Learnt
from tacit.streams.reading.options import NO_MORE
from tacit.streams.reading.source import Column, Source, refuse_large
from tacit.streams.reading.words import LARGEST_WHOLE, candidates

Missing = Literal["refuse", "indicate"] | Sequence[str]
"""Treatment of gaps: refused; said by a further column wherever there are some; or in the columns listed."""
Unknown = Literal["refuse", "ignore"]
"""Treatment of a word that is none of a column's categories: refused, or 0 in all of its columns."""
MOST_CATEGORIES = 50
"""A column with more words than this is more likely a name or a note than a category."""
TimePart = Literal["hour", "weekday", "month"]
TIME_PARTS: Mapping[str, Callable[[NDArray[Any]], NDArray[np.float64]]] = {
    "hour": lambda times: (times - times.astype("datetime64[D]")) / np.timedelta64(1, "D"),
    "weekday": lambda times: (times.astype("datetime64[D]").astype(np.int64) - 4) % 7 / 7,  # 5 January 1970: a Monday
    "month": lambda times: times.astype("datetime64[M]").astype(np.int64) % 12 / 12,
}
"""Part of a time -> how much of its turn is over, from 0 to 1."""
NO_NAME = "a column without a name in the header; name it, or leave it out by features=[...]"
NOT_FOUND: Mapping[str, Sequence[Any]] = {}


@dataclass(frozen=True)
class Input:
    """One column of a table, and the columns of x that it becomes."""

    name: str
    """In the table."""
    kind: Literal["number", "word", "time"]
    """Number: one column; word: one of 0 and 1 for each category; time: two for each part."""
    categories: tuple[str, ...] = ()
    """Words, in the order of their columns."""
    indicated: bool = False
    """Whether a last column of 0 and 1 says where the value is missing; otherwise a gap is refused."""
    parts: tuple[TimePart, ...] = ()
    """Parts of a time, in the order of their columns."""
    __pydantic_config__ = NO_MORE

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns of x."""
        own: tuple[str, ...] = (self.name,)
        if self.kind == "word":
            own = tuple(f"{self.name} = {word}" for word in self.categories)
        elif self.kind == "time":
            own = tuple(f"{self.name} {part} ({wave})" for part in self.parts for wave in ("sine", "cosine"))
        return (*own, f"{self.name} is missing") if self.indicated else own

    @property
    def marks(self) -> tuple[bool, ...]:
        """Whether each needs no scaling: it is 0 or 1, or a sine."""
        return tuple(self.kind != "number" or k > 0 for k in range(len(self.columns)))


class Encoded(NamedTuple):
    """Columns of numbers."""

    x: NDArray[np.float64]
    """(rows, columns); 0 where a value is missing."""
    absent: NDArray[np.bool_]
    """(rows, columns) whether the number was missing."""


def find_inputs(
    source: Source,
    names: Sequence[str],
    missing: Missing,
    categories: Mapping[str, Sequence[str]],
    times: Mapping[str, Sequence[TimePart]] = NOT_FOUND,
) -> tuple[tuple[Input, ...], tuple[Learnt, ...]]:
    """Return what becomes of the named columns, and the facts that were learnt from all rows for it."""
    if isinstance(missing, str) and missing not in ("refuse", "indicate"):
        raise ConfigError(f"missing={missing!r}: expected 'refuse', 'indicate' or a list of columns that may have gaps")
    for setting, given in (("missing", () if isinstance(missing, str) else missing), ("categories", categories)):
        for name in given:
            if name not in names:
                raise ConfigError(f"{setting} of {name!r}, which is not among the features; remove it")
    inputs = tuple(
        _time_input(source, name, missing, times[name])
        if name in times
        else _found(source, name, missing, categories.get(name))
        for name in names
    )
    learnt = [
        Learnt("categories", f"the words of column {each.name!r}", f'categories = {{"{each.name}" = ["...", ...]}}')
        for each in inputs
        if each.kind == "word" and each.name not in categories
    ]
    if missing == "indicate":
        remedy = f'a list of all that may: missing = ["{names[0]}", ...]'
        learnt.append(Learnt("missing", "which columns have gaps", remedy))
    return inputs, tuple(learnt)


def _indicated(source: Source, name: str, column: Column, missing: Missing) -> bool:
    """Return whether a column says where its gaps are; refuse gaps that it may not have."""
    listed = not isinstance(missing, str) and name in missing
    if missing != "indicate" and not listed:
        remedy = f"fill it in, leave that row or column out, or say missing='indicate' or missing=[{name!r}]"
        source.refuse_missing(name, column, remedy)
    if len(column.values) and column.missing.all():
        source.refuse(0, name, "every value is missing; leave the column out")
    return listed or bool(column.missing.any())


def _time_input(source: Source, name: str, missing: Missing, parts: Sequence[TimePart]) -> Input:
    unknown = [part for part in parts if part not in TIME_PARTS]
    if unknown or not parts or len(set(parts)) < len(parts):
        raise ConfigError(
            f"time_features of {name!r} are {list(parts)}: expected some of {', '.join(TIME_PARTS)}, each once"
        )
    column = source.read(name)
    return Input(name, "time", (), _indicated(source, name, column, missing), tuple(parts))


def _found(source: Source, name: str, missing: Missing, categories: Sequence[str] | None) -> Input:
    column = source.read(name) if categories is None else source.words(name)
    if name == "":
        source.refuse(0, name, NO_NAME)
    if column.kind == "time" and categories is None:
        row = int(np.argmin(column.missing))
        source.refuse(
            row,
            name,
            f"{column.shown(row)!r} is not a number but a time; leave it out, order rows by it (time = {name!r}), or "
            f'ask for parts of it: time_features = {{"{name}" = ["hour", "weekday", "month"]}}',
        )
    indicated = _indicated(source, name, column, missing)
    if categories is not None:
        if not categories or len(set(map(str, categories))) < len(categories):
            raise ConfigError(f"categories of {name!r} are {list(categories)}: expected words, each once")
        return Input(name, "word", tuple(str(word) for word in categories), indicated)
    if column.kind == "number":
        return Input(name, "number", (), indicated)
    return Input(name, "word", _categories(source, name, column), indicated)


def _categories(source: Source, name: str, column: Column) -> tuple[str, ...]:
    assert column.words is not None  # it is text
    different, which = column.words
    known = sorted(different[k] for k in set(which[~column.missing].tolist()))
    if len(known) > MOST_CATEGORIES:
        row = int(np.argmin(column.missing))
        source.refuse(
            row,
            name,
            f"{column.shown(row)[:60]!r} is one of {len(known):,} different words, more than {MOST_CATEGORIES}; leave "
            "the column out by features=[...], or list its categories",
        )
    return tuple(known)


def encoded(
    source: Source, inputs: Sequence[Input], unknown: Unknown = "refuse", remedy: str = "add it there"
) -> Encoded:
    """Return a table's columns as numbers, side by side; `remedy` is said of a word that is not known."""
    source.require(*(each.name for each in inputs))
    widths = [len(each.columns) for each in inputs]
    starts = np.concatenate([[0], np.cumsum(widths)])
    rows = len(source.column(inputs[0].name))
    refuse_large(source.name, rows, int(starts[-1]))
    x = np.zeros((rows, int(starts[-1])))
    absent = np.zeros(x.shape, bool)
    for each, start, width in zip(inputs, starts, widths, strict=False):
        column = source.words(each.name) if each.kind == "word" else source.read(each.name)
        if len(column.values) != rows:
            raise DataError(
                f"{source.name}: column {each.name!r} has {len(column.values)} rows, but column {inputs[0].name!r} "
                f"has {rows}"
            )
        if each.indicated:
            x[:, start + width - 1] = column.missing
        else:
            source.refuse_missing(each.name, column, "fill it in, or leave that row out")
        own = x[:, start : start + width - each.indicated]
        if each.kind == "number":
            own[:, 0] = _numbers(source, each.name, column)
            absent[:, start] = column.missing
        elif each.kind == "word":
            number = column.numbered(each.categories)
            there = ~column.missing
            if unknown == "refuse":
                source.refuse_strange(each.name, column, each.categories, there & (number < 0), "categories", remedy)
            rows_of = np.flatnonzero(there & (number >= 0))
            own[rows_of, number[rows_of]] = 1
        else:
            _waves(source, each, column, own)
    return Encoded(x, absent)


def _numbers(source: Source, name: str, column: Column) -> NDArray[Any]:
    if column.kind != "number":
        row = int(np.argmin(column.missing))
        source.refuse(row, name, f"{column.shown(row)!r} is not a number; mend it, or leave that row out")
    source.refuse_inexact(name, column, "if it is an identifier, leave the column out by features=[...]")
    return np.where(column.missing, 0, column.values)


def _waves(source: Source, each: Input, column: Column, into: NDArray[np.float64]) -> None:
    if column.kind != "time" and not column.missing.all():
        row = int(np.argmin(column.missing))
        source.refuse(
            row,
            each.name,
            f"{column.shown(row)!r} is no time; write times as 2015-02-04 17:51:00, or say their time_format",
        )
    rows = np.flatnonzero(~column.missing)
    times = (column.values if column.local is None else column.local)[rows]
    for k, part in enumerate(each.parts):
        angle = 2 * np.pi * TIME_PARTS[part](times)
        into[rows, 2 * k], into[rows, 2 * k + 1] = np.sin(angle), np.cos(angle)


def find_owners(source: Source, name: str) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    """Return the agent of each row, and the owner of agent 0, 1, ...: in order of number or alphabet."""
    source.require(name)
    column = source.read(name)
    source.refuse_missing(name, column)
    inexact = column.inexact is not None and column.values.dtype.kind == "f"
    if column.kind == "time" or inexact:
        column = source.words(name)  # as it is written; or more digits than numbers have
    if column.kind == "number" and column.values.dtype.kind == "f":
        values = column.values
        strange = (values != np.floor(values)) | (np.abs(values) >= LARGEST_WHOLE)
        if strange.any():
            row = int(np.argmax(strange))
            remedy = f"expected a whole number below {LARGEST_WHOLE:.0f}, or a name: write owners as text"
            source.refuse(row, name, f"{values[row]!s} is no owner; {remedy}")
        column = column._replace(values=values.astype(np.int64))
    different, which = column.distinct()
    order = sorted(range(len(different)), key=different.__getitem__)
    number = np.empty(len(order), np.int64)
    number[order] = np.arange(len(order))
    return number[which], tuple(candidates(different[k])[0] for k in order)


def time_order(source: Source, name: str) -> NDArray[np.int64]:
    """Return the order of the rows by a column of times or numbers; of equal ones, as in the file."""
    column = source.read(name)
    source.refuse_missing(name, column, "fill it in, or leave that row out")
    if column.kind == "word":
        source.refuse(
            0,
            name,
            f"{column.shown(0)!r} is no time; write times as 2015-02-04 17:51:00 or as numbers, or say their "
            "time_format",
        )
    if column.values.dtype.kind == "f":
        source.refuse_inexact(name, column, "write times as 2015-02-04 17:51:00")
    return np.argsort(column.values, kind="stable")
