"""Refusals of faulty data, each with the row, the column and a remedy.

Data are checked once, when a stream is made; a fault that would otherwise surface as a NaN model a thousand
rounds later is named where it stands.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.core.checks import one_of
from tacit.core.errors import DataError
from tacit.streams.batch import TASKS, Task

Assignment = Sequence[NDArray[Any]] | Sequence[Sequence[int]] | Sequence[int] | NDArray[Any]
"""Which rows are whose: one array of row indices per agent, or one agent id per row."""


@dataclass(frozen=True)
class Origin:
    """Where data came from, so that a refusal can point into it."""

    name: str = "the data"
    columns: tuple[str, ...] | None = None
    label: str = "y"
    row: Callable[[int], str] = "row {} (counted from 0)".format
    """From an index to how the row is called there."""

    def cell(self, row: int, column: tuple[int, ...] | str) -> str:
        """Name one cell; `column` is a position in x, or a name."""
        if not isinstance(column, str):
            first, *others = column
            if others:
                column = str(column)
            else:
                column = str(first) if self.columns is None else repr(self.columns[first])
        return f"{self.name}, {self.row(row)}, column {column}"


def check_features(x: Any, origin: Origin | None = None, exact: bool = False) -> NDArray[Any]:
    """Return features as float32 (rows, ...), or refuse what is missing, not finite or not a number.

    `exact`: as float64 where they come in a type that float32 would round.
    """
    origin = origin or Origin()
    given = np.asarray(x)
    if given.dtype.kind not in "fiub":
        raise DataError(
            f"{origin.name}: features of type {given.dtype} are not numbers; encode text as numbers (one-hot) first"
        )
    if given.ndim < 2:
        raise DataError(
            f"{origin.name}: features of shape {given.shape}; expected (rows, columns), so reshape one "
            "column by x[:, None]"
        )
    if 0 in given.shape:
        raise DataError(f"{origin.name}: features of shape {given.shape} hold nothing; expected rows and columns")
    with np.errstate(over="ignore"):  # what does not fit becomes inf, and is refused below with its place
        result = np.ascontiguousarray(given, np.float32)
    finite = np.isfinite(result)
    if not finite.all():
        row, *column = (int(i) for i in np.unravel_index(int(np.argmin(finite)), result.shape))
        _refuse_value(given[(row, *column)], origin.cell(row, tuple(column)))
    return np.ascontiguousarray(given, np.float64) if exact and _rounds(given) else result


def _rounds(given: NDArray[Any]) -> bool:
    """Whether float32 has no room for all numbers of the type."""
    return np.promote_types(given.dtype, np.float32) != np.float32


def check_labels(
    y: Any, rows: int, task: Task = "binary", origin: Origin | None = None, exact: bool = False
) -> NDArray[Any]:
    """Return labels (rows,): -1/+1 float32 (binary), 0..C-1 int32 (multiclass) or float32 (regression).

    Binary labels may be given as -1/+1 or as 0/1, which becomes -1/+1. `exact`: see `check_features`.
    """
    one_of("task", task, TASKS)
    origin = origin or Origin()
    given = np.asarray(y)
    if given.shape != (rows,):
        raise DataError(
            f"{origin.name}: labels of shape {given.shape} for {rows} rows; expected ({rows},), one label per row"
        )
    if given.dtype.kind not in "fiub":
        raise DataError(
            f"{origin.cell(0, origin.label)}: label {given[0]!r} of type {given.dtype} is not a number; "
            f"{_label_remedy(task)}"
        )
    if given.dtype.kind == "f" and not np.isfinite(given).all():
        row = int(np.argmin(np.isfinite(given)))
        _refuse_value(given[row], origin.cell(row, origin.label))
    if task == "binary":
        return _signs(given, origin)
    if task == "multiclass":
        bad = (given < 0) | (given != np.floor(given)) | (given > np.iinfo(np.int32).max)
        _refuse_labels(given, bad, "expected a class 0, 1, 2, ...", task, origin)
        return given.astype(np.int32)
    with np.errstate(over="ignore"):
        targets = given.astype(np.float32)
    if not np.isfinite(targets).all():
        row = int(np.argmin(np.isfinite(targets)))
        _refuse_value(given[row], origin.cell(row, origin.label))
    return given.astype(np.float64) if exact and _rounds(given) else targets


def check_assignment(assignment: Assignment, rows: int) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """Return row indices, agent after agent, and (agents + 1,) where each agent's begin.

    A row belongs to one agent at most: a guarantee for a record says nothing where two agents hold it.
    """
    if len(assignment) == 0:
        raise DataError("the assignment is empty; expected one array of row indices per agent, or an agent id per row")
    if np.ndim(assignment[0]) == 0:
        flat, sizes = _rows_by_id(np.asarray(assignment), rows)
    else:
        parts = [np.asarray(part) for part in assignment]
        for agent, part in enumerate(parts):
            if part.ndim != 1 or (part.size and part.dtype.kind not in "iu"):
                raise DataError(
                    f"assignment of agent {agent}: {part.dtype} of shape {part.shape}; "
                    "expected a one-dimensional array of row indices"
                )
        sizes = np.array([len(part) for part in parts], np.int64)
        flat = np.concatenate([part.astype(np.int64) for part in parts])
    agents = len(sizes)
    if rows < agents:
        raise DataError(f"{rows} samples for {agents} agents; expected at least one each: use fewer agents")
    starts = np.concatenate([[0], np.cumsum(sizes)])
    if (sizes == 0).any():
        raise DataError(
            f"agent {int(np.argmin(sizes))} has no samples; expected at least one for each of the {agents} "
            "agents: use fewer agents, or another partition"
        )
    outside = (flat < 0) | (flat >= rows)
    if outside.any():
        where = int(np.argmax(outside))
        agent = int(np.searchsorted(starts, where, side="right")) - 1
        raise DataError(f"assignment of agent {agent}: row {flat[where]}; expected rows 0 to {rows - 1}")
    count = np.bincount(flat, minlength=rows)
    if (count > 1).any():
        row = int(np.argmax(count > 1))
        holders = np.searchsorted(starts, np.flatnonzero(flat == row), side="right") - 1
        raise DataError(
            f"row {row} is assigned {count[row]} times (agents {', '.join(str(a) for a in holders)}); "
            "expected one holder per row: copy the row in x and y where two agents really have it"
        )
    return flat.astype(np.int32), starts.astype(np.int64)


def _rows_by_id(ids: NDArray[Any], rows: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    if ids.ndim != 1 or ids.dtype.kind not in "iu" or len(ids) != rows:
        raise DataError(
            f"assignment: {ids.dtype} of shape {ids.shape} for {rows} rows; expected one whole agent id per "
            "row, or a list of one array of row indices per agent"
        )
    if ids.min() < 0:
        row = int(np.argmax(ids < 0))
        raise DataError(f"assignment of row {row}: agent {ids[row]}; expected ids 0, 1, 2, ...")
    if ids.max() >= rows:
        raise DataError(
            f"{rows} samples for {int(ids.max()) + 1} agents (the largest id is {ids.max()}); expected at "
            "least one each: number the agents 0, 1, 2, ... without gaps"
        )
    return np.argsort(ids, kind="stable").astype(np.int64), np.bincount(ids).astype(np.int64)


def _signs(given: NDArray[Any], origin: Origin) -> NDArray[np.float32]:
    zero, minus = given == 0, given == -1
    _refuse_labels(given, ~(zero | minus | (given == 1)), "expected -1/+1 or 0/1", "binary", origin)
    if zero.any() and minus.any():
        later = max(int(np.argmax(zero)), int(np.argmax(minus)))
        raise DataError(
            f"{origin.cell(later, origin.label)}: label {given[later]!s}, but labels before it are of the "
            "other kind; expected -1/+1 or 0/1, not both: write one of them throughout"
        )
    return np.where(given == 1, np.float32(1), np.float32(-1))


def _refuse_labels(given: NDArray[Any], bad: NDArray[np.bool_], expected: str, task: Task, origin: Origin) -> None:
    if bad.any():
        row = int(np.argmax(bad))
        raise DataError(f"{origin.cell(row, origin.label)}: label {given[row]!s}; {expected}: {_label_remedy(task)}")


def _label_remedy(task: Task) -> str:
    others = " or ".join(f"task='{other}'" for other in TASKS if other != task)
    return f"map the labels, or say {others}"


def _refuse_value(value: Any, cell: str) -> None:
    fault = "is missing (NaN)" if np.isnan(value) else f"is {value}, which is not a finite 32-bit number"
    raise DataError(f"{cell}: the value {fault}; fill it in, or leave that row or column out")
