"""Columns of a table as columns of numbers: what each becomes is found once, and then done to any table.

Numbers, booleans and text that is all numbers stay one column. Other text becomes one column of 0 and 1 per category.
A column of times is no feature. Where a value is missing, the row is refused, or a column of 0 and 1 says so.

Categories and columns with gaps are given, or learnt from all rows; `tacit.streams.learnt` says what that means for a
private run. What a column holds (numbers, words, times) follows from all rows too, but a record that would change it is
refused, or makes it a column of words.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tacit.core.errors import ConfigError, DataError
from tacit.streams.learnt import Learnt
from tacit.streams.reading.source import Column, Source, refuse_large

Missing = Literal["refuse", "indicate"] | Sequence[str]
"""Treatment of gaps: refused; said by a further column wherever there are some; or in the columns listed."""
Unknown = Literal["refuse", "ignore"]
"""Treatment of a word that is none of a column's categories: refused, or 0 in all of its columns."""
MOST_CATEGORIES = 50
"""A column with more words than this is more likely a name or a note than a category."""
LARGEST_WHOLE = 2.0**53
"""Above it not every whole number is one of double precision."""


@dataclass(frozen=True)
class Input:
    """One column of a table, and the columns of x that it becomes."""

    name: str
    """In the table."""
    kind: Literal["number", "word"]
    """Number: one column; word: one of 0 and 1 for each category."""
    categories: tuple[str, ...] = ()
    """Words, in the order of their columns."""
    indicated: bool = False
    """Whether a last column of 0 and 1 says where the value is missing; otherwise a gap is refused."""

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns of x."""
        own = (self.name,) if self.kind == "number" else tuple(f"{self.name} = {word}" for word in self.categories)
        return (*own, f"{self.name} is missing") if self.indicated else own

    @property
    def marks(self) -> tuple[bool, ...]:
        """Whether each holds 0 and 1 only, made of a category or of what is missing."""
        return tuple(self.kind == "word" or k > 0 for k in range(len(self.columns)))


class Encoded(NamedTuple):
    """Columns of numbers."""

    x: NDArray[np.float64]
    """(rows, columns); 0 where a value is missing."""
    absent: NDArray[np.bool_]
    """(rows, columns) whether the number was missing."""


def find_inputs(
    source: Source, names: Sequence[str], missing: Missing, categories: Mapping[str, Sequence[str]]
) -> tuple[tuple[Input, ...], tuple[Learnt, ...]]:
    """Return what becomes of the named columns, and the facts that were learnt from all rows for it."""
    if isinstance(missing, str) and missing not in ("refuse", "indicate"):
        raise ConfigError(f"missing={missing!r}: expected 'refuse', 'indicate' or a list of columns that may have gaps")
    for name in () if isinstance(missing, str) else missing:
        if name not in names:
            raise ConfigError(f"missing lists {name!r}, which is not among the features; remove it")
    for name in categories:
        if name not in names:
            raise ConfigError(f"categories of {name!r}, which is not among the features; remove them")
    inputs = tuple(_found(source, name, missing, categories.get(name)) for name in names)
    learnt = [
        Learnt("categories", f"the words of column {each.name!r}", f'categories = {{"{each.name}" = ["...", ...]}}')
        for each in inputs
        if each.kind == "word" and each.name not in categories
    ]
    if missing == "indicate":
        remedy = f'a list of all that may: missing = ["{names[0]}", ...]'
        learnt.append(Learnt("missing", "which columns have gaps", remedy))
    return inputs, tuple(learnt)


def _found(source: Source, name: str, missing: Missing, categories: Sequence[str] | None) -> Input:
    column = source.read(name)
    listed = not isinstance(missing, str) and name in missing
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
    indicated = listed or bool(column.missing.any())
    if categories is not None:
        return Input(name, "word", tuple(str(word) for word in categories), indicated)
    if column.kind == "number":
        return Input(name, "number", (), indicated)
    return Input(name, "word", _categories(source, name, column), indicated)


def _categories(source: Source, name: str, column: Column) -> tuple[str, ...]:
    words = column.values.astype(str)
    known = np.unique(words[~column.missing])
    if len(known) > MOST_CATEGORIES:
        source.refuse(
            0,
            name,
            f"{str(words[0])!r} is one of {len(known):,} different words, more than {MOST_CATEGORIES}; leave the "
            "column out by features=[...], or list its categories",
        )
    return tuple(str(word) for word in known)


def encoded(source: Source, inputs: Sequence[Input], unknown: Unknown = "refuse") -> Encoded:
    """Return a table's columns as numbers, side by side."""
    source.require(*(each.name for each in inputs))
    widths = [len(each.columns) for each in inputs]
    starts = np.concatenate([[0], np.cumsum(widths)])
    rows = len(source.read(inputs[0].name).values)
    refuse_large(source.name, rows, int(starts[-1]))
    x = np.zeros((rows, int(starts[-1])))
    absent = np.zeros(x.shape, bool)
    for each, start, width in zip(inputs, starts, widths, strict=False):
        column = source.read(each.name)
        if len(column.values) != rows:
            raise DataError(
                f"{source.name}: column {each.name!r} has {len(column.values)} rows, but column {inputs[0].name!r} "
                f"has {rows}"
            )
        if each.indicated:
            x[:, start + width - 1] = column.missing
        else:
            source.refuse_missing(each.name, column, "fill it in, or leave that row out")
        if each.kind == "number":
            x[:, start] = _numbers(source, each.name, column)
            absent[:, start] = column.missing
        else:
            _one_hot(source, each, column, unknown, x[:, start : start + len(each.categories)])
    return Encoded(x, absent)


def _numbers(source: Source, name: str, column: Column) -> NDArray[Any]:
    if column.kind != "number" and not column.missing.all():
        row = int(np.argmin(column.missing))
        source.refuse(row, name, f"{str(column.values[row])!r} is not a number; mend it, or leave that row out")
    if column.kind != "number":
        return np.zeros(len(column.values))
    return np.where(column.missing, 0, column.values)


def _one_hot(source: Source, each: Input, column: Column, unknown: Unknown, into: NDArray[np.float64]) -> None:
    number = column.numbered(each.categories)
    there = ~column.missing
    if unknown == "refuse":
        source.refuse_strange(each.name, column, each.categories, there & (number < 0), "categories")
    rows = np.flatnonzero(there & (number >= 0))
    into[rows, number[rows]] = 1


def find_owners(source: Source, name: str) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    """Return the agent of each row, and the owner of agent 0, 1, ...: in order of number or alphabet."""
    source.require(name)
    column = source.raw(name)
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
