"""Runs as curves in TensorBoard and MLflow: of a run just made, or of one that was read back from its directory."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from tacit.core.errors import ConfigError, ResultError
from tacit.core.extras import require
from tacit.interop.event_files import Point, write_events
from tacit.results import Record, Run

EVENT_FILE = "events.out.tfevents.0.tacit"
"""TensorBoard looks for `tfevents` in a name; a fixed one, so that a run logged again replaces what was there."""
LARGEST_BATCH = 1000
"""Of figures that MLflow takes at once."""


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
    folder = Path(directory) / re.sub(r"[^\w.+-]+", "-", record.label).strip("-")
    now = time.time()
    try:
        for repeat, points in enumerate(_points(record)):
            place = folder / f"repeat-{repeat}"
            place.mkdir(parents=True, exist_ok=True)
            write_events(place / EVENT_FILE, points, now)
    except OSError as error:
        raise ResultError(f"{folder} cannot be written ({error}); give another directory") from error
    return folder


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
    with _mlflow(tracking_uri) as (client, entities):
        found = client.get_experiment_by_name(experiment)
        home = client.create_experiment(experiment) if found is None else found.experiment_id
        settings = [entities.Param(name, value[:500]) for name, value in _flat(record.settings)]
        tags = [entities.RunTag("tacit.privacy", str(record.summary["privacy"]["words"])[:5000])]
        logged = []
        for repeat, points in enumerate(_points(record)):
            now = int(time.time() * 1000)
            made = client.create_run(home, run_name=f"{record.label} repeat {repeat}").info.run_id
            figures = [entities.Metric(point.tag, point.value, now, point.step) for point in points]
            client.log_batch(made, params=settings[:100], tags=tags)
            for start in range(0, len(figures), LARGEST_BATCH):
                client.log_batch(made, metrics=figures[start : start + LARGEST_BATCH])
            client.set_terminated(made)
            logged.append(made)
    return logged


@contextmanager
def _mlflow(tracking_uri: str | None) -> Iterator[tuple[Any, Any]]:
    """Give MLflow's client and its entities, and turn its errors into ours."""
    mlflow = require("mlflow", "mlflow", "a log in MLflow")
    entities, faults = require("mlflow.entities", "mlflow"), require("mlflow.exceptions", "mlflow")
    try:
        yield mlflow.MlflowClient(tracking_uri=tracking_uri), entities
    except faults.MlflowException as error:
        raise ResultError(f"MLflow at {tracking_uri or 'its own address'}: {error}; check the address") from error


def tracker(asked: str) -> Callable[[Run | Record], object]:
    """Return what logs a run as `KIND=WHERE` says: tensorboard=DIRECTORY, or mlflow=TRACKING-URI."""
    kind, _, where = asked.partition("=")
    if kind not in ("tensorboard", "mlflow") or not where:
        raise ConfigError(f"--log {asked!r}: expected tensorboard=DIRECTORY or mlflow=TRACKING-URI")
    if kind == "tensorboard":
        return lambda run: log_to_tensorboard(run, where)
    with _mlflow(where) as (client, _):  # a wrong address is better known before the run
        client.get_experiment_by_name("tacit")
    return lambda run: log_to_mlflow(run, where)


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
        curves[f"average_{summary.get('score_name') or 'score'}"] = (trace.rounds.tolist(), trace.score)
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
