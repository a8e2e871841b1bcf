"""Experiments `ops-occupancy` and `ops-susy` (OPS paper, sec. 5, appendix B.1 and B.2)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tacit.results.record import figure
from tacit_reproduction.experiment import Experiment, Findings, reproducible
from tacit_reproduction.push_sum.claims import judge, percent
from tacit_reproduction.push_sum.design import ON_OCCUPANCY, ON_SUSY, Design, Samples, load
from tacit_reproduction.push_sum.evidence import Evidence, gather
from tacit_reproduction.push_sum.presentation import figures, losses, method, steps
from tacit_reproduction.workers import crew

OCCUPANCY_STARTS = {"COL": 2.0, "OPS": 1.0, "DOL-Symm": 0.5, "DOL-Asymm": 1.0, "Local OGD": 0.25}
SUSY_STARTS = {"COL": 1.0, "OPS": 0.5, "DOL-Symm": 0.125, "DOL-Asymm": 0.5, "Local OGD": 0.03125}

OCCUPANCY_FULL = Design(
    nodes=20,
    neighbours=10,
    sizes=(6, 10, 15, 20),
    size_neighbours=2,
    density_nodes=20,
    densities=(2, 5, 10, 19),
    seeds=20,
    tuning_seeds=10,
    step_ratio=2.0**0.5,
    shared_steps=False,
    starts=OCCUPANCY_STARTS,
    in_text=ON_OCCUPANCY,
)
OCCUPANCY_QUICK = replace(OCCUPANCY_FULL, sizes=(6, 20), densities=(5, 19), seeds=10, step_ratio=2.0, shared_steps=True)
SUSY_FULL = Design(
    nodes=128,
    neighbours=32,
    sizes=(128, 256, 512, 1024),
    size_neighbours=32,
    density_nodes=512,
    densities=(8, 32, 128, 256),
    seeds=10,
    tuning_seeds=3,
    step_ratio=2.0**0.5,
    shared_steps=False,
    starts=SUSY_STARTS,
    in_text=ON_SUSY,
)
SUSY_QUICK = replace(
    SUSY_FULL,
    sizes=(128, 256),
    density_nodes=128,
    densities=(4, 32),
    tuning_seeds=1,
    step_ratio=2.0,
    shared_steps=True,
)


def investigate(design: Design, samples: Samples, seed: int, workers: int | None = None) -> Findings:
    """Run everything on the given samples and judge the claims."""
    with crew(workers) as team:
        evidence = gather(design, samples, seed, team)
    return Findings(
        judge(evidence),
        _metrics(evidence),
        _data(samples),
        method(evidence),
        [losses(evidence), steps(evidence)],
        figures(evidence),
    )


def _metrics(evidence: Evidence) -> dict[str, Any]:
    cells = [
        {
            "method": cell.method,
            **cell.setting._asdict(),
            "step": evidence.step_of(cell).step,
            "step_at_edge_of_grid": evidence.step_of(cell).at_edge,
            "average_loss": figure(outcome.average),
            "accuracy": figure(outcome.accuracy),
        }
        for cell, outcome in sorted(evidence.outcomes.items())
    ]
    return {
        "rounds": evidence.rounds,
        "cells": cells,
        "best_fixed_loss": {percent(fraction): figure(losses) for fraction, losses in evidence.best_fixed.items()},
        "mixing": {
            f"{nodes} nodes": {name: figure(values) for name, values in mixing._asdict().items()}
            for nodes, mixing in evidence.mixing.items()
        },
    }


def _data(samples: Samples) -> dict[str, Any]:
    return {
        "name": samples.name,
        "description": samples.description,
        "rows": samples.rows,
        "complete": samples.complete,
        "preparation": "columns standardised over all rows; a constant column added as intercept",
    }


OCCUPANCY: Experiment = reproducible(
    "ops-occupancy",
    "Online push-sum on Room Occupancy",
    "OPS paper, sec. 5 and appendix B",
    lambda quick, seed: investigate(OCCUPANCY_QUICK if quick else OCCUPANCY_FULL, load("occupancy"), seed),
)
SUSY: Experiment = reproducible(
    "ops-susy",
    "Online push-sum on SUSY",
    "OPS paper, sec. 5 and appendix B",
    lambda quick, seed: investigate(SUSY_QUICK if quick else SUSY_FULL, load("susy"), seed),
)
