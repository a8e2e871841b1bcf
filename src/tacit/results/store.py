"""Run directories: written whole or not at all, read back with errors that say what is wrong."""

from __future__ import annotations

import io
import json
import os
import tempfile
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from tacit.errors import ResultError
from tacit.privacy.spending import SUMMARY_KEYS as PRIVACY_KEYS
from tacit.results.plots import PANELS, Drawn, draw_all
from tacit.results.record import Record, Trace

SUMMARY, CONFIG, TRACE, REPORT = "summary.json", "config.toml", "trace.parquet", "report.html"
SUMMARY_KEYS = (
    "algorithm",
    "label",
    "metrics",
    "privacy",
    "versions",
    "seed",
    "rounds",
    "repeats",
    "agents",
    "diverged",
)


def save(record: Record, directory: Path, command: str | None = None) -> Path:
    """Write the directory of one run, plots and report included."""
    from tacit.results.report import page

    drawn = draw_all([record])
    report = page([record], drawn, command).encode("utf-8")
    put(directory, {**_data_files(record), **plot_files(drawn), REPORT: report})
    return directory


def save_data(record: Record, directory: Path) -> None:
    """Write the directory of a run whose plots and report are those of a comparison above it."""
    put(directory, _data_files(record))


def load(directory: str | os.PathLike[str]) -> Record:
    """Read the directory of one run."""
    folder = Path(directory)
    summary = read_summary(folder)
    missing = [key for key in SUMMARY_KEYS if key not in summary]
    if missing:
        raise ResultError(
            f"{folder / SUMMARY} has no {', '.join(missing)}; it was not written by "
            "`tacit run`, or was changed: run again"
        )
    privacy = summary["privacy"]
    unsaid = sorted(PRIVACY_KEYS - privacy.keys()) if isinstance(privacy, dict) else sorted(PRIVACY_KEYS)
    if unsaid:
        raise ResultError(
            f"{folder / SUMMARY} does not say what privacy was spent (no {', '.join(unsaid)}); it was "
            "written by an older tacit: run again, which its config.toml does"
        )
    try:
        settings = tomllib.loads((folder / CONFIG).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ResultError(f"{folder / CONFIG} cannot be read ({error}); run again into a new directory") from error
    return Record(summary, settings, _read_trace(folder / TRACE))


def read_summary(folder: Path) -> dict[str, Any]:
    """Read summary.json of a run or of a comparison."""
    path = folder / SUMMARY
    if not path.is_file():
        raise ResultError(
            f"{folder} is not a finished run: there is no {SUMMARY} in it; give a directory "
            "that `tacit run --out` wrote"
        )
    try:
        summary = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ResultError(f"{path} cannot be read ({error}); run again into a new directory") from error
    if not isinstance(summary, dict):
        raise ResultError(
            f"{path} holds a {type(summary).__name__}, expected an object; run again into a new directory"
        )
    return summary


def plot_files(drawn: Mapping[str, Drawn]) -> dict[str, bytes]:
    """Return plots by file name."""
    return {f"{name}.png": image.png for name, image in drawn.items()}


def _data_files(record: Record) -> dict[str, bytes]:
    return {
        CONFIG: config_bytes(record.settings),
        TRACE: _trace_bytes(record.trace),
        SUMMARY: json_bytes(record.summary),
    }


def json_bytes(content: Mapping[str, Any]) -> bytes:
    """Return JSON whose bytes depend on the content only."""
    return (json.dumps(content, indent=2, sort_keys=True, ensure_ascii=False, allow_nan=False) + "\n").encode("utf-8")


def config_bytes(settings: Mapping[str, Any]) -> bytes:
    """Return settings as TOML."""
    import tomli_w

    return tomli_w.dumps(settings).encode("utf-8")


def put(directory: Path, files: Mapping[str, bytes]) -> None:
    """Put files in place by renaming, the summary last and the old one gone first.

    So a directory that has a summary holds what belongs to it, whenever the process may have died.
    """
    fresh: dict[str, Path] = {}
    try:
        directory.mkdir(parents=True, exist_ok=True)
        for name, content in files.items():
            with tempfile.NamedTemporaryFile(dir=directory, prefix=".new-", delete=False) as file:
                fresh[name] = Path(file.name)
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            fresh[name].chmod(0o644)  # temporary files are for their owner's eyes only
        (directory / SUMMARY).unlink(missing_ok=True)
        for stale in {CONFIG, TRACE, REPORT, *(f"{name}.png" for name in PANELS)} - files.keys():
            (directory / stale).unlink(missing_ok=True)
        for name in sorted(files, key=lambda name: name == SUMMARY):
            fresh[name].replace(directory / name)
            del fresh[name]
    except OSError as error:
        raise ResultError(f"{directory} cannot be written ({error}); give another directory with --out") from error
    finally:
        for path in fresh.values():
            path.unlink(missing_ok=True)


def _trace_bytes(trace: Trace) -> bytes:
    import pyarrow as pa
    from pyarrow import parquet

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
    sink = io.BytesIO()
    parquet.write_table(pa.table(columns), sink)
    return sink.getvalue()


def _read_trace(path: Path) -> Trace:
    import pyarrow as pa
    from pyarrow import parquet

    try:
        table = parquet.read_table(path)
        columns = {name: table.column(name).to_numpy() for name in table.column_names}
        repeats = int(columns["repeat"].max(initial=-1)) + 1
        shaped = {name: column.reshape(max(1, repeats), -1) for name, column in columns.items()}
        return Trace(
            rounds=shaped["round"][0],
            loss=shaped["loss"],
            average_loss=shaped["average_loss"],
            score=shaped.get("average_score"),
            consensus=shaped["consensus"],
            bits=shaped["cumulative_bits"],
        )
    except (OSError, KeyError, ValueError, pa.ArrowException) as error:
        raise ResultError(f"{path} cannot be read as a trace ({error}); run again into a new directory") from error
