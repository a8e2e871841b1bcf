"""Curves of a run: of one that ended, from its trace and its summary."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.board.runs import Found
from tacit.metrics.intervals import mean_band
from tacit.results.record import Record
from tacit.results.store import load

CURVES = ("loss", "average_loss", "score", "regret", "consensus", "bits", "epsilon")
Curve = dict[str, list[float | None] | None]
"""mean, and low and high where there are repeats."""
Curves = dict[str, Any]
"""rounds, and curves by name."""


def curves_of(run: Found, after: int = 0) -> Curves:
    """Return the curves of a run.

    Args:
      run: Any run.
      after: Rounds up to this one are left out.
    """
    return cut(of_record(load(run.folder)), after)


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
