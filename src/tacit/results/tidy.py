"""A run as one long table: a row for each figure of a round, as data frames and plotting libraries like it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tacit.core.errors import ResultError
from tacit.core.extras import require

if TYPE_CHECKING:
    from tacit.results.run import Run


def table(run: Run) -> Any:
    """Return a pyarrow table: algorithm, repeat, round, metric, agent, value.

    All of `per_round`, and of `recorded` what is one number per repeat or one per agent; `agent` is null where the
    figure is about all of them. Rounds are counted from 1.
    """
    pa = require("pyarrow", "data", "a run as a table")
    per_round = {name: (np.arange(1, run.rounds + 1), values) for name, values in run.per_round.items()}
    recorded = {name: (run.recorded_rounds, values) for name, values in run.recorded.items()}
    label = run.label or run.algorithm
    parts = [
        _part(pa, label, name, np.asarray(rounds), np.asarray(values))
        for name, (rounds, values) in (*per_round.items(), *recorded.items())
        if np.ndim(values) == 2 or (np.ndim(values) == 3 and np.shape(values)[2] == run.agents)
    ]
    return pa.concat_tables(parts)


def _part(pa: Any, label: str, name: str, rounds: np.ndarray, values: np.ndarray) -> Any:
    repeats, points = values.shape[:2]
    each = values[:, :, None] if values.ndim == 2 else values
    agents = each.shape[2]
    repeat, at, agent = np.indices((repeats, points, agents)).reshape(3, -1)
    rows = len(agent)
    return pa.table(
        {
            "algorithm": pa.DictionaryArray.from_arrays(pa.array(np.zeros(rows, np.int32)), [label]),
            "repeat": pa.array(repeat, pa.int64()),
            "round": pa.array(rounds[at], pa.int64()),
            "metric": pa.DictionaryArray.from_arrays(pa.array(np.zeros(rows, np.int32)), [name]),
            "agent": pa.array(agent, pa.int64(), mask=np.full(rows, values.ndim == 2)),
            "value": pa.array(each.reshape(-1).astype(np.float64)),
        }
    )


def to_pandas(run: Run) -> Any:
    """Return the table as a pandas DataFrame."""
    require("pandas", "data", "to_pandas")  # pyarrow makes the frame with it
    return table(run).unify_dictionaries().to_pandas()


def to_parquet(run: Run, path: Path) -> Path:
    """Write the table as a Parquet file."""
    parquet = require("pyarrow.parquet", "data", "to_parquet")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        parquet.write_table(table(run).unify_dictionaries(), path)
    except OSError as error:
        raise ResultError(f"{path} cannot be written ({error}); give another path") from error
    return path
