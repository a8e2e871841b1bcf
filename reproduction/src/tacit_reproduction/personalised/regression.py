"""Experiment `pgfl-regression`: a model per cluster of clients across servers (Gauthier 2023, sec. 5.4.1)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from tacit.results.record import figure
from tacit_reproduction.experiment import Experiment, Findings, reproducible
from tacit_reproduction.personalised.regression_charts import figures, tables
from tacit_reproduction.personalised.regression_claims import (
    CLUSTERFL,
    EVERYBODY,
    FADING,
    GFL,
    MIXED,
    PLAIN,
    PUBLISHED,
    TEXT_TOTAL,
    USUAL,
    WIDE,
    Sweeps,
    called,
    first_for,
    judge,
)
from tacit_reproduction.personalised.regression_optimum import Arrival, Look, arrive
from tacit_reproduction.personalised.regression_runs import (
    CLIENTS,
    CLUSTERS,
    DIMENSIONS,
    EARLY,
    NOISES,
    PENALTIES,
    PENALTY,
    RECORDS,
    RIDGE,
    SERVERS,
    SNR,
    UNITS,
    Evidence,
    Noise,
    Problem,
    Setting,
    Task,
    run,
)
from tacit_reproduction.workers import crew

SEEDS_APART = 1000
HONEST = first_for(TEXT_TOTAL)
LINEUP = (MIXED, PLAIN, CLUSTERFL, GFL)
NO_NOISE = 1e9
"""A phi_0 so large that its noise is nothing."""


class Design(NamedTuple):
    """The extent of the experiment."""

    seeds: int
    sweeps: Sweeps
    penalties: tuple[float, ...]
    optimum_seeds: int
    optimum_penalties: tuple[float, ...]
    optimum_rounds: int


def _units(pairs: Sequence[tuple[float, float]]) -> list[Problem]:
    return [Problem(clip=clip, penalty=penalty) for clip, penalty in pairs]


FULL = Design(
    seeds=20,
    sweeps=Sweeps(
        noises=NOISES,
        taus=(0.0, 0.1, 0.2, 0.4, 0.6, 0.8),
        units=_units(UNITS),
        firsts=(HONEST, PUBLISHED.first, 0.1, 1.0, 10.0, NO_NOISE),
        decays=(0.95, 0.97),
        lineup=LINEUP,
        private=LINEUP,
        seeds=10,
    ),
    penalties=PENALTIES,
    optimum_seeds=5,
    optimum_penalties=(PENALTY, 10.0, 30.0),
    optimum_rounds=2500,
)
QUICK = Design(
    seeds=5,
    sweeps=Sweeps(
        noises=(10.0, SNR, 35.0),
        taus=(0.0, 0.4),
        units=_units([(1.0, 3.0), (1.0, 300.0)]),
        firsts=(PUBLISHED.first, NO_NOISE),
        decays=(),
        lineup=(MIXED, PLAIN, GFL),
        private=(MIXED,),
        seeds=4,
    ),
    penalties=(PENALTY, 10.0),
    optimum_seeds=2,
    optimum_penalties=(PENALTY,),
    optimum_rounds=600,
)


def tasks_of(design: Design, first_seed: int) -> list[Task]:
    """Return what is to be simulated, long ones first."""
    sweeps, seeds = design.sweeps, design.seeds
    data = [Problem(snr=snr) for snr in sweeps.noises]
    ideal = tuple(dict.fromkeys([USUAL, *data, *(Problem(penalty=p) for p in design.penalties)]))
    scheduled = tuple(dict.fromkeys([USUAL, *data, WIDE]))
    quiet = [s for s in sweeps.firsts if s != PUBLISHED.first]
    swept = [Noise(first) for first in quiet] + [Noise(decay=decay) for decay in sweeps.decays]
    return [
        *(Task(called(s, PUBLISHED), tuple(sweeps.units), seeds, first_seed) for s in sweeps.private),
        *(Task(s, ideal, seeds, first_seed) for s in sweeps.lineup),
        *(Task(called(MIXED, noise), tuple(sweeps.units), sweeps.seeds, first_seed) for noise in swept),
        *(Task(called(s), scheduled, seeds, first_seed) for s in sweeps.lineup),
        Task(called(FADING), (WIDE,), seeds, first_seed),
        Task(EVERYBODY, (sweeps.units[0],), 1, first_seed),
        *(
            Task(called(Setting("PGFL", tau)), (USUAL, WIDE), seeds, first_seed)
            for tau in sweeps.taus
            if tau not in (PLAIN.tau, MIXED.tau)
        ),
    ]


def looks_of(design: Design, first_seed: int) -> list[Look]:
    """Return the long runs without noise."""
    plain = (*(Problem(penalty=p) for p in design.optimum_penalties), Problem(servers="complete"))
    size = design.optimum_seeds, first_seed, design.optimum_rounds
    return [Look(False, plain, *size), Look(True, (USUAL,), *size)]


def investigate(design: Design, seed: int, workers: int | None = None) -> Findings:
    """Run everything and judge the claims."""
    first = SEEDS_APART * seed
    with crew(workers) as team:
        ends = team("to the optimum", arrive, looks_of(design, first))
        parts = team("running", run, tasks_of(design, first))
    evidence = {cell: outcome for part in parts for cell, outcome in part.items()}
    return findings(evidence, [a for part in ends for a in part], design)


def findings(evidence: Evidence, arrivals: Sequence[Arrival], design: Design) -> Findings:
    """Judge what was measured and present it."""
    count = SERVERS * CLIENTS
    return Findings(
        judge(evidence, design.sweeps, arrivals),
        _metrics(evidence, arrivals),
        {
            "name": "ridge regression",
            "description": (
                f"{count} clients of {SERVERS} servers in {CLUSTERS} clusters, {RECORDS[0]} to {RECORDS[1]} records in "
                f"{DIMENSIONS} dimensions each, drawn anew for each of {design.seeds} seeds; SNR {SNR:g} dB"
            ),
            "rows": count * sum(RECORDS) // 2,
            "complete": True,
        },
        _method(design),
        tables(evidence, design.sweeps, arrivals),
        figures(evidence, design.sweeps),
    )


def _metrics(evidence: Evidence, arrivals: Sequence[Arrival]) -> dict[str, Any]:
    return {
        "cells": [
            {
                **setting._replace(noise=None)._asdict(),
                "noise": None if setting.noise is None else setting.noise._asdict(),
                **problem._asdict(),
                "nmsd": figure(outcome.last),
                "early_nmsd": figure(outcome.after(EARLY)),
                "worst_cluster": figure(outcome.clusters.max(axis=1)),
                "worst_client": figure(outcome.worst),
                "rho": outcome.privacy.summary()["rho"],
            }
            for (setting, problem), outcome in evidence.items()
        ],
        "optimum": [
            {"exact": a.exact, **a.problem._asdict(), "distance": figure(a.distance), "weighted": figure(a.weighted)}
            for a in arrivals
        ],
    }


def _method(design: Design) -> list[str]:
    return [
        "Features are standard normal, w_0 has coordinates of variance 1 / d, and a cluster's model is (1 + gamma) w_0 "
        f"with one number gamma. The text does not give the noise in y: the SNR is {SNR:g} dB, and a sweep shows what "
        f"depends on it. Servers have links between {SERVERS * 3 // 2} random pairs, drawn until all are connected.",
        "Our loss is half of (5.34), so that our penalty is half of the text's rho, which it does not give: "
        f"{PENALTY:g} for all methods, of {', '.join(f'{p:g}' for p in PENALTIES)} the one with the lowest NMSD of "
        f"PGFL tau = 0 after {EARLY} rounds with everybody called. Ridge {RIDGE:g}.",
        "Private runs: models are released with Gaussian noise by (5.31) and (5.32), each record's gradient is "
        "clipped. The text gives neither C nor rho: every run gets the best of "
        f"{len(design.sweeps.units)} pairs by its NMSD on the same seeds, which favours it a little. A record's "
        "gradient has a norm of about 8 at the start.",
        "NMSD (5.35) is of clients' own models, those not called lately included. As the text does, NMSDs are "
        "averaged over seeds before decibels are taken; verdicts are on differences of these means, paired over seeds.",
    ]


REGRESSION: Experiment = reproducible(
    "pgfl-regression",
    "Personalised graph federated learning: ridge regression in clusters",
    "Gauthier (2023), sec. 5.4.1, figures 5.1 to 5.4",
    lambda quick, seed: investigate(QUICK if quick else FULL, seed),
)
