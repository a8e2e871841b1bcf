"""Plots of one run or of several: readable in grey, by colour-blind eyes, on white and on black.

Figures are made with matplotlib's objects, never with pyplot, so nothing global is touched.
"""

from __future__ import annotations

import io
import os
import tempfile
import textwrap
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tacit.core.errors import ConfigError, ResultError
from tacit.core.extras import require
from tacit.core.text import visible
from tacit.metrics import mean_band
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
MARKERS_PER_LINE = 8
HIGHEST = 1e150
"""Curves that leave this are not drawn: sums over them overflow."""
WIDTH, HEIGHT, TITLE_INCHES = 6.4, 4.0, 0.28
NOTE_SIZE, NOTE_INCHES, NOTE_LETTERS = 8.5, 0.16, 15
"""Of the note on privacy: points, inches per line, letters per inch."""


class Look(NamedTuple):
    """How one run is drawn in every panel."""

    colour: str
    line: Any
    marker: str
    label: str


class Panel(NamedTuple):
    """One kind of plot."""

    title: str
    caption: str
    applies: Callable[[Sequence[Record]], bool]
    draw: Callable[[Any, Sequence[Record], Sequence[Look]], None]


class Drawn(NamedTuple):
    """A panel as a file of its own, and as part of a page."""

    png: bytes
    """On white, with its title."""
    svg: str
    """Without background and title, its text in the colour of the page's text."""


def draw(panel: Panel, records: Sequence[Record], name: str) -> Drawn:
    """Draw one panel. Its name salts the ids inside the SVG, so that several can stand in one page."""
    figure = _figure([panel], records)
    png = _rendered(figure, "png", dpi=144, facecolor="white")
    figure.axes[0].set_title("", loc="left")  # in a page the title stands above the plot
    figure.subplots_adjust(top=figure.subplotpars.top + TITLE_INCHES / figure.get_figheight())
    with _styled({"svg.hashsalt": name}):
        svg = _rendered(figure, "svg", transparent=True, metadata=_NO_METADATA).decode("utf-8")
    return Drawn(png, svg[svg.index("<svg") :].replace(INK, "currentColor"))


def can_draw() -> bool:
    """Whether the library that draws is installed."""
    try:
        require("matplotlib", "plots")
    except ConfigError:
        return False
    return True


def draw_all(records: Sequence[Record]) -> dict[str, Drawn]:
    """Draw every panel that applies to these runs."""
    return {name: draw(panel, records, name) for name, panel in PANELS.items() if panel.applies(records)}


def draw_overview(records: Sequence[Record], path: Path) -> Path:
    """Draw all panels that apply into one image file."""
    kind = path.suffix.removeprefix(".").lower()
    if kind not in ("png", "svg", "pdf"):
        raise ResultError(f"{path}: a plot is written as .png, .svg or .pdf; give the file one of these endings")
    panels = [panel for panel in PANELS.values() if panel.applies(records)]
    image = _rendered(_figure(panels, records), kind, dpi=160, facecolor="white", metadata=_NO_DATES[kind])
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=path.parent, prefix=".plot-", delete=False) as file:
            file.write(image)
        os.replace(file.name, path)  # noqa: PTH105 - a temporary file has a name, not a Path
    except OSError as error:
        raise ResultError(f"{path}: the plot cannot be written ({error}); choose another place") from error
    return path


_NO_METADATA = {"Date": None, "Creator": None}
_NO_DATES: dict[str, dict[str, Any]] = {"png": {}, "svg": _NO_METADATA, "pdf": {"CreationDate": None}}


def _figure(panels: Sequence[Panel], records: Sequence[Record]) -> Any:
    canvas = require("matplotlib.figure", "plots", "a plot").Figure
    columns = max(1, min(2, len(panels)))
    rows = max(1, -(-len(panels) // columns))
    width = WIDTH * columns
    note = textwrap.wrap(_as_text(privacy_note(records)), int((width - 0.3) * NOTE_LETTERS))
    room = NOTE_INCHES * len(note) + 0.08
    height = HEIGHT * rows + room
    with _styled():
        figure = canvas(figsize=(width, height))
        looks = [
            Look(COLOURS[k % len(COLOURS)], LINES[k % len(LINES)], MARKERS[k % len(MARKERS)], _as_text(record.label))
            for k, record in enumerate(records)
        ]
        for k, panel in enumerate(panels):
            axes = figure.add_subplot(rows, columns, k + 1)
            panel.draw(axes, records, looks)
            axes.set_title(panel.title)
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


def _legend(figure: Any, looks: Sequence[Look], width: float) -> int:
    """Put one legend for all panels above them; return how many lines it takes in a width given in inches."""
    from matplotlib.lines import Line2D

    widest = 0.75 + 0.085 * max(len(look.label) for look in looks)
    columns = max(1, min(len(looks), int(width / widest)))
    rows = -(-len(looks) // columns)
    columns = -(-len(looks) // rows)  # full lines, not one straggler
    handles = [Line2D([], [], color=k.colour, ls=k.line, marker=k.marker, label=k.label) for k in looks]
    in_lines = [look for column in range(columns) for look in handles[column::columns]]
    figure.legend(handles=in_lines, loc="upper center", ncols=columns, borderaxespad=0.2)
    return rows


@contextmanager
def _styled(more: dict[Any, Any] | None = None) -> Iterator[None]:
    import matplotlib as mpl

    with mpl.rc_context({**STYLE, **(more or {})}):
        yield


def _rendered(figure: Any, kind: str, **options: Any) -> bytes:
    buffer = io.BytesIO()
    figure.savefig(buffer, format=kind, **options)
    return buffer.getvalue()


def _curve(axes: Any, x: NDArray[Any], values: NDArray[np.float64], look: Look) -> None:
    """Draw the mean over repeats and the band of its 95 % interval; on log axes only what is positive."""
    band = mean_band(values)
    positive = axes.get_yscale() == "log"

    def shown(heights: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.where(heights > 0, heights, np.nan) if positive else heights

    axes.plot(
        x,
        shown(band.mean),
        color=look.colour,
        ls=look.line,
        marker=look.marker,
        markevery=max(1, len(x) // MARKERS_PER_LINE),
        label=look.label,
    )
    if band.n > 1:
        low = np.maximum(band.low, band.mean / 10) if positive else band.low
        axes.fill_between(x, shown(low), shown(band.high), color=look.colour, alpha=0.18, lw=0)


def _thousands(axis: Any) -> None:
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    axis.set_major_locator(MaxNLocator(6, integer=True))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))


def _finite_curves(record: Record, values: NDArray[np.float64]) -> bool:
    return values.size > 0 and bool((np.abs(values) < HIGHEST).all()) and not record.summary["diverged"]


def _any_trace(records: Sequence[Record]) -> bool:
    return any(_finite_curves(r, r.trace.average_loss) for r in records)


def _draw_average_loss(axes: Any, records: Sequence[Record], looks: Sequence[Look]) -> None:
    for record, look in zip(records, looks, strict=True):
        if _finite_curves(record, record.trace.average_loss):
            _curve(axes, record.trace.rounds, record.trace.average_loss, look)
    axes.set_xlabel("round t")
    axes.set_ylabel("average loss up to round t (nats)" if _in_nats(records) else "average loss up to round t")
    _thousands(axes.xaxis)


def _in_nats(records: Sequence[Record]) -> bool:
    """Losses that are negative log-likelihoods have a unit."""
    return all(record.summary["objective"] in ("logistic", "softmax") for record in records)


def _regret_values(record: Record) -> tuple[NDArray[np.int64], NDArray[np.float64]] | None:
    found = record.summary["regret"]
    if found is None or record.summary["diverged"]:
        return None
    values = np.array(found["per_agent_round"], np.float64)
    return None if (np.abs(values) >= HIGHEST).any() else (np.array(found["rounds"], np.int64), values)


def _has_regret(records: Sequence[Record]) -> bool:
    curves = [c for r in records if (c := _regret_values(r)) is not None]
    return any(len(rounds) > 1 and bool(np.any(values.mean(axis=0) > 0)) for rounds, values in curves)


def _draw_regret(axes: Any, records: Sequence[Record], looks: Sequence[Look]) -> None:
    axes.set_xscale("log")
    axes.set_yscale("log")
    last, height = 0, 0.0
    for record, look in zip(records, looks, strict=True):
        found = _regret_values(record)
        if found is not None:
            rounds, values = found
            _curve(axes, rounds, values, look)
            last, height = max(last, int(rounds[-1])), max(height, float(values[:, -1].mean()))
    axes.set_xlabel("round t")
    axes.set_ylabel("regret per agent and round")
    if height > 0:  # a guide above the end of the highest curve, over a decade and a half
        t = np.geomspace(max(1.0, last / 30), last, 2)
        guide = 1.3 * height * np.sqrt(last / t)
        axes.plot(t, guide, color=FAINT, lw=1.2, ls=(0, (2, 2)), label="_guide")
        axes.annotate(
            r"$\propto t^{-1/2}$",
            (t[0], guide[0]),
            xytext=(-4, 2),
            textcoords="offset points",
            color=FAINT,
            ha="right",
        )


def _has_consensus(records: Sequence[Record]) -> bool:
    return any(r.trace.consensus.size > 0 and bool(np.any(r.trace.consensus > 0)) for r in records)


def _draw_consensus(axes: Any, records: Sequence[Record], looks: Sequence[Look]) -> None:
    axes.set_yscale("log")
    for record, look in zip(records, looks, strict=True):
        if _finite_curves(record, record.trace.consensus):
            _curve(axes, record.trace.rounds, record.trace.consensus, look)
    axes.set_xlabel("round t")
    axes.set_ylabel("mean squared distance from mean")
    _thousands(axes.xaxis)


def _sends(record: Record) -> bool:
    return record.trace.bits.size > 0 and bool(np.all(record.trace.bits[:, -1] > 0))


def _any_sends(records: Sequence[Record]) -> bool:
    return any(_sends(r) and _finite_curves(r, r.trace.average_loss) for r in records)


def _draw_loss_against_bits(axes: Any, records: Sequence[Record], looks: Sequence[Look]) -> None:
    from matplotlib.ticker import EngFormatter, LogLocator, NullFormatter

    axes.set_xscale("log")
    for record, look in zip(records, looks, strict=True):
        if not _finite_curves(record, record.trace.average_loss):
            continue
        if _sends(record):
            sent = record.trace.bits.mean(axis=0) / record.summary["agents"]
            _curve(axes, np.where(sent > 0, sent, np.nan), record.trace.average_loss, look)
        else:  # it has no place on the axis of bits: a level to compare with
            axes.axhline(record.trace.average_loss[:, -1].mean(), color=look.colour, ls=look.line, label=look.label)
    axes.set_xlabel("sent per agent so far")
    axes.set_ylabel("average loss up to then (nats)" if _in_nats(records) else "average loss up to then")
    low, high = axes.get_xlim()
    axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if high / low < 100 else (1,)))
    axes.xaxis.set_major_formatter(EngFormatter(unit="bit", sep="\N{NO-BREAK SPACE}"))
    axes.xaxis.set_minor_formatter(NullFormatter())


PANELS = {
    "average_loss": Panel(
        "Average loss",
        "Loss at prediction time, averaged over all agents and all rounds up to t. Lines are means over the "
        "repeats, bands their 95 % confidence intervals.",
        _any_trace,
        _draw_average_loss,
    ),
    "regret": Panel(
        "Static regret per agent and round",
        "Average loss minus that of the one model that would have been best for all agents on all data up to "
        "t, found by a solver. On these logarithmic axes a line parallel to the grey guide falls like one "
        "over the square root of t. Where an algorithm beats every fixed model its regret is negative and "
        "not drawn.",
        _has_regret,
        _draw_regret,
    ),
    "consensus": Panel(
        "Disagreement among agents",
        "Mean squared distance of the agents' models from their mean, on a logarithmic axis.",
        _has_consensus,
        _draw_consensus,
    ),
    "loss_against_bits": Panel(
        "Loss against communication",
        "Average loss against the bits that an agent has sent on average, on a logarithmic axis. An "
        "algorithm that sends nothing is drawn as a level line.",
        _any_sends,
        _draw_loss_against_bits,
    ),
}
"""Name of the image file -> plot."""
