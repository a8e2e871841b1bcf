"""Experiment `pao-vs-baselines`: PAO-Fed against other methods (Gauthier 2023, secs. 4.4.3 and 4.4.5)."""

from __future__ import annotations

from typing import Any

import numpy as np

from tacit.metrics import mean_interval
from tacit.results.plots import COLOURS, LINES, MARKERS, STYLE
from tacit_reproduction.asynchronous.baselines_claims import (
    AT,
    CURVES,
    LOAD,
    REDUCTIONS,
    STRAGGLERS,
    at_best,
    judge,
)
from tacit_reproduction.asynchronous.baselines_runs import (
    CALLED,
    FED,
    FEDSGD,
    FULL,
    GRID,
    HALF,
    PSO,
    QUICK,
    SIGN,
    SIGN_GRID,
    STEP,
    WIDER,
    Design,
    Evidence,
    by_fraction,
    gather,
    ideal,
    swept,
)
from tacit_reproduction.asynchronous.curves import (
    IN_DB,
    SPARE,
    in_metrics,
    learning_curves,
    loads,
    steady_error,
)
from tacit_reproduction.asynchronous.setting import FEATURES, INITIAL, Curve, data_in_words, setting_in_words
from tacit_reproduction.asynchronous.variants import SEEDS_APART
from tacit_reproduction.drawing import IN_WORDS, finished
from tacit_reproduction.experiment import Experiment, Figure, Findings, Table, reproducible
from tacit_reproduction.gaps import decibels


def investigate(design: Design, seed: int, workers: int | None = None) -> Findings:
    """Run everything and judge the claims."""
    return findings(gather(design, SEEDS_APART * seed, workers))


def findings(evidence: Evidence) -> Findings:
    """Judge what was measured and present it."""
    design = evidence.design
    return Findings(
        judge(evidence),
        {
            "curves": [in_metrics(curve) for curve in evidence.curves.values()],
            "steps": {name: {"matched": c.matched, "best": c.best} for name, c in evidence.steps.items()},
        },
        data_in_words(design.clients, design.rounds, design.seeds),
        _method(design),
        [loads("Errors and bits", list(evidence.curves.values())), *_steps(evidence)],
        _figures(evidence),
    )


def _method(design: Design) -> list[str]:
    if design.tuning_seeds:
        grids = (
            f"{', '.join(map(str, GRID))} (shorter for PAO-Fed and ideal clients), for SignSGD "
            f"{', '.join(map(str, SIGN_GRID))}"
        )
        steps = (
            f"by the text's rule: PAO-Fed's is {STEP:g}, and another method's is the one of a grid with which its "
            f"first {INITIAL:.0%} of the iterations are most like PAO-Fed's, in the least squares of mean dB. Its best "
            f"step is the one with the lowest steady error. Both are chosen on {design.tuning_seeds} seeds of their "
            f"own. Grid: {grids}. Methods are matched to U1, in both figures, and among ideal clients to C2. "
            f"A best step of {GRID[-1]:g} is at the end of the grid"
        )
    else:
        steps = (
            "those that the full form chose for its own size, with which methods of this one need not start alike; "
            "loads, ideal clients and best steps need the full form"
        )
    return [
        setting_in_words(design.clients, design.rounds, design.seeds),
        f"Steps are {steps}.",
        f"{FED} calls 2 % of the clients that are there; {PSO} {CALLED:.0%} of them, with {WIDER} of {FEATURES} "
        "coordinates each, and others learn on alone: either is 2 % of all communication. SignSGD sends whole models "
        "down and a bit per coordinate up.",
        "Online-FedSGD, Online-Fed and PSO-Fed here average whatever arrives in an iteration. Built as (4.14) with "
        "alpha = 1, Online-FedSGD diverges within a hundred iterations: updates of three ages at once add three whole "
        "corrections. The text does not say what it did.",
        f'Set after figures were seen: the {AT:g} dB of "at or below", that being below the perfect setting counts as '
        "losing nothing, and that methods of figure 4.5 are matched to U1 like the others.",
        "Ideal clients are there whenever they have data, and no message is late. C1 and U1 are then the same as "
        "C2 and U2.",
    ]


def _steps(evidence: Evidence) -> list[Table]:
    rows = [
        (
            label,
            f"{chosen.matched:g}",
            f"{chosen.best:g}",
            ", ".join(f"{step:g}: {error:.2f}" for step, error in chosen.tried.items()) or "-",
        )
        for label, chosen in evidence.steps.items()
    ]
    note = "Steady errors (dB) on the tuning seeds, by step."
    return [Table("Steps", note, ("method", "starts alike", "best", "all"), rows)]


def _figures(evidence: Evidence) -> list[Figure]:
    curves = evidence.curves
    design = evidence.design
    steps = "steps that start alike" if design.tuning_seeds else "steps of the full form"
    drawn = [
        learning_curves(
            CURVES,
            "PAO-Fed and others",
            f"As figure 4.3 (a). {IN_WORDS}",
            {steps: [curves[name] for name in ("U1", "U2", "C2", FEDSGD, FED, PSO)]},
        )
    ]
    if design.sizes:
        drawn.append(_over_load(evidence))
    if design.ideal:
        some = [curves[name] for name in ("C2", FEDSGD, ideal("C2"), ideal("U1"), ideal(FEDSGD))]
        drawn.append(
            learning_curves(
                STRAGGLERS,
                "What stragglers cost",
                f"As figure 4.3 (c), {steps}. {IN_WORDS}",
                {"stragglers, and clients that are always there": some},
            )
        )
    drawn.append(
        learning_curves(
            REDUCTIONS,
            "Ways to communicate less",
            f"As figure 4.5. {IN_WORDS}",
            {steps: [curves[name] for name in ("C2", PSO, HALF, SIGN)]},
        )
    )
    return drawn


def _over_load(evidence: Evidence) -> Figure:
    """Draw steady errors over the bits that a client sends when it is there."""
    import matplotlib as mpl
    from matplotlib.figure import Figure as Canvas

    series: dict[str, list[tuple[float, Curve]]] = {
        variant: [(32.0 * m, curve) for m, curve in swept(evidence, variant)] for variant in ("U1", "C2")
    }
    whole = evidence.curves[FEDSGD]
    # What the text calls load: of a client that is there, called or not.
    called = [(32 * FEATURES * curve.up / whole.up, curve) for curve in by_fraction(evidence)]
    series["Online-Fed"] = called
    series["Online-Fed, best steps"] = [(load, at_best(evidence, curve.label)) for load, curve in called]
    with mpl.rc_context({**STYLE, "svg.hashsalt": LOAD}):
        canvas = Canvas(figsize=(7.5, 4.6), layout="constrained")
        axes: Any = canvas.subplots()
        for k, (label, found) in enumerate(series.items()):
            inside = [(load, mean_interval(decibels(steady_error(c)))) for load, c in found if _in_bounds(c)]
            x, middle = [load for load, _ in inside], np.array([one.mean for _, one in inside])
            ends = np.abs(np.array([(one.low, one.high) for _, one in inside]).T - middle)
            axes.errorbar(
                x, middle, yerr=ends, color=COLOURS[k], ls=LINES[k], marker=MARKERS[k], capsize=3, label=label
            )
        axes.set_xscale("log", base=2)
        ticks = sorted({round(load) for found in series.values() for load, _ in found})
        axes.set_xticks([32, 128, 512, 2048, 6400], ["32", "128", "512", "2,048", "6,400"])
        axes.set_xlim(ticks[0] / 1.3, ticks[-1] * 1.3)
        axes.set_xlabel("bits that a client sends per iteration in which it is there")
        axes.set_ylabel(f"steady {IN_DB}")
        axes.margins(y=SPARE / 5)
        axes.legend()
        return finished(
            canvas,
            LOAD,
            "Steady error by communication load",
            f"As figure 4.3 (b). Points are means over {evidence.design.seeds} seeds, bars their 95 % intervals; what "
            f"diverges is not drawn. {IN_WORDS}",
        )


def _in_bounds(curve: Curve) -> bool:
    return bool(np.isfinite(steady_error(curve)).all() and (steady_error(curve) < FEATURES).all())


BASELINES: Experiment = reproducible(
    "pao-vs-baselines",
    "PAO-Fed against other ways to learn from stragglers",
    "Gauthier (2023), secs. 4.4.3 and 4.4.5, figures 4.3 and 4.5",
    lambda quick, seed: investigate(QUICK if quick else FULL, seed),
)
