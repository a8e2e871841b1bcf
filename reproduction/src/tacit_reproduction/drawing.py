"""Curves with confidence bands, side by side."""

from __future__ import annotations

import io
from collections.abc import Collection, Iterable, Mapping, Sequence, Sized
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tacit.metrics import mean_band
from tacit.results.plots import COLOURS, INK, LINES, MARKERS, STYLE
from tacit_reproduction.experiment import Figure

POINTS = 120
"""Rounds at which a curve is drawn."""
MARKERS_PER_LINE = 8
IN_WORDS = "Of the text's figure only what it says in words survives."
LETTERS_PER_INCH, LETTERS_OF_A_HANDLE = 11, 8
"""Of a legend."""
SETTLED = 0.1
"""Share of the rounds after which the vertical range is chosen: before it all curves fall from one height."""


class Panel(NamedTuple):
    """One set of axes."""

    title: str
    curves: Mapping[str, NDArray[np.float64]]
    """Label -> (seeds, rounds)."""


def draw_curves(name: str, title: str, caption: str, panels: Sequence[Panel], y_label: str) -> Figure:
    """Draw curves over the rounds: means over the seeds and bands of their 95 % intervals."""
    import matplotlib as mpl
    from matplotlib.figure import Figure as Canvas

    # The name salts the ids inside an SVG, so that several can stand in one page.
    with mpl.rc_context({**STYLE, "svg.hashsalt": name}):
        canvas = Canvas(figsize=(6.0 * len(panels), 4.2), layout="constrained")
        axes: Any = canvas.subplots(1, len(panels), squeeze=False, sharey=True)[0]
        settled = [height for place, panel in zip(axes, panels, strict=True) for height in _draw(place, panel)]
        if settled:
            spare = 0.06 * (max(settled) - min(settled)) or 0.01
            axes[0].set_ylim(min(settled) - spare, max(settled) + spare)
        axes[0].set_ylabel(y_label)
        handles, labels = axes[0].get_legend_handles_labels()
        ncols = legend_columns(canvas, labels)
        canvas.legend(handles, labels, loc="outside upper center", ncols=ncols)
        return finished(canvas, name, title, caption)


def legend_columns(canvas: Any, labels: Collection[str]) -> int:
    """Return how many labels fit side by side above the panels."""
    room = LETTERS_PER_INCH * canvas.get_figwidth() / (LETTERS_OF_A_HANDLE + max(map(len, labels)))
    rows = -(-len(labels) // max(1, min(int(room), len(labels))))
    return -(-len(labels) // rows)  # full lines, not one straggler


def means_of(samples: Iterable[Sized]) -> str:
    """Say for a caption what is drawn, of samples with one value or curve per seed."""
    counts = sorted({len(values) for values in samples})
    return f"Means over {' or '.join(map(str, counts))} seeds with 95 % intervals."


def finished(canvas: Any, name: str, title: str, caption: str) -> Figure:
    """Render a canvas as a figure of a page; call it in the context of `STYLE` in which the canvas was drawn."""
    png = _rendered(canvas, "png", dpi=160, facecolor="white")
    svg = _rendered(canvas, "svg", transparent=True, metadata={"Date": None, "Creator": None}).decode("utf-8")
    return Figure(name, title, caption, png, svg[svg.index("<svg") :].replace(INK, "currentColor"))


def _draw(axes: Any, panel: Panel) -> list[float]:
    """Draw the curves of a panel; return the heights that its vertical range has to cover."""
    settled: list[float] = []
    for k, (label, values) in enumerate(panel.curves.items()):
        rounds = values.shape[1]
        at = np.unique(np.linspace(0, rounds - 1, POINTS).astype(np.int64))
        band = mean_band(values[:, at])
        colour = COLOURS[k % len(COLOURS)]
        axes.plot(
            at + 1,
            band.mean,
            color=colour,
            ls=LINES[k % len(LINES)],
            marker=MARKERS[k % len(MARKERS)],
            markevery=(k, max(1, len(at) // MARKERS_PER_LINE)),
            label=label,
        )
        if band.n > 1:
            axes.fill_between(at + 1, band.low, band.high, color=colour, alpha=0.18, lw=0)
        late = band.mean[at + 1 >= SETTLED * rounds]
        settled += [float(value) for value in late if np.isfinite(value)]
    axes.set_title(panel.title)
    axes.set_xlabel("round t")
    return settled


def _rendered(canvas: Any, kind: str, **options: Any) -> bytes:
    buffer = io.BytesIO()
    canvas.savefig(buffer, format=kind, **options)
    return buffer.getvalue()
