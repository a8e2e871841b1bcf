"""Pictures of `pao-theory`."""

from __future__ import annotations

from typing import Any

import numpy as np

from tacit.metrics import mean_band
from tacit.results.plots import COLOURS, LINES, MARKERS, STYLE
from tacit_reproduction.asynchronous.theory_claims import CLOSE, STEADY, STEPS, WAY, off
from tacit_reproduction.asynchronous.theory_runs import FORMS, LARGE, Evidence, Form
from tacit_reproduction.asynchronous.theory_settings import STEPPED
from tacit_reproduction.drawing import finished
from tacit_reproduction.experiment import Figure

LABELS: dict[Form, str] = {
    "kept": "default form",
    "text": "the text's form",
    "no squares": "default without mu^2 terms",
}
FLOOR = 1e-30
SPARE = 3.0
"""dB above and below what a picture has to show."""
SHOWN = 300
"""Iterations of the way; after them all curves are flat."""
APART = 0.22
"""Between the points of one setting, where settings have distance 1."""


def figures(evidence: Evidence) -> list[Figure]:
    """Draw the way, the steady states, and what steps lead to."""
    return [_paths(evidence), _steady(evidence), _steps(evidence)]


def _paths(evidence: Evidence) -> Figure:
    import matplotlib as mpl
    from matplotlib.figure import Figure as Canvas

    followed = {name: found for name, found in evidence.predicted.items() if found.paths}
    with mpl.rc_context({**STYLE, "svg.hashsalt": WAY}):
        canvas = Canvas(figsize=(4.2 * len(followed), 4.0), layout="constrained")
        places: Any = canvas.subplots(1, len(followed), squeeze=False, sharey=True)[0]
        for place, (name, found) in zip(places, followed.items(), strict=True):
            band = mean_band(evidence.simulated[name].deviation[:, :SHOWN])
            rounds = np.arange(len(band.mean))
            low, middle, high = (_decibels(values) for values in (band.low, band.mean, band.high))
            place.plot(rounds, middle, color=COLOURS[-1], lw=0.8, label=f"simulation, mean of {band.n} runs")
            place.fill_between(rounds, low, high, color=COLOURS[-1], alpha=0.25, lw=0)
            for k, form in enumerate(FORMS[:2]):
                path = _decibels(found.paths[form][:SHOWN])
                place.plot(rounds, path, color=COLOURS[k], ls=LINES[k], label=LABELS[form])
            place.set_title(name)
            place.set_xlabel("iteration n")
        settled = [10 * np.log10(value) for found in followed.values() for value in found.steady.values()]
        places[0].set_ylim(min(settled) - SPARE, SPARE)
        places[0].set_ylabel("E||w - w*||^2 (dB)")
        canvas.legend(*places[0].get_legend_handles_labels(), loc="outside upper center", ncols=3)
        caption = (
            f"The band is the 95 % interval of the mean of {evidence.design.seeds} runs. The text has no such figure."
        )
        return finished(canvas, WAY, "The way to the steady state, predicted and simulated", caption)


def _decibels(values: Any) -> Any:
    return 10 * np.log10(np.maximum(values, FLOOR))


def _steady(evidence: Evidence) -> Figure:
    import matplotlib as mpl
    from matplotlib.figure import Figure as Canvas

    names = [setting.name for setting in evidence.design.settings]
    with mpl.rc_context({**STYLE, "svg.hashsalt": STEADY}):
        canvas = Canvas(figsize=(7.5, 1.4 + 0.36 * len(names)), layout="constrained")
        place: Any = canvas.subplots()
        for k, form in enumerate(FORMS):
            gaps = [off(evidence, name, form) for name in names]
            middle, low, high = (np.array([getattr(gap, end) for gap in gaps]) for end in ("mean", "low", "high"))
            at = np.arange(len(names)) + APART * (k - 1)
            ends = np.stack([middle - low, high - middle])
            place.errorbar(
                middle, at, xerr=ends, color=COLOURS[k], marker=MARKERS[k], ls="none", capsize=2, label=LABELS[form]
            )
        place.axvspan(-CLOSE, CLOSE, color=COLOURS[-1], alpha=0.12, lw=0)
        place.set_yticks(np.arange(len(names)), names)
        place.invert_yaxis()
        place.set_xlabel("predicted minus simulated E||w - w*||^2 (dB)")
        place.set_ylabel("setting")
        canvas.legend(*place.get_legend_handles_labels(), loc="outside upper center", ncols=3)
        caption = (
            f"Points are means over {evidence.design.seeds} runs, bars their 95 % intervals; the shaded part is within "
            "1 dB. The text has no such figure."
        )
        return finished(canvas, STEADY, "The steady state, predicted and simulated", caption)


def _steps(evidence: Evidence) -> Figure:
    import matplotlib as mpl
    from matplotlib.figure import Figure as Canvas

    with mpl.rc_context({**STYLE, "svg.hashsalt": STEPS}):
        canvas = Canvas(figsize=(7.5, 4.4), layout="constrained")
        place: Any = canvas.subplots()
        for k, setting in enumerate(STEPPED):
            middle = np.median(evidence.simulated[setting.name].deviation, axis=0)
            seen = np.where(np.isfinite(middle) & (middle < LARGE**2), middle, np.nan)
            label = f"{setting.name}, mu = {setting.step:g}"
            place.plot(np.arange(len(seen)), seen, color=COLOURS[k], ls=LINES[k % len(LINES)], label=label)
        place.set_yscale("log")
        place.set_ylim(1e-4, LARGE)
        place.set_xlabel("iteration n")
        place.set_ylabel("||w - w*||^2, at the start 1")
        canvas.legend(*place.get_legend_handles_labels(), loc="outside upper center", ncols=2)
        caption = (
            f"Medians over {evidence.design.seeds} runs. Theorem 4.2 allows the last three steps and not the first two."
        )
        return finished(canvas, STEPS, "Steps above and below the bound of Theorem 4.2", caption)
