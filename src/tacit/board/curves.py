"""Curves of a run: from its trace and its summary where it has ended, from its live file before that."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.board.live_reader import LiveRecord
from tacit.board.runs import Found, Runs
from tacit.metrics.intervals import mean_band
from tacit.results.record import Record
from tacit.results.store import load

CURVES = ("best", "loss", "average_loss", "score", "regret", "regret_so_far", "consensus", "bits", "epsilon")
Curve = dict[str, list[float | None] | None]
"""mean, and low and high where there are repeats."""
Curves = dict[str, Any]
"""rounds, and curves by name."""


def curves_of(runs: Runs, run: Found, after: int = 0) -> Curves:
    """Return the curves of a run.

    Args:
      runs: All runs.
      run: One of them.
      after: Rounds up to this one are left out.
    """
    live = runs.record(run)
    if run.sealed is None:
        return {"rounds": [], "curves": {}} if live is None else cut(of_live(live), after)
    if run.kind != "run":
        return {"rounds": [], "curves": {}}
    found = of_record(load(run.sealed))
    if live is not None and "epsilon" in live.curves:  # how it was spent, which a summary does not say
        found = with_line(found, "epsilon", live.curves["epsilon"])
    return cut(found, after)


def of_live(live: LiveRecord) -> Curves:
    """Return the curves of a run that goes on, or was stopped.

    Args:
      live: What its live file holds.
    """
    found: Curves = {"rounds": [], "curves": {}}
    for name in CURVES:
        if live.curves.get(name):
            found = with_line(found, name, live.curves[name])
    return found


def with_line(curves: Curves, name: str, points: Mapping[int, Sequence[float | None]]) -> Curves:
    """Return curves with another one among them.

    Args:
      curves: Those that are there.
      name: Of the curve.
      points: Round -> mean, or mean, low and high.
    """
    rounds = sorted({*curves["rounds"], *points})
    lines = {other: {end: _moved(curves["rounds"], line, rounds) for end, line in curve.items()}
             for other, curve in curves["curves"].items()}  # fmt: skip
    several = any(len(values) == 3 for values in points.values())
    ends = {
        end: [points[at][k if len(points[at]) == 3 else 0] if at in points else None for at in rounds]
        for k, end in enumerate(("mean", "low", "high"))
        if k == 0 or several
    }
    lines[name] = {"mean": ends["mean"], "low": ends.get("low"), "high": ends.get("high")}
    return {"rounds": rounds, "curves": {n: lines[n] for n in CURVES if n in lines}}


def _moved(old: Sequence[int], line: list[float | None] | None, new: Sequence[int]) -> list[float | None] | None:
    if line is None or len(old) == len(new):
        return line
    known = dict(zip(old, line, strict=True))
    return [known.get(at) for at in new]


def of_record(record: Record) -> Curves:
    """Return the curves of a run that ended.

    Args:
      record: What its directory holds.
    """
    trace = record.trace
    found: dict[str, tuple[NDArray[np.int64], NDArray[np.float64]]] = {
        "loss": (trace.rounds, trace.loss),
        "average_loss": (trace.rounds, trace.average_loss),
        "consensus": (trace.rounds, trace.consensus),
        "bits": (trace.rounds, trace.bits.astype(np.float64)),
    }
    if trace.score is not None:
        found["score"] = trace.rounds, trace.score
    regret = record.summary.get("regret")
    if regret is not None:
        rows = np.array(regret["per_agent_round"], np.float64)
        found["regret"] = np.array(regret["rounds"], np.int64), rows
    epsilon = record.summary["privacy"]["epsilon"]
    if epsilon is not None:
        found["epsilon"] = trace.rounds[-1:], np.full((1, 1), float(epsilon))
    return joined(found)


def joined(found: Mapping[str, tuple[NDArray[np.int64], NDArray[np.float64]]]) -> Curves:
    """Return curves over the rounds of all of them; None where a curve has no value.

    Args:
      found: Name -> rounds (k,) and values (repeats, k).
    """
    rounds = np.unique(np.concatenate([at for at, _ in found.values()])) if found else np.zeros(0, np.int64)
    return {"rounds": rounds.tolist(), "curves": {n: _curve(rounds, *found[n]) for n in CURVES if n in found}}


def _curve(rounds: NDArray[np.int64], at: NDArray[np.int64], values: NDArray[np.float64]) -> Curve:
    band = mean_band(values)
    place = np.searchsorted(rounds, at)
    ends = (("mean", band.mean), ("low", band.low), ("high", band.high))
    if band.n == 1:
        return {"mean": _spread(rounds.size, place, band.mean), "low": None, "high": None}
    return {name: _spread(rounds.size, place, line) for name, line in ends}


def _spread(size: int, place: NDArray[np.int64], line: NDArray[np.float64]) -> list[float | None]:
    found: list[float | None] = [None] * size
    for k, value in zip(place.tolist(), line.tolist(), strict=True):
        found[k] = value if math.isfinite(value) else None
    return found


def cut(curves: Curves, after: int) -> Curves:
    """Return the curves from a round on.

    Args:
      curves: All of them.
      after: The last round that is left out.
    """
    first = int(np.searchsorted(curves["rounds"], after, side="right"))
    return {
        "rounds": curves["rounds"][first:],
        "curves": {
            name: {end: None if line is None else line[first:] for end, line in curve.items()}
            for name, curve in curves["curves"].items()
        },
    }
