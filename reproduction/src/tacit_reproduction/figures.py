"""Figures as data: columns of the tidy table on named axes. A page draws them, and they tell their values there.

curves(results, "rounds", "Deviation", "As figure 4.4.", "deviation", lines="noise", panels="method", log_y=True)
dots(results, "steps", "By step", "", "settled", x="step", lines="noise", log_x=True)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from tacit.metrics import mean_band
from tacit.results.pages.panels import HIGHEST
from tacit_reproduction.table import Floats, Results, Row

POINTS = 100
"""Of a curve; of longer ones so many are kept, evenly chosen, on a logarithmic axis evenly there."""
DIGITS = 5

Label = str | Callable[[Row], str | None]
"""A factor, or a function of a row; rows of which it returns None are left out."""


class Line(NamedTuple):
    """Values over places."""

    at: ArrayLike
    """(points,) numbers, or places among the axis's names."""
    values: ArrayLike
    """(seeds, points)."""


class Axes(NamedTuple):
    """Names and scales of both axes."""

    x: str
    y: str
    log_x: bool = False
    log_y: bool = False
    names: tuple[str, ...] = ()
    """Of places that are no numbers."""


class Figure(NamedTuple):
    """One figure of one or more panels."""

    name: str
    title: str
    caption: str
    """What it shows, and which figure of the text is drawn like it."""
    axes: Axes
    panels: Mapping[str, Mapping[str, Line]]
    """Title -> label -> line."""
    joined: bool = True
    """Whether points are joined by lines."""

    def as_json(self) -> dict[str, Any]:
        """Return what summary.json holds: means and 95 % intervals, point by point."""
        panels = [
            {
                "title": title,
                "lines": [{"label": label, **_thinned(line, self.axes.log_x)} for label, line in lines.items()],
            }
            for title, lines in self.panels.items()
        ]
        return {
            "name": self.name,
            "title": self.title,
            "caption": self.caption,
            "axes": {**self.axes._asdict(), "names": list(self.axes.names)},
            "panels": panels,
            "joined": self.joined,
        }


def curves(
    results: Results,
    name: str,
    title: str,
    caption: str,
    measure: str,
    *,
    lines: Label,
    panels: Label | None = None,
    at: str = "rounds",
    x: str = "round",
    y: str = "",
    log_x: bool = False,
    log_y: bool = False,
    words: Mapping[Any, str] | None = None,
    change: Callable[[Floats], Floats] | None = None,
) -> Figure:
    """Return curves of a measure over the rounds.

    Args:
      results: The rows that are drawn: use `results.where(...)`.
      name: Of the figure.
      title: Above it.
      caption: Below it.
      measure: Its values are (seeds, points).
      lines: Which rows are lines, and their labels.
      panels: Which rows stand together; None: all.
      at: Measure that holds the places, (points,).
      x: Label of the horizontal axis, as `y` of the vertical one (empty: the measure).
      log_x: Whether the horizontal axis is logarithmic, as `log_y` for the vertical one.
      words: Values of factors -> labels.
      change: Function of the values before they are averaged, e.g. `decibels`.
    """
    drawn: dict[str, dict[str, Line]] = {}
    for row in results.rows:
        place, label = _label(row, panels, words), _label(row, lines, words)
        if measure in row.measures and place is not None and label is not None:
            values = np.asarray(row.measures[measure], np.float64)
            drawn.setdefault(place, {})[label] = Line(row.measures[at], change(values) if change else values)
    return Figure(name, title, caption, Axes(x, y or measure, log_x, log_y), drawn)


def dots(
    results: Results,
    name: str,
    title: str,
    caption: str,
    measure: str,
    *,
    x: str,
    lines: Label,
    panels: Label | None = None,
    x_label: str = "",
    y: str = "",
    log_x: bool = False,
    log_y: bool = False,
    words: Mapping[Any, str] | None = None,
    change: Callable[[Floats], Floats] | None = None,
) -> Figure:
    """Return a measure of (seeds,) over a factor: joined points if its levels are numbers, else single ones.

    `x` is the factor, `x_label` its name on the axis (empty: the factor's); all else is as for `curves`.
    """
    rows = [row for row in results.rows if measure in row.measures and x in row.factors]
    levels = list(dict.fromkeys(row.factors[x] for row in rows))
    numbers = all(isinstance(level, int | float) and not isinstance(level, bool) for level in levels)
    places = {each: float(each) if numbers and each is not None else float(k) for k, each in enumerate(levels)}
    gathered: dict[str, dict[str, dict[float, Floats]]] = {}
    for row in rows:
        place, label = _label(row, panels, words), _label(row, lines, words)
        if place is not None and label is not None:
            values = np.asarray(row.measures[measure], np.float64)
            gathered.setdefault(place, {}).setdefault(label, {})[places[row.factors[x]]] = (
                change(values) if change else values
            )
    drawn = {
        place: {
            label: Line(np.array(sorted(found)), np.stack([found[at] for at in sorted(found)], axis=1))
            for label, found in of_panel.items()
        }
        for place, of_panel in gathered.items()
    }
    names = () if numbers else tuple((words or {}).get(level, str(level)) for level in levels)
    return Figure(name, title, caption, Axes(x_label or x, y or measure, log_x, log_y, names), drawn, joined=numbers)


def _label(row: Row, label: Label | None, words: Mapping[Any, str] | None) -> str | None:
    if label is None:
        return ""
    if callable(label):
        return label(row)
    value = row.factors.get(label)
    return None if value is None else (words or {}).get(value, str(value))


def _thinned(line: Line, log: bool) -> dict[str, Sequence[float | None]]:
    at, values = np.asarray(line.at, np.float64), np.asarray(line.values, np.float64)
    last = len(at) - 1
    places = np.geomspace(1, last + 1, POINTS) - 1 if log else np.linspace(0, last, POINTS)
    kept = np.unique(places.round().astype(np.int64)) if len(at) > POINTS else np.arange(len(at))
    band = mean_band(values[:, kept])
    found = {"at": at[kept], "mean": band.mean}
    if band.n > 1:
        found |= {"low": band.low, "high": band.high}
    return {key: [_short(value) for value in numbers] for key, numbers in found.items()}


def _short(value: float) -> float | None:
    return float(f"{value:.{DIGITS}g}") if abs(value) < HIGHEST else None  # nor what is not a number
