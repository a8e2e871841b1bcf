"""Experiment `omd-dynamic`: mirror descent after a moving target, clients away at will (Dissertation, ch. 5).

The text proves a bound and runs no experiment on dynamic regret. Here the target turns at several speeds, clients opt
out of rounds with probability 0 to 0.6, and the regret is the true one: against the best model of every single round.
"""

from __future__ import annotations

from typing import Any

from tacit.results.record import figure
from tacit_reproduction import promises
from tacit_reproduction.charts import Curve, Points, log_curves, mean_points, points
from tacit_reproduction.experiment import Experiment, Figure, Findings, Table, reproducible
from tacit_reproduction.judging import shown
from tacit_reproduction.mirror.dynamic_claims import (
    BY_PATH,
    BY_PRIVACY,
    IN_BOUNDS,
    PLACES,
    away_in_words,
    horizons,
    judge,
    ratio,
    turning,
)
from tacit_reproduction.mirror.dynamic_runs import (
    ALONE,
    BATCH,
    CLIENTS,
    DIMENSIONS,
    FULL,
    GEOMETRIES,
    LINKS,
    QUICK,
    SEEDS_APART,
    SPEEDS,
    WINDOW,
    Design,
    Evidence,
    GeometryName,
    refused,
    run_ground,
)
from tacit_reproduction.workers import crew


def investigate(design: Design, seed: int, workers: int | None = None) -> Findings:
    """Run everything and judge the claims."""
    places = [(name, rounds) for rounds in sorted(design.horizons, reverse=True) for name in GEOMETRIES]
    with crew(workers) as team:
        parts = team("running", run_ground, [(design, *place, SEEDS_APART * seed) for place in places])
    evidence = Evidence(
        {cell: outcome for found, _ in parts for cell, outcome in found.items()},
        {place: ground for place, (_, ground) in zip(places, parts, strict=True)},
        refused(),
    )
    longest = max(design.horizons)
    return Findings(
        judge(evidence),
        _metrics(evidence),
        {
            "name": "turning target",
            "description": (
                f"{BATCH} noisy linear readings of a turning target in {DIMENSIONS} dimensions per round for each of "
                f"{CLIENTS} clients, up to {longest:,} rounds, drawn anew for each of {design.seeds} seeds"
            ),
            "rows": BATCH * CLIENTS * longest,
            "complete": True,
        },
        _method(design, evidence),
        [_table(evidence, name) for name in GEOMETRIES],
        _figures(evidence),
    )


def _metrics(evidence: Evidence) -> dict[str, Any]:
    return {
        "speeds": list(SPEEDS),
        "cells": [
            {
                **cell._asdict(),
                "regret_per_client": [figure(row) for row in outcome.regret],
                "privacy": outcome.privacy.summary(),
            }
            for cell, outcome in evidence.cells.items()
        ],
        "grounds": [
            {
                "geometry": name,
                "rounds": rounds,
                "path_length": [figure(row) for row in ground.path_length],
                "never_learning": [figure(row) for row in ground.idle],
                "alone": None if ground.alone is None else [figure(row) for row in ground.alone],
            }
            for (name, rounds), ground in evidence.grounds.items()
        ],
        "refusal": evidence.refusal._asdict(),
    }


def _method(design: Design, evidence: Evidence) -> list[str]:
    gap = max(ground.certified for ground in evidence.grounds.values())
    off = max(ground.off_target for ground in evidence.grounds.values())
    sets = "; ".join(
        f"{PLACES[name]}: circle of radius {g.radius:g} around the start, noise {g.noise:g}, gradients of records "
        f"clipped to {g.noise:g} where noise is added, eta = {g.step:g} / sqrt(T)"
        for name, g in GEOMETRIES.items()
    )
    return [
        f"{CLIENTS} clients on a random strongly connected digraph (out-degrees 1 to {LINKS}); in each round every "
        "client stays away with the given probability, the weights are rebuilt from who is present, and the absent "
        f"keep their models. Losses of the absent count as well. Every run declares B = {WINDOW} and is checked for "
        "it on its very rounds.",
        f"Squared loss of {BATCH} readings y = <x, w*(t)> + noise per client and round; w*(t) turns on a circle. "
        f"{sets}. The noise of a round is made orthogonal to the features of the round over all clients, so that the "
        "best model of the round is w*(t) itself (found by the solver: path lengths agree with the circle's to "
        f"{off:.0e}). With plain noise the best model of a round jumps by chance, and A_T grows with T whatever the "
        "target does.",
        "Dynamic regret is the loss of all clients at prediction time minus that of the best model of every round "
        f"(solved for, average loss within {gap:.0e} of the optimum), summed over the rounds, per client. "
        f"{design.seeds} seeds; all speeds and settings of a seed meet the same features, noise of readings and links. "
        "Who stays away, and the noise of privacy, are drawn anew at every speed.",
        "The bound (5.25) has a term 2 T L^2 V eta_0 (...), linear in T for a fixed first step: it says something "
        "only for eta = c / sqrt(T), where it has the order sqrt(T) (1 + A_T). For A_T beyond sqrt(T) that is more "
        "than any model can lose: the bound is empty for fast targets, and so it is no surprise that it holds there.",
        "A client alone takes unprojected gradient steps on its own readings, is never away and sends nothing; for "
        f"every seed and speed the best of {len(ALONE)} steps counts, {', '.join(f'{share:g}' for share in ALONE)} "
        "times that of the others.",
        "Privacy: Laplace noise on the gradient for whole records; each is read in one round, so that eps holds for "
        "each record over the whole run.",
    ]


def _table(evidence: Evidence, name: GeometryName) -> Table:
    rows: list[tuple[str, ...]] = []
    for cell, outcome in evidence.cells.items():
        if cell.geometry == name:
            spent = promises.in_columns(outcome.privacy)
            rows.append((f"{cell.rounds:,}", away_in_words(cell.away), *spent, *map(shown, outcome.regret)))
    for (place, rounds), ground in evidence.grounds.items():
        if place == name:
            rows.append((f"{rounds:,}", "never learning", "-", "-", "-", *map(shown, ground.idle)))
            if ground.alone is not None:
                rows.append((f"{rounds:,}", "alone", "none", "-", "-", *map(shown, ground.alone)))
            rows.append((f"{rounds:,}", "path length A_T", "-", "-", "-", *map(shown, ground.path_length)))
    spent_note = promises.note(outcome.privacy for outcome in evidence.cells.values())
    note = f"Total per client, by speed; ± is half of the 95 % interval of the mean. {spent_note}"
    columns = ("T", "clients", *promises.COLUMNS, *map(turning, SPEEDS))
    return Table(f"Dynamic regret: {PLACES[name]}", note, columns, rows)


def _figures(evidence: Evidence) -> list[Figure]:
    times = horizons(evidence)
    last = times[-1]
    moving = range(1, len(SPEEDS))

    def over_path(name: GeometryName) -> dict[str, Curve]:
        length = evidence.grounds[name, last].path_length.mean(axis=1)
        at = length[moving]
        curves = {}
        for cell, outcome in evidence.cells.items():
            if cell.geometry == name and cell.rounds == last and cell.epsilon is None:
                curves[away_in_words(cell.away)] = Curve(at, outcome.regret[moving].T)
        ground = evidence.grounds[name, last]
        curves["never learning"] = Curve(at, ground.idle[moving].T)
        if ground.alone is not None:
            curves["a client alone"] = Curve(at, ground.alone[moving].T)
        return curves

    def in_bounds(name: GeometryName) -> dict[str, Points]:
        return {f"T = {rounds:,}": mean_points(ratio(evidence, name, rounds)) for rounds in times}

    def by_privacy(name: GeometryName) -> dict[str, Points]:
        found = [c for c in evidence.cells if c.geometry == name and c.rounds == last and not c.away]
        named = {"no noise" if c.epsilon is None else f"eps = {c.epsilon:g}": evidence.cells[c].regret for c in found}
        named["never learning"] = evidence.grounds[name, last].idle
        return {label: mean_points(regret / last) for label, regret in named.items()}

    speeds = [f"{speed:g}" for speed in SPEEDS]
    seeds = next(iter(evidence.cells.values())).regret.shape[1]
    bars = f"Points are means over {seeds} seeds, bars their 95 % intervals."
    return [
        log_curves(
            BY_PATH,
            f"Dynamic regret and path length, T = {last:,}",
            f"Without noise. Lines are means over {seeds} seeds, bands their 95 % intervals; the target that stands "
            "still has no place on this axis. The text has a bound and no figure.",
            {PLACES[name]: over_path(name) for name in GEOMETRIES},
            "path length A_T (distance that the target goes)",
            "dynamic regret per client, sum of T rounds",
        ),
        points(
            IN_BOUNDS,
            "Regret in units of the bound's order",
            f"Regret per client / (sqrt(T) (1 + A_T)). {bars}",
            {PLACES[name]: in_bounds(name) for name in GEOMETRIES},
            speeds,
            "speed of the target (radians per round)",
            "regret / (sqrt(T) (1 + A_T))",
            logarithmic=True,
        ),
        points(
            BY_PRIVACY,
            f"Dynamic regret and privacy, T = {last:,}",
            f"Laplace noise for whole records, everybody present. {bars}",
            {PLACES[name]: by_privacy(name) for name in GEOMETRIES},
            speeds,
            "speed of the target (radians per round)",
            "dynamic regret per client and round",
            logarithmic=True,
        ),
    ]


DYNAMIC: Experiment = reproducible(
    "omd-dynamic",
    "Mirror descent after a moving target",
    "Dissertation, ch. 5, bound (5.25)",
    lambda quick, seed: investigate(QUICK if quick else FULL, seed),
)
