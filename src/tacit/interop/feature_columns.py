"""Features by name as a row of numbers of fixed length."""

from __future__ import annotations

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

    def __init__(self, features: Sequence[Hashable] | int) -> None:
        """Take the names, or their largest number."""
        self.open = isinstance(features, int)
        names: Sequence[Hashable] = [] if isinstance(features, int) else list(features)
        self.size = features if isinstance(features, int) else len(names)
        if self.size < 1 or len(set(names)) != len(names):
            raise ConfigError(f"features={features!r}: expected names, each once, or how many there may be")
        self.column: dict[Hashable, int] = {name: k for k, name in enumerate(names)}

    def row(self, x: Mapping[Any, Any], learn: bool) -> NDArray[np.float64]:
        """Return a sample as a row; a name that is new gets a column where the sample is learnt from."""
        row = np.zeros(self.size)
        for name, value in x.items():
            if value is None or (name not in self.column and not (learn and self.open)):
                continue
            number = _number(name, value)
            if number == number:  # noqa: PLR0124 - not NaN
                row[self._of(name)] = number
        return row

    def _of(self, name: Hashable) -> int:
        if name not in self.column:
            if len(self.column) == self.size:
                raise DataError(
                    f"feature {name!r} is one more than the {self.size} that there is room for; say features="
                    f"{2 * self.size} when you make the learner, or name those that count"
                )
            self.column[name] = len(self.column)
        return self.column[name]


def _number(name: Hashable, value: Any) -> float:
    if not isinstance(value, bool | int | float | np.bool_ | np.number):
        raise DataError(
            f"feature {name!r} is {value!r}; expected a number: encode it first (in river: OneHotEncoder() | learner)"
        )
    number = float(value)
    if abs(number) > LARGEST:
        raise DataError(f"feature {name!r} is {value!r}; expected a finite 32-bit number")
    return number
