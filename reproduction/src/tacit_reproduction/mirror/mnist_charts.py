"""Figures of `omd-mnist`: accuracy over the communications, one panel per noise."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tacit.metrics import mean_band
from tacit.results.plots import COLOURS, LINES, MARKERS, STYLE
from tacit_reproduction.drawing import finished
from tacit_reproduction.experiment import Figure
from tacit_reproduction.mirror.mnist_cells import Outcome

ACROSS = 3
"""Panels in a row."""


def accuracy_curves(name: str, title: str, caption: str, panels: Mapping[str, Mapping[str, Outcome]]) -> Figure:
    """Draw the methods' accuracies on the way, with bands of their 95 % intervals."""
    import matplotlib as mpl
    from matplotlib.figure import Figure as Canvas

    # The name salts the ids inside an SVG, so that several can stand in one page.
    with mpl.rc_context({**STYLE, "svg.hashsalt": name}):
        across = min(ACROSS, len(panels))
        rows = -(-len(panels) // across)
        canvas = Canvas(figsize=(max(6.0, 3.6 * across), 3.0 * rows + 0.6), layout="constrained")
        grid: Any = canvas.subplots(rows, across, squeeze=False, sharey=True)
        places = list(grid.flat)
        for place in places[len(panels) :]:
            place.set_visible(False)
        for place, (heading, curves) in zip(places, panels.items(), strict=False):
            for k, (label, outcome) in enumerate(curves.items()):
                band = mean_band(100 * outcome.curve)
                look = {"color": COLOURS[k], "ls": LINES[k], "marker": MARKERS[k]}
                place.plot(outcome.curve_at, band.mean, label=label, **look)
                if band.n > 1:
                    place.fill_between(outcome.curve_at, band.low, band.high, color=COLOURS[k], alpha=0.18, lw=0)
            place.set_title(heading)
            place.set_xlabel("communication round")
        for row in grid:
            row[0].set_ylabel("test accuracy (%)")
        canvas.legend(*places[0].get_legend_handles_labels(), loc="outside upper center", ncols=2)
        return finished(canvas, name, title, caption)
