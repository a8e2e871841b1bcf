"""Pictures on logarithmic scales, and points with intervals: noise spreads regrets over many powers of ten."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacit.metrics import mean_band, mean_interval
from tacit.results.plots import COLOURS, LINES, MARKERS, STYLE
from tacit_reproduction.drawing import finished, legend_columns
from tacit_reproduction.experiment import Figure

Floats = NDArray[np.float64]
MOST_IN_A_ROW = 3
"""Panels; of more there are two rows."""
DODGE = 0.12
"""By how much points of one place are moved apart, where places have distance 1."""


class Curve(NamedTuple):
    """Values over positive numbers."""

    x: NDArray[np.int64]
    values: Floats
    """(seeds, len(x)), above 0."""


class Points(NamedTuple):
    """One value with its ends per place; not a number where there is none."""

    value: Floats
    low: Floats
    high: Floats


def mean_points(samples: Iterable[ArrayLike]) -> Points:
    """Return means over seeds and their 95 % intervals, one per sample."""
    return Points(*np.array([mean_interval(np.asarray(values))[:3] for values in samples]).reshape(-1, 3).T)


FEW_PLACES = 8
CLOSEST = 0.08
"""Share of the width that a label below it needs."""
NARROW, WIDE = 4.0, 100.0
"""Largest over smallest value of an axis."""


def log_curves(
    name: str, title: str, caption: str, panels: Mapping[str, Mapping[str, Curve]], x_label: str, y_label: str
) -> Figure:
    """Draw curves on doubly logarithmic axes: means over seeds and bands of their 95 % intervals."""
    from matplotlib.ticker import NullFormatter

    def draw(axes: Any, curves: Mapping[str, Curve]) -> None:
        for k, (label, curve) in enumerate(curves.items()):
            band = mean_band(curve.values)
            axes.plot(curve.x, band.mean, color=_of(COLOURS, k), ls=_of(LINES, k), marker=_of(MARKERS, k), label=label)
            if band.n > 1:
                # Below 0 there is no logarithm: a band that reaches there is cut far below its mean.
                low = np.maximum(band.low, band.mean / 100)
                axes.fill_between(curve.x, low, band.high, color=_of(COLOURS, k), alpha=0.18, lw=0)
        axes.set_xscale("log")
        axes.set_yscale("log")
        _legible(axes.yaxis, *axes.get_ylim())
        places = np.unique([float(x) for curve in curves.values() for x in curve.x])
        if _fit(places):  # of a sweep: its own values, where powers of ten would be too few
            axes.set_xticks(places, [f"{place:,g}" for place in places])
            axes.xaxis.set_minor_formatter(NullFormatter())

    # Each panel has its own heights: with noise after the projection they are powers of ten above the others.
    return _drawn(name, title, caption, panels, draw, x_label, y_label, shared_height=False)


def points(
    name: str,
    title: str,
    caption: str,
    panels: Mapping[str, Mapping[str, Points]],
    places: Sequence[str],
    x_label: str,
    y_label: str,
    logarithmic: bool = False,
) -> Figure:
    """Draw values with their ends at a few places."""

    def draw(axes: Any, series: Mapping[str, Points]) -> None:
        at = np.arange(len(places))
        for k, (label, (value, low, high)) in enumerate(series.items()):
            x = at + DODGE * (k - (len(series) - 1) / 2)
            below = np.minimum(value - low, value * 0.99) if logarithmic else value - low
            axes.errorbar(
                x,
                value,
                yerr=np.stack([below, high - value]),
                color=_of(COLOURS, k),
                marker=_of(MARKERS, k),
                ls="none",
                capsize=3,
                label=label,
            )
        axes.set_xticks(at, places)
        axes.set_xlim(-0.5, len(places) - 0.5)
        if logarithmic:
            axes.set_yscale("log")
            _legible(axes.yaxis, *axes.get_ylim())

    return _drawn(name, title, caption, panels, draw, x_label, y_label, shared_height=True)


def _legible(axis: Any, low: float, high: float) -> None:
    """Label a logarithmic axis by plain numbers where it spans too little for powers of ten."""
    from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter

    if high / low < WIDE:
        axis.set_major_locator(MaxNLocator(6) if high / low < NARROW else LogLocator(subs=(1, 2, 5)))
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))
        axis.set_minor_formatter(NullFormatter())


def _fit(places: Floats) -> bool:
    gaps = np.diff(np.log(places))
    return 0 < places.size <= FEW_PLACES and bool(np.all(gaps > CLOSEST * gaps.sum()))


def _of(cycle: Sequence[Any], k: int) -> Any:
    return cycle[k % len(cycle)]


def _drawn(
    name: str,
    title: str,
    caption: str,
    panels: Mapping[str, Any],
    draw: Callable[[Any, Any], None],
    x_label: str,
    y_label: str,
    shared_height: bool,
) -> Figure:
    import matplotlib as mpl
    from matplotlib.figure import Figure as Canvas

    # The name salts the ids inside an SVG, so that several can stand in one page.
    with mpl.rc_context({**STYLE, "svg.hashsalt": name}):
        rows = 1 if len(panels) <= MOST_IN_A_ROW else 2
        across = -(-len(panels) // rows)
        canvas = Canvas(figsize=(max(6.0, 4.0 * across), 3.6 * rows + 0.6), layout="constrained")
        grid: Any = canvas.subplots(rows, across, squeeze=False, sharey=shared_height)
        places = list(grid.flat)[: len(panels)]
        for place, (heading, content) in zip(places, panels.items(), strict=True):
            draw(place, content)
            place.set_title(heading)
            place.set_xlabel(x_label)
        for row in grid:
            row[0].set_ylabel(y_label)
        labelled = {
            text: handle for place in places for handle, text in zip(*place.get_legend_handles_labels(), strict=True)
        }
        ncols = legend_columns(canvas, labelled)
        canvas.legend(labelled.values(), labelled.keys(), loc="outside upper center", ncols=ncols)
        return finished(canvas, name, title, caption)
