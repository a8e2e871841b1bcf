"""Experiment `gfl-regression`: servers on a graph and noise between them (Rizk 2023, sec. 3.5.1)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tacit.results.record import figure
from tacit_reproduction.charts import Curve, Points, log_curves, mean_points, points
from tacit_reproduction.drawing import IN_WORDS, means_of
from tacit_reproduction.experiment import Experiment, Figure, Findings, Table, reproducible
from tacit_reproduction.federated.graph_claims import (
    BY_STEP,
    BY_VARIANCE,
    LEARNING,
    NOISY,
    judge,
    steps,
    variances,
)
from tacit_reproduction.federated.graph_moments import Floats
from tacit_reproduction.federated.graph_runs import (
    BATCH_SIZES,
    CLIENTS,
    COHORT,
    FEATURE_VARIANCE,
    FULL,
    LOCAL_STEPS,
    NEIGHBOURS,
    QUICK,
    REWIRED,
    RIDGE,
    SAMPLES,
    SERVERS,
    TEXT_STEP,
    TEXT_VARIANCE,
    WORDS,
    Cell,
    Design,
    Evidence,
    Noise,
    growth_of_longer,
    run_noise,
    run_one_server,
    run_theory,
)
from tacit_reproduction.federated.private_segments import thinned
from tacit_reproduction.gaps import decibels, in_decibels
from tacit_reproduction.workers import crew

SEEDS_APART = 1000
COMPARED_ROUNDS = 100
"""In which one server is compared with federated averaging."""


def investigate(design: Design, seed: int, workers: int | None = None) -> Findings:
    """Run everything and judge the claims."""
    first = SEEDS_APART * seed
    with crew(workers) as team:
        outcomes = team("running", run_noise, [(design, noise, first) for noise in WORDS])
        (same,) = team("one server", run_one_server, [(COMPARED_ROUNDS, first)])
        theory = team("moments", run_theory, [(step, design.seeds, first) for step in design.steps])
    found = {cell: outcome for part in outcomes for cell, outcome in part.items()}
    evidence = Evidence(found, dict(zip(design.steps, theory, strict=True)), same, growth_of_longer(first, design))
    return findings(evidence, design)


def findings(evidence: Evidence, design: Design) -> Findings:
    """Judge what was measured and present it."""
    return Findings(
        judge(evidence),
        _metrics(evidence),
        {
            "name": "linear regression",
            "description": (
                f"{SERVERS} servers with {CLIENTS} clients each, {SAMPLES} samples in 2 dimensions per client, every "
                f"client with its own covariance and noise, drawn anew for each of {design.seeds} seeds"
            ),
            "rows": SERVERS * CLIENTS * SAMPLES,
            "complete": True,
        },
        _method(),
        [_table(evidence)],
        _figures(evidence),
    )


def _metrics(evidence: Evidence) -> dict[str, Any]:
    return {
        "cells": [
            {
                **cell._asdict(),
                "centroid_msd_db": figure(decibels(outcome.settled)),
                "individual_msd_db": figure(decibels(outcome.settled_individual)),
                "centroid_moments_db": figure(decibels(evidence.theory[cell.step].settled(cell))),
                "individual_moments_db": figure(decibels(evidence.theory[cell.step].settled(cell, individual=True))),
            }
            for cell, outcome in evidence.cells.items()
        ],
        "growth_per_round": {f"{step:g}": figure(theory.growth) for step, theory in evidence.theory.items()},
        "growth_per_round_longer_features": evidence.longer,
        "one_server": evidence.one_server._asdict(),
    }


def _method() -> list[str]:
    return [
        f"In each round every one of {SERVERS} servers calls {COHORT} of its {CLIENTS} clients, who take "
        f"{LOCAL_STEPS[0]} to {LOCAL_STEPS[1]} local steps with mu / E on {BATCH_SIZES[0]} to {BATCH_SIZES[1]} of "
        f"their samples; it averages their models, and servers mix theirs. rho = {RIDGE:g}. Our squared loss is half "
        "of (3.60): steps are twice the text's. There is no noise between clients and servers, as in the text.",
        f"The text gives neither its graph nor its covariances. Here servers form a small world ({NEIGHBOURS} "
        f"neighbours, {REWIRED:.0%} rewired, another one for each seed) with Metropolis weights, and covariances have "
        f"eigenvalues from {FEATURE_VARIANCE[0]:g} to {FEATURE_VARIANCE[1]:g}.",
        "Centroid MSD is that of the mean of the servers' models (3.64), mean individual MSD the mean of theirs "
        "(3.65). One run goes through all settings of a scheme of noise, the text's first, each until well after it "
        "has settled; figures are averages over the second half of its rounds. Intervals are over seeds, in dB, and "
        "comparisons are paired.",
        "Random noise is drawn for every link, and for the copy that a server keeps, as (3.8) has it. Moments: with "
        "quadratic risks a round is a random affine map of all models, and their second moments follow a linear "
        "recursion that is computed exactly from data and graph; noise adds a part in proportion to its variance.",
    ]


def _table(evidence: Evidence) -> Table:
    rows = []
    for cell, outcome in sorted(evidence.cells.items()):
        if cell.noise == "none" and cell.variance != TEXT_VARIANCE:
            continue  # the same setting in other rounds
        theory = evidence.theory[cell.step]
        rows.append(
            (
                WORDS[cell.noise],
                f"{cell.step:g}",
                "-" if cell.noise == "none" else f"{cell.variance:g}",
                in_decibels(outcome.settled),
                in_decibels(theory.settled(cell)),
                in_decibels(outcome.settled_individual),
                in_decibels(theory.settled(cell, individual=True)),
            )
        )
    columns = ("noise", "mu", "sigma_g^2", "centroid MSD in dB", "moments", "mean individual MSD in dB", "moments")
    return Table("Settled mean-square deviations", "± is half of the 95 % interval of the mean.", columns, rows)


def _figures(evidence: Evidence) -> list[Figure]:
    by_variance = {f"{v:g}": (TEXT_STEP, v) for v in variances(evidence)}
    by_step = {f"{step:g}": (step, TEXT_VARIANCE) for step in steps(evidence)}
    return [
        _learning(evidence),
        _sweep(evidence, BY_VARIANCE, "3.3", "variance of the noise, sigma_g^2", by_variance),
        _sweep(evidence, BY_STEP, "3.4", "step mu", by_step),
    ]


def _learning(evidence: Evidence) -> Figure:
    curves: dict[str, dict[str, Curve]] = {"Centroid": {}, "Mean of the servers": {}}
    for noise, words in WORDS.items():
        outcome = evidence.cells[Cell(noise, TEXT_STEP, TEXT_VARIANCE)]
        curves["Centroid"][words] = Curve(*thinned(outcome.rounds, outcome.centroid))
        curves["Mean of the servers"][words] = Curve(*thinned(outcome.rounds, outcome.individual))
    said = means_of(curve.values for panel in curves.values() for curve in panel.values())
    return log_curves(
        LEARNING,
        "Mean-square deviation round by round",
        f"As figure 3.2, mu = {TEXT_STEP:g}, sigma_g^2 = {TEXT_VARIANCE:g}. {said} {IN_WORDS}",
        curves,
        "round",
        "MSD: ||w - w^o||^2",
    )


def _sweep(
    evidence: Evidence,
    name: str,
    number: str,
    what: str,
    places: Mapping[str, tuple[float, float]],
) -> Figure:
    panels: dict[str, dict[str, Points]] = {"Centroid": {}, "Mean of the servers": {}}
    noises: tuple[Noise, ...] = ("none", *NOISY)
    for noise in noises:
        wanted = [Cell(noise, step, v) for step, v in places.values()]
        outcomes = [evidence.cells[cell] for cell in wanted]
        panels["Centroid"][WORDS[noise]] = _points([outcome.settled for outcome in outcomes])
        panels["Mean of the servers"][WORDS[noise]] = _points([outcome.settled_individual for outcome in outcomes])
        for panel, individual in (("Centroid", False), ("Mean of the servers", True)):
            expected = [evidence.theory[cell.step].settled(cell, individual) for cell in wanted]
            panels[panel][f"{WORDS[noise]}, moments"] = _points(expected)
    said = means_of(outcome.settled for outcome in evidence.cells.values())
    caption = f"As figure {number}: settled MSD by {what}, measured and by moments. {said} {IN_WORDS}"
    return points(name, f"Mean-square deviation by {what}", caption, panels, list(places), what, "settled MSD (dB)")


def _points(samples: list[Floats]) -> Points:
    return mean_points(decibels(values) for values in samples)


REGRESSION: Experiment = reproducible(
    "gfl-regression",
    "Graph federated learning: noise between servers",
    "Rizk (2023), sec. 3.5.1, figures 3.2 to 3.4",
    lambda quick, seed: investigate(QUICK if quick else FULL, seed),
)
