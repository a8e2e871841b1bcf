"""Rows that are held out of a table: chosen at random, by owner or by time, and brought to the scale of the others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from tacit.core.checks import one_of, proportion
from tacit.core.errors import ConfigError, DataError
from tacit.streams.reading.columns import Encoded
from tacit.streams.reading.table import Table

HeldBy = Literal["row", "owner", "time"]
IN_WORDS: dict[HeldBy, str] = {
    "row": "of the rows, at random",
    "owner": "of the owners, at random, with all their rows",
    "time": "of each owner's rows, the last ones",
}


def held_out_rows(
    rows: int, share: float, by: HeldBy = "row", owner: NDArray[Any] | None = None, seed: int = 0
) -> NDArray[np.bool_]:
    """(rows,) which rows are held out.

    Args:
      rows: Number of rows.
      share: Of them, above 0 and below 1; at least one row is held out, and one is not.
      by: "row" at random; "owner": whole owners at random; "time": the last rows of each owner, in the order given.
      owner: Number of the owner of each row; None: all have one.
      seed: Of the choice.

    Example:
      >>> from tacit.streams import held_out_rows
      >>> held_out_rows(5, 0.4, by="time").tolist()
      [False, False, False, True, True]
    """
    proportion("share", share, "as 0.2")
    one_of("by", by, IN_WORDS)
    if by == "owner":
        if owner is None:
            raise ConfigError("by='owner', but rows have no owners: name the owner column, or say by='row'")
        return np.isin(owner, held_out_owners(int(np.max(owner)) + 1, share, seed))
    held = np.zeros(rows, bool)
    if by == "row":
        held[np.random.default_rng(seed).permutation(rows)[: _part(rows, share, "rows")]] = True
        return held
    for who in [None] if owner is None else np.unique(owner):
        own = np.arange(rows) if who is None else np.flatnonzero(np.asarray(owner) == who)
        if len(own) > 1:  # an owner's only row is learnt from
            held[own[len(own) - _part(len(own), share, "rows") :]] = True
    return held


def held_out_owners(owners: int, share: float, seed: int = 0) -> NDArray[np.int64]:
    """Numbers of the owners that are held out with all their rows; the others take part.

    Args:
      owners: Number of owners.
      share: Of them; at least one is held out, and one is not.
      seed: Of the choice.

    Example:
      >>> from tacit.streams.splits import held_out_owners
      >>> len(held_out_owners(10, 0.2))
      2
    """
    return np.sort(np.random.default_rng(seed).permutation(owners)[: _part(owners, share, "owners")])


def _part(count: int, share: float, what: str) -> int:
    if count < 2:
        raise DataError(f"{count} of {what}: expected at least 2, to hold some out and to learn from the others")
    return min(max(round(share * count), 1), count - 1)


def hold_out(table: Table, share: float = 0.2, by: HeldBy = "row", seed: int = 0) -> tuple[Table, Table]:
    """Split a table into rows to learn from and rows to judge by.

    Scale the first (`scaled`), and bring the second to the same scale (`scaled_like`): what is found in rows is then
    found in those that are learnt from. A word that only held-out rows have gets no column.

    Args:
      table: Result of `read_table`, not scaled yet.
      share: Of the rows that are held out.
      by: "row" at random; "owner": whole owners at random, who then do not take part; "time": the last of each owner's.
      seed: Of the choice.

    Returns:
      Rows to learn from, and held-out rows. Owners that do not take part are -1 in the second.

    Example:
      >>> import numpy as np, pathlib, tacit, tempfile
      >>> with tempfile.TemporaryDirectory() as folder:
      ...     file = pathlib.Path(folder) / "data.npz"
      ...     np.savez(file, age=[0, 2, 4, 3], sold=[0, 1, 0, 1])
      ...     table = tacit.streams.read_table(file, label="sold")
      >>> training, test = tacit.streams.hold_out(table, share=0.5, by="time")
      >>> training = tacit.streams.scaled(training)  # ages 0 and 2: mean 1, deviation 1
      >>> tacit.streams.scaled_like(test, training).x[:, 0].tolist()
      [3.0, 2.0]
    """
    held = held_out_rows(len(table.y), share, by, table.owner, seed)
    training, test = table.rows(~held), table.rows(held)
    if by == "owner" and table.owner is not None:
        staying = np.unique(table.owner[~held])
        number = np.full(int(table.owner.max()) + 1, -1)
        number[staying] = np.arange(len(staying))
        names = tuple(table.owners[k] for k in staying) if table.owners else ()
        training, test = (
            each._replace(
                owner=number[each.owner],
                owners=names,
                preprocessing=None if each.preprocessing is None else replace(each.preprocessing, owners=names),
            )
            for each in (training, test)
        )
    elif table.owner is not None and len(missing := np.setdiff1d(table.owner, table.owner[~held])):
        who = [table.owners[k] if table.owners else str(k) for k in missing]
        raise DataError(
            f"owner {who[0]!r} has no row left to learn from after {share:g} of all were held out at random; say "
            'by = "time", which leaves each owner some, or by = "owner"'
        )
    return _without_unseen_words(training, test)


def scaled_like(table: Table, training: Table) -> Table:
    """Table on the scale of another one: the same bounds, means and deviations, and the same column of ones.

    Args:
      table: Held-out rows of `hold_out`.
      training: The other rows, after `scaled`.
    """
    record = training.preprocessing
    if record is None:
        raise ConfigError("the rows to learn from have no record of how they were scaled: begin with read_table")
    if record.by_owner and table.owner is not None and table.owner.min(initial=0) < 0:
        raise ConfigError(
            "columns are scaled by each owner's own numbers, and held-out owners have none: say standardise = true, "
            "or hold out rows instead"
        )
    return table._replace(
        x=record.finish(_encoded(table), table.owner, None),
        columns=training.columns,
        marks=training.marks,
        absent=None,
        exact=None,
        preprocessing=record,
    )


def _encoded(table: Table) -> Encoded:
    x = table.x.astype(np.float64) if table.exact is None else table.exact
    return Encoded(x, np.zeros(x.shape, bool) if table.absent is None else table.absent)


def _without_unseen_words(training: Table, test: Table) -> tuple[Table, Table]:
    """Drop the columns of words that were found in held-out rows alone."""
    record = training.preprocessing
    found = [each.what for each in training.learnt if each.kind == "categories"]
    if record is None or not found:
        return training, test
    seen = np.abs(training.x).sum(axis=0) > 0
    inputs, kept, at = [], [], 0
    for each in record.inputs:
        count, words = len(each.columns), len(each.categories)
        learnt = each.kind == "word" and any(repr(each.name) in what for what in found)
        keep = [k >= words or not learnt or bool(seen[at + k]) for k in range(count)]
        inputs.append(
            replace(each, categories=tuple(w for w, here in zip(each.categories, keep, strict=False) if here))
        )
        kept += keep
        at += count
    if all(kept):
        return training, test
    record = replace(record, inputs=tuple(inputs))
    return _columns(training, kept, record), _columns(test, kept, record)


def _columns(table: Table, kept: Sequence[bool], record: Any) -> Table:
    chosen = np.array(kept)

    def some(values: Any) -> Any:
        return None if values is None else values[..., chosen]

    return table._replace(
        x=table.x[:, chosen],
        columns=record.columns,
        marks=some(table.marks),
        absent=some(table.absent),
        exact=some(table.exact),
        preprocessing=record,
    )
