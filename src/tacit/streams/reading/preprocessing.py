"""Preprocessing: how columns of a table become rows of x, and labels y; found once, and then the same for any table.

Training and prediction go through the same code: `read_table` and `scaled` find the record and apply it, and a model
that carries it applies it to a table that it has never seen.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, TypeAdapter, ValidationError

from tacit.core.errors import ConfigError, DataError
from tacit.streams.batch import Task
from tacit.streams.dataset import with_bias
from tacit.streams.reading.columns import Encoded, Input, Unknown, encoded
from tacit.streams.reading.formats import open_source
from tacit.streams.reading.labels import class_numbers
from tacit.streams.reading.options import NO_MORE, PLAIN, Reading
from tacit.streams.reading.source import Source
from tacit.streams.validate import Origin, check_features

BIAS = "ones"
"""Name of the column that is 1 in every row."""
SMALLEST_NORM = 1e-15
REMEDY = 'leave that row out, or have it count as none of them: unknown="ignore" (tacit predict: --unknown ignore)'
Finite = Annotated[float, Field(allow_inf_nan=False)]


@dataclass(frozen=True)
class Scale:
    """Scaling of one column of x."""

    column: str
    """Its name."""
    by: Literal["bounds", "everyone", "owner"]
    """Bounds, which go to -1 ... 1; or mean and deviation, of all rows or of each owner's."""
    numbers: tuple[tuple[Finite, Finite], ...]
    """(low, high) or (mean, deviation); for "owner" one pair for each owner, in their order."""
    __pydantic_config__ = NO_MORE

    def scaled(self, values: NDArray[np.float64], owner: NDArray[np.int64] | None) -> NDArray[np.float64]:
        """Return the column (rows,) on its new scale; what was constant becomes 0."""
        which = np.zeros(len(values), np.int64) if self.by != "owner" or owner is None else owner
        first, second = np.array(self.numbers)[which].T
        if self.by == "bounds":
            return np.asarray(np.clip(2 * (values - first) / (second - first) - 1, -1, 1))
        return np.asarray((values - first) / np.where(second > 0, second, 1))


@dataclass(frozen=True)
class Preprocessing:
    """Record of how a table's columns become rows of x, and its labels y.

    `read_table` finds it (`Table.preprocessing`), `scaled` adds to it, and streams carry it (`Stream.preprocessing`).

    Example:
      >>> import numpy as np, pathlib, tacit, tempfile
      >>> with tempfile.TemporaryDirectory() as folder:
      ...     file = pathlib.Path(folder) / "data.npz"
      ...     np.savez(file, age=[20, 40, 60], ward=["a", "b", "a"], sold=["no", "yes", "no"])
      ...     table = tacit.streams.read_table(file, label="sold")
      ...     table = tacit.streams.scaled(table, bounds={"age": [0, 80]}, bias=True)
      ...     again = tacit.streams.Preprocessing.from_json(table.preprocessing.to_json())
      ...     again.apply(file).tolist(), again.labels(file).tolist()
      ([[-0.5, 1.0, 0.0, 1.0], [0.0, 0.0, 1.0, 1.0], [0.5, 1.0, 0.0, 1.0]], [-1.0, 1.0, -1.0])
      >>> again.columns
      ('age', 'ward = a', 'ward = b', 'ones')
    """

    inputs: tuple[Input, ...]
    """Columns of the table that are features, in their order."""
    label: str
    """Column of the labels."""
    task: Task
    """Kind of the labels."""
    classes: tuple[str, ...] = ()
    """Labels in the table of class 0, 1, ..., of two classes -1 and +1; none for a regression."""
    owner: str | None = None
    """Column that says whose row it is."""
    owners: tuple[str, ...] = ()
    """Owner of agent 0, 1, ..."""
    scales: tuple[Scale, ...] = ()
    """Columns of x that are scaled."""
    bias: bool = False
    """Whether a last column of ones is added."""
    unit: bool = False
    """Whether every row is brought to norm 1 in the end."""
    reading: Reading = PLAIN
    """How text was read: its encoding, separator, marks of decimals, gaps and times."""
    __pydantic_config__ = NO_MORE

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns of x."""
        return (*self.encoded_columns, BIAS) if self.bias else self.encoded_columns

    @property
    def encoded_columns(self) -> tuple[str, ...]:
        """Names of the columns before one of ones is added."""
        return tuple(name for each in self.inputs for name in each.columns)

    @property
    def marks(self) -> NDArray[np.bool_]:
        """(encoded columns,) which need no scaling: 0 and 1 of categories and gaps, and sines of times."""
        return np.array([mark for each in self.inputs for mark in each.marks], bool)

    @property
    def by_owner(self) -> bool:
        """Whether rows are scaled by numbers of their owner, so that its name is needed for each."""
        return any(scale.by == "owner" for scale in self.scales)

    def apply(self, data: Any, *, unknown: Unknown = "refuse", owner: str | None = None) -> NDArray[np.float32]:
        """Return the rows of a table as x, in the table's order.

        Columns are found by name, so that further ones (labels too) may be there or not, in any order. A gap in a
        column that had none is refused with its line.

        Args:
          data: What `read_table` takes; text is read as that of the table that was learnt from. To read it otherwise,
            open it: `tacit.streams.open_source`.
          unknown: Treatment of a word that is none of a column's categories: "refuse" names its line; "ignore" gives
            it 0 in all columns of these.
          owner: Whose rows these are, where columns are scaled by owner and the table has no owner column.
        """
        if unknown not in ("refuse", "ignore"):
            raise ConfigError(f"unknown={unknown!r}: expected 'refuse' or 'ignore'")
        source = open_source(data, self.reading)
        holder = self.holders(source, owner) if self.by_owner else None
        return self.finish(encoded(source, self.inputs, unknown, REMEDY), holder, source)

    def labels(self, data: Any) -> NDArray[Any]:
        """Return the labels of a table (rows,): -1/+1, 0, 1, 2, ... or numbers; a class that is not known is refused.

        Args:
          data: What `read_table` takes; text is read as that of the table that was learnt from. To read it otherwise,
            open it: `tacit.streams.open_source`.
        """
        return class_numbers(open_source(data, self.reading), self.label, self.task, self.classes)

    def holders(self, data: Any, owner: str | None = None) -> NDArray[np.int64]:
        """Return the agent of each row (rows,), by the owner column; an owner that is not known is refused.

        Args:
          data: What `read_table` takes; text is read as that of the table that was learnt from. To read it otherwise,
            open it: `tacit.streams.open_source`.
          owner: Whose rows all of these are, instead.
        """
        source = open_source(data, self.reading)
        if owner is not None:
            if owner not in self.owners:
                raise ConfigError(f"owner={owner!r}: expected one of {', '.join(self.owners)}")
            return np.full(source.rows, self.owners.index(owner))
        if self.owner is None and source.files:
            number = np.array([self.owners.index(file) if file in self.owners else -1 for file in source.files])
            if (number < 0).any():
                strange = source.files[int(np.argmin(number))]
                raise DataError(
                    f"{source.name}: file {strange!r} is none of the owners {', '.join(self.owners)}, by whose numbers "
                    "columns are scaled; say whose rows these are by owner=..."
                )
            return number[source.file_of_row]
        if self.owner is None or self.owner not in source.columns:
            named = "" if self.owner is None else f" {self.owner!r}"
            raise DataError(
                f"{source.name}: there is no owner column{named}, and columns are scaled by each owner's own numbers; "
                f"add it, or say whose rows these are: owner = one of {', '.join(self.owners)}"
            )
        column = source.words(self.owner)
        source.refuse_missing(self.owner, column)
        number = column.numbered(self.owners)
        source.refuse_strange(self.owner, column, self.owners, number < 0, "owners")
        return number

    def finish(self, given: Encoded, holder: NDArray[np.int64] | None, source: Source | None) -> NDArray[np.float32]:
        """Return encoded columns as x: scaled, in single precision, with ones and by norm where asked for.

        Args:
          given: Columns of numbers, and which were missing.
          holder: Agent of each row, where columns are scaled by owner.
          source: Table to name in a refusal.
        """
        x, names = given.x.copy() if self.scales else given.x, self.encoded_columns
        for scale in self.scales:
            column = names.index(scale.column)
            x[:, column] = np.where(given.absent[:, column], 0, scale.scaled(x[:, column], holder))
        origin = None if source is None else Origin(source.name, names, repr(self.label), source.row)
        rows = check_features(x, origin)
        rows = with_bias(rows) if self.bias else rows
        return unit_rows(rows) if self.unit else rows

    def to_json(self) -> dict[str, Any]:
        """Return the record as values of JSON; numbers keep all their digits."""
        found: dict[str, Any] = _RECORD.dump_python(self, mode="json")
        return found

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> Preprocessing:
        """Return the record that `to_json` wrote; anything else is refused.

        Args:
          data: Values of JSON.
        """
        try:
            made = _RECORD.validate_python(dict(data))
        except (ValidationError, TypeError, ValueError) as fault:
            raise DataError(f"not a record of preprocessing: {fault}; write the model anew") from fault
        names = made.encoded_columns
        pairs = {"owner": len(made.owners)}
        if (
            not names
            or len(set(names)) < len(names)
            or any(not each.columns for each in made.inputs)
            or any(each.column not in names or len(each.numbers) != pairs.get(each.by, 1) for each in made.scales)
            or any(each.by == "bounds" and not each.numbers[0][0] < each.numbers[0][1] for each in made.scales)
            or len({each.column for each in made.scales}) < len(made.scales)
        ):
            raise DataError("not a record of preprocessing: its columns, categories and scales do not fit each other")
        return made

    def with_scales(self, scales: tuple[Scale, ...], bias: bool, unit: bool) -> Preprocessing:
        """Return it with columns scaled, once.

        Args:
          scales: Scaling of columns of x.
          bias: Whether a last column of ones is added.
          unit: Whether every row is brought to norm 1 in the end.
        """
        if self.scales or self.bias or self.unit:
            raise ConfigError("the table is scaled already; scale it once, with all settings")
        return replace(self, scales=scales, bias=bias, unit=unit)


_RECORD = TypeAdapter(Preprocessing)


def unit_rows(x: NDArray[Any]) -> NDArray[Any]:
    """Return rows of norm 1; a row of zeros stays."""
    if x.ndim != 2:
        raise ConfigError("unit = true is for rows of numbers, not for images; leave it out")
    with np.errstate(over="ignore", under="ignore"):
        norm = np.linalg.norm(x, axis=1, keepdims=True)
    beyond = np.flatnonzero(~np.isfinite(norm) | (norm < SMALLEST_NORM))  # squares that single precision does not hold
    exact = np.linalg.norm(x[beyond].astype(np.float64), axis=1, keepdims=True)
    rows = x / np.where(norm > 0, norm, 1)
    rows[beyond] = x[beyond] / np.where(exact > 0, exact, 1)
    return np.asarray(rows)
