"""Plots of runs as data: which curves on which axes, with title and caption, whoever draws them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tacit.metrics import mean_band
from tacit.results.record import Record

HIGHEST = 1e150
"""Curves that leave this are not drawn: sums over them overflow."""
WIDE = 50.0
"""Losses that differ by this factor are drawn on a logarithmic axis: one run must not flatten all others."""
Numbers = NDArray[np.float64]


class Curve(NamedTuple):
    """A run in one plot: the mean over its repeats, with the band of its 95 % interval."""

    run: int
    """Its place among the records."""
    at: Numbers
    """Where its points stand on the horizontal axis."""
    mean: Numbers
    """NaN where there is nothing to draw."""
    low: Numbers | None
    """None with a single repeat, as `high`."""
    high: Numbers | None
    rounds: NDArray[np.int64]
    """Round of each point; none of a level line, which has no place on the horizontal axis."""

    @property
    def level(self) -> bool:
        """Whether it is one height from end to end."""
        return not self.rounds.size


class Axis(NamedTuple):
    """One of the two axes."""

    label: str
    log: bool = False
    bits: bool = False
    """Whether it counts bits."""
    counts: str = "round"
    """What a point is told by, where that is no number of bits."""
    names: tuple[str, ...] = ()
    """Of the places 0, 1, ..., where an axis has no numbers."""


class Panel(NamedTuple):
    """One plot."""

    name: str
    """Of its file."""
    title: str
    caption: str
    x: Axis
    y: Axis
    curves: tuple[Curve, ...]
    guide: tuple[Numbers, Numbers] | None = None
    """A line that falls like one over the square root of t."""
    scattered: bool = False
    """Whether its points stand by themselves, without lines between them."""
    group: str = ""
    """Panels of one group have the same lines: switching one off does so in all of them."""


def panels(records: Sequence[Record]) -> list[Panel]:
    """Return every plot that these runs have.

    Args:
      records: Runs.
    """
    return [found for make in PANELS.values() if (found := make(records)) is not None]


def _curve(run: int, rounds: NDArray[np.int64], values: Numbers, log: bool, at: Numbers | None = None) -> Curve:
    band = mean_band(values)
    low, high = (band.low, band.high) if band.n > 1 else (None, None)
    mean = band.mean
    if log:  # only what is positive has a place
        mean = np.where(mean > 0, mean, np.nan)
        low = None if low is None else np.maximum(low, mean / 10)
    return Curve(run, np.asarray(rounds, np.float64) if at is None else at, mean, low, high, rounds)


def _finite(record: Record, values: Numbers) -> bool:
    return values.size > 0 and bool((np.abs(values) < HIGHEST).all()) and not record.summary["diverged"]


def _drawn(records: Sequence[Record]) -> list[tuple[int, Record]]:
    """Return the runs whose average loss can be drawn, with their places."""
    return [(k, record) for k, record in enumerate(records) if _finite(record, record.trace.average_loss)]


def _of_loss(drawn: Sequence[tuple[int, Record]], until: str) -> tuple[Axis, str]:
    """Return the axis of average losses, and what its caption says of it."""
    nats = all(record.summary["objective"] in ("logistic", "softmax") for _, record in drawn)
    losses = np.concatenate([record.trace.average_loss.mean(axis=0) for _, record in drawn])
    log = bool(losses.min() > 0 and losses.max() > WIDE * losses.min())
    words = " The losses differ so much that their axis is logarithmic." if log else ""
    return Axis(f"average loss up to {until}{' (nats)' if nats else ''}", log), words


def _average_loss(records: Sequence[Record]) -> Panel | None:
    drawn = _drawn(records)
    if not drawn:
        return None
    axis, words = _of_loss(drawn, "round t")
    curves = tuple(_curve(k, r.trace.rounds, r.trace.average_loss, axis.log) for k, r in drawn)
    caption = (
        "Loss at prediction time, averaged over all agents and all rounds up to t. Lines are means over the repeats, "
        f"bands their 95 % confidence intervals.{words}"
    )
    return Panel("average_loss", "Average loss", caption, Axis("round t"), axis, curves)


def _regret_values(record: Record) -> tuple[NDArray[np.int64], Numbers] | None:
    found = record.summary["regret"]
    if found is None or record.diverged:
        return None
    values = np.array(found["per_agent_round"], np.float64)
    known = np.isfinite(values).all() and (np.abs(values) < HIGHEST).all()
    return (np.array(found["rounds"], np.int64), values) if known and len(found["rounds"]) > 1 else None


def _regret(records: Sequence[Record]) -> Panel | None:
    found = [(k, *curve) for k, record in enumerate(records) if (curve := _regret_values(record)) is not None]
    means = [values.mean(axis=0) for _, _, values in found]
    if not found or not any(mean.any() for mean in means):
        return None
    log = all(bool((mean > 0).all()) for mean in means)
    curves = tuple(_curve(k, rounds, values, log) for k, rounds, values in found)
    caption = "Average loss minus that of the one model that would have been best for all agents on all data up to t, "
    caption += "found by a solver. "
    if log:
        caption += (
            "On these logarithmic axes a line parallel to the grey guide falls like one over the square root of t."
        )
    else:
        caption += (
            "Below 0 an algorithm did better than every fixed model, as it can where the data change. Since some "
            "regret is not above 0, the vertical axis is linear; rounds are on a logarithmic one."
        )
    guide = None
    if log:  # above the end of the highest curve, over a decade and a half
        last, height = max(int(rounds[-1]) for _, rounds, _ in found), max(float(mean[-1]) for mean in means)
        t = np.geomspace(max(1.0, last / 30), last, 2)
        guide = (t, 1.3 * height * np.sqrt(last / t))
    title = "Static regret per agent and round"
    return Panel("regret", title, caption, Axis("round t", log=True), Axis("regret", log), curves, guide)


def _consensus(records: Sequence[Record]) -> Panel | None:
    curves = tuple(
        _curve(k, record.trace.rounds, record.trace.consensus, log=True)
        for k, record in enumerate(records)
        if _finite(record, record.trace.consensus)
    )
    if not any((curve.mean > 0).any() for curve in curves):
        return None
    caption = "Mean squared distance of the agents' models from their mean, on a logarithmic axis. "
    caption += "A run whose agents agree exactly has no place on it."
    axis = Axis("mean squared distance from the mean model", log=True)
    return Panel("consensus", "Disagreement among agents", caption, Axis("round t"), axis, curves)


def _sends(record: Record) -> bool:
    return record.trace.bits.size > 0 and bool(np.all(record.trace.bits[:, -1] > 0))


def _loss_against_bits(records: Sequence[Record]) -> Panel | None:
    drawn = [(k, record) for k, record in _drawn(records) if not record.diverged]
    if not any(_sends(record) for _, record in drawn):
        return None
    axis, words = _of_loss(drawn, "then")
    curves = []
    for k, record in drawn:
        trace = record.trace
        sent = trace.bits.mean(axis=0) / record.summary["agents"]
        if _sends(record):
            curves.append(_curve(k, trace.rounds, trace.average_loss, axis.log, np.where(sent > 0, sent, np.nan)))
        else:  # it has no place on the axis of bits: a level to compare with
            end = np.full(2, trace.average_loss[:, -1].mean())
            curves.append(Curve(k, np.array([np.nan, np.nan]), end, None, None, trace.rounds[:0]))
    caption = (
        "Average loss against the bits that an agent has sent on average, on a logarithmic axis. An algorithm that "
        f"sends nothing is drawn as a level line.{words}"
    )
    x = Axis("sent per agent so far", log=True, bits=True)
    return Panel("loss_against_bits", "Loss against communication", caption, x, axis, tuple(curves))


PANELS: dict[str, Callable[[Sequence[Record]], Panel | None]] = {
    "average_loss": _average_loss,
    "regret": _regret,
    "consensus": _consensus,
    "loss_against_bits": _loss_against_bits,
}
"""Name of the image file -> plot, None where the runs do not have it."""
