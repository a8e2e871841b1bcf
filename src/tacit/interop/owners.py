"""Owners of rows, in the forms that tables come in; and streams in which each owner reads its rows several times."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import numpy as np
from numpy.typing import NDArray

from tacit import streams
from tacit.core.contract import Tree
from tacit.interop.weights import FitError, WeightedBatch
from tacit.streams import Stream
from tacit.streams.batch import Task
from tacit.streams.learnt import Learnt

__all__ = ["FitError", "Owners", "checked_owners", "in_passes", "owners_of", "without_owners"]


class Owners(NamedTuple):
    """Whose each row is."""

    values: NDArray[Any]
    column: str | None
    """The column of the table that says so; None where it was given besides."""


def owners_of(table: Any, owner: Any) -> Owners | None:
    """Return whose each row of a table is: `owner` is an array, a Series, or the name of a column; None: not said."""
    if owner is None:
        return None
    if not isinstance(owner, str):
        return Owners(np.asarray(owner), None)
    columns = getattr(table, "columns", None)
    if columns is None or owner not in columns:
        known = f"only {', '.join(map(str, columns))}" if columns is not None else "since X is no DataFrame"
        raise FitError(f"there is no column {owner!r}, {known}; name the column, or give an array of one owner per row")
    return Owners(np.asarray(table[owner]), owner)


def without_owners(table: Any, owners: Owners | None) -> Any:
    """Return the table without the column that says whose rows they are."""
    return table if owners is None or owners.column is None else table.drop(columns=owners.column)


def checked_owners(owners: Owners | None, rows: int) -> NDArray[Any] | None:
    """Return one owner per row, or refuse what is not."""
    if owners is None:
        return None
    if owners.values.shape != (rows,):
        raise FitError(f"owners of shape {owners.values.shape} for {rows} rows; expected one owner per row")
    missing = np.array([value is None or str(value) in ("nan", "NaT", "<NA>") for value in owners.values.tolist()])
    if missing.any():
        raise FitError(f"row {int(np.argmax(missing))} (counted from 0) has no owner; fill it in, or leave it out")
    return owners.values


def in_passes(
    x: NDArray[np.float32],
    y: NDArray[Any],
    agent: NDArray[np.int64],
    task: Task,
    seed: int,
    note: str = "",
    learnt: tuple[Learnt, ...] = (),
    batch: int = 1,
    importance: NDArray[np.float64] | None = None,
    agents: int | None = None,
) -> Stream:
    """Make a stream that repeats a pass in which every agent reads each of its rows once.

    A pass lasts as long as the agent with most rows needs; whose are used up has empty rounds until the next one. So a
    row is read once per pass, however unequal the agents are, and `reads` says so to the privacy account.

    Args:
      x: Rows of numbers.
      y: Their labels.
      agent: Number of the agent of each row.
      task: What the labels are.
      seed: Seed of the order in which rows are read.
      note: End of the description.
      learnt: What was learnt from all rows.
      batch: Rows that are read in a round.
      importance: Weight of each row; None: batches have none.
      agents: Number of agents, some of which may have no row; None: as many as have one.
    """
    absent = np.setdiff1d(np.arange(agents or 0), agent)  # they get a row that never counts
    columns = x if importance is None else np.concatenate([x, importance[:, None]], axis=1).astype(np.float32)
    filler = np.zeros((len(absent), columns.shape[1]), np.float32)
    once = streams.from_arrays(
        np.concatenate([columns, filler]),
        np.concatenate([y, np.repeat(y[:1], len(absent))]),
        np.concatenate([agent, absent]),
        exhausted="mask",
        shuffle_seed=seed,
        task=task,
        batch=batch,
    )
    length = int(once.rounds or 0)

    def rounds(start: int, stop: int) -> Tree:
        pieces = []
        while start < stop:
            first = start % length
            count = min(length - first, stop - start)
            pieces.append(once.chunk(first, first + count))
            start += count
        whole = jax.tree.map(lambda *leaves: np.concatenate(leaves), *pieces) if len(pieces) != 1 else pieces[0]
        if len(absent):
            whole.y[:, absent] = 0
            whole.weight[:, absent] = 0
        if importance is None:
            return whole
        return WeightedBatch(whole.x[..., :-1], whole.y, whole.weight, whole.x[..., -1])

    stream = streams.from_function(
        rounds,
        agents=once.agents,
        period=length,
        data_size=once.data_size,
        name="rows",
        description=f"{len(x):,} rows of {once.agents} owners, each row read once in a pass of {length:,} rounds{note}",
    )
    stream.learnt = learnt
    return stream
