"""Figures as data: columns of the tidy table on named axes. A page draws them, and they tell their values there.

curves(results, "rounds", "Deviation", "As figure 4.4.", "deviation", lines="noise", panels="method", log_y=True)
dots(results, "steps", "By step", "", "settled", x="step", lines="noise", log_x=True)
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Required, TypedDict, Unpack

import numpy as np
from numpy.typing import ArrayLike

from tacit.metrics import mean_band
from tacit.results.pages.panels import HIGHEST
from tacit_reproduction.table import Floats, Results, Row

POINTS = 100  # of a curve; of longer ones so many are kept, evenly chosen, on a logarithmic axis evenly there
DIGITS = 5

Label = str | Callable[[Row], str | None]
"""A factor, words with factors ("lambda = {l2:g}"), or a function of a row; rows of which it is None are left out."""


class Look(TypedDict, total=False):
    """What `curves` and `dots` are drawn with."""

    lines: Required[Label]  # which rows are lines, and their labels
    panels: Label  # which rows stand together, by default all
    y: str  # label of the vertical axis, by default the measure
    log_x: bool
    log_y: bool
    words: Mapping[Any, str]  # values of factors -> labels
    change: Callable[[Floats], Floats]  # of the values before they are averaged, e.g. `decibels`


class Line(NamedTuple):
    """Values over places."""

    at: ArrayLike  # (points,) numbers, or places among the axis's names
    values: ArrayLike  # (seeds, points)


class Axes(NamedTuple):
    """Names and scales of both axes."""

    x: str
    y: str
    log_x: bool = False
    log_y: bool = False
    names: tuple[str, ...] = ()  # of places that are no numbers


class Figure(NamedTuple):
    """One figure of one or more panels."""

    name: str
    title: str
    caption: str  # what it shows, and which figure of the text is drawn like it
    axes: Axes
    panels: Mapping[str, Mapping[str, Line]]  # title -> label -> line
    joined: bool = True  # whether points are joined by lines

    def as_json(self) -> dict[str, Any]:
        """Return what summary.json holds: means and 95 % intervals, point by point."""

        def drawn(lines: Mapping[str, Line]) -> list[dict[str, Any]]:
            return [{"label": label, **_thinned(line, self.axes.log_x)} for label, line in lines.items()]

        return self._asdict() | {
            "axes": {**self.axes._asdict(), "names": list(self.axes.names)},
            "panels": [{"title": title, "lines": drawn(lines)} for title, lines in self.panels.items()],
        }


def curves(
    results: Results, name: str, title: str, caption: str, measure: str, *, at: str = "rounds", x: str = "round",
    **look: Unpack[Look],
) -> Figure:  # fmt: skip
    """Return curves of a measure over the rounds.

    Of rows use `results.where(...)`; title and caption are above and below it. `at` is the measure that holds the
    places, (points,), x the label of the horizontal axis.
    """
    drawn: dict[str, dict[str, Line]] = {}
    for row, place, label, values in _shown(results.rows, measure, look):
        drawn.setdefault(place, {})[label] = Line(row.measures[at], values)
    return Figure(name, title, caption, _axes(x, measure, look), drawn)


def dots(
    results: Results, name: str, title: str, caption: str, measure: str, *, x: str, x_label: str = "",
    **look: Unpack[Look],
) -> Figure:  # fmt: skip
    """Return a measure of (seeds,) over a factor: joined points if its levels are numbers, else single ones.

    `x` is the factor, `x_label` its name on the axis (empty: the factor's); all else is as for `curves`.
    """
    rows = [row for row in results.rows if measure in row.measures and x in row.factors]
    levels = list(dict.fromkeys(row.factors[x] for row in rows))
    numbers = all(isinstance(level, int | float) and not isinstance(level, bool) for level in levels)
    places = {each: float(each) if numbers and each is not None else float(k) for k, each in enumerate(levels)}
    gathered: dict[str, dict[str, dict[float, Floats]]] = {}
    for row, place, label, values in _shown(rows, measure, look):
        gathered.setdefault(place, {}).setdefault(label, {})[places[row.factors[x]]] = values

    def line(found: dict[float, Floats]) -> Line:
        return Line(np.array(sorted(found)), np.stack([found[at] for at in sorted(found)], axis=1))

    drawn = {place: {label: line(found) for label, found in of.items()} for place, of in gathered.items()}
    names = () if numbers else tuple(look.get("words", {}).get(level, str(level)) for level in levels)
    return Figure(name, title, caption, _axes(x_label or x, measure, look, names), drawn, joined=numbers)


def _axes(x: str, measure: str, look: Look, names: tuple[str, ...] = ()) -> Axes:
    return Axes(x, look.get("y") or measure, look.get("log_x", False), look.get("log_y", False), names)


def _shown(rows: Iterable[Row], measure: str, look: Look) -> Iterator[tuple[Row, str, str, Floats]]:
    """Yield the rows that are drawn, with panel, label and values."""
    words, change = look.get("words", {}), look.get("change", np.asarray)
    for row in rows:
        place, label = _label(row, look.get("panels"), words), _label(row, look["lines"], words)
        if measure in row.measures and place is not None and label is not None:
            yield row, place, label, change(np.asarray(row.measures[measure], np.float64))


def _label(row: Row, label: Label | None, words: Mapping[Any, str]) -> str | None:
    if label is None:
        return ""
    if callable(label):
        return label(row)
    if "{" in label:
        return label.format(**row.factors)
    value = row.factors.get(label)
    return None if value is None else words.get(value, str(value))


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
