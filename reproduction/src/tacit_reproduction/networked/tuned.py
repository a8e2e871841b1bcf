"""Experiment `npfl-rl`: mixing of clusters, fixed or tuned by reinforcement learning (Gauthier 2023, sec. 6.3)."""

from __future__ import annotations

from typing import Any

import numpy as np

from tacit.results.record import figure
from tacit_reproduction.experiment import Experiment, Findings, Table, reproducible
from tacit_reproduction.gaps import decibels, in_decibels
from tacit_reproduction.networked.clustered_regression import (
    CLIENTS,
    CLUSTERS,
    DIMENSIONS,
    NEIGHBOURS,
    NOISE,
    RECORDS,
    SIMILARITY,
)
from tacit_reproduction.networked.tuned_charts import figures
from tacit_reproduction.networked.tuned_claims import FIRST, best_fixed, judge
from tacit_reproduction.networked.tuned_runs import (
    EVERY,
    FULL,
    LAST,
    ONE_MODEL,
    PENALTY,
    QUICK,
    RIDGE,
    START,
    Design,
    Evidence,
    clients,
    run_method,
)
from tacit_reproduction.workers import crew

SEEDS_APART = 1000
"""Between the first seeds of two runs of the experiment."""
EARLIER = 100
"""Rounds before the end at which the last column of the table begins."""


def investigate(design: Design, seed: int, workers: int | None = None) -> Findings:
    """Run everything and judge the claims."""
    evidence = gather(design, SEEDS_APART * seed, workers)
    return Findings(
        judge(evidence),
        _metrics(evidence),
        {
            "name": "clustered linear regression",
            "description": (
                f"{RECORDS[0]} to {RECORDS[1]} records in {DIMENSIONS} dimensions of each of {CLIENTS} clients in "
                f"{CLUSTERS} clusters, drawn anew for each of {design.seeds} seeds"
            ),
            "rows": CLIENTS * sum(RECORDS) // 2,
            "complete": True,
        },
        _method(design, evidence),
        [_table(evidence), _groups(evidence)],
        figures(evidence),
    )


def gather(design: Design, first: int, workers: int | None = None) -> Evidence:
    """Run everything, with seeds from `first` on."""
    wanted = [(network, name) for network in design.networks for name in design.names]
    with crew(workers) as team:
        found = team("running", run_method, [(*cell, design.seeds, design.rounds, first) for cell in wanted])
    return Evidence(
        design,
        dict(zip(wanted, found, strict=True)),
        {network: clients(network, design.seeds, first) for network in design.networks},
    )


def _metrics(evidence: Evidence) -> dict[str, Any]:
    return {
        "cells": [
            {
                "network": network,
                "method": name,
                "settled_nmsd_db": figure(decibels(found.settled)),
                "early_nmsd_db": figure(decibels(found.early(FIRST))),
                "tau": figure(found.settled_tau.mean(axis=1)),
                "residual": found.residual,
            }
            for (network, name), found in evidence.outcomes.items()
        ],
        "best_fixed_tau": {network: best_fixed(evidence, network) for network in evidence.design.networks},
        "largest_residual": max(found.residual for found in evidence.outcomes.values()),
    }


def _method(design: Design, evidence: Evidence) -> list[str]:
    worst = max(found.residual for found in evidence.outcomes.values())
    return [
        f"{CLIENTS} clients on a connected random graph of mean degree {NEIGHBOURS}, dealt out to {CLUSTERS} clusters "
        f"of equal size at random; w_q = (1 + delta_q) w0, delta_q uniform on +-{SIMILARITY:g}, w0 and features "
        f"standard normal; {RECORDS[0]} to {RECORDS[1]} records of each client, one of them always with the most. As "
        "many records are held back for tuning. The text does not give the noise: a client's variance is uniform from "
        f"0 to {NOISE:g} here, against ||w_q||^2 of around {DIMENSIONS}. {design.seeds} seeds, each with its own "
        "graph, clusters and data, which all methods share.",
        "Nothing makes the links within a random cluster connect it; a client without any learns from others' models "
        'alone, or by itself. "clusters connected" draws graph and clusters again until each is connected, and draws '
        "data in the same way.",
        f"rho = {PENALTY:g}, lambda / |C_q| = {RIDGE:g} for all; rates of the policies are the text's in its own loss, "
        f"which is twice ours. tau starts at {START:g}, the text's fixed one in its figure 6.2, so that all curves "
        "there begin alike. At the text's rates SAC moves tau by 0.0025 at most and 0.00125 on average in a round, so "
        f"that to rise to 0.3 and fall to 0 again takes some 440 rounds; runs here have {design.rounds}. The text's "
        "number is lost with its figures. Methods named with a rate are ours.",
        "The error is ||w_k - w_q||^2 / ||w_q||^2, averaged over clients (NMSD), then in dB; (6.15) prints ||w_q|| "
        "without the square, which is no normalisation: it depends on the scale of w0. Errors settled are means over "
        f"the last {LAST:.0%} of the rounds. The best fixed tau is chosen on the seeds that it is judged on, which "
        "favours it; differences are paired over seeds.",
        "Local problems are solved in closed form, in double precision: no local solution is farther than "
        f"{worst:.1e} of its cluster's model from the exact one.",
    ]


def _table(evidence: Evidence) -> Table:
    rows = []
    for network in evidence.design.networks:
        for name in reversed(evidence.design.names):
            found = evidence.outcomes[network, name]
            before = found.curve[:, int(np.searchsorted(found.rounds, found.rounds[-1] - EARLIER))]
            change = float(np.mean(decibels(found.curve[:, -1]) - decibels(before)))
            tau = "-" if name == ONE_MODEL else f"{found.settled_tau.mean():.3f}"
            early = in_decibels(found.early(FIRST))
            rows.append((network, name, in_decibels(found.settled), early, f"{change:+.2f}", tau))
    columns = ("network", "method", "settled (dB)", f"first {FIRST} rounds (dB)", f"last {EARLIER} rounds (dB)", "tau")
    note = (
        "± is half of the 95 % interval of the mean over seeds; the last but one column is by how much the error "
        f"changed over the last {EARLIER} rounds. Recorded at every {EVERY}th round."
    )
    return Table("NMSD", note, columns, rows)


def _groups(evidence: Evidence) -> Table:
    rows = []
    for network in evidence.design.networks:
        who = evidence.clients[network]
        groups = {
            "alone": who.own == 0,
            f"below {DIMENSIONS}": (who.own > 0) & (who.reach < DIMENSIONS),
            "more": who.reach >= DIMENSIONS,
        }
        for label, group in groups.items():
            for name in reversed(evidence.design.names):
                if not group.any():
                    continue
                found = evidence.outcomes[network, name]
                error = 10 * np.log10(found.settled_by_client[group].mean())
                tau = "-" if name == ONE_MODEL else f"{found.settled_tau[group].mean():.3f}"
                rows.append((network, label, f"{group.mean():.1%}", name, f"{error:.2f}", tau))
    columns = ("network", "records within reach", "clients", "method", "settled (dB)", "tau")
    note = (
        "Clients of all seeds by how many records those hold together whom links within the cluster connect; a model "
        f"has {DIMENSIONS} coordinates. Alone: no neighbour of the own cluster."
    )
    return Table("Who errs", note, columns, rows)


TUNED: Experiment = reproducible(
    "npfl-rl",
    "Networked personalised learning, mixing tuned by reinforcement learning",
    "Gauthier (2023), sec. 6.3, figures 6.1 to 6.3",
    lambda quick, seed: investigate(QUICK if quick else FULL, seed),
)
