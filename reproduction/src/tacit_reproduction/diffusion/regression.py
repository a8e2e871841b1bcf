"""Experiment `diffusion-regression`: four noise schemes under three recursions (Rizk 2023, sec. 4.4.1)."""

from __future__ import annotations

from typing import Any

import numpy as np

from tacit.results.record import figure
from tacit_reproduction.analysis.trajectory import TrajectoryClaim, bounds_for, trajectory_claim
from tacit_reproduction.diffusion.protocol import (
    METHODS,
    NEIGHBOURS,
    REWIRED,
    SEEDS_APART,
    WORDS,
    Floats,
    Noise,
)
from tacit_reproduction.diffusion.regression_charts import figures
from tacit_reproduction.diffusion.regression_claims import judge
from tacit_reproduction.diffusion.regression_runs import (
    AGENTS,
    DATA_NOISE,
    DIMENSIONS,
    FEATURE_VARIANCE,
    FULL,
    NOISE_SIZE,
    PER_INVERSE_STEP,
    PRINTED_CLIP,
    QUICK,
    RIDGE,
    SAMPLES,
    SHORTEST,
    TEXT_STEP,
    Cell,
    Design,
    Evidence,
    cells,
    largest_move,
    predicted,
    run_cell,
    run_masked,
    run_private,
)
from tacit_reproduction.experiment import Experiment, Findings, Table, reproducible
from tacit_reproduction.gaps import decibels
from tacit_reproduction.judging import brief, shown
from tacit_reproduction.workers import crew

CERTAIN = 0.9
"""Probability, per round, of the text's claim of privacy in the table."""
CLIPPED: tuple[Noise, ...] = ("random", "homomorphic")


def investigate(design: Design, seed: int, workers: int | None = None) -> Findings:
    """Run everything and judge the claims."""
    evidence = gather(design, SEEDS_APART * seed, workers)
    return Findings(
        judge(evidence),
        _metrics(evidence),
        {
            "name": "linear regression",
            "description": (
                f"{SAMPLES} samples of each of {AGENTS} agents in {DIMENSIONS} dimensions, drawn anew for each of "
                f"{design.seeds} seeds"
            ),
            "rows": AGENTS * SAMPLES,
            "complete": True,
        },
        _method(design),
        [_table(evidence), _theory_table(evidence), _privacy_table(evidence)],
        figures(evidence),
    )


def gather(design: Design, first: int, workers: int | None = None) -> Evidence:
    """Run everything, with seeds from `first` on."""
    wanted = cells(design)
    levels = (1.0, *design.levels)
    with crew(workers) as team:
        outcomes = team("running", run_cell, [(cell, design.seeds, first) for cell in wanted])
        masked = team("comparing", run_masked, [(method, design.seeds, first) for method in design.masked])
        privacy = team("booking", run_private, [(noise, first) for noise in CLIPPED])
        theory = team("predicting", predicted, [(level, design.seeds, first) for level in levels])
    return Evidence(
        dict(zip(wanted, outcomes, strict=True)),
        dict(zip(design.masked, masked, strict=True)),
        dict(zip(levels, theory, strict=True)),
        dict(zip(CLIPPED, privacy, strict=True)),
        largest_move(first),
    )


def _metrics(evidence: Evidence) -> dict[str, Any]:
    return {
        "noise_variance": NOISE_SIZE**2,
        "cells": [
            {
                **cell._asdict(),
                "rounds": cell.rounds,
                "centroid_msd_db": figure(decibels(outcome.settled)),
                "individual_msd_db": figure(decibels(outcome.settled_individual)),
            }
            for cell, outcome in evidence.outcomes.items()
        ],
        "same_bits": {method: masked.same for method, masked in evidence.masked.items()},
        "theory": [
            {"level": level, **{name: figure(values) for name, values in theory._asdict().items()}}
            for level, theory in evidence.theory.items()
        ],
        "text_privacy": {
            noise: {"epsilon": said.epsilon(), "in_l1": said.in_l1(), "failure": said.failure}
            for noise, said in ((noise, text_claim(evidence, noise)) for noise in CLIPPED)
        },
        "privacy_with_clip": {noise: privacy.summary() for noise, privacy in evidence.privacy.items()},
    }


def _method(design: Design) -> list[str]:
    low, high = DATA_NOISE
    return [
        f"{AGENTS} agents, {SAMPLES} samples each, d = u^T w* + o, loss (d - u^T w)^2 + {RIDGE:g} ||w||^2 as printed "
        f"in (4.62), whose gradient has a factor 2. All agents have one covariance R_u (eigenvalues uniform on "
        f"{FEATURE_VARIANCE}) and each its own variance of o (uniform on {low:g} to {high:g}); the text gives neither "
        f"range. With eigenvalues of R_u around 1, consensus with one-sample gradients does not settle at "
        f"mu = {TEXT_STEP:g}, even if the factor 2 is left out, so that the text's must have been smaller.",
        "Gradients are of one sample, drawn at random with repetition; one setting takes an agent's whole data set "
        f"instead. Networks are small worlds of {NEIGHBOURS} neighbours, {100 * REWIRED:g} % rewired, with Metropolis "
        "weights (the text shows its network as a picture): the Perron vector is uniform and the centroid the mean. "
        f"{design.seeds} seeds, each with its own data, network and draws, which all settings of a seed share.",
        f"Laplace noise of variance {NOISE_SIZE**2:g} on every coordinate of every message: an own draw for each link "
        "(random), one draw per agent that cancels in the network's mean (graph-homomorphic), or masks that cancel at "
        "each receiver (local). The last one works on a fixed-point grid, and is compared with the same run on the "
        "grid without masks, number by number after every round; and with the plain run, off the grid, in MSD.",
        f"MSD is against w^o of (4.63), solved for on all the data. Steady states are averages over the second half of "
        f"a run; runs have max({SHORTEST:,}, {PER_INVERSE_STEP} / mu) rounds. Differences are of dB per seed.",
        "CTA sends its w. Under random noise an agent here goes on with a noisy copy of its own w, as a record's "
        "privacy asks for, and has no other; the text's w lacks that noise. So its variance, sigma_g^2 in each "
        f"coordinate of a model and a share 1 / {AGENTS} of that in the centroid, is taken off the steady states of "
        "CTA under random noise; curves over the rounds show what was there.",
        "Theory is for small steps and uses nothing that was measured: with H the mean curvature, the centroid's error "
        "settles at tr(H^-1 C) / (2 mu), C being the covariance of what a round adds to it. Sampling adds mu times the "
        "mean of the agents' gradient noises, random noise sum_pm W[p, m] g_pm / P, and graph-homomorphic noise mu "
        "times the mean of (h_p - H) times a model's distance from the centroid, h_p the curvature of one sample.",
        f"In the privacy table a record's gradient of half the loss is clipped to {PRINTED_CLIP:g}. Elsewhere nothing "
        "is clipped, as in the text, and nothing is promised per record.",
    ]


def _in_db(values: Floats) -> str:
    return shown(decibels(values))


def _table(evidence: Evidence) -> Table:
    rows = []
    for cell, outcome in sorted(evidence.outcomes.items(), key=lambda item: _order(item[0])):
        kind = "whole data sets" if cell.whole else "one sample"
        data = kind if cell.level == 1 else f"{kind}, {cell.level:g} times the noise"
        settled = (_in_db(outcome.settled), _in_db(outcome.settled_individual))
        rows.append((cell.method, data, f"{cell.step:g}", WORDS[cell.noise], f"{cell.rounds:,}", *settled))
    columns = ("method", "gradients", "mu", "noise", "rounds", "centroid (dB)", "individual (dB)")
    return Table("Steady-state MSD", "± is half of the 95 % interval of the mean over seeds.", columns, rows)


def _order(cell: Cell) -> tuple[Any, ...]:
    return (list(METHODS).index(cell.method), cell.whole, cell.level, -cell.step, list(WORDS).index(cell.noise))


def _theory_table(evidence: Evidence) -> Table:
    rows = []
    for level, theory in sorted(evidence.theory.items()):
        means = [float(np.mean(values)) for values in theory]
        gap = float(np.mean(decibels(1 + theory.homomorphic / theory.sampling)))
        rows.append((f"{level:g}", *(brief(mean, 3) for mean in means), f"{gap:.2f}"))
    columns = (
        *("data noise", "sampling / mu", "random x mu", "homomorphic / mu"),
        *("distance, random", "distance, homomorphic", "homomorphic above none (dB)"),
    )
    note = (
        "Means over seeds, for small steps: what each kind of noise adds to the centroid's MSD, and the mean squared "
        "distance of models from the centroid. Data noise is a factor on the variances."
    )
    return Table("Theory", note, columns, rows)


def text_claim(evidence: Evidence, noise: Noise) -> TrajectoryClaim:
    """Return what the text says of ATC at its step, (4.28)-(4.34), from the errors that were measured."""
    individual = evidence.outcomes[Cell("ATC", noise, TEXT_STEP)].individual
    error = AGENTS * float(individual.mean(axis=0).max())
    return trajectory_claim(
        NOISE_SIZE,
        SHORTEST,
        bounds_for((error, error), CERTAIN),
        evidence.moved,
        (error, error),
        agents=AGENTS,
        links=AGENTS,
        coordinates=DIMENSIONS,
    )


def _privacy_table(evidence: Evidence) -> Table:
    rows = []
    for noise in (*CLIPPED, "local"):
        said = text_claim(evidence, noise)
        promised = evidence.privacy.get(noise)
        record = ("none", "the receiver learns the exact sum of its neighbours' shares")
        if promised is not None:
            found = promised.summary()
            record = (brief(float(found["epsilon"])), str(found["composition"]))
        rows.append((WORDS[noise], brief(said.epsilon()), brief(said.in_l1()), f"{said.failure:.2g}", *record))
    note = (
        f"ATC, mu = {TEXT_STEP:g}, i = {SHORTEST:,} rounds. The text's epsilon(i) of (4.34) is for an agent's whole "
        f"data set and holds in a round with a probability of {CERTAIN:g}; B and B' are chosen for that from errors "
        "that were measured. Laplace noise needs the l1 norm; and the bound fails in some round with the probability "
        "given at most, so that nothing is promised where that is 1. Beside it, with gradients of records clipped to "
        f"{PRINTED_CLIP:g}, the pure epsilon per record over the whole run towards all neighbours together. None of "
        "this is protection: noise of this size serves the comparison."
    )
    columns = ("noise", "text's epsilon(i)", "in l1", "fails at most", "epsilon per record", "how losses add up")
    return Table("What the noise is worth", note, columns, rows)


REGRESSION: Experiment = reproducible(
    "diffusion-regression",
    "Decentralised regression under noise that knows the graph",
    "Rizk (2023), sec. 4.4.1, figure 4.4",
    lambda quick, seed: investigate(QUICK if quick else FULL, seed),
)
