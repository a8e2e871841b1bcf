"""A first look at a table: its label, its owners, the columns to learn from, and the task that follows."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tacit.cli.scaffolds.files import toml
from tacit.cli.scaffolds.reading import find_reading, settings_of
from tacit.config.wording import in_toml
from tacit.core.errors import ConfigError, DataError
from tacit.streams import read_table
from tacit.streams.batch import Task
from tacit.streams.reading.columns import MOST_CATEGORIES
from tacit.streams.reading.source import Column, Source

LABELS = ("label", "target", "y", "class", "outcome")
"""Names that a label has where none is named; otherwise it is the last column."""
OWNERS = ("owner", "site", "hospital", "clinic", "client", "user", "device", "station", "store", "shop", "branch")
"""Names that an owner column has where none is named; otherwise there is none."""
MOST_CLASSES = 20
"""Whole numbers with more values than this are a quantity."""
MADE_UP_OWNERS = 5
"""Agents among whom the rows of a table without owners are shared out."""


@dataclass(frozen=True)
class Look:
    """Findings about a table."""

    path: Path
    source: Source
    """The open table."""
    label: str
    owner: str | None
    """None: rows have no owner, or each of several files is one's."""
    task: Task
    classes: int
    """Of a multiclass task; 0 of any other."""
    features: tuple[str, ...]
    left_out: tuple[str, ...]
    """Columns that are not features, and why."""
    gaps: bool
    """Whether values of the features are missing."""
    times: tuple[str, ...]
    """Columns of times."""
    rows: int
    agents: int
    largest: int
    """Rows of the largest owner."""
    width: int
    """Numbers that a row becomes."""
    guessed: tuple[str, ...]
    """Choices that nobody made, in words."""

    @property
    def owned(self) -> bool:
        """Whether the table says whose a row is."""
        return self.owner is not None or self.source.several


def look_at(path: Path, label: str | None = None, owner: str | None = None, owned: bool = True) -> Look:
    """Look at a table; what is not named is guessed, and said to be so.

    A table that is not `owned` has the rows of one owner.
    """
    source = find_reading(path)
    settings = settings_of(source.reading)
    guessed = [f"{key} = {toml(value)}, found in the file (it is in the .toml)" for key, value in settings.items()]
    if label is None:
        label = _guess(source, LABELS) or next((name for name in reversed(source.columns) if name != owner), "")
        guessed.append(f"label {label!r} (--label names another column)")
    if owner is None and owned and not source.several:
        owner = _guess(source, OWNERS, but=label)
        if owner is not None:
            guessed.append(f"owner {owner!r} (--owner names another column)")
    source.require(label, *([] if owner is None else [owner]))
    task, classes = _task(source, label)
    features, left_out, gaps, times = _features(source, {label, *([] if owner is None else [owner])})
    if not features:
        raise DataError(f"{path}: no column to learn from: {'; '.join(left_out) or 'there are no others'}; add one")
    table = read_table(source, label, features, task, owner, missing="indicate")
    rows = len(table.y)
    agents = len(table.owners) or min(MADE_UP_OWNERS, rows)
    if agents < 2 and owned:
        raise ConfigError(
            f"{path}: {'rows' if owner is None else f'owners in column {owner!r}'}: {agents}, and learning together "
            "takes two; name another --owner, or give more rows"
        )
    sizes = [-(-rows // agents)] if table.owner is None else np.bincount(table.owner)
    return Look(
        path, source, label, owner, task, classes, features, left_out, gaps, times, rows, agents, int(max(sizes)),
        table.x.shape[1], tuple(guessed),
    )  # fmt: skip


def _guess(source: Source, names: tuple[str, ...], but: str | None = None) -> str | None:
    found = {column.strip().lower(): column for column in source.columns if column != but}
    return next((found[name] for name in names if name in found), None)


def _task(source: Source, label: str) -> tuple[Task, int]:
    column = source.read(label)
    values = column.values[~column.missing]
    kinds = len(np.unique(values.astype(str)))
    if kinds < 2:
        raise DataError(f"{source.name}, column {label!r}: all values are the same; name another label by --label")
    if column.kind == "time":
        raise DataError(f"{source.name}, column {label!r}: times cannot be a label; name another one by --label")
    if column.kind == "number" and (kinds > MOST_CLASSES or not _whole(values)):
        return "regression", 0
    if kinds > MOST_CATEGORIES:
        raise DataError(
            f"{source.name}, column {label!r}: {kinds:,} different words are no classes; name another label by --label"
        )
    return ("binary", 0) if kinds == 2 else ("multiclass", kinds)


def _features(source: Source, taken: set[str]) -> tuple[tuple[str, ...], tuple[str, ...], bool, tuple[str, ...]]:
    kept, left_out, times, gaps = [], [], [], False
    for name in source.features:
        if name in taken:
            continue
        try:
            column = source.read(name)
        except DataError as fault:
            left_out.append(in_toml(str(fault)))
            continue
        why = _why_not(name, column)
        if why is not None:
            left_out.append(f"{name!r} ({why})")
            times += [name] if column.kind == "time" else []
            continue
        kept.append(name)
        gaps |= bool(column.missing.any())
    return tuple(kept), tuple(left_out), gaps, tuple(times)


def _why_not(name: str, column: Column) -> str | None:
    values = column.values[~column.missing]
    if len(values) == 0:
        return "no value in any row"
    if column.kind == "time":
        return "times"
    kinds = len(np.unique(values.astype(str) if column.kind == "word" else values))
    if kinds == 1:
        return "the same value in every row"
    if column.kind == "word":
        return f"{kinds:,} different words" if kinds > MOST_CATEGORIES else None
    numbered = name.strip().lower() in ("", "id", "index", "unnamed: 0", "row") or name.lower().endswith("_id")
    return "a number of its own for every row" if numbered and _whole(values) and kinds == len(values) else None


def _whole(values: Any) -> bool:
    return bool(np.all(np.asarray(values, np.float64) == np.floor(np.asarray(values, np.float64))))
