"""One run in full: settings, summary, warnings, and what else can be asked of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tacit.board.curves import CURVES, Curves, curves_of
from tacit.board.ledger_view import stores_of
from tacit.board.live_reader import LiveRecord, text
from tacit.board.runs import Found, Runs
from tacit.config.sections import leaves_of
from tacit.core.errors import ConfigError, TacitError
from tacit.results.sealed import FILES, Sealed
from tacit.results.store import load

MOST_COMPARED = 50
FIGURES = ("loss", "accuracy", "regret", "consensus", "bits", "epsilon")
SHOWN = 10_000
"""Letters of one setting."""


def detail(runs: Runs, run: Found) -> dict[str, Any]:
    """Return what there is to be told of a run.

    Args:
      runs: All runs.
      run: One of them.
    """
    live = runs.record(run)
    summary, settings, warnings = None, _told(live, "settings", {}), []
    score = text(_told(live, "score", "")) or None
    privacy = {"words": text(_told(live, "privacy", ""))}
    if run.fault:
        warnings.append(run.fault)
    if run.sealed is not None and run.kind == "study":
        summary = {key: value for key, value in Sealed.read(run.sealed).summary.items() if key != FILES}
    elif run.sealed is not None and run.fault is None:
        try:
            record = load(run.sealed)
        except TacitError as error:
            warnings.append(str(error))
        else:
            summary, settings, privacy = record.summary, record.settings, record.summary["privacy"]
            score = summary.get("score_name")
            warnings += [words for words in (record.divergence,) if words is not None]
    if run.state == "stopped" and run.sealed is None:
        warnings.append(f"It stopped after {run.done:,} rounds, before its results were written.")
    elif run.state == "stopped":
        warnings.append(f"It was interrupted after {run.done:,} of its rounds.")
    curves = curves_of(runs, run)["curves"] if run.fault is None or run.sealed is None else {}
    return {
        **run.as_json(),
        "settings": settings,
        "summary": summary,
        "privacy": privacy,
        "warnings": warnings,
        "curves": [name for name in CURVES if name in curves],
        "has_graph": live is not None and live.network is not None,
        "has_ledger": run.private
        and (run.kind == "run" or (_told(live, "booked", False) and bool(stores_of(run.live)))),
        "score_name": score,
    }


def settings_of(runs: Runs, run: Found) -> dict[str, Any]:
    """Return a run's settings, as they stand in its directory or in its live file.

    Args:
      runs: All runs.
      run: One of them.
    """
    if run.sealed is not None and run.kind == "run" and run.fault is None:
        return load(run.sealed).settings
    found: dict[str, Any] = _told(runs.record(run), "settings", {})
    return found


def compared(runs: Runs, chosen: Sequence[Found]) -> dict[str, Any]:
    """Return the settings in which runs differ, and their figures side by side.

    Args:
      runs: All runs.
      chosen: Some of them.
    """
    if len(chosen) > MOST_COMPARED:
        raise ConfigError(f"{len(chosen)} runs; at most {MOST_COMPARED} are put side by side")
    tables = [leaves_of(settings_of(runs, run)) for run in chosen]
    facts = ("algorithm", "agents", "rounds", "repeats")
    tables = [{**{name: getattr(run, name) for name in facts}, **t} for run, t in zip(chosen, tables, strict=True)]
    keys = sorted({key for table in tables for key in table}, key=lambda key: (key not in facts, key))
    rows = [{"key": key, "values": [_shown(table.get(key)) for table in tables]} for key in keys]
    return {
        "settings": [row for row in rows if len({repr(value) for value in row["values"]}) > 1],
        "figures": [{"name": name, "values": [run.figures.get(name) for run in chosen]} for name in FIGURES],
    }


def table(curves: Curves) -> str:
    """Return curves as CSV: a row for each round and curve.

    Args:
      curves: Of one run.
    """
    lines = ["round,curve,mean,low,high"]
    for name, curve in curves["curves"].items():
        for k, at in enumerate(curves["rounds"]):
            values = [None if curve[end] is None else curve[end][k] for end in ("mean", "low", "high")]
            if values[0] is not None:
                lines.append(",".join([str(at), name, *("" if value is None else repr(value) for value in values)]))
    return "\n".join(lines) + "\n"


def _told(live: LiveRecord | None, name: str, default: Any) -> Any:
    found = default if live is None else live.header.get(name, default)
    return found if isinstance(found, type(default)) else default


def _shown(value: Any) -> Any:
    return value if value is None or isinstance(value, bool | int | float) else str(value)[:SHOWN]
