"""Pictures of `isfedavg-regression`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from tacit_reproduction.charts import Points, mean_points, points
from tacit_reproduction.drawing import IN_WORDS, Panel, draw_curves, means_of
from tacit_reproduction.experiment import Figure
from tacit_reproduction.federated.importance_claims import (
    COHORTS,
    CONTRAST,
    DIVERGENCE,
    LEARNING,
    NOISE,
    PLAIN,
    STEPS,
    Sweeps,
    common_round,
)
from tacit_reproduction.federated.importance_runs import (
    RULES,
    Evidence,
    Floats,
    Problem,
    RuleName,
    Setting,
    by_round,
)
from tacit_reproduction.judging import brief

COMPARED: tuple[RuleName, RuleName] = ("uniform", "optimal")
XI = "xi, how far clients' optima lie apart"


def figures(evidence: Evidence, sweeps: Sweeps, drifts: Mapping[Problem, Floats]) -> list[Figure]:
    """Draw figures 2.1 and 2.3 to 2.5 of the text again, and what the gain depends on."""
    curves = {rule: evidence[Setting(rule), PLAIN] for rule in RULES}
    caption = means_of(c.msd for c in curves.values())
    in_text = f"{caption} {IN_WORDS}"
    learning = {str(rule): by_round(c.rounds, 10 * np.log10(c.msd)) for rule, c in curves.items()}
    by_cohort = [(f"L = {n}", {r: (Setting(r, n), PLAIN) for r in COMPARED}) for n in sweeps.cohorts]
    by_steps = [(f"1 to {most}", {r: (Setting(r, most_steps=most), PLAIN) for r in COMPARED}) for most in sweeps.steps]
    by_noise = [
        (brief(float(drifts[p].mean()), 3), {r: (Setting(r), p) for r in COMPARED}) for p in (PLAIN, *sweeps.noise)
    ]
    by_contrast = [(f"{p.contrast:g}", {r: (Setting(r), p) for r in COMPARED}) for p in (PLAIN, *sweeps.contrast)]
    ranges = [
        _levels(
            COHORTS, "MSD and clients a round", f"As figure 2.3. {in_text}", by_cohort, evidence, "clients a round"
        ),
        _levels(
            STEPS, "MSD and local steps", f"As figure 2.4. {in_text}", by_steps, evidence, "local steps of a client"
        ),
    ]
    return [
        draw_curves(LEARNING, "MSD by rule", f"As figure 2.1. {in_text}", [Panel("L = 6", learning)], "MSD (dB)"),
        *(picture for picture, swept in zip(ranges, (by_cohort, by_steps), strict=True) if len(swept) > 1),
        _levels(NOISE, "MSD and xi", f"As figure 2.5 (a). {in_text}", by_noise, evidence, XI),
        _levels(
            CONTRAST,
            "MSD and unequal noise",
            f"What the gain depends on. {caption} The text has no such figure.",
            by_contrast,
            evidence,
            "noise variance of one client in twenty, times the others'",
        ),
        _divergence(evidence, sweeps),
    ]


def _levels(
    name: str,
    title: str,
    caption: str,
    places: Sequence[tuple[str, Mapping[RuleName, tuple[Setting, Problem]]]],
    evidence: Evidence,
    x_label: str,
) -> Figure:
    series = {}
    for rule in COMPARED:
        series[str(rule)] = mean_points(evidence[cells[rule]].decibels for _, cells in places)
    return points(name, title, caption, {"": series}, [place for place, _ in places], x_label, "steady MSD (dB)")


def _divergence(evidence: Evidence, sweeps: Sweeps) -> Figure:
    series = {}
    by = common_round(evidence, sweeps)
    seeds = len(evidence[Setting("uniform"), PLAIN].start)
    for rule in RULES:
        share = np.array([evidence[Setting(rule), p].diverged(by).mean() for p in sweeps.features])
        series[str(rule)] = Points(share, share, share)
    return points(
        DIVERGENCE,
        "Runs that diverge",
        f"In place of figure 2.5 (b): not noise but features decide. Shares of {seeds} seeds, in {by} rounds.",
        {"": series},
        [f"{p.features:g}" for p in sweeps.features],
        "variance of features, times that of figure 2.1",
        "share of seeds that diverge",
    )
