"""Figures, tables and procedure of `omd-three-clients`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.metrics import mean_interval
from tacit.results.plots import COLOURS, LINES, STYLE
from tacit.results.record import figure
from tacit_reproduction import promises
from tacit_reproduction.charts import Curve, Points, log_curves, points
from tacit_reproduction.drawing import finished
from tacit_reproduction.experiment import Figure, Table
from tacit_reproduction.judging import shown
from tacit_reproduction.mirror.three_clients_claims import (
    LIMITS,
    NOISES,
    REGRET,
    STARTS,
    between,
    components_of,
    slope,
    spread,
)
from tacit_reproduction.mirror.three_clients_runs import (
    CLIENTS,
    DIMENSIONS,
    GAMMA,
    MEANS_APART,
    STEPS_IN_WORDS,
    Cell,
    DataName,
    Design,
    Evidence,
    Limit,
    LimitCell,
    NoiseName,
    Outcome,
)

FORMS = {False: "biased (rows sum to 1)", True: "unbiased (push-sum in the dual)"}


def metrics(evidence: Evidence) -> dict[str, Any]:
    """Return the numbers of summary.json."""
    return {
        "gamma": GAMMA,
        "cells": [
            {
                **cell._asdict(),
                "spread": figure(spread(outcome.models)[:, -1]),
                "regret": figure(outcome.regret[:, -1]),
                "slope": _interval(outcome),
                "mean_vector": outcome.models[:, -1].mean(axis=(0, 1)).tolist(),
                "mean_best": outcome.best.mean(axis=0).tolist(),
                "privacy": outcome.privacy.summary(),
            }
            for cell, outcome in evidence.cells.items()
        ],
        "limits": [
            {
                **cell._asdict(),
                "from_true_optimum": figure(limit.to_true),
                "from_weighted_optimum": figure(limit.to_weighted),
                "optima_apart": figure(limit.apart),
                "privacy": limit.privacy.summary(),
            }
            for cell, limit in evidence.limits.items()
        ],
        "bounded_noise_for_records": {str(t): booked.summary() for t, booked in evidence.record_level.items()},
    }


def _interval(outcome: Outcome) -> dict[str, float | None]:
    found = slope(outcome)
    values = {"mean": found.mean, "low": found.low, "high": found.high}
    return {name: float(value) if np.isfinite(value) else None for name, value in values.items()}


def method(design: Design, evidence: Evidence) -> list[str]:
    """Return how it was done."""
    gap = max(outcome.certified for outcome in evidence.cells.values())
    best = evidence.cells[Cell(max(design.horizons), "none", "uniform", "text")].best
    off = float(np.max(np.abs(best - 1 / DIMENSIONS)))
    return [
        "Exponentiated gradient on the simplex (mirror descent with negative entropy), logistic loss with gamma = "
        f"{GAMMA:g}, {CLIENTS} clients with the text's weights, {design.seeds} seeds, each with its own data and "
        "noise; both starts meet the same data and noise. The regulariser's gradient, which holds no data, is added "
        "after the noise. The text prints [1/5, 1/5, 1/5, 1/5, 2/5] as client 3's uniform start, which is no "
        "distribution; it starts at 1/5 here.",
        "Regret is the loss of all clients at prediction time minus that of the one vector of the simplex that would "
        f"have been best for all of them up to that round (solved for; its average loss is within {gap:.1g} of the "
        "optimum), per client and round. The text draws a bound and no measured regret. Its bound does not hold the "
        "step size; with steps of 1/t the usual proof gives a term D_R / eta_T = T log d, which bounds nothing.",
        "What there is to be learnt in the text's data: features are N(y + t/2, 1) brought to length 1, so that all "
        "five become 1/sqrt(5) as t grows. Then <x, w> = 1/sqrt(5) for every w of the simplex: no vector predicts "
        "better than another, labels cannot be predicted, and the regulariser alone decides. The optimum is the "
        f"uniform vector, where the uniform start already is (best vectors of {max(design.horizons):,} rounds: no "
        f"component is off 1/5 by more than {off:.1g}).",
        f"The longest horizon is also run with {STEPS_IN_WORDS['matched']}, the step of a loss that is strongly "
        "convex by gamma / d in units of the entropy.",
        f"Limits: {design.limit_rounds:,} rounds with that step, from the uniform start. Clients that differ: client "
        f"i's labels y show in coordinate i alone, where features have mean {MEANS_APART:g} y. Rows that sum to 1 "
        "weigh the clients by the Perron vector of the matrix, [0.37, 0.35, 0.28]; the unbiased form takes the "
        "text's printed matrix as it stands, whose columns sum to 1, on the same links. Both optima are solved for "
        "on all data of a run.",
        "Slopes are of the mean over the seeds with jackknife intervals, since single seeds may beat every fixed "
        "vector.",
    ]


def tables(evidence: Evidence) -> list[Table]:
    """Return all figures with what they cost."""
    rows = [
        (
            f"{cell.rounds:,}",
            STEPS_IN_WORDS[cell.step],
            NOISES[cell.noise],
            cell.start,
            *promises.in_columns(outcome.privacy),
            shown(spread(outcome.models)[:, -1]),
            shown(between(evidence.cells[cell._replace(start="uniform")], outcome)[:, -1])
            if cell.start == "own"
            else "-",
            shown(outcome.regret[:, -1]),
        )
        for cell, outcome in evidence.cells.items()
    ]
    columns = ("T", "step", "noise", "start", *promises.COLUMNS, "clients apart", "from the uniform start", "Reg_T / T")
    spent = promises.note(outcome.privacy for outcome in evidence.cells.values())
    limits = [
        (
            "one distribution" if cell.data == "text" else "clients that differ",
            NOISES[cell.noise],
            FORMS[cell.unbiased],
            *promises.in_columns(limit.privacy),
            shown(limit.to_true),
            shown(limit.to_weighted),
            shown(limit.apart),
        )
        for cell, limit in evidence.limits.items()
    ]
    heads = (
        "data",
        "noise",
        "weights",
        *promises.COLUMNS,
        "from the true optimum",
        "from the weighted one",
        "optima apart",
    )
    ends = "± is half of the 95 % interval of the mean; distances are Euclidean, at the end of a run."
    return [
        Table("Convergence and regret", f"{ends} {spent}", columns, rows),
        Table("Where the weights lead", f"{ends} {spent}", heads, limits),
    ]


def figures(evidence: Evidence) -> list[Figure]:
    """Return the pictures of the text, and those that it lacks."""
    shortest, longest = (f(cell.rounds for cell in evidence.cells) for f in (min, max))
    pictures = [
        _components(
            components_of(noise),
            f"Every component of every client, T = {shortest}, {NOISES[noise]}",
            "As the text's figures 2.1 (above) and 2.2 (below); one run, that of the first seed.",
            {
                "uniform start": evidence.cells[Cell(shortest, noise, "uniform", "text")],
                "own starts": evidence.cells[Cell(shortest, noise, "own", "text")],
            },
        )
        for noise in NOISES
    ]
    apart, remembered, regret = {}, {}, {}
    for step, words in STEPS_IN_WORDS.items():
        cells = {NOISES[noise]: Cell(longest, noise, "own", step) for noise in NOISES}
        pairs = {
            name: (evidence.cells[cell._replace(start="uniform")], evidence.cells[cell]) for name, cell in cells.items()
        }
        apart[f"Between clients, {words}"] = {
            name: _distance(own, spread(own.models)) for name, (_, own) in pairs.items()
        }
        remembered[f"Between starts, {words}"] = {
            name: _distance(pair[1], between(*pair)) for name, pair in pairs.items()
        }
        regret[f"Uniform start, {words}"] = {name: _positive(uniform) for name, (uniform, _) in pairs.items()}
        regret[f"Own starts, {words}"] = {name: _positive(own) for name, (_, own) in pairs.items()}
    seeds = len(next(iter(evidence.cells.values())).regret)
    bands = f"Lines are means over {seeds} seeds, bands their 95 % intervals."
    return [
        *pictures,
        log_curves(
            STARTS,
            f"What is left of the starts, T = {longest:,}",
            "Above: largest distance between two clients from their own starts. Below: largest distance between a "
            f"client's models from the two starts; no line where it is 0. {bands}",
            {**apart, **remembered},
            "round t",
            "distance on the simplex",
        ),
        log_curves(
            REGRET,
            f"Average regret, T = {longest:,}",
            "True regret against the best fixed vector of the simplex up to each round; a line ends where it is not "
            f"above 0. {bands}",
            regret,
            "round t",
            "regret per client and round, Reg_t / t",
        ),
        _limits(evidence, seeds),
    ]


def _limits(evidence: Evidence, seeds: int) -> Figure:
    forms: dict[str, tuple[NoiseName, bool]] = {
        "no noise,\nbiased": ("none", False),
        "no noise,\nunbiased": ("none", True),
        "bounded\nnoise": ("bounded", False),
        "Laplace\nnoise": ("laplace", False),
    }

    def ends(data: DataName, of: Callable[[Limit], NDArray[np.float64]]) -> Points:
        found = [evidence.limits.get(LimitCell(data, noise, unbiased)) for noise, unbiased in forms.values()]
        nothing = (np.nan,) * 3
        return Points(*np.array([nothing if limit is None else mean_interval(of(limit))[:3] for limit in found]).T)

    data: dict[str, DataName] = {"Clients that differ": "apart", "One distribution, as in the text": "text"}
    return points(
        LIMITS,
        "Where the runs end",
        "Distance of the models from two optima: that of all clients alike, and that which weighs them by the Perron "
        f"vector. Points are means over {seeds} seeds, bars their 95 % intervals; noise is run with the biased form "
        "where clients differ. The text has no such figure.",
        {
            heading: {
                "from the true optimum": ends(name, lambda limit: limit.to_true),
                "from the Perron-weighted one": ends(name, lambda limit: limit.to_weighted),
            }
            for heading, name in data.items()
        },
        list(forms),
        "noise and form",
        "distance on the simplex",
    )


def _distance(outcome: Outcome, values: NDArray[np.float64]) -> Curve:
    """Return a distance at a dozen rounds, where it has a logarithm."""
    places = np.unique(np.rint(np.geomspace(1, len(outcome.at) - 1, 12)).astype(np.int64))
    kept = places[values[:, places].mean(axis=0) > 0]
    return Curve(outcome.at[kept], values[:, kept])


def _positive(outcome: Outcome) -> Curve:
    above = np.cumprod(outcome.regret.mean(axis=0) > 0).astype(bool)
    return Curve(outcome.regret_rounds[above], outcome.regret[:, above])


def _components(name: str, title: str, caption: str, outcomes: Mapping[str, Outcome]) -> Figure:
    import matplotlib as mpl
    from matplotlib.figure import Figure as Canvas

    with mpl.rc_context({**STYLE, "svg.hashsalt": name}):
        canvas = Canvas(figsize=(2.6 * DIMENSIONS, 2.4 * len(outcomes) + 0.6), layout="constrained")
        grid: Any = canvas.subplots(len(outcomes), DIMENSIONS, squeeze=False, sharey=True, sharex=True)
        for row, (heading, outcome) in zip(grid, outcomes.items(), strict=True):
            for component, axes in enumerate(row):
                for client in range(CLIENTS):
                    axes.plot(
                        outcome.at,
                        outcome.models[0, :, client, component],
                        color=COLOURS[client],
                        ls=LINES[client],
                        label=f"client {client + 1}",
                    )
                axes.axhline(outcome.best[0, component], color="0.5", lw=0.8, label="best fixed vector")
                axes.set_title(f"component {component + 1}")
            row[0].set_ylabel(f"weight, {heading}")
        for axes in grid[-1]:
            axes.set_xlabel("round t")
        handles, labels = grid[0][0].get_legend_handles_labels()
        canvas.legend(handles, labels, loc="outside upper center", ncols=len(labels))
        return finished(canvas, name, title, caption)
