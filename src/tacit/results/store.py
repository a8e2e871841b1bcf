"""Run directories: what they hold, and how it is read back."""

from __future__ import annotations

import io
import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tacit.core.errors import ResultError
from tacit.core.extras import require
from tacit.models.files import MODEL
from tacit.results.pages.panels import PANELS
from tacit.results.plots import draw_all
from tacit.results.record import Record, Trace
from tacit.results.sealed import AGAIN, FILES, SUMMARY, Sealed, put, refuse_deep, seal, settled

if TYPE_CHECKING:
    from tacit.results.comparison import Comparison

CONFIG, TRACE, REPORT, CARD = "config.toml", "trace.parquet", "report.html", "model.html"
STALE = frozenset({CONFIG, TRACE, REPORT, MODEL, CARD, *(f"{name}.png" for name in PANELS)})
"""Files that do not outlive their summary, also where an older version wrote it."""
MOST_ROWS = 10**7
"""Of a trace that is read."""


def save(record: Record, directory: Path, command: str | None = None) -> Path:
    """Write the directory of one run, with its report, and with image files where matplotlib is installed."""
    from tacit.results.comparison import Comparison

    name = record.settings.get("run", {}).get("name") or record.label
    files = {**data_files(record, command), **shown_files(Comparison((record,), str(name)), command)}
    put(directory, seal(files, record.summary), stale=STALE)
    return directory


def save_data(record: Record, directory: Path, command: str | None = None) -> None:
    """Write the directory of a run without plots and report."""
    put(directory, seal(data_files(record, command), record.summary), stale=STALE)


def check_libraries() -> None:
    """Refuse to begin what could not be written at the end."""
    for module in ("tomli_w", "pyarrow"):
        require(module, "data", "a run's directory")


def load(directory: str | os.PathLike[str]) -> Record:
    """Read the directory of one run.

    Args:
      directory: Directory that `Run.save` or `tacit run` wrote; one that was changed since is refused.

    Returns:
      The record: settings, summary and trace, without models and data.

    Example:
      >>> import tempfile, tacit
      >>> ops = tacit.algorithms.online_push_sum(tacit.objectives.logistic(), step=0.3)
      >>> run = tacit.simulate(ops, tacit.graphs.directed_ring(4), tacit.streams.logistic_drift(4, 3), rounds=5)
      >>> with tempfile.TemporaryDirectory() as folder:
      ...     tacit.results.load(run.save(folder)).label
      'online_push_sum'
    """
    return settled(Path(directory), _only_record_of)


def _only_record_of(files: Sealed) -> Record:
    if "runs" in files.summary:
        raise ResultError(
            f"{files.folder} holds a comparison of several runs, expected one; name a folder in it, or read all "
            "of them with tacit.results.load_all"
        )
    return record_of(files)


def record_of(files: Sealed) -> Record:
    """Return the run of which these are the files."""
    from tacit.results import schema

    place = files.folder / SUMMARY
    summary = {key: value for key, value in files.summary.items() if key != FILES}
    schema.check(schema.RunSummary, summary, place)
    try:
        settings = tomllib.loads(files.file(CONFIG).decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise ResultError(f"{files.folder / CONFIG} cannot be read ({error}); {AGAIN}") from error
    refuse_deep(files.folder / CONFIG, settings)
    schema.check(schema.Settings, settings, files.folder / CONFIG)
    return Record(summary, settings, _read_trace(files, summary))


def shown_files(comparison: Comparison, command: str | None) -> dict[str, bytes]:
    """Return the report of runs, and their plots as images where matplotlib is installed."""
    from tacit.results.report import page

    images = {f"{name}.png": image for name, image in draw_all(comparison.records).items()}
    return {**images, REPORT: page(comparison, command).encode("utf-8")}


def data_files(record: Record, command: str | None = None) -> dict[str, bytes]:
    """Return what is kept of a run beside its summary: settings, figures, and the model with its card."""
    return {CONFIG: config_bytes(record.settings), TRACE: _trace_bytes(record.trace), **model_files(record, command)}


def model_files(record: Record, command: str | None) -> dict[str, bytes]:
    """Return a run's model and its card; none where there is none."""
    from tacit.models.files import model_bytes
    from tacit.results.pages.model_card import page

    if isinstance(record.model, str):
        return {}
    model = record.model.made_by(command)
    return {MODEL: model_bytes(model), CARD: page(model.card, MODEL).encode("utf-8")}


def config_bytes(settings: Mapping[str, Any]) -> bytes:
    """Return settings as TOML."""
    text: str = require("tomli_w", "data", "a run's directory").dumps(settings)
    return text.encode("utf-8")


def _trace_bytes(trace: Trace) -> bytes:
    pa = require("pyarrow", "data", "a run's directory")
    parquet = require("pyarrow.parquet", "data")
    repeats, points = trace.loss.shape
    columns: dict[str, Any] = {
        "round": np.tile(trace.rounds, repeats),
        "repeat": np.repeat(np.arange(repeats), points),
        "loss": trace.loss.ravel(),
        "average_loss": trace.average_loss.ravel(),
    }
    if trace.score is not None:
        columns["average_score"] = trace.score.ravel()
    columns |= {"consensus": trace.consensus.ravel(), "cumulative_bits": trace.bits.ravel()}
    if trace.judged is not None:
        columns["judged"] = trace.judged.ravel()
    sink = io.BytesIO()
    parquet.write_table(pa.table(columns), sink)
    return sink.getvalue()


COLUMNS = {
    "round": "int64",
    "repeat": "int64",
    "loss": "double",
    "average_loss": "double",
    "average_score": "double",
    "consensus": "double",
    "cumulative_bits": "int64",
    "judged": "double",
}
SOMETIMES = ("average_score", "judged")
"""Columns that not every trace has."""


def _read_trace(files: Sealed, summary: Mapping[str, Any]) -> Trace:
    path, content = files.folder / TRACE, files.file(TRACE)
    require("pyarrow", "data", "a run's directory")
    try:
        columns = _columns(content)
        repeats = summary["repeats"]
        shaped = {name: column.reshape(repeats, -1) for name, column in columns.items()}
        _check_rounds(shaped, summary)
        return Trace(
            rounds=shaped["round"][0],
            loss=shaped["loss"],
            average_loss=shaped["average_loss"],
            score=shaped.get("average_score"),
            consensus=shaped["consensus"],
            bits=shaped["cumulative_bits"],
            judged=shaped.get("judged"),
        )
    except Exception as error:  # a broken file makes its readers raise anything
        raise ResultError(f"{path} cannot be read as a trace ({error}); {AGAIN}") from error


def _columns(content: bytes) -> dict[str, NDArray[Any]]:
    import pyarrow as pa
    from pyarrow import parquet

    file = parquet.ParquetFile(pa.BufferReader(content))
    found = {field.name: str(field.type) for field in file.schema_arrow}
    expected = {name: kind for name, kind in COLUMNS.items() if name not in SOMETIMES or name in found}
    if found != expected:
        raise ValueError(f"columns {found}, expected {expected}")
    if file.metadata.num_rows > MOST_ROWS:
        raise ValueError(f"{file.metadata.num_rows:,} rows, expected at most {MOST_ROWS:,}")
    table = file.read(use_threads=False)
    empty = [name for name in table.column_names if table.column(name).null_count]
    if empty:
        raise ValueError(f"column {empty[0]} has empty places")
    return {name: table.column(name).to_numpy() for name in table.column_names}


def _check_rounds(shaped: Mapping[str, NDArray[Any]], summary: Mapping[str, Any]) -> None:
    """Check that there is a row for each recorded round and repeat, in order."""
    rounds, repeats = shaped["round"], shaped["repeat"]
    expected = np.broadcast_to(np.arange(len(repeats))[:, None], repeats.shape)
    ordered = (np.diff(rounds, axis=1, prepend=0) > 0).all() and rounds.max(initial=0) <= summary["rounds"]
    if not ordered or not (rounds == rounds[:1]).all() or not np.array_equal(repeats, expected):
        raise ValueError(
            f"its rows are not those of {summary['repeats']} repeats and {summary['rounds']} rounds, in order"
        )
    if (shaped["cumulative_bits"] < 0).any():
        raise ValueError("cumulative_bits below 0")
