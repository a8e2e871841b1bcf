"""Features by name as rows of numbers of fixed length."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.core.errors import ConfigError, DataError

LARGEST = float(np.finfo(np.float32).max)


class FeatureColumns:
    """Which feature is which column: named beforehand, or in the order in which they are first learnt from.

    A compiled program needs a row of fixed length. So `features` is either the names, and others are left aside, or how
    many there may be. A feature that a sample lacks (or that is None or NaN) is 0, as one that was never seen is.
    """

    def __init__(self, features: Sequence[Hashable] | int, ones: bool = True) -> None:
        """Take the names, or their largest number.

        Args:
          features: Names, each once, or how many there may be.
          ones: Whether rows end with a column of ones.
        """
        self.open = isinstance(features, int)
        names: Sequence[Hashable] = [] if isinstance(features, int) else list(features)
        self.size = features if isinstance(features, int) else len(names)
        if self.size < 1 or len(set(names)) != len(names):
            raise ConfigError(f"features={features!r}: expected names, each once, or how many there may be")
        self.column: dict[Hashable, int] = {name: k for k, name in enumerate(names)}
        self._blank = np.zeros(self.size + ones)
        self._blank[self.size :] = 1.0

    @property
    def width(self) -> int:
        """Numbers of a row."""
        return len(self._blank)

    def row(self, x: Mapping[Any, Any], learn: bool) -> NDArray[np.float64]:
        """Return a sample as a row; a name that is new gets a column where the sample is learnt from.

        Args:
          x: Feature -> number.
          learn: Whether the sample is learnt from.
        """
        row, column = self._blank.copy(), self.column
        new: dict[Hashable, float] = {}
        for name, value in x.items():
            place = column.get(name)
            if type(value) is float and -LARGEST <= value <= LARGEST:
                number = value
            elif value is None or (place is None and not (learn and self.open)):
                continue
            else:
                number = _number(name, value)
                if number != number:  # noqa: PLR0124 - NaN
                    continue
            if place is not None:
                row[place] = number
            elif learn and self.open:
                new[name] = number
        for name in self._given_columns(list(new)) if new else ():
            row[column[name]] = new[name]
        return row

    def rows(self, frame: Any, learn: bool) -> NDArray[np.float64]:
        """Return the rows of a table, column by column.

        Args:
          frame: A pandas DataFrame, one column per feature.
          learn: Whether the rows are learnt from.
        """
        if not hasattr(frame, "columns"):
            raise DataError(f"X is of type {type(frame).__name__}; expected a DataFrame with one column per feature")
        if len(set(frame.columns)) < len(frame.columns):
            raise DataError(f"X names a column twice: {', '.join(map(str, frame.columns))}; expected each name once")
        found = np.tile(self._blank, (len(frame), 1))
        new = {}
        for name in frame.columns:
            place = self.column.get(name)
            if place is None and not (learn and self.open):
                continue
            numbers = _numbers(name, frame[name])
            if place is not None:
                found[:, place] = numbers
            elif np.any(numbers != 0):
                new[name] = numbers
        for name in self._given_columns(list(new)):
            found[:, self.column[name]] = new[name]
        return found

    def _given_columns(self, new: list[Hashable]) -> list[Hashable]:
        """Give new names their columns, or refuse them all where there is no room.

        Those of one sample are sorted, so that the order in which it names them makes no difference, not to the bit.
        """
        new.sort(key=lambda name: (type(name).__name__, str(name)))
        used = len(self.column)
        if used + len(new) > self.size:
            raise DataError(
                f"feature {new[self.size - used]!r} is one more than the {self.size} that there is room for; say "
                f"features={2 * max(self.size, len(new))} when you make the learner, or name those that count"
            )
        for name in new:
            self.column[name] = len(self.column)
        return new


def _number(name: Hashable, value: Any) -> float:
    if not isinstance(value, bool | int | float | np.bool_ | np.number):
        raise DataError(
            f"feature {name!r} is {value!r}; expected a number: encode it first (in river: OneHotEncoder() | learner)"
        )
    number = _as_float(value)
    if abs(number) > LARGEST:
        raise DataError(f"feature {name!r} is {_shown(value)}; expected a finite 32-bit number")
    return number


def finite_label(y: Any) -> float:
    """Return the number that a sample is labelled with, or refuse what is none.

    Args:
      y: The label.
    """
    number = _as_float(y) if isinstance(y, bool | int | float | np.bool_ | np.number) else math.nan
    if not abs(number) <= LARGEST:
        raise DataError(f"y is {_shown(y)}; expected a finite 32-bit number: leave the sample out")
    return number


def _as_float(value: Any) -> float:
    try:
        return float(value)
    except OverflowError:  # a whole number that no float holds
        return math.inf


def _shown(value: Any) -> str:
    whole = isinstance(value, int) and abs(value) > LARGEST
    return f"a whole number of {value.bit_length():,} bits" if whole else repr(value)


def _numbers(name: Hashable, values: Any) -> NDArray[np.float64]:
    """Return a column as numbers; 0 where one is missing."""
    array = np.asarray(values)
    if array.dtype.kind not in "bifu":
        missing = np.asarray(values.isna()) if hasattr(values, "isna") else np.zeros(len(array), bool)
        array = np.array([np.nan if gone else _number(name, v) for v, gone in zip(values, missing, strict=True)])
    numbers = np.where(np.isnan(array.astype(np.float64)), 0.0, array.astype(np.float64))
    if len(numbers) and np.abs(numbers).max() > LARGEST:
        worst = int(np.abs(numbers).argmax())
        raise DataError(
            f"feature {name!r} is {numbers[worst]!r} in row {worst} (counted from 0); expected a finite 32-bit number"
        )
    return numbers
