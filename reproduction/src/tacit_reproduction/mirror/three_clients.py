"""Experiment `omd-three-clients`: private exponentiated gradient among three clients (Dissertation, sec. 2.4).

The text's figures 2.1 and 2.2 show every component of every client's model from two starts; its regret is a bound that
was drawn, not measured. Here both are measured, and so are the two things that the text does not ask: whether the two
starts lead to one vector, and what the weights of the graph do to the limit.
"""

from __future__ import annotations

from tacit_reproduction.experiment import Experiment, Findings, reproducible
from tacit_reproduction.mirror import three_clients_claims as claims
from tacit_reproduction.mirror import three_clients_pages as pages
from tacit_reproduction.mirror.three_clients_runs import (
    CLIENTS,
    DIMENSIONS,
    FULL,
    QUICK,
    SEEDS_APART,
    DataName,
    Design,
    Evidence,
    run_horizon,
    run_limits,
)
from tacit_reproduction.workers import crew


def investigate(design: Design, seed: int, workers: int | None = None) -> Findings:
    """Run everything and judge the claims."""
    first = SEEDS_APART * seed
    with crew(workers) as team:
        datasets: tuple[DataName, ...] = ("apart", "text")
        limits = team("limits", run_limits, [(design, data, first) for data in datasets])
        horizons = sorted(design.horizons, reverse=True)
        parts = team("horizons", run_horizon, [(design, rounds, first) for rounds in horizons])
    evidence = Evidence(
        {cell: outcome for found, _ in parts for cell, outcome in found.items()},
        {cell: limit for found in limits for cell, limit in found.items()},
        {rounds: booked for rounds, (_, booked) in zip(horizons, parts, strict=True)},
    )
    return Findings(
        claims.judge(evidence),
        pages.metrics(evidence),
        {
            "name": "three clients",
            "description": (
                f"Labels +-1 and {DIMENSIONS} features N(+-1 + t/2, 1) brought to length 1, for {CLIENTS} clients and "
                f"up to {max(design.horizons):,} rounds, drawn anew for each of {design.seeds} seeds"
            ),
            "rows": CLIENTS * max(design.horizons),
            "complete": True,
        },
        pages.method(design, evidence),
        pages.tables(evidence),
        pages.figures(evidence),
    )


THREE_CLIENTS: Experiment = reproducible(
    "omd-three-clients",
    "Private mirror descent among three clients",
    "Dissertation, sec. 2.4, figures 2.1 and 2.2",
    lambda quick, seed: investigate(QUICK if quick else FULL, seed),
)
