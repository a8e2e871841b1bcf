"""Plots drawn as SVG that stands in a page: a picture by itself, and by the page's script one that answers.

A line carries its values as text (``data-at``, ``data-is``), point by point with its path, so that the script only
looks them up. Colours are the page's (``--c0`` to ``--c7``), for light and dark.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from tacit.results.html import Html, html, joined
from tacit.results.pages.panels import Axis, Curve, Numbers, Panel, panels
from tacit.results.pages.scales import Scale, in_bits, written
from tacit.results.record import Record

WIDTH, HEIGHT = 420.0, 280.0
LEFT, RIGHT, TOP, BOTTOM = 56.0, 14.0, 26.0, 40.0
"""Of the picture, and of the room around its axes."""
LETTER = 7.0
"""Width of a letter, at most, on average."""
MOST_POINTS = 200
"""Of a line; of more, so many are drawn, evenly chosen and the last among them."""
MARKERS_PER_LINE = 8
DASHES = ("", "7 3", "8 2.5 1.5 2.5", "1.8 2.4", "8 2 1.5 2 1.5 2", "1 1.4", "11 4", "4 1.6 1.2 1.6")
SHAPES = (
    "m-3 0a3 3 0 1 0 6 0a3 3 0 1 0-6 0z",
    "m-2.7-2.7h5.4v5.4h-5.4z",
    "m0-3.5l3.4 6h-6.8z",
    "m0-3.9l3.4 3.9l-3.4 3.9l-3.4-3.9z",
    "m0 3.5l3.4-6h-6.8z",
    "m-1-3.3h2v2.3h2.3v2h-2.3v2.3h-2v-2.3h-2.3v-2h2.3z",
    "m-3-2l1-1l2 2l2-2l1 1l-2 2l2 2l-1 1l-2-2l-2 2l-1-1l2-2z",
    "m0-4l1.1 2.7l2.9.2l-2.2 1.9l.7 2.8l-2.5-1.6l-2.5 1.6l.7-2.8l-2.2-1.9l2.9-.2z",
)
"""Markers, from their middle."""
NOT_DRAWN = "diverged, not drawn"


class Named(Protocol):
    """Whatever has curves: a run, or a group of settings."""

    @property
    def label(self) -> str:
        """Name in the legend."""

    @property
    def diverged(self) -> bool:
        """Whether it has too large values to be drawn."""


class Look(NamedTuple):
    """Numbers of a run's colour, line and marker: no two of 64 runs share all three."""

    colour: int
    line: int
    marker: int

    @classmethod
    def of(cls, run: int) -> Look:
        """Return how a run is drawn, by its place among all."""
        again, colour = divmod(run, len(DASHES))
        return cls(colour, (colour + again) % len(DASHES), (colour + 3 * again) % len(SHAPES))


def charts(records: Sequence[Record]) -> Html:
    """Return all plots of runs, each with its legend and caption.

    Args:
      records: Runs.
    """
    return joined(chart(panel, records) for panel in panels(records))


def chart(panel: Panel, records: Sequence[Named]) -> Html:
    """Return one plot with its legend and caption.

    Args:
      panel: What is drawn.
      records: Whose curves they are, by their places.
    """
    drawn = {curve.run for curve in panel.curves}
    named = [(k, record) for k, record in enumerate(records) if k in drawn or record.diverged]
    entries = [_entry(k, record, k in drawn, panel.group) for k, record in named]
    return html(
        "<figure class='chart'><h3>{}</h3><ul class='legend'>{}</ul>{}<figcaption>{}</figcaption></figure>\n",
        panel.title,
        joined(entries),
        _picture(panel, records),
        panel.caption,
    )


def _entry(run: int, record: Named, drawn: bool, group: str) -> Html:
    if not drawn:
        return html("<li>{} ({})</li>", record.label, NOT_DRAWN)
    look = Look.of(run)
    line = html("<path class='line' d='M1 7H33' stroke-dasharray='{}'/>", DASHES[look.line])
    marker = html("<path class='marks' d='M17 7{}'/>", SHAPES[look.marker])
    return html(
        "<li data-run='{}{}'><svg class='swatch c{}' viewBox='0 0 34 14' aria-hidden='true'>{}{}</svg>"
        "<span>{}</span></li>",
        group, run, look.colour, line, marker, record.label,
    )  # fmt: skip


class _Frame(NamedTuple):
    """Scales of a panel, and the way to the picture's units."""

    x: Scale
    y: Scale

    @classmethod
    def of(cls, panel: Panel) -> _Frame:
        guide = panel.guide or (np.array([]), np.array([]))
        ends = np.array([-0.5, len(panel.x.names) - 0.5]) if panel.x.names else np.array([])
        heights = [each for c in panel.curves for each in (c.mean, c.low, c.high) if each is not None]
        return cls(
            Scale.over([*(c.at for c in panel.curves), guide[0], ends], panel.x.log, 0.0 if not panel.x.log else 0.01),
            Scale.over([*heights, guide[1]], panel.y.log, 0.05),
        )

    def right(self, values: Numbers) -> Numbers:
        return LEFT + self.x.places(values) * (WIDTH - LEFT - RIGHT)

    def down(self, values: Numbers) -> Numbers:
        return HEIGHT - BOTTOM - self.y.places(values) * (HEIGHT - TOP - BOTTOM)


def _picture(panel: Panel, records: Sequence[Named]) -> Html:
    frame = _Frame.of(panel)
    parts = [*_grid(panel, frame), *(_run(curve, panel, frame) for curve in panel.curves)]
    if panel.guide is not None:
        parts.append(_guide(panel.guide, frame))
    return html(
        "<svg class='plot' viewBox='0 0 {:g} {:g}' role='img' aria-label='{}' data-x='{}'>"
        "<clipPath id='within-{}'><rect x='{:g}' y='{:g}' width='{:g}' height='{:g}'/></clipPath>{}</svg>",
        WIDTH, HEIGHT, _in_words(panel, records), "sent per agent" if panel.x.bits else panel.x.counts,
        panel.name, LEFT, TOP - 4, WIDTH - LEFT - RIGHT + 4, HEIGHT - TOP - BOTTOM + 8, joined(parts),
    )  # fmt: skip


def _in_words(panel: Panel, records: Sequence[Named]) -> str:
    """Say what a picture shows to who does not see it: where every line ends."""
    ends = []
    for curve in panel.curves:
        known = curve.mean[np.isfinite(curve.mean)]
        if known.size:
            ends.append(f"{records[curve.run].label} {known[-1]:.3g}")
    return f"{panel.title}. At the end: {'; '.join(ends)}."


def _grid(panel: Panel, frame: _Frame) -> list[Html]:
    bottom, end = HEIGHT - BOTTOM, WIDTH - RIGHT
    parts = [html("<text class='name' x='4' y='12'>{}</text>", panel.y.label)]
    for value, y in _ticks(frame.y, frame.down):
        zero = " zero" if value == 0 else ""
        parts.append(html("<path class='grid{}' d='M{:g} {:.1f}H{:g}'/>", zero, LEFT, y, end))
        parts.append(html("<text class='y' x='{:g}' y='{:.1f}'>{}</text>", LEFT - 6, y + 4, _label(panel.y, value)))
    named = np.arange(len(panel.x.names), dtype=np.float64)
    places = zip(named, frame.right(named), strict=True) if panel.x.names else _ticks(frame.x, frame.right)
    for value, x in places:
        parts.append(html("<path class='grid' d='M{:.1f} {:g}V{:g}'/>", x, TOP, bottom))
        parts += _below(_label(panel.x, value), x, (end - LEFT) / max(1, len(panel.x.names)), bottom)
    parts.append(html("<path class='axis' d='M{:g} {:g}V{:g}H{:g}'/>", LEFT, TOP, bottom, end))
    parts.append(html("<text class='x name' x='{:g}' y='{:g}'>{}</text>", (LEFT + end) / 2, HEIGHT - 3, panel.x.label))
    return parts


def _below(label: str, x: float, room: float, bottom: float) -> list[Html]:
    """Return the words below a place: in two lines where one is too narrow, and squeezed where two are."""
    lines = [label]
    if len(label) * LETTER > room and " " in label.strip():
        cut = min((k for k, letter in enumerate(label) if letter == " "), key=lambda k: abs(k - len(label) / 2))
        lines = [label[:cut], label[cut + 1 :]]
    parts = []
    for k, line in enumerate(lines):
        width = len(line) * LETTER
        inside = min(x, WIDTH - min(width, room) / 2)  # the last one may be wider than the room beside it
        tight = (
            html(" textLength='{:.0f}' lengthAdjust='spacingAndGlyphs'", room - 4) if width > 1.15 * room else Html("")
        )
        parts.append(html("<text class='x' x='{:.1f}' y='{:g}'{}>{}</text>", inside, bottom + 13 + 12 * k, tight, line))
    return parts


def _ticks(scale: Scale, placed: Callable[[Numbers], Numbers]) -> list[tuple[float, float]]:
    values = scale.ticks()
    return list(zip(values, placed(np.array(values, np.float64)).tolist(), strict=True))


def _label(axis: Axis, value: float) -> str:
    if axis.names:
        return axis.names[round(value)]
    return in_bits(value) if axis.bits else written(value)


def _run(curve: Curve, panel: Panel, frame: _Frame) -> Html:
    look = Look.of(curve.run)
    kept = _kept(curve)
    x = np.array([LEFT, WIDTH - RIGHT]) if curve.level else frame.right(curve.at[kept])
    y = frame.down(curve.mean[kept])
    there = np.isfinite(x) & np.isfinite(y)
    band = Html("")
    if curve.low is not None and curve.high is not None:
        drawn = _bars if panel.scattered else _band
        band = drawn(x, frame.down(curve.low[kept]), frame.down(curve.high[kept]))
    path = _path(x, y).replace("L", "M") if panel.scattered else _path(x, y)
    line = html(
        "<path class='line' d='{}' stroke-dasharray='{}' data-at='{}' data-is='{}'/>",
        path, DASHES[look.line], "|".join(_at(curve, panel, kept[there])),
        "|".join(f"{value:.4g}" for value in curve.mean[kept][there]),
    )  # fmt: skip
    step = 1 if panel.scattered else max(1, int(there.sum()) // MARKERS_PER_LINE)
    marked = [] if curve.level else list(zip(x[there][::step], y[there][::step], strict=True))
    marks = "".join(f"M{a:.1f} {b:.1f}{SHAPES[look.marker]}" for a, b in marked)
    return html(
        "<g class='c{}{}' data-run='{}{}' clip-path='url(#within-{})'>{}{}<path class='marks' d='{}'/></g>",
        look.colour, " level" if curve.level else "", panel.group, curve.run, panel.name, band, line, marks,
    )  # fmt: skip


def _kept(curve: Curve) -> NDArray[np.int64]:
    """Return the points of a curve that are drawn."""
    points = len(curve.mean)
    return np.unique(np.linspace(0, points - 1, min(points, MOST_POINTS)).round().astype(np.int64))


def _at(curve: Curve, panel: Panel, kept: NDArray[np.int64]) -> list[str]:
    if curve.level:
        return ["sends nothing"] * len(kept)
    if panel.x.names:
        return [panel.x.names[round(float(curve.at[k]))] for k in kept]
    if panel.x.counts != "round":
        return [f"{curve.at[k]:.4g}" for k in kept]
    return [in_bits(curve.at[k]) if panel.x.bits else f"{curve.rounds[k]:,}" for k in kept]


def _path(x: Numbers, y: Numbers) -> str:
    """Return a line through all points that are there, broken where one is not."""
    parts, pen = [], "M"
    for a, b in zip(x, y, strict=True):
        if np.isfinite(a) and np.isfinite(b):
            parts.append(f"{pen}{a:.1f} {b:.1f}")
            pen = "L"
        else:
            pen = "M"
    return "".join(parts)


def _band(x: Numbers, low: Numbers, high: Numbers) -> Html:
    there = np.isfinite(x) & np.isfinite(low) & np.isfinite(high)
    around = np.concatenate([x[there], x[there][::-1]]), np.concatenate([high[there], low[there][::-1]])
    return html("<path class='band' d='{}'/>", _path(*around))


def _bars(x: Numbers, low: Numbers, high: Numbers) -> Html:
    """Return intervals of points that stand by themselves."""
    there = np.isfinite(x) & np.isfinite(low) & np.isfinite(high)
    ends = zip(x[there], low[there], high[there], strict=True)
    return html("<path class='bars' d='{}'/>", "".join(f"M{a:.1f} {b:.1f}V{c:.1f}" for a, b, c in ends))


def _guide(guide: tuple[Numbers, Numbers], frame: _Frame) -> Html:
    x, y = frame.right(guide[0]), frame.down(guide[1])
    return html(
        "<path class='guide' d='{}'/><text class='guide' x='{:.1f}' y='{:.1f}'>∝ 1/√t</text>",
        _path(x, y), x[0] - 4, y[0] + 4,
    )  # fmt: skip
