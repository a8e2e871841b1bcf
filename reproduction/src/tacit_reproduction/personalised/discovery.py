"""Experiment `pgfl-discovery`: unknown clusters, found from released models (beyond Gauthier 2023, ch. 5)."""

from __future__ import annotations

from typing import Any

from tacit.results.record import figure
from tacit_reproduction.charts import mean_points, points
from tacit_reproduction.experiment import Experiment, Figure, Findings, Table, reproducible
from tacit_reproduction.judging import shown
from tacit_reproduction.personalised.discovery_claims import (
    DEVIATION,
    KINDS,
    RIGHT,
    RIGHT_UNDER_NOISE,
    Design,
    Evidence,
    judge,
    name_of,
    right_of,
    without_noise,
)
from tacit_reproduction.personalised.discovery_runs import CLIP, Cell, Task, run
from tacit_reproduction.personalised.means import in_words
from tacit_reproduction.personalised.regression_charts import NMSD
from tacit_reproduction.personalised.regression_runs import (
    CLIENTS,
    CLUSTERS,
    DIMENSIONS,
    PENALTY,
    ROUNDS,
    SERVERS,
    SNR,
    SPREAD,
    WIDE_SPREAD,
)
from tacit_reproduction.workers import crew

SEEDS_APART = 1000

FULL = Design(
    records=((2, 9), (10, 30), (40, 90)),
    warmups=(50, 10, 20, 100, 200),
    private_records=(10, 30),
    totals=(1e4, 1e3, 1e2),
    seeds=20,
    private_seeds=10,
)
QUICK = Design(
    records=((2, 9), (10, 30)),
    warmups=(50, 10),
    private_records=(2, 9),
    totals=(1e5,),
    seeds=3,
    private_seeds=2,
)


def tasks_of(design: Design, first_seed: int) -> list[Task]:
    """Return what is to be simulated, long ones first."""
    warmups = design.warmups
    return [
        *(
            Task(design.private_records, (WIDE_SPREAD,), total, warmups, design.private_seeds, first_seed)
            for total in design.totals
        ),
        *(
            Task(records, (SPREAD, WIDE_SPREAD), None, warmups, design.seeds, first_seed)
            for records in reversed(design.records)
        ),
    ]


def investigate(design: Design, seed: int, workers: int | None = None) -> Findings:
    """Run everything and judge the claims."""
    with crew(workers) as team:
        parts = team("running", run, tasks_of(design, SEEDS_APART * seed))
    return findings({cell: outcome for part in parts for cell, outcome in part.items()}, design)


def findings(evidence: Evidence, design: Design) -> Findings:
    """Judge what was measured and present it."""
    count = SERVERS * CLIENTS
    few, many = design.records[0][0], design.records[-1][1]
    return Findings(
        judge(evidence, design),
        _metrics(evidence),
        {
            "name": "ridge regression",
            "description": (
                f"{count} clients of {SERVERS} servers in {CLUSTERS} clusters nobody knows, {few} to {many} records in "
                f"{DIMENSIONS} dimensions each, drawn anew for each of {design.seeds} seeds; SNR {SNR:g} dB"
            ),
            "rows": count * sum(design.records[-1]) // 2,
            "complete": True,
        },
        _method(design),
        [_table(evidence)],
        _figures(evidence, design),
    )


def _metrics(evidence: Evidence) -> dict[str, Any]:
    return {
        "cells": [
            {
                **cell._asdict(),
                "right": {str(w): figure(values) for w, values in o.right.items()},
                "chance": figure(o.chance),
                "ceiling": figure(o.ceiling),
                "nmsd": {kind: figure(values) for kind, values in o.deviation.items()},
                "rho": o.privacy.summary()["rho"],
            }
            for cell, o in evidence.items()
        ]
    }


def _method(design: Design) -> list[str]:
    return [
        f"One model is learnt for all clients for {design.warmups[0]} rounds, everybody called. Then a client's "
        "multiplier phi_k, averaged over the later half of these rounds, is its gradient at the common model; server "
        "and client know it from what was sent. find_clusters weighs clients by their records, keeps the directions "
        "that stand out of chance, and does k-means there.",
        f"Then PGFL (tau = 0, penalty {PENALTY:g}) learns a model for each found cluster from the start. All runs "
        f"that are compared have released equally often: {ROUNDS} rounds, the warm-up included.",
        f"Privacy: Gaussian noise, the same in all rounds, clip {CLIP:g}. To find clusters is post-processing and "
        "costs nothing; the warm-up's rounds are booked. At equal rho the run with found clusters has fewer rounds to "
        "learn in.",
    ]


def _table(evidence: Evidence) -> Table:
    rows = [
        (
            name_of(cell),
            shown(right_of(o)),
            f"{o.chance.mean():.2f}",
            f"{o.ceiling.mean():.2f}",
            *(in_words(o.deviation[kind]) for kind in KINDS),
        )
        for cell, o in evidence.items()
    ]
    columns = ("data", "share right", "chance", "knowing the models", *KINDS.values())
    return Table(
        "Clusters found, and what comes of them", "NMSD in dB of the mean, with 95 % intervals.", columns, rows
    )


def _figures(evidence: Evidence, design: Design) -> list[Figure]:
    warmups = sorted(design.warmups)
    right = {
        f"gamma up to {s:g}": {
            f"{r[0]} to {r[1]} records": mean_points([evidence[without_noise(r, s)].right[w] for w in warmups])
            for r in design.records
        }
        for s in (SPREAD, WIDE_SPREAD)
    }
    few, many = design.private_records
    under_noise = {
        f"{few} to {many} records, gamma up to {WIDE_SPREAD:g}": {
            f"rho = {total:g}": mean_points(
                [evidence[Cell(design.private_records, WIDE_SPREAD, total)].right[w] for w in warmups]
            )
            for total in design.totals
        }
    }
    places = [f"{r[0]}-{r[1]}" for r in design.records]
    deviations = {
        f"gamma up to {s:g}": {
            words: mean_points([evidence[without_noise(r, s)].deviation[kind] for r in design.records])
            for kind, words in KINDS.items()
        }
        for s in (SPREAD, WIDE_SPREAD)
    }
    chance = "Chance puts about four in ten right."
    rounds, share = "rounds of warm-up", "share of clients in the right cluster"

    def ends(seeds: int) -> str:
        return f"Means over {seeds} seeds with 95 % intervals. The text has no such figure."

    return [
        points(
            RIGHT,
            "Clients in the right cluster",
            f"Without noise. {chance} {ends(design.seeds)}",
            right,
            [str(w) for w in warmups],
            rounds,
            share,
        ),
        points(
            DEVIATION,
            "What found clusters are worth",
            f"After {ROUNDS} rounds in all, without noise. {ends(design.seeds)}",
            deviations,
            places,
            "records of a client",
            NMSD,
            logarithmic=True,
        ),
        points(
            RIGHT_UNDER_NOISE,
            "Clients in the right cluster, with noise",
            f"rho is that of all rounds together. {chance} {ends(design.private_seeds)}",
            under_noise,
            [str(w) for w in warmups],
            rounds,
            share,
        ),
    ]


DISCOVERY: Experiment = reproducible(
    "pgfl-discovery",
    "Clusters nobody knows in advance, found from released models",
    "beyond Gauthier (2023), ch. 5, on the data of its section 5.4.1",
    lambda quick, seed: investigate(QUICK if quick else FULL, seed),
)
