"""Study `pgfl-discovery`: unknown clusters, found from released models (beyond Gauthier 2023, ch. 5).

One run with a single model over all rounds serves twice: its first rounds are the warm-up, and its end is what learning
one model comes to. Runs with true and with found clusters go side by side; the latter is read as many rounds earlier as
the warm-up took, so that all three have released equally often, at the same noise.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any

import numpy as np

from tacit.algorithms import find_clusters
from tacit.graphs import federation
from tacit.metrics import agreement, normalised_deviation
from tacit_reproduction.figures import dots
from tacit_reproduction.gauthier import pgfl
from tacit_reproduction.gauthier.pgfl import CLIENTS, CLUSTERS, ROUNDS, Problem, Setting, World, excess
from tacit_reproduction.study import Crew, Judgement, Study
from tacit_reproduction.table import Results, Row, decibels
from tacit_reproduction.verdict import Pair, above, judged

WARMUP, SPREADS = 50, (0.15, 0.5)
RECORDS = {"2 to 9": (2, 9), "10 to 30": (10, 30), "40 to 90": (40, 90)}
TRUE, FOUND, ONE, CHANCE, KNOWING = "true clusters", "found clusters", "one model", "by chance", "by own records"


def run(task: tuple[str, Sequence[float], float, int, int]) -> list[Row]:
    records, spreads, rho, seeds, first = task
    whole = range(first, first + seeds)
    worlds = [pgfl.world_of(Problem(spread, clip=1.0), seed, RECORDS[records]) for spread in spreads for seed in whole]
    noise: Any = {"noise": "clipped", "phi": rho / ROUNDS, "zeta": 1.0} if rho else {}
    one = pgfl.simulated(Setting("GFL", **noise), worlds, first, ROUNDS)
    # With noise a multiplier is the gradient less that round's noise times rho: an average has less of it.
    at = (one.recorded_rounds > WARMUP // 2) & (one.recorded_rounds <= WARMUP)
    duals = np.mean(one.recorded["dual"][:, at], axis=1)  # (repeats, clients, d)
    labels: list[list[int]] = []
    guessed = []
    for dual, world in zip(np.asarray(duals, np.float64), worlds, strict=True):
        labels.append(find_clusters(dual, CLUSTERS, seed=0, weight=world.stream.data_size).labels.tolist())
        servers = world.topology.links["servers"]
        guessed.append(world._replace(topology=federation(servers, CLIENTS, clusters=labels[-1])))
    several = pgfl.simulated(Setting(**noise), [*worlds, *guessed], first, ROUNDS).recorded["models"]
    late, targets = (ROUNDS - WARMUP) // pgfl.EVERY - 1, np.stack([world.targets for world in worlds])
    models = {TRUE: several[: len(worlds), -1], FOUND: several[len(worlds) :, late], ONE: one.recorded["models"][:, -1]}
    found = {kind: {"nmsd": normalised_deviation(each, targets).mean(axis=1)} for kind, each in models.items()}
    right = [agreement(own, w.clusters) for own, w in zip(labels, worlds, strict=True)]
    dealt = [agreement(np.random.default_rng(0).permutation(w.clusters), w.clusters) for w in worlds]
    found[FOUND]["right"], found[CHANCE] = 100 * np.array(right), {"right": 100 * np.array(dealt)}
    found[KNOWING] = {"right": 100 * np.array([knowing(world) for world in worlds])}
    return [
        Row({"records": records, "gamma": f"gamma up to {spread:g}", "rho": rho, "kind": kind},
            {name: values[k * seeds : (k + 1) * seeds] for name, values in measured.items()})
        for k, spread in enumerate(spreads) for kind, measured in found.items()]  # fmt: skip


def knowing(world: World) -> float:
    """Return the share of clients in the right cluster if each chooses among the true models by its own records."""
    batch = world.stream.chunk(0, 1)
    x, y = (np.asarray(leaf[0], np.float64) for leaf in (batch.x, batch.y))
    models = np.stack([world.targets[np.argmax(world.clusters == q)] for q in range(CLUSTERS)])
    # Places without a record are zeros, and add none to any model's error.
    errors = np.sum((np.einsum("kia,qa->qki", x, models) - y) ** 2, axis=2)
    return float(np.mean(np.argmin(errors, axis=0) == world.clusters))


def measure(team: Crew, quick: bool, first: int) -> Results:
    private, totals, most = ("2 to 9", (1e5,), 2) if quick else ("10 to 30", (1e4, 1e3, 1e2), 10)
    seeds, records = (3, list(RECORDS)[:2]) if quick else (20, list(RECORDS))
    tasks: list[Any] = [(private, SPREADS[1:], rho, most, first) for rho in totals]
    fewer = {"40 to 90": seeds // 2}  # most of the time goes to them
    tasks += [(each, SPREADS, 0.0, fewer.get(each, seeds), first) for each in reversed(records)]
    data = "The regression of `pgfl-regression`, also with more records; nobody knows the clusters."
    return Results(chain(*team("running", run, tasks)), {"data": data})


def judge(results: Results) -> Judgement:
    quiet, cells = results.where(rho=0.0), [row.factors for row in results.where(kind=FOUND).rows]

    def pairs(what: str, other: str, rho: bool, gamma: str = "") -> list[Pair]:
        found = []
        for cell in (c for c in cells if bool(c["rho"]) == rho and gamma in (c["gamma"], "")):
            name = f"{cell['records']} records, {cell['gamma']}" + (f", rho = {cell['rho']:g}" if rho else "")
            mine, others = (results.of(what, **{**cell, "kind": kind}) for kind in (FOUND, other))
            found.append(excess(name, others, mine) if what == "nmsd" else Pair(name, mine, others))
        return found

    words = "More clients than by chance are put where they belong"
    worse = "One model errs more than models of found clusters"
    asked = [
        (f"{words}, without noise", "right", pairs("right", CHANCE, False)),
        (f"{words}, under noise", "right", pairs("right", CHANCE, True)),
        *((f"{worse}, {gamma}", "nmsd", pairs("nmsd", ONE, False, gamma)) for gamma in quiet.levels("gamma")),
    ]
    claims = [judged(claim, found, above(), unit=" %", seen_in=figure) for claim, figure, found in asked]
    common: dict[str, Any] = {"x": "records", "lines": "kind", "panels": "gamma", "x_label": "records of a client"}
    figures = [
        dots(quiet, "right", "Clients in the right cluster", "Without noise.", "right", y="%", **common),
        dots(quiet, "nmsd", f"NMSD after {ROUNDS} rounds", "Without noise.", "nmsd", y="dB", change=decibels, **common),
    ]
    return Judgement(claims, [], figures)


STUDY = Study(
    name="pgfl-discovery", title="Clusters nobody knows in advance, found from released models",
    source="beyond Gauthier (2023), ch. 5, on the data of its section 5.4.1", minutes=8, measure=measure,
    judge=judge, tabled=("right", "nmsd"),
    method=f"""
As `pgfl-regression`, everybody called, no mixing, rho = {pgfl.PENALTY:g}. For {WARMUP} rounds all learn one model;
clusters are then told from the multipliers, functions of what was released (`tacit.algorithms.find_clusters`), and a
model is learnt for each. "By own records": each client could choose among the true models. Under noise gradients are
clipped to 1, and noise is the same in all rounds; rho is of all rounds, the warm-up's included.""")  # fmt: skip
