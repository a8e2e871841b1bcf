"""Experiment `dola-minibatch`: variance of the regret with batches of 1, 5 and 20 (Li et al., sec. 6, figure 2)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tacit import algorithms, objectives
from tacit.algorithms.schedules import inverse
from tacit.privacy.spending import RunPrivacy
from tacit.results.record import figure
from tacit.streams import Stream
from tacit_reproduction import promises
from tacit_reproduction.charts import Points, points
from tacit_reproduction.datasets import fetch as datasets
from tacit_reproduction.dola import documents
from tacit_reproduction.dola.networks import matchings
from tacit_reproduction.dola.protocol import ORDERS, SEEDS_APART, NoiseOrder, noise, pegasos_radius
from tacit_reproduction.dola.samples import DIMENSIONS, Samples, dealt, unit_ball
from tacit_reproduction.dola.table import PRINTED
from tacit_reproduction.dola.variances import Ratio, variance_ratio
from tacit_reproduction.experiment import Claim, Experiment, Figure, Findings, Table, reproducible, seen_in
from tacit_reproduction.finished import finished_run
from tacit_reproduction.judging import brief, shown
from tacit_reproduction.workers import crew

Data = Literal["unit ball", "RCV1"]
Judged = Literal["models", "average"]
JUDGED: dict[Judged, str] = {"models": "each round's model", "average": "average model"}
LAMBDA, EPSILON, NODES = 0.1, 1.0, 4
"""The text gives none of the three for figure 2; eps = 1 is its weakest privacy, hence the least noise."""
OBJECTIVE = objectives.hinge(l2=LAMBDA)
BATCHES = (1, 5, 20)
NEARLY = 2.0
"""Variances are nearly the same if the interval of their ratio ends below this."""
PICTURE = "batches"
IN_TEXT: dict[Data, tuple[str, str]] = {"unit ball": ("2 (a)", "2 (b)"), "RCV1": ("2 (c)", "2 (d)")}
"""The text's figures of h = 1 and h = 5."""


class Design(NamedTuple):
    """The extent of the experiment."""

    examples: int
    """Of synthetic data, dealt out over the nodes."""
    documents: int
    """Of RCV1, as many for each seed, drawn from the training part."""
    seeds: int


FULL = Design(examples=20_000, documents=10_000, seeds=40)
QUICK = Design(examples=4_000, documents=2_000, seeds=20)


class Noise(NamedTuple):
    """Amount of noise, and its place."""

    epsilon: float | None
    order: NoiseOrder = "text"


NOISES = (Noise(None), Noise(EPSILON, "text"), Noise(EPSILON, "ours"))


class Cell(NamedTuple):
    """One setting."""

    data: Data
    judged: Judged
    batch: int
    noise: Noise


class Outcome(NamedTuple):
    """Results of a cell."""

    regret: NDArray[np.float64]
    """(seeds,) per node and round, over the whole run."""
    rounds: int
    privacy: RunPrivacy


Evidence = Mapping[Cell, Outcome]
Task = tuple[Data, tuple[Judged, ...], int, Samples | None, Design, int]
"""Cells on the same streams; samples: those to choose from, where they are not drawn anew for each seed."""


def run_batch(task: Task) -> dict[Cell, Outcome]:
    """Run with and without noise on the same streams: their comparators are solved for once."""
    data, judged, batch, samples, design, first = task
    streams = {s: _stream(samples, batch, design, s) for s in range(first, first + design.seeds)}
    cells = [Cell(data, way, batch, kind) for way in judged for kind in NOISES]
    return {cell: _run(cell, streams) for cell in cells}


def _stream(samples: Samples | None, batch: int, design: Design, seed: int) -> Stream:
    if samples is None:
        return dealt(unit_ball(design.examples, seed), NODES, batch, seed, "unit ball")
    rows = np.random.default_rng([seed, 2]).permutation(len(samples.y))[: design.documents]
    return dealt(Samples(samples.x[rows], samples.y[rows]), NODES, batch, seed, "RCV1")


def _run(cell: Cell, streams: Mapping[int, Stream]) -> Outcome:
    make = algorithms.distributed_online if cell.judged == "models" else algorithms.distributed_minibatch
    rounds = next(iter(streams.values())).rounds
    assert rounds is not None  # streams end with their samples
    run = finished_run(
        make(OBJECTIVE, inverse(1 / LAMBDA), noise(*cell.noise), pegasos_radius(LAMBDA)),
        matchings(NODES),
        lambda seed: streams[seed],
        rounds=rounds,
        repeats=len(streams),
        seed=min(streams),
        record_every=rounds,
    )
    return Outcome(run.regret(1).per_agent_round[:, -1], rounds, run.privacy)


def judge(evidence: Evidence) -> list[Claim]:
    """Return every claim with its verdict."""
    compared = dict.fromkeys((cell.data, cell.judged) for cell in evidence)
    return [claim for data, judged in compared for order in ORDERS for claim in _pair(evidence, data, judged, order)]


def _pair(evidence: Evidence, data: Data, judged: Judged, order: NoiseOrder) -> list[Claim]:
    ratios = {batch: _ratio(evidence, data, judged, batch, order) for batch in BATCHES}
    where = f"{data}, {JUDGED[judged]}, {ORDERS[order]}"
    found = "; ".join(f"h = {batch}: {ratio.words()}" for batch, ratio in ratios.items())
    seeds = len(evidence[Cell(data, judged, 1, NOISES[0])].regret)
    words = f"variance with noise over variance without, {found} (95 %, over {seeds} seeds)"
    nearly = Claim(
        f"At h = 5 noise leaves the variance of the regret nearly as it is: {where}",
        ratios[5].high < NEARLY,
        f"{words}; nearly means that the interval ends below {NEARLY:g}",
    )
    if not nearly.holds:
        nearly = nearly._replace(figure=f"{nearly.figure}. Why: {_why(evidence, data, judged, order, ratios)}.")
    raised = Claim(f"At h = 1 noise raises the variance of the regret: {where}", ratios[1].low > 1, words)
    one, five = IN_TEXT[data]
    return [
        *seen_in(PICTURE, raised, text=f"figure {one}: at h = 1 more variance with noise than without (no numbers)"),
        *seen_in(PICTURE, nearly, text=f"figure {five}: at h = 5 nearly the same variance (no numbers)"),
    ]


def _ratio(evidence: Evidence, data: Data, judged: Judged, batch: int, order: NoiseOrder) -> Ratio:
    with_noise, without = (
        evidence[Cell(data, judged, batch, kind)].regret for kind in (Noise(EPSILON, order), Noise(None))
    )
    return variance_ratio(with_noise, without)


def _why(evidence: Evidence, data: Data, judged: Judged, order: NoiseOrder, ratios: Mapping[int, Ratio]) -> str:
    columns = DIMENSIONS if data == "unit ball" else PRINTED.columns
    scales = {h: 2 * columns**0.5 / (LAMBDA * h * EPSILON) for h in (1, 5)}
    exponent = np.polyfit(np.log(BATCHES), np.log([ratios[h].value for h in BATCHES]), 1)[0]
    mean = evidence[Cell(data, judged, 5, Noise(EPSILON, order))].regret.mean()
    free = evidence[Cell(data, judged, 5, Noise(None))].regret.mean()
    return (
        f"S_2(t) / eps is {scales[5]:.3g} / t in each of {columns} coordinates at h = 5 ({scales[1]:.3g} / t at h = 1) "
        f"and models have length {pegasos_radius(LAMBDA):.2g} at most; the regret itself is {brief(mean)} with noise "
        f"and {brief(free)} without, and its variance follows. The ratio goes as h^{exponent:.1f}"
    )


def investigate(
    design: Design, seed: int, private_rows: Samples | None, note: str, workers: int | None = None
) -> Findings:
    """Run everything and judge the claims; `private_rows` are those of RCV1, or None where it is absent."""
    first = SEEDS_APART * seed
    tasks: list[Task] = [("unit ball", tuple(JUDGED), h, None, design, first) for h in BATCHES]
    if private_rows is not None:
        tasks = [("RCV1", ("models",), h, private_rows, design, first) for h in BATCHES] + tasks
    with crew(workers) as team:
        parts = team("running", run_batch, tasks)
    found = {cell: outcome for part in parts for cell, outcome in part.items()}
    listed = sorted(found, key=lambda cell: (cell.data != "unit ball", cell.judged != "models", cell.batch))
    evidence = {cell: found[cell] for cell in listed}
    return Findings(
        judge(evidence),
        _metrics(evidence),
        {
            "name": "unit ball" if private_rows is None else "unit ball, rcv1",
            "description": f"{design.examples:,} points of the unit ball, d = {DIMENSIONS}, per seed; RCV1: {note}",
            "rows": design.examples,
            "complete": True,
        },
        _method(design, note),
        [_table(evidence)],
        _figures(evidence),
    )


def _metrics(evidence: Evidence) -> dict[str, Any]:
    return {
        "lambda": LAMBDA,
        "nodes": NODES,
        "cells": [
            {
                **{"data": cell.data, "judged": cell.judged, "batch": cell.batch},
                **cell.noise._asdict(),
                "rounds": outcome.rounds,
                "average_regret": figure(outcome.regret),
                "variance": float(np.var(outcome.regret, ddof=1)),
                "privacy": outcome.privacy.summary(),
            }
            for cell, outcome in evidence.items()
        ],
    }


def _method(design: Design, note: str) -> list[str]:
    return [
        f"Hinge loss with l2 = {LAMBDA:g}, {NODES} nodes, a_t = 1/(lambda t), eps = {EPSILON:g}: the text gives none "
        "of these for its figure 2. Every node reads h examples of its own in each round, each once, so that larger "
        "batches mean fewer rounds; noise has the scale S_2(t) / eps = 2 a_t sqrt(d) L / (h eps).",
        f"Regret is per node and round, against the best fixed model of all the data, over {design.seeds} seeds, each "
        "with its own data, pairs of nodes and noise. It is taken of the models of each round, as in the text's figure "
        "(Algorithm 1 on batches), and of the average of the models so far, which Algorithm 2 learns.",
        "The ratio is that of the variances over the seeds with and without noise at the same h, with its 95 % "
        f"interval from the F distribution. RCV1: {note}.",
    ]


def _table(evidence: Evidence) -> Table:
    rows = []
    for cell, outcome in evidence.items():
        free = cell.noise.epsilon is None
        ratio = "-" if free else _ratio(evidence, cell.data, cell.judged, cell.batch, cell.noise.order).words()
        facts = (f"{cell.data}, {JUDGED[cell.judged]}", str(cell.batch), f"{outcome.rounds:,}")
        where = "no noise" if free else ORDERS[cell.noise.order]
        spread = f"{np.var(outcome.regret, ddof=1):.3g}"
        rows.append((*facts, where, *promises.in_columns(outcome.privacy), shown(outcome.regret), spread, ratio))
    columns = ("data, regret of", "h", "rounds", "order", *promises.COLUMNS, "average regret", "variance", "ratio")
    note = (
        "± is half of the 95 % interval of the mean; the ratio is to the variance without noise, with 95 % interval. "
        f"{promises.note(outcome.privacy for outcome in evidence.values())}"
    )
    return Table("Variance of the average regret", note, columns, rows)


def _figures(evidence: Evidence) -> list[Figure]:
    seeds = len(next(iter(evidence.values())).regret)
    compared: Sequence[tuple[Data, Judged]] = list(dict.fromkeys((cell.data, cell.judged) for cell in evidence))

    def series(data: Data, judged: Judged) -> dict[str, Points]:
        drawn = {}
        for kind in NOISES:
            found = [evidence[Cell(data, judged, h, kind)].regret for h in BATCHES]
            mean, spread = (np.array([f(v) for v in found]) for f in (np.mean, lambda v: np.std(v, ddof=1)))
            label = "no noise" if kind.epsilon is None else f"eps = {kind.epsilon:g}, {ORDERS[kind.order]}"
            drawn[label] = Points(mean, mean - spread, mean + spread)
        return drawn

    return [
        points(
            PICTURE,
            "Average regret and batch size",
            f"As the text's figure 2: means over {seeds} seeds, bars of one standard deviation to both sides.",
            {f"{data}: {JUDGED[judged]}": series(data, judged) for data, judged in compared},
            [f"h = {h}" for h in BATCHES],
            "batch size: examples per node and round",
            "regret per node and round",
            logarithmic=True,
        )
    ]


def _with_documents(quick: bool, seed: int) -> Findings:
    design = QUICK if quick else FULL
    if not datasets.available("rcv1"):
        return investigate(design, seed, None, "left out, as the data are not here (`dola-rcv1` says how to get them)")
    rows = documents.load(PRINTED.columns)
    note = f"{design.documents:,} documents of the training part for each seed, {rows.description}"
    return investigate(design, seed, rows.split(PRINTED)[0], note)


MINIBATCH: Experiment = reproducible(
    "dola-minibatch", "Private distributed learning with mini-batches", "Li et al., sec. 6, figure 2", _with_documents
)
