"""Figures and tables of curves: steady errors with intervals, bits sent, and pictures in dB."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.metrics import mean_band
from tacit.results.plots import COLOURS, LINES, MARKERS, STYLE
from tacit.results.record import figure
from tacit_reproduction.asynchronous.setting import STEADY, Curve
from tacit_reproduction.drawing import finished, means_of
from tacit_reproduction.experiment import Figure, Table
from tacit_reproduction.gaps import Gap, decibels, in_decibels
from tacit_reproduction.judging import brief

Floats = NDArray[np.float64]

IN_DB = "test MSE (dB)"
EARLY = 0.1
"""Share of the rounds after which the error is called early."""
SPARE = 0.5
"""dB above and below what a picture has to show."""
CEILING = 3.0
"""dB; whatever is higher leaves a picture at its top: a model of zeros has about 2 dB."""


def steady_error(curve: Curve) -> Floats:
    """(seeds,) mean test error of the last tenth of the rounds."""
    return np.asarray(10 ** (curve.steady() / 10))


def early_error(curve: Curve) -> Floats:
    """(seeds,) test error after the first tenth of the rounds."""
    at = int(np.searchsorted(curve.rounds, EARLY * curve.rounds[-1]))
    return np.asarray(curve.mse[:, at])


def gap(curve: Curve, reference: Curve) -> Gap:
    """Compare steady errors."""
    return Gap(f"{curve.label} against {reference.label}", steady_error(curve), steady_error(reference))


def bits(curve: Curve) -> str:
    """Return bits per client and iteration in both directions."""
    return f"{brief(curve.up, 3)} + {brief(curve.down, 3)} bits"


LOADS = (
    f"Steady: mean test error of the last {STEADY:.0%} of the rounds; early: after the first {EARLY:.0%}; ± is half of "
    "the 95 % interval of the mean over seeds. Bits per client and iteration are averages over all clients and "
    "rounds, absent ones included; a message is what a client sends when it takes part."
)
COLUMNS = ("method", "steady (dB)", "early (dB)", "bits per message", "bits up", "bits down", "seeds")


def loads(title: str, curves: Sequence[Curve], note: str = "") -> Table:
    """Return errors and bits of curves."""
    rows = [
        (
            curve.label,
            in_decibels(steady_error(curve)),
            in_decibels(early_error(curve)),
            f"{curve.per_message:,.0f}",
            f"{curve.up:.4g}",
            f"{curve.down:.4g}",
            str(len(curve.mse)),
        )
        for curve in curves
    ]
    return Table(title, f"{LOADS} {note}".strip(), COLUMNS, rows)


def in_metrics(curve: Curve) -> dict[str, Any]:
    """Return what a summary holds of a curve."""
    return {
        "label": curve.label,
        "rounds": int(curve.rounds[-1]),
        "steady_db": figure(decibels(steady_error(curve))),
        "early_db": figure(decibels(early_error(curve))),
        "bits_per_message": curve.per_message,
        "bits_up": curve.up,
        "bits_down": curve.down,
    }


def learning_curves(name: str, title: str, caption: str, panels: Mapping[str, Sequence[Curve]]) -> Figure:
    """Draw test errors over the iterations, with bits in the legends; what bands are is added to the caption."""
    import matplotlib as mpl
    from matplotlib.figure import Figure as Canvas

    # The name salts the ids inside an SVG, so that several can stand in one page.
    with mpl.rc_context({**STYLE, "svg.hashsalt": name}):
        canvas = Canvas(figsize=(5.2 * max(len(panels), 1.4), 5.0), layout="constrained")
        places: Any = canvas.subplots(1, len(panels), squeeze=False, sharey=True)[0]
        lowest = 0.0
        for place, (heading, curves) in zip(places, panels.items(), strict=True):
            for k, curve in enumerate(curves):
                lowest = min(lowest, _draw(place, curve, k))
            place.set_title(heading)
            place.set_xlabel("iteration n")
            place.legend(loc="best", fontsize="small", title="up + down per client and iteration")
        places[0].set_ylabel(IN_DB)
        places[0].set_ylim(lowest - SPARE, CEILING)
        said = means_of(curve.mse for curves in panels.values() for curve in curves)
        return finished(canvas, name, title, f"{caption} {said}")


def _draw(axes: Any, curve: Curve, k: int) -> float:
    """Draw a curve and return its lowest place."""
    seen = decibels(np.minimum(curve.mse, 10 ** (2 * CEILING)))  # one that diverges leaves the picture
    band = mean_band(seen)
    colour = COLOURS[k % len(COLOURS)]
    axes.plot(
        curve.rounds,
        band.mean,
        color=colour,
        ls=LINES[k % len(LINES)],
        marker=MARKERS[k % len(MARKERS)],
        markevery=(5 + k, 12),
        markersize=4,
        label=f"{curve.label}: {bits(curve)}",
    )
    if band.n > 1:
        axes.fill_between(curve.rounds, band.low, band.high, color=colour, alpha=0.18, lw=0)
    finite = band.mean[np.isfinite(band.mean)]
    return float(finite.min()) if finite.size else 0.0
