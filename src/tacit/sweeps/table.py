"""Table of a sweep: one Parquet file with a row per setting, rounds and seed.

It is written anew and renamed whenever settings are done, so that at any time the file holds whole settings. It names
the experiment that it belongs to: a sweep goes on only where that is the same.
"""

from __future__ import annotations

import io
import json
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from tacit.config.sections import leaves_of, toml_text
from tacit.core.errors import ResultError
from tacit.core.extras import require
from tacit.privacy.ledger.store import sync
from tacit.sweeps.settings import Setting, Sweep

TABLE = "table.parquet"
ABOUT = b"tacit.sweep"
"""Key of the file's metadata under which the experiment stands."""
DONE, REFUSED, FAILED = "done", "refused", "failed"
"""Outcomes: figures; a setting that cannot be run; one whose worker died or that met a fault, which is tried again."""
FACTS = ("setting", "seed", "rounds", "status", "error", "seconds")

Row = dict[str, Any]


class Rows:
    """Rows of a sweep, in memory and on the disk."""

    def __init__(self, sweep: Sweep, directory: Path) -> None:
        """Read what an earlier sweep of the same file has done."""
        self.sweep, self.path = sweep, directory / TABLE
        require("pyarrow", "data", "the table of a sweep")
        self._about = json.loads(json.dumps(sweep.document, default=str))
        self.rows: list[Row] = self._read() if self.path.exists() else []

    def of(self, setting: Setting, rounds: int) -> list[Row]:
        """Return the rows of a setting."""
        return [row for row in self.rows if (row["setting"], row["rounds"]) == (setting.number, rounds)]

    def lacks(self, setting: Setting, rounds: int) -> bool:
        """Whether a setting has to be run; one that failed has to be run again."""
        found = self.of(setting, rounds)
        return not found or any(row["status"] == FAILED for row in found)

    def add(self, outcomes: Iterable[tuple[Setting, int, Sequence[Row]]]) -> None:
        """Put settings in, and the table on the disk."""
        for setting, rounds, rows in outcomes:
            facts = {"setting": setting.number, "rounds": rounds, **{k: _cell(v) for k, v in setting.values.items()}}
            self.rows = [row for row in self.rows if (row["setting"], row["rounds"]) != (setting.number, rounds)]
            self.rows += [{**facts, **row} for row in rows]
        self.rows.sort(key=lambda row: (row["setting"], row["rounds"], row["seed"]))
        self._write()

    def _columns(self) -> list[str]:
        first = ["setting", *self.sweep.keys, "seed", "rounds"]
        figures = dict.fromkeys(name for row in self.rows for name in row if name not in (*first, *FACTS))
        return [*first, *figures, "seconds", "status", "error"]

    def _write(self) -> None:
        pa, parquet = require("pyarrow", "data"), require("pyarrow.parquet", "data")
        columns = {name: _column([row.get(name) for row in self.rows]) for name in self._columns()}
        table = pa.table(columns).replace_schema_metadata({ABOUT: json.dumps(self._about).encode()})
        sink = io.BytesIO()
        parquet.write_table(table, sink)
        replace(self.path, sink.getvalue())

    def _read(self) -> list[Row]:
        parquet = require("pyarrow.parquet", "data")
        try:
            table = parquet.read_table(self.path)
            about = json.loads((table.schema.metadata or {})[ABOUT])
            rows: list[Row] = table.to_pylist()
            if not isinstance(about, dict) or not set(FACTS) <= set(table.column_names):
                raise ValueError("its columns are those of another table")
        except (OSError, ValueError, KeyError, require("pyarrow", "data").ArrowException) as error:
            raise ResultError(
                f"{self.path}: no table of a sweep ({error}); name another directory with --out"
            ) from error
        before, now = leaves_of(about), leaves_of(self._about)
        differing = sorted(key for key in before.keys() | now.keys() if before.get(key) != now.get(key))
        if differing:
            words = "; ".join(
                f"{key} = {toml_text(before[key]) if key in before else 'absent'} there, "
                f"{toml_text(now[key]) if key in now else 'absent'} now"
                for key in differing
            )
            raise ResultError(f"{self.path} is of another sweep: {words}; name another directory with --out")
        return rows


def _cell(value: Any) -> Any:
    return value if isinstance(value, bool | int | float | str) else json.dumps(value, default=str)


def _column(values: list[Any]) -> list[Any]:
    """Return values that have one type: numbers, or text."""
    kinds = {type(value) for value in values if value is not None}
    if len(kinds) <= 1:
        return values
    if kinds == {int, float}:
        return [None if value is None else float(value) for value in values]
    return [None if value is None else value if isinstance(value, str) else toml_text(value) for value in values]


def replace(path: Path, content: bytes) -> None:
    """Write a file beside the old one, then rename it."""
    fresh = path.with_name(f"{path.name}.new")
    with fresh.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    fresh.replace(path)
    sync(path.parent)
