"""Experiment `omd-mnist`: a network learnt by ten clients with and without a server (Dissertation, sec. 5.5)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from tacit.privacy.spending import DELTA
from tacit.results.record import figure
from tacit_reproduction.experiment import Experiment, Figure, Findings, Table, reproducible
from tacit_reproduction.judging import brief
from tacit_reproduction.mirror.mnist_cells import (
    CLIENTS,
    GAUSSIAN,
    METHODS,
    NEIGHBOURS,
    PLAIN,
    PURE,
    TEXT,
    WHOLE,
    Cell,
    Design,
    Outcome,
    Plan,
    cells,
    honest,
    run_cell,
)
from tacit_reproduction.mirror.mnist_charts import accuracy_curves
from tacit_reproduction.mirror.mnist_claims import PICTURE, PRINTED, Evidence, judge, shown
from tacit_reproduction.mirror.mnist_images import Images, load, spread
from tacit_reproduction.promises import COLUMNS, in_columns, note
from tacit_reproduction.workers import crew

Source = Callable[[], Images]
SEEDS_APART = 1000
"""Experiments with different seeds share no shards, order or noise."""
FULL = Design(
    channels=(32, 64),
    hidden=512,
    batch=128,
    step=0.01,
    clipped_step=0.1,
    communications=150,
    noises=(*TEXT, PLAIN, GAUSSIAN, PURE),
    seeds=20,
    together=20,
    curve_points=10,
    curve_images=1_000,
    test_images=10_000,
)
QUICK = Design(
    channels=(2, 4),
    hidden=16,
    batch=24,
    step=0.1,
    clipped_step=0.3,
    communications=30,
    noises=(TEXT[0], PLAIN, GAUSSIAN),
    seeds=3,
    together=3,
    curve_points=4,
    curve_images=100,
    test_images=500,
)


def gather(design: Design, source: Source, seed: int, workers: int | None = None) -> dict[Cell, Outcome]:
    """Run every cell: in several processes on the CPU, one after the other on an accelerator."""
    wanted = cells(design)
    first = SEEDS_APART * seed
    plans = [Plan(cell, design, source, range(first, first + design.seeds)) for cell in wanted]
    if workers is None and jax.default_backend() != "cpu":
        workers = 1
    with crew(workers) as team:
        return dict(zip(wanted, team("running", run_cell, plans), strict=True))


def investigate(design: Design, source: Source, seed: int, workers: int | None = None) -> Findings:
    """Run everything on the images of a source and judge the claims."""
    images = source()  # missing data are refused here, before any process is started
    evidence = gather(design, source, seed, workers)
    return Findings(
        judge(evidence, design),
        _metrics(evidence, design),
        {
            "name": "mnist",
            "description": images.description,
            "rows": len(images.y) + len(images.test_y),
            "complete": True,
            "preparation": "rows of 784 grey values from 0 to 1; a tenth of each client's images is not trained on",
        },
        _method(evidence, design, images, seed),
        [_table(evidence, design)],
        _figures(evidence, design),
    )


def _metrics(evidence: Evidence, design: Design) -> dict[str, Any]:
    rows = []
    for cell, outcome in evidence.items():
        row: dict[str, Any] = {
            "method": cell.method,
            "noise": cell.noise.kind,
            "epsilon": cell.noise.epsilon if np.isfinite(cell.noise.epsilon) else None,
            "reads": outcome.reads,
            "accuracy": figure(100 * outcome.accuracy),
            "apart": figure(outcome.apart),
            "privacy": outcome.privacy.summary(),
        }
        if cell.noise.kind == "text":
            row["printed"] = PRINTED[cell.method, cell.noise.epsilon]
            row["record_level"] = honest(cell.noise, outcome.coordinates, design.batch, outcome.reads)._asdict()
        rows.append(row)
    return {"parameters": next(iter(evidence.values())).coordinates, "delta": DELTA, "cells": rows}


def _method(evidence: Evidence, design: Design, images: Images, seed: int) -> list[str]:
    found = spread(images, CLIENTS, range(SEEDS_APART * seed, SEEDS_APART * seed + min(design.seeds, 5)))
    outcome = next(iter(evidence.values()))
    return [
        *_for_practitioners(evidence, design),
        f"{CLIENTS} clients share {len(images.y):,} training images: sorted by digit, cut into 30 equal shards and "
        "dealt three to a client, a tenth of which is kept for validation. The text says that each digit has 6,000 "
        "images and a client at most three digits; real digits differ in number, so that a shard may hold two: a "
        f"client has {found.digits:.1f} digits on average, and {100 * found.main:.0f} % of its images are of its three "
        "most frequent ones.",
        f"The network: 5 x 5 convolution with {design.channels[0]} channels, 2 x 2 maximum, the same with "
        f"{design.channels[1]}, {design.hidden} hidden units, ReLU, softmax; {outcome.coordinates:,} parameters; batch "
        f"{design.batch}, step {design.step:g}, {design.communications} communications with one step of every client "
        f"before each. All runs start from the same weights (He's rule, one seed); {design.seeds} seeds differ in "
        "shards, order and noise, and both methods meet the same ones.",
        "The proposed method is `dynamic_mirror_descent` with the Euclidean map on a ring in which each client hears "
        f"its {NEIGHBOURS} nearest and itself, all with weight 0.2; DP-FedAvg is `fedavg` around a server. Noise goes "
        "on the mean gradient of the batch before anything is made of it. For the text's epsilon every component of a "
        "record's gradient is cut to at most 0.5 in size, so that it changes by 1 at most, which is what the text's "
        "Definition 4 takes for granted; hardly any component is that large. For promises to records the whole "
        f"gradient of a record is clipped to l2 norm {WHOLE.bound:g}, which makes it several times shorter, and the "
        f"step is {design.clipped_step:g} there. Neither bound nor step was tuned.",
        f"Accuracy is the mean over the clients of their own models' on {design.test_images:,} test images. Intervals "
        "are 95 %.",
    ]


def _for_practitioners(evidence: Evidence, design: Design) -> list[str]:
    """Say in plain words what an epsilon of the text is worth, with the figures of these runs."""
    noises = [noise for noise in TEXT if Cell("proposed", noise) in evidence]
    if not noises:
        return []
    outcome = evidence[Cell("proposed", noises[0])]
    worth = "; ".join(
        f"eps = {noise.epsilon:g} in the text is eps = {brief(h.pure)} for an image without any delta, and eps = "
        f"{brief(h.approximate, 3)} with delta = {DELTA:g}"
        for noise in noises
        for h in [honest(noise, outcome.coordinates, design.batch, outcome.reads)]
    )
    spent = "; ".join(
        f"{noise.words()}: {' / '.join(shown(100 * evidence[Cell(m, noise)].accuracy) for m in METHODS)} %"
        for noise in (*noises, GAUSSIAN, PURE)
        if Cell("proposed", noise) in evidence
    )
    return [
        "What the text's epsilon is worth. It says how well ONE of the gradient's numbers is hidden in ONE round. A "
        f"person's image changes all {outcome.coordinates:,} numbers at once, and is read up to {outcome.reads} times "
        "in a run, so the epsilon that protects the image over the run is another one, for the very same noise: "
        f"{worth}. Above ten or so an epsilon promises nothing. To protect the image itself, bound its whole gradient, "
        "count the whole run, and quote unit (record), span (the run) and delta with every epsilon. What accuracy that "
        f"leaves, proposed method / DP-FedAvg: {spent}."
    ]


def _table(evidence: Evidence, design: Design) -> Table:
    rows = []
    for cell, outcome in evidence.items():
        printed = PRINTED.get((cell.method, cell.noise.epsilon)) if cell.noise.kind == "text" else None
        record = ("-", "-")
        if cell.noise.kind == "text":
            found = honest(cell.noise, outcome.coordinates, design.batch, outcome.reads)
            record = (brief(found.pure), brief(found.approximate, 3))
        rows.append(
            (
                METHODS[cell.method],
                cell.noise.words(),
                str(len(outcome.accuracy)),
                shown(100 * outcome.accuracy),
                "-" if printed is None else f"{printed:.2f}",
                *in_columns(outcome.privacy),
                *record,
            )
        )
    columns = ("method", "noise", "seeds", "accuracy (%)", "text (%)", *COLUMNS)
    more = ("same noise, pure eps of a record", f"same noise, eps of a record at {DELTA:g}")
    words = note(outcome.privacy for outcome in evidence.values())
    return Table("Accuracies", f"± is half of the 95 % interval of the mean. {words}", (*columns, *more), rows)


def _figures(evidence: Evidence, design: Design) -> list[Figure]:
    panels = {
        noise.words(): {name: evidence[Cell(method, noise)] for method, name in METHODS.items()}
        for noise in design.noises
    }
    caption = (
        f"Mean of the clients' own models on the first {design.curve_images:,} test images; lines are means over "
        f"{design.seeds} seeds, bands their 95 % intervals. As the text's figures 5.1 and 5.2."
    )
    return [accuracy_curves(PICTURE, "Test accuracy", caption, panels)]


MNIST: Experiment = reproducible(
    "omd-mnist",
    "Private learning of MNIST without a server",
    "Dissertation, sec. 5.5",
    lambda quick, seed: investigate(QUICK if quick else FULL, load, seed),
)
