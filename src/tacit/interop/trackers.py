"""Runs as curves in TensorBoard and MLflow: while they go on, just made, or read back from their directories."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from tacit.core.errors import ConfigError, ResultError, TacitError
from tacit.core.extras import require
from tacit.interop.event_files import Point, append_events, write_events
from tacit.results import Record, Run
from tacit.results.live import Part
from tacit.results.live.running import RunningAverages

EVENT_FILE = "events.out.tfevents.0.tacit"
"""TensorBoard looks for `tfevents` in a name; a fixed one, so that a run logged again replaces what was there."""
LARGEST_BATCH = 1000
"""Of figures that MLflow takes at once."""
SHARE = 0.05
"""Of a run's time that may go into sending its curves: a slow server gets them less often, and all at the end."""


class Sink(Protocol):
    """Where the curves of one repeat go."""

    def add(self, points: Sequence[Point]) -> None:
        """Send points."""

    def end(self, privacy: str | None) -> None:
        """Say that it was all, with what was promised; None: the run failed."""


Open = Callable[[str, int, Mapping[str, Any], str], Sink]
"""Makes a sink of a run's label, the number of its repeat, its settings, and what it promises."""


def log_to_tensorboard(run: Run | Record, directory: str | os.PathLike[str]) -> Path:
    """Write a run's curves for TensorBoard: a folder for each repeat, below one with the run's label.

    The curves are those of the trace (`run.record()`), at its recorded rounds. TensorBoard need not be installed.

    Args:
      run: A run, or the record of one.
      directory: Log directory of TensorBoard; made if it is not there.

    Returns:
      The folder of the run.
    """
    record = run.record() if isinstance(run, Run) else run
    for repeat, points in enumerate(_points(record)):
        EventFolder(directory, record.label, repeat).add(points)
    return _folder(directory, record.label)


def log_to_mlflow(run: Run | Record, tracking_uri: str | None = None, experiment: str = "tacit") -> list[str]:
    """Log a run to MLflow: settings, curves and the privacy that was spent; needs the extra `mlflow`.

    Args:
      run: A run, or the record of one.
      tracking_uri: Address of MLflow; None: its own, as MLFLOW_TRACKING_URI says.
      experiment: Name of the experiment there; made if it is not there.

    Returns:
      The id of each repeat's MLflow run.
    """
    record = run.record() if isinstance(run, Run) else run
    words, logged = str(record.summary["privacy"]["words"]), []
    for repeat, points in enumerate(_points(record)):
        sink = MlflowRun(tracking_uri, experiment, record.label, repeat, record.settings, words)
        sink.add(points)
        sink.end(words)
        logged.append(sink.id)
    return logged


class EventFolder:
    """A folder with one event file, which is begun anew.

    Args:
      directory: Log directory of TensorBoard.
      label: Of the run.
      repeat: Its number.
    """

    def __init__(self, directory: str | os.PathLike[str], label: str, repeat: int) -> None:
        self._file = _folder(directory, label) / f"repeat-{repeat}" / EVENT_FILE
        with _written(self._file):
            self._file.parent.mkdir(parents=True, exist_ok=True)
            write_events(self._file, (), time.time())

    def add(self, points: Sequence[Point]) -> None:
        """Write points behind those that are there."""
        with _written(self._file):
            append_events(self._file, points, time.time())

    def end(self, privacy: str | None) -> None:
        """Say nothing: a file has no end."""


class MlflowRun:
    """A run of MLflow's, of one repeat.

    Args:
      tracking_uri: Address of MLflow; None: its own.
      experiment: Name of the experiment there.
      label: Of the run.
      repeat: Its number.
      settings: Of the run, as parameters.
      privacy: What it promises, in words.
    """

    def __init__(
        self,
        tracking_uri: str | None,
        experiment: str,
        label: str,
        repeat: int,
        settings: Mapping[str, Any],
        privacy: str,
    ) -> None:
        self._uri, self._words = tracking_uri, privacy
        with _mlflow(tracking_uri) as (client, entities):
            self._client, self._entities = client, entities
            found = client.get_experiment_by_name(experiment)
            home = client.create_experiment(experiment) if found is None else found.experiment_id
            self.id: str = client.create_run(home, run_name=f"{label} repeat {repeat}").info.run_id
            params = [entities.Param(name, value[:500]) for name, value in _flat(settings)]
            client.log_batch(self.id, params=params[:100], tags=self._tags(privacy))

    def add(self, points: Sequence[Point]) -> None:
        """Send points."""
        now = int(time.time() * 1000)
        figures = [self._entities.Metric(point.tag, point.value, now, point.step) for point in points]
        with _mlflow(self._uri):
            for start in range(0, len(figures), LARGEST_BATCH):
                self._client.log_batch(self.id, metrics=figures[start : start + LARGEST_BATCH])

    def end(self, privacy: str | None) -> None:
        """Say that it was all."""
        with _mlflow(self._uri):
            if privacy is not None and privacy != self._words:
                self._client.log_batch(self.id, tags=self._tags(privacy))
            self._client.set_terminated(self.id, *(() if privacy is not None else ("FAILED",)))

    def _tags(self, privacy: str) -> list[Any]:
        return [self._entities.RunTag("tacit.privacy", privacy[:5000])]


class Tracker:
    """Curves of an experiment's runs, sent while they go on.

    It makes those who watch: `execute(problem, out, watch=[tracker])`. What is known at the end only (regret, the
    privacy that was spent) is sent by `finished`, and so is all of a run that nobody watched. What cannot be sent is a
    ResultError there, and ends no run.

    Args:
      opens: Makes the sinks, one for each repeat.
    """

    def __init__(self, opens: Open) -> None:
        self._opens = opens
        self._under_way: dict[str, _Tracked] = {}

    def __call__(self, label: str, settings: Mapping[str, Any] | None = None) -> Callable[[Part], None]:
        """Return who is to be told of a run's rounds."""
        self._under_way[label] = _Tracked(self._opens, label, settings or {})
        return self._under_way[label].hear

    def finished(self, run: Run) -> None:
        """Send what a finished run has besides."""
        record = run.record()
        tracked = self._under_way.pop(record.label, None) or _Tracked(self._opens, record.label, record.settings)
        tracked.finish(record)


class _Tracked:
    """One run."""

    def __init__(self, opens: Open, label: str, settings: Mapping[str, Any]) -> None:
        self._opens, self._label, self._settings = opens, label, settings
        self._sinks: list[Sink] = []
        self._averages, self._waiting = RunningAverages(), list[list[Point]]()
        self._sent: list[set[tuple[str, int]]] = []
        self._due = 0.0
        self.fault: TacitError | None = None
        """Why nothing more is sent."""

    def hear(self, part: Part) -> None:
        """Keep a part's points, and send what waits if it is time to."""
        if self.fault is not None:
            return
        try:
            if not self._sinks:
                self._open(part.about.repeats, part.about.privacy)
            for waiting, points in zip(self._waiting, self._points(part), strict=True):
                waiting.extend(points)
            if time.perf_counter() >= self._due or part.ended == "failed":
                self._send()
            if part.ended == "failed":
                for sink in self._sinks:
                    sink.end(None)
        except TacitError as fault:  # what was computed is not lost for that
            self.fault = fault

    def finish(self, record: Record) -> None:
        """Send what was not sent, and end."""
        if self.fault is not None:
            raise self.fault
        words = str(record.summary["privacy"]["words"])
        if not self._sinks:
            self._open(len(record.trace.loss), words)
        for waiting, points, sent in zip(self._waiting, _points(record), self._sent, strict=True):
            known = sent | {(point.tag, point.step) for point in waiting}
            waiting.extend(point for point in points if (point.tag, point.step) not in known)
        self._send()
        for sink in self._sinks:
            sink.end(words)

    def _open(self, repeats: int, privacy: str) -> None:
        self._sinks = [self._opens(self._label, k, self._settings, privacy) for k in range(repeats)]
        self._waiting = [[] for _ in self._sinks]
        self._sent = [set() for _ in self._sinks]

    def _send(self) -> None:
        begun = time.perf_counter()
        for sink, waiting, sent in zip(self._sinks, self._waiting, self._sent, strict=True):
            if waiting:
                sink.add(waiting)
                sent |= {(point.tag, point.step) for point in waiting}
                waiting.clear()
        now = time.perf_counter()
        self._due = now + (now - begun) / SHARE

    def _points(self, part: Part) -> list[list[Point]]:
        """Return the points of a part's recorded rounds, those of each repeat."""
        found: list[list[Point]] = [[] for _ in self._sinks]
        if not part.rounds:
            return found
        curves = self._averages.after(part)
        for index, step in enumerate(part.recorded_rounds):
            at = step - (part.done - part.rounds) - 1
            values = {CURVES.get(name, _score(part.about.score)): rows[:, at] for name, rows in curves.items()}
            if part.recorded is not None and "consensus" in part.recorded:
                values["consensus"] = np.asarray(part.recorded["consensus"], np.float64)[index]
            for repeat, points in enumerate(found):
                points += [Point(tag, step, float(v[repeat])) for tag, v in values.items() if np.isfinite(v[repeat])]
        return found


CURVES = {"loss": "loss", "average_loss": "average_loss", "bits": "cumulative_bits"}
"""Curves of a part -> what trackers call them; the other one is the score."""


def _score(name: str | None) -> str:
    return f"average_{name or 'score'}"


def tracker(asked: str) -> Tracker:
    """Return what logs runs as `KIND=WHERE` says: tensorboard=DIRECTORY, or mlflow=TRACKING-URI."""
    kind, _, where = asked.partition("=")
    if kind not in ("tensorboard", "mlflow") or not where:
        raise ConfigError(f"--log {asked!r}: expected tensorboard=DIRECTORY or mlflow=TRACKING-URI")
    if kind == "tensorboard":
        return Tracker(lambda label, repeat, settings, privacy: EventFolder(where, label, repeat))
    with _mlflow(where) as (client, _):  # a wrong address is better known before the run
        client.get_experiment_by_name("tacit")
    return Tracker(lambda *run: MlflowRun(where, "tacit", *run))


@contextmanager
def _mlflow(tracking_uri: str | None) -> Iterator[tuple[Any, Any]]:
    """Give MLflow's client and its entities, and turn its errors into ours."""
    mlflow = require("mlflow", "mlflow", "a log in MLflow")
    entities, faults = require("mlflow.entities", "mlflow"), require("mlflow.exceptions", "mlflow")
    try:
        yield mlflow.MlflowClient(tracking_uri=tracking_uri), entities
    except faults.MlflowException as error:
        raise ResultError(f"MLflow at {tracking_uri or 'its own address'}: {error}; check the address") from error


@contextmanager
def _written(file: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise ResultError(f"{file.parent.parent} cannot be written ({error}); give another directory") from error


def _folder(directory: str | os.PathLike[str], label: str) -> Path:
    return Path(directory) / re.sub(r"[^\w.+-]+", "-", label).strip("-")


def _points(record: Record) -> Iterator[list[Point]]:
    """Yield each repeat's points; figures that are not finite are left out, since neither can show them."""
    trace, summary = record.trace, record.summary
    curves: dict[str, tuple[Sequence[int], Any]] = {
        "loss": (trace.rounds.tolist(), trace.loss),
        "average_loss": (trace.rounds.tolist(), trace.average_loss),
        "consensus": (trace.rounds.tolist(), trace.consensus),
        "cumulative_bits": (trace.rounds.tolist(), trace.bits),
    }
    if trace.score is not None:
        curves[_score(summary.get("score_name"))] = (trace.rounds.tolist(), trace.score)
    regret = summary.get("regret")
    if regret:
        curves["regret_per_agent_round"] = (regret["rounds"], np.array(regret["per_agent_round"], np.float64))
    epsilon = summary["privacy"]["epsilon"]
    for repeat in range(len(trace.loss)):
        points = [
            Point(tag, int(step), float(value))
            for tag, (steps, values) in curves.items()
            for step, value in zip(steps, values[repeat], strict=True)
            if np.isfinite(value)
        ]
        last = int(trace.rounds[-1]) if len(trace.rounds) else 0
        yield points + ([] if epsilon is None else [Point("privacy/epsilon", last, float(epsilon))])


def _flat(settings: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    for name, value in settings.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{name}.")
        elif isinstance(value, list) and value and all(isinstance(item, Mapping) for item in value):
            for number, item in enumerate(value):
                yield from _flat(item, f"{prefix}{name}.{number}.")
        else:
            yield f"{prefix}{name}", str(value)
