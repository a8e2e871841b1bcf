"""Experiment `fedavg-private`: noise on models or on updates (Rizk 2023, sec. 2.6.4)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tacit.results.record import figure
from tacit_reproduction import promises
from tacit_reproduction.charts import Curve, Points, log_curves, mean_points, points
from tacit_reproduction.drawing import IN_WORDS, means_of
from tacit_reproduction.experiment import Experiment, Figure, Findings, Table, reproducible
from tacit_reproduction.federated.private_claims import (
    BY_STEP,
    BY_VARIANCE,
    LEARNING,
    gain,
    judge,
    settled,
    steps,
    variances,
)
from tacit_reproduction.federated.private_runs import (
    BATCH_SIZES,
    CALLS,
    CLIENTS,
    CLIP,
    COHORT,
    FULL,
    LOCAL_STEPS,
    QUICK,
    RIDGE,
    SIZES,
    TARGET_EPSILON,
    TEXT_STEP,
    TEXT_VARIANCE,
    WORDS,
    Cell,
    Clipped,
    Design,
    Evidence,
    Share,
    run_clipped,
    run_share,
    run_theory,
    text_claim,
)
from tacit_reproduction.federated.private_segments import thinned
from tacit_reproduction.gaps import decibels, in_decibels
from tacit_reproduction.workers import crew

SEEDS_APART = 1000
CLIPPED: Mapping[Clipped, str] = {
    "models": f"the text's noise on models, clip {CLIP:g}",
    "updates": f"the text's noise on updates, clip {CLIP:g}",
    "gaussian": f"Gaussian noise on updates planned for epsilon = {TARGET_EPSILON:g}, clip {CLIP:g}",
}


def investigate(design: Design, seed: int, workers: int | None = None) -> Findings:
    """Run everything and judge the claims."""
    first = SEEDS_APART * seed
    with crew(workers) as team:
        outcomes = team("running", run_share, [(design, share, first) for share in WORDS])
        clipped = team("with a clip", run_clipped, [(kind, design.seeds, first) for kind in design.clipped])
        theory = team("moments", run_theory, [(step, design.seeds, first) for step in design.steps])
    found = {cell: outcome for part in outcomes for cell, outcome in part.items()}
    evidence = Evidence(
        found,
        dict(zip(design.steps, theory, strict=True)),
        dict(zip(design.clipped, clipped, strict=True)),
        text_claim(found, first),
    )
    return findings(evidence, design)


def findings(evidence: Evidence, design: Design) -> Findings:
    """Judge what was measured and present it."""
    return Findings(
        judge(evidence),
        _metrics(evidence),
        {
            "name": "linear regression",
            "description": (
                f"{CLIENTS:,} clients with {SIZES[0]} to {SIZES[1]} samples in 2 dimensions each, every client with "
                f"its own covariance and noise, drawn anew for each of {design.seeds} seeds"
            ),
            "rows": CLIENTS * sum(SIZES) // 2,
            "complete": True,
        },
        _method(evidence),
        [_table(evidence), _privacy_table(evidence)],
        [_learning(evidence), *_sweeps(evidence)],
    )


def _metrics(evidence: Evidence) -> dict[str, Any]:
    return {
        "cells": [
            {
                **cell._asdict(),
                "msd_db": figure(decibels(outcome.settled)),
                "moments_db": figure(decibels(evidence.theory[cell.step].settled(cell))),
            }
            for cell, outcome in evidence.cells.items()
        ],
        "growth_per_round": {f"{step:g}": figure(theory.growth) for step, theory in evidence.theory.items()},
        "updates_gain_db": gain(evidence)._asdict(),
        "clipped": {
            kind: {"msd_db": figure(decibels(promise.settled)), "privacy": promise.privacy.summary()}
            for kind, promise in evidence.clipped.items()
        },
        "text_claim": {
            "epsilon": evidence.claim.epsilon(),
            "epsilon_in_l1": evidence.claim.in_l1(),
            "probability": evidence.claim.probability,
            "failure": evidence.claim.failure,
            "words": evidence.claim.words(),
        },
    }


def _method(evidence: Evidence) -> list[str]:
    return [
        f"Each round the server calls {COHORT} of {CLIENTS:,} clients; a client takes {LOCAL_STEPS[0]} to "
        f"{LOCAL_STEPS[1]} local steps with mu / E_k on {BATCH_SIZES[0]} to {BATCH_SIZES[1]} of its samples each (the "
        f"text gives the batches for another experiment only), and the server averages. rho = {RIDGE:g}. Our squared "
        "loss is half of (2.72): steps are twice the text's, and noise on our gradients is half as large.",
        "Feature covariances have eigenvalues from 0.5 to 1.5, data noise has variances from 0.01 to 0.1, data sets "
        f"have {SIZES[0]} to {SIZES[1]} samples: the text gives none of these, nor the steps of figure 2.7.",
        "MSD is ||w - w^o||^2 of the server's model (2.73). One run goes through all settings of a kind of noise, the "
        "text's first, each until well after it has settled; figures are averages over the second half of its rounds. "
        "Intervals are over seeds, in dB, and comparisons are paired.",
        "Moments: with quadratic risks a round is a random affine map, and E[(w, 1) (w, 1)^T] follows a linear "
        "recursion that is computed exactly from the data, batches and cohorts drawn without replacement included. "
        "Noise on models adds sigma_g^2 / L to it in every round and coordinate, noise on updates mu^2 sigma_g^2 / L.",
        f"The text's privacy claim, for noise on updates: {evidence.claim.words()} B and B' are chosen for a "
        "probability of 0.95 from the largest mean square error on record, that of the third round. A claim per record "
        "needs a clip, and several local steps let one record change all of an update, by 2 clip.",
    ]


def _table(evidence: Evidence) -> Table:
    rows = [
        (
            WORDS[cell.share],
            f"{cell.step:g}",
            f"{cell.variance:g}",
            f"{cell.rounds:,}",
            in_decibels(outcome.settled),
            in_decibels(evidence.theory[cell.step].settled(cell)),
        )
        for cell, outcome in sorted(evidence.cells.items())
    ]
    columns = ("noise", "mu", "sigma_g^2", "rounds", "MSD in dB", "moments")
    return Table("Settled mean-square deviations", "± is half of the 95 % interval of the mean.", columns, rows)


def _privacy_table(evidence: Evidence) -> Table:
    rows = [
        (CLIPPED[kind], *promises.in_columns(promise.privacy), in_decibels(promise.settled))
        for kind, promise in evidence.clipped.items()
    ]
    claim = evidence.claim
    rows.append(
        (
            "the text's claim, noise on updates, no clip",
            f"{claim.epsilon():.4g}",
            f"holds with {claim.probability:.2f} in one round",
            "agent's data set",
            in_decibels(settled(evidence, "updates")),
        )
    )
    note = promises.note(promise.privacy for promise in evidence.clipped.values())
    return Table(
        f"Privacy with mu = {TEXT_STEP:g}",
        f"{note} Gaussian noise is planned for {CALLS} calls of one client. The text's claim is of another unit and no "
        "differential privacy as it stands.",
        ("run", *promises.COLUMNS, "MSD in dB"),
        rows,
    )


def _learning(evidence: Evidence) -> Figure:
    curves = {}
    for share, words in WORDS.items():
        outcome = evidence.cells[Cell(share, TEXT_STEP, 0.0 if share == "none" else TEXT_VARIANCE)]
        curves[words] = Curve(*thinned(outcome.rounds, outcome.deviation))
    return log_curves(
        LEARNING,
        "Mean-square deviation round by round",
        f"As figure 2.6, mu = {TEXT_STEP:g}, sigma_g^2 = {TEXT_VARIANCE:g}. "
        f"{means_of(curve.values for curve in curves.values())} {IN_WORDS}",
        {"": curves},
        "round",
        "MSD: ||w - w^o||^2",
    )


def _sweeps(evidence: Evidence) -> list[Figure]:
    return [
        _sweep(evidence, BY_STEP, "step mu", {f"{step:g}": (step, TEXT_VARIANCE) for step in steps(evidence)}),
        _sweep(
            evidence,
            BY_VARIANCE,
            "variance of the noise, sigma_g^2",
            {f"{v:g}": (TEXT_STEP, v) for v in variances(evidence)},
        ),
    ]


def _sweep(evidence: Evidence, name: str, what: str, places: Mapping[str, tuple[float, float]]) -> Figure:
    series = {}
    kinds: tuple[Share, Share] = ("models", "updates")
    for share in kinds:
        wanted = [Cell(share, *place) for place in places.values()]
        series[f"{WORDS[share]}, measured"] = _points([evidence.cells[cell].settled for cell in wanted])
        series[f"{WORDS[share]}, moments"] = _points([evidence.theory[cell.step].settled(cell) for cell in wanted])
    said = means_of(outcome.settled for outcome in evidence.cells.values())
    caption = f"As figure 2.7: settled MSD by {what}, measured and by moments. {said} {IN_WORDS}"
    title = f"Mean-square deviation by {what}"
    return points(name, title, caption, {"": series}, list(places), what, "settled MSD (dB)")


def _points(samples: list[Any]) -> Points:
    return mean_points(decibels(values) for values in samples)


PRIVATE: Experiment = reproducible(
    "fedavg-private",
    "Private federated averaging: noise on models or on updates",
    "Rizk (2023), sec. 2.6.4, figures 2.6 and 2.7",
    lambda quick, seed: investigate(QUICK if quick else FULL, seed),
)
