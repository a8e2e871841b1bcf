"""Execution of a sweep: what its table lacks is run, rung by rung where settings are halved."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from tacit.config.sections import toml_text
from tacit.metrics.intervals import Interval, mean_interval
from tacit.results.live.log import LiveLog, block
from tacit.results.locks import writing
from tacit.results.record import with_interval
from tacit.sweeps.page import page
from tacit.sweeps.settings import Setting, Sweep
from tacit.sweeps.table import DONE, FAILED, TABLE, Rows, replace
from tacit.sweeps.work import tasks_of, work
from tacit.sweeps.workers import Lost, check_place, in_parallel, worker_count

REPORT = "report.html"


class Standing(NamedTuple):
    """One setting of a finished sweep."""

    setting: Setting
    rounds: int
    """That it was run for."""
    figure: Interval | None
    """The sweep's metric over the seeds; None where it was not run, or is not finite."""
    error: str = ""
    """Why it could not be run."""


class SweepResult(NamedTuple):
    """Outcome of a sweep."""

    sweep: Sweep
    directory: Path
    standings: list[Standing]
    """Best first; of halving those that came farthest, and settings without a figure at the end."""
    ran: int
    """Settings that were run now, rung by rung; the others were in the table."""
    failed: list[Standing]
    """Those that are tried again when the sweep is run again."""

    @property
    def table(self) -> Path:
        """The Parquet file."""
        return self.directory / TABLE

    @property
    def report(self) -> Path:
        """The page with the plots."""
        return self.directory / REPORT


def run_sweep(
    sweep: Sweep,
    directory: Path,
    *,
    on: str = "pool",
    workers: int | None = None,
    told: Callable[[int, int], object] = lambda done, total: None,
    tick: Callable[[], object] = lambda: None,
) -> SweepResult:
    """Run what the table of a sweep lacks, and write the table and a page.

    Args:
      sweep: A checked sweep, of `load_sweep`.
      directory: Where its table is, or will be; it is locked all the while.
      on: Who runs it: "pool", "ray" or "ray://HOST".
      workers: How many; None: one per usable core, at most eight.
      told: Hears how many settings of a rung are in the table, and of how many.
      tick: Called every now and then.

    Returns:
      The settings, best first. Whatever ends it early, the table holds what was done, and the next call goes on.
    """
    check_place(on)
    with writing(directory), LiveLog(directory) as log:
        rows = Rows(sweep, directory)
        ran = 0
        left = list(sweep.each)
        rungs: Sequence[int | None] = sweep.rungs() if sweep.settings.kind == "halving" else [None]
        progress = _Progress(log, sweep, len(rungs))
        for number, rounds in enumerate(rungs):
            ran += _fill(rows, left, rounds, on, workers, told, tick, progress)
            progress.before = progress.done
            if number + 1 < len(rungs):
                left = _best(rows, left, rounds)
        standings = sorted(_farthest(rows, sweep, rungs), key=lambda each: _rank(each, sweep))
        if sweep.settings.kind == "halving":
            standings.sort(key=lambda each: -each.rounds)
        again = {row["setting"] for row in rows.rows if row["status"] == FAILED}
        failed = [each for each in standings if each.setting.number in again]
        result = SweepResult(sweep, directory, standings, ran, failed)
        replace(result.report, page(sweep, rows.rows, table_rows(result)).encode())
        log.end("done", progress.done)
    return result


class _Progress:
    """Tells of a sweep in its live file: settings stand for rounds, and the best figure so far is the curve."""

    def __init__(self, log: LiveLog, sweep: Sweep, rungs: int) -> None:
        settings, eta = len(sweep.each), sweep.settings.eta
        total = sum(math.ceil(settings / eta**rung) for rung in range(rungs))
        config = sweep.each[0].config
        facts = {"algorithm": config.algorithms[0].kind, "repeats": len(sweep.seeds), "rounds": total}
        log.begin(sweep.file.stem, "sweep", {**facts, "score": sweep.metric}, sweep.document)
        self._log, self._sweep, self._begun, self.done = log, sweep, time.monotonic(), 0
        self.before = 0
        """Settings of earlier rungs."""
        self._figure = "loss" if sweep.minimise else "accuracy"

    def at(self, done: int, rows: Rows) -> None:
        """Take how many settings of a rung are done."""
        done += self.before
        values = [row.get(self._sweep.metric) for row in rows.rows if row["status"] == DONE]
        finite = [value for value in values if value is not None and math.isfinite(value)]
        best = (min if self._sweep.minimise else max)(finite, default=math.nan)
        seconds, more = time.monotonic() - self._begun, done - self.done
        self.done = done
        curve = block(np.array([done]), {"best": np.array([[best]])})
        self._log.rows(done, [curve] if finite else [], {self._figure: best}, more / seconds if seconds > 0 else None)


def _best(rows: Rows, settings: Sequence[Setting], rounds: int | None) -> list[Setting]:
    """Return those settings that go on to the next rung."""
    ranked = sorted((_standing(rows, setting, rounds) for setting in settings), key=lambda s: _rank(s, rows.sweep))
    count = math.ceil(len(settings) / rows.sweep.settings.eta)
    return sorted((each.setting for each in ranked[:count]), key=lambda setting: setting.number)


def _fill(
    rows: Rows,
    settings: Sequence[Setting],
    rounds: int | None,
    on: str,
    workers: int | None,
    told: Callable[[int, int], object],
    tick: Callable[[], object],
    progress: _Progress,
) -> int:
    """Run those settings that the table lacks, and return how many they were."""
    missing = [each for each in settings if rows.lacks(each, rounds or each.config.run.rounds)]
    planned = tasks_of(missing, rounds, worker_count(workers)) if missing else []
    done = len(settings) - len(missing)
    told(done, len(settings))
    progress.at(done, rows)
    for ended in in_parallel(work, [task for _, task in planned], on, workers, tick=tick):
        part, result = planned[ended.task][0], ended.result
        if isinstance(result, Lost):
            lost = [{"seed": s, "status": FAILED, "error": result.reason, "seconds": None} for s in rows.sweep.seeds]
            found = [lost] * len(part)
        else:
            found = result
        rows.add((s, rounds or s.config.run.rounds, own) for s, own in zip(part, found, strict=True))
        done += len(part)
        told(done, len(settings))
        progress.at(done, rows)
    return len(missing)


def _standing(rows: Rows, setting: Setting, rounds: int | None) -> Standing:
    rounds = rounds or setting.config.run.rounds
    own = rows.of(setting, rounds)
    values = [row.get(rows.sweep.metric) for row in own if row["status"] == DONE]
    error = next((str(row["error"]) for row in own if row["error"]), "")
    if not values or any(value is None or not math.isfinite(value) for value in values):
        none = f"no finite {rows.sweep.metric}" if values else "not run"
        return Standing(setting, rounds, None, error or none)
    return Standing(setting, rounds, mean_interval(np.array(values, np.float64)))


def _farthest(rows: Rows, sweep: Sweep, rungs: Sequence[int | None]) -> list[Standing]:
    """Return each setting after the longest of its runs."""
    known = {(row["setting"], row["rounds"]) for row in rows.rows}
    found = []
    for setting in sweep.each:
        there = [r for r in rungs if (setting.number, r or setting.config.run.rounds) in known]
        found.append(_standing(rows, setting, there[-1] if there else rungs[0]))
    return found


def _rank(standing: Standing, sweep: Sweep) -> tuple[bool, float, int]:
    mean = math.inf if standing.figure is None else standing.figure.mean * (1 if sweep.minimise else -1)
    return standing.figure is None, mean, standing.setting.number


def table_rows(result: SweepResult) -> tuple[list[str], list[list[str]]]:
    """Return the columns of a sweep's table of settings, best first, and its rows.

    Args:
      result: A finished sweep.
    """
    sweep = result.sweep
    halved = sweep.settings.kind == "halving"
    columns = [*sweep.keys, *(["rounds"] if halved else []), sweep.metric]
    lines = []
    for standing in result.standings:
        figure = standing.figure
        if figure is None:
            shown = standing.error.partition("\n")[0]
        else:
            high = figure.high if math.isfinite(figure.high) else None
            shown = with_interval({"mean": figure.mean, "high": high})
        keys = [_short(standing.setting.values[key]) for key in sweep.keys]
        lines.append([*keys, *([f"{standing.rounds:,}"] if halved else []), shown])
    return columns, lines


def _short(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else toml_text(value)
