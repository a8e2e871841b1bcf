"""Streams over a table out of a file."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from tacit.errors import ConfigError
from tacit.streams.arrays import from_arrays
from tacit.streams.files import Table
from tacit.streams.learnt import declared
from tacit.streams.stream import Stream
from tacit.streams.validate import Assignment


def from_table(
    table: Table, assignment: Assignment | None = None, *, public: Collection[str] = (), **settings: Any
) -> Stream:
    """Make a stream of a table, as `from_arrays` makes one of arrays, that remembers what was learnt from all rows.

    Args:
      table: What `read_table` or `scaled` has returned.
      assignment: Which rows are whose; without it, as the table's owner column says.
      public: Kinds of what was learnt that are known to everybody anyway, so that a private run may rest on them and
        says so: some of "categories", "classes", "missing", "scaling", "rows". Others are refused by a private run.
      settings: `batch`, `rounds`, `exhausted`, `shuffle_seed`, `name` and `description` of `from_arrays`.

    Returns:
      A stream for `tacit.simulate`.
    """
    owner = table.owner if assignment is None else assignment
    if owner is None:
        raise ConfigError("the table has no owner column: name one in read_table, or give an assignment")
    stream = from_arrays(table.x, table.y, owner, **{"task": table.task, **settings})
    stream.learnt = declared(table.learnt, public)
    return stream
