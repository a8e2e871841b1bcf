"""Streams over a table out of a file."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from tacit.core.errors import ConfigError
from tacit.streams.arrays import from_arrays
from tacit.streams.files import Table
from tacit.streams.learnt import declared
from tacit.streams.stream import Stream
from tacit.streams.validate import Assignment


def from_table(
    table: Table, assignment: Assignment | None = None, *, public: Collection[str] = (), **settings: Any
) -> Stream:
    """Make a stream of a table, as `from_arrays` makes one of arrays, that remembers what was learnt from all rows.

    `table` is what `read_table` or `scaled` has returned. `assignment` says which rows are whose; without it the
    table's owner column does. `public` names the kinds of what was learnt that everybody may know: some of
    "categories", "classes", "missing", "scaling" and "rows". A private run rests on these and says so, and refuses
    others. `settings` are `batch`, `rounds`, `exhausted`, `shuffle_seed`, `name` and `description` of `from_arrays`.
    """
    owner = table.owner if assignment is None else assignment
    if owner is None:
        raise ConfigError("the table has no owner column: name one in read_table, or give an assignment")
    stream = from_arrays(table.x, table.y, owner, **{"task": table.task, **settings})
    stream.learnt = declared(table.learnt, public)
    return stream
