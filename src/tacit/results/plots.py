"""Plots of one run or of several as image files, by matplotlib: readable in grey and by colour-blind eyes.

Figures are made with matplotlib's objects, never with pyplot, so nothing global is touched.
"""

from __future__ import annotations

import io
import os
import tempfile
import textwrap
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tacit.core.errors import ConfigError, ResultError
from tacit.core.extras import require
from tacit.core.text import visible
from tacit.results.pages.charts import MARKERS_PER_LINE, Look
from tacit.results.pages.panels import Panel, panels
from tacit.results.record import Record

INK = "#1b1f24"
FAINT = "#8a9099"
STYLE: dict[Any, Any] = {
    "font.size": 10.0,
    "axes.titlesize": 11.0,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.labelsize": 10.0,
    "axes.edgecolor": FAINT,
    "axes.labelcolor": INK,
    "axes.titlecolor": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.grid.which": "major",
    "axes.axisbelow": True,
    "grid.color": FAINT,
    "grid.alpha": 0.25,
    "grid.linewidth": 0.6,
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "lines.linewidth": 1.8,
    "lines.markersize": 5.0,
    "legend.frameon": False,
    "legend.handlelength": 2.8,
    "legend.columnspacing": 1.4,
    "svg.fonttype": "path",
}

# Okabe and Ito's colours, neighbours of different lightness; lines and markers tell them apart in grey.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#7A6FC9", "#8C6D31")
LINES: tuple[Any, ...] = (
    "-",
    "--",
    "-.",
    ":",
    (0, (6, 1.5, 1, 1.5, 1, 1.5)),
    (0, (1, 1)),
    (0, (8, 3)),
    (0, (3, 1, 1, 1)),
)
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
WIDTH, HEIGHT, TITLE_INCHES = 6.4, 4.0, 0.28
NOTE_SIZE, NOTE_INCHES, NOTE_LETTERS = 8.5, 0.16, 15
"""Of the note on privacy: points, inches per line, letters per inch."""


def can_draw() -> bool:
    """Whether the library that draws is installed."""
    try:
        require("matplotlib", "plots")
    except ConfigError:
        return False
    return True


def draw_all(records: Sequence[Record]) -> dict[str, bytes]:
    """Return every plot of these runs as a PNG image, by name; none where matplotlib is not installed."""
    if not can_draw():
        return {}
    return {panel.name: _rendered(_figure([panel], records), "png", dpi=144) for panel in panels(records)}


def draw_overview(records: Sequence[Record], path: Path) -> Path:
    """Draw all panels that apply into one image file."""
    kind = path.suffix.removeprefix(".").lower()
    if kind not in ("png", "svg", "pdf"):
        raise ResultError(f"{path}: a plot is written as .png, .svg or .pdf; give the file one of these endings")
    image = _rendered(_figure(panels(records), records), kind, dpi=160, metadata=_NO_DATES[kind])
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=path.parent, prefix=".plot-", delete=False) as file:
            file.write(image)
        os.replace(file.name, path)  # noqa: PTH105 - a temporary file has a name, not a Path
    except OSError as error:
        raise ResultError(f"{path}: the plot cannot be written ({error}); choose another place") from error
    return path


_NO_DATES: dict[str, dict[str, Any]] = {
    "png": {},
    "svg": {"Date": None, "Creator": None},
    "pdf": {"CreationDate": None},
}


def _figure(shown: Sequence[Panel], records: Sequence[Record]) -> Any:
    canvas = require("matplotlib.figure", "plots", "a plot").Figure
    columns = max(1, min(2, len(shown)))
    rows = max(1, -(-len(shown) // columns))
    width = WIDTH * columns
    note = textwrap.wrap(_as_text(privacy_note(records)), int((width - 0.3) * NOTE_LETTERS))
    room = NOTE_INCHES * len(note) + 0.08
    height = HEIGHT * rows + room
    with _styled():
        figure = canvas(figsize=(width, height))
        looks = [_look(k, record) for k, record in enumerate(records)]
        for k, panel in enumerate(shown):
            _draw(figure.add_subplot(rows, columns, k + 1), panel, looks)
        figure.text(0.15 / width, 0.06 / height, "\n".join(note), fontsize=NOTE_SIZE, va="bottom", linespacing=1.25)
        legend_rows = _legend(figure, looks, width) if len(records) > 1 else 0
        # Fixed margins in inches: one frame for all plots of a report, and far quicker than a layout solver.
        figure.subplots_adjust(
            left=0.95 / width,
            right=1 - 0.15 / width,
            bottom=(0.55 + room) / height,
            top=1 - (TITLE_INCHES + 0.12 + 0.24 * legend_rows) / height,
            hspace=0.32,
            wspace=0.22,
        )
    return figure


def _as_text(words: str) -> str:
    """Return words as a plot shows them: no formula, and nothing that cannot be seen."""
    return visible(words).replace("$", r"\$")


def privacy_note(records: Sequence[Record]) -> str:
    """Say what each run spent, for the foot of a figure: it travels with the curves wherever they are copied."""
    by_privacy: dict[str, list[str]] = {}
    for record in records:
        by_privacy.setdefault(record.privacy, []).append(record.label)
    if len(by_privacy) == 1:
        (words,) = by_privacy
        return f"Privacy: {words}" + (" (all runs)." if len(records) > 1 else ".")
    parts = [f"{', '.join(who)}: {words}" for words, who in by_privacy.items()]
    return f"Privacy: {'; '.join(parts)}."


def _look(run: int, record: Record) -> dict[str, Any]:
    """Return how a run is drawn, as matplotlib's lines take it."""
    look = Look.of(run)
    return {
        "color": COLOURS[look.colour],
        "ls": LINES[look.line],
        "marker": MARKERS[look.marker],
        "label": _as_text(record.label),
    }


def _legend(figure: Any, looks: Sequence[dict[str, Any]], width: float) -> int:
    """Put one legend for all panels above them; return how many lines it takes in a width given in inches."""
    from matplotlib.lines import Line2D

    widest = 0.75 + 0.085 * max(len(look["label"]) for look in looks)
    columns = max(1, min(len(looks), int(width / widest)))
    rows = -(-len(looks) // columns)
    columns = -(-len(looks) // rows)  # full lines, not one straggler
    handles = [Line2D([], [], **look) for look in looks]
    in_lines = [look for column in range(columns) for look in handles[column::columns]]
    figure.legend(handles=in_lines, loc="upper center", ncols=columns, borderaxespad=0.2)
    return rows


@contextmanager
def _styled() -> Iterator[None]:
    import matplotlib as mpl

    with mpl.rc_context(STYLE):
        yield


def _rendered(figure: Any, kind: str, **options: Any) -> bytes:
    buffer = io.BytesIO()
    figure.savefig(buffer, format=kind, facecolor="white", **options)
    return buffer.getvalue()


def _draw(axes: Any, panel: Panel, looks: Sequence[dict[str, Any]]) -> None:
    axes.set(
        title=panel.title,
        xscale="log" if panel.x.log else "linear",
        yscale="log" if panel.y.log else "linear",
        xlabel=panel.x.label,
        ylabel=panel.y.label,
    )
    for curve in panel.curves:
        look = looks[curve.run]
        if curve.level:
            axes.axhline(curve.mean[0], **{key: look[key] for key in ("color", "ls", "label")})
            continue
        axes.plot(curve.at, curve.mean, markevery=max(1, len(curve.at) // MARKERS_PER_LINE), **look)
        if curve.low is not None:
            axes.fill_between(curve.at, curve.low, curve.high, color=look["color"], alpha=0.18, lw=0)
    if panel.guide is not None:
        t, height = panel.guide
        axes.plot(t, height, color=FAINT, lw=1.2, ls=(0, (2, 2)), label="_guide")
        axes.annotate(
            r"$\propto t^{-1/2}$",
            (t[0], height[0]),
            xytext=(-4, 2),
            textcoords="offset points",
            color=FAINT,
            ha="right",
        )
    if panel.x.bits:
        _bits(axes)
    elif not panel.x.log:
        _thousands(axes.xaxis)


def _bits(axes: Any) -> None:
    from matplotlib.ticker import EngFormatter, LogLocator, NullFormatter

    low, high = axes.get_xlim()
    axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if high / low < 100 else (1,)))
    axes.xaxis.set_major_formatter(EngFormatter(unit="bit", sep="\N{NO-BREAK SPACE}"))
    axes.xaxis.set_minor_formatter(NullFormatter())


def _thousands(axis: Any) -> None:
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    axis.set_major_locator(MaxNLocator(6, integer=True))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
