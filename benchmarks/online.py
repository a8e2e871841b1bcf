"""Progressive validation sample by sample, beside river's own linear models: `python -m benchmarks.online`.

Each of 8,000 samples with 10 features is predicted, then learnt, as an application would: dicts in, classes or numbers
out. tacit runs online push-sum on one agent, river stochastic gradient descent with the same step, in turn in one
process; the best of five counts, by the clock and in processor time. Compilation is measured apart, as the first sample
of a learner. The goal is a second for all samples. Noise (`private`) is drawn and booked sample by sample, and has no
goal; neither has `learn_many`, which takes the samples as one pandas frame.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
from river import linear_model, optim

import tacit
from benchmarks.figures import write
from tacit.interop import OnlineClassifier, OnlineRegressor

SAMPLES, FEATURES, REPETITIONS, STEP, GOAL = 8000, 10, 5, 0.05, 1.0
PRIVATE = 1000
"""Samples that are learnt with noise."""
NAMES = [f"feature {k}" for k in range(FEATURES)]

Samples = list[tuple[dict[str, float], Any]]


def samples(count: int, regression: bool) -> Samples:
    """Return features by name, with a class or a number."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((count, FEATURES))
    y = x @ rng.standard_normal(FEATURES) + 0.3 * rng.standard_normal(count)
    labels = y.tolist() if regression else (y > 0).tolist()
    return [(dict(zip(NAMES, row, strict=True)), label) for row, label in zip(x.tolist(), labels, strict=True)]


def timed(work: Callable[[], object]) -> tuple[float, float]:
    """Return seconds by the clock and of the processor."""
    begun, worked = time.perf_counter(), time.process_time()
    work()
    return time.perf_counter() - begun, time.process_time() - worked


def validated(learner: Any, data: Samples) -> Callable[[], None]:
    """Return the work: predict each sample, then learn it."""

    def work() -> None:
        for x, y in data:
            learner.predict_one(x)
            learner.learn_one(x, y)

    return work


def learnt_at_once(learner: Any, data: Samples) -> Callable[[], None]:
    """Return the work: learn all samples as one frame, and predict one."""
    frame, labels = pd.DataFrame([x for x, _ in data]), pd.Series([y for _, y in data])

    def work() -> None:
        learner.learn_many(frame, labels)
        learner.predict_one(data[0][0])

    return work


def tacit_learner(regression: bool, private: bool = False) -> Any:
    settings: dict[str, Any] = {"parameters": {"step": STEP}, "features": NAMES}
    if private:
        settings["mechanism"] = tacit.privacy.laplace(epsilon=1.0, clip=1.0)
    return OnlineRegressor(**settings) if regression else OnlineClassifier(classes=[False, True], **settings)


def river_learner(regression: bool) -> Any:
    kind = linear_model.LinearRegression if regression else linear_model.LogisticRegression
    return kind(optim.SGD(STEP), intercept_lr=STEP)


def measured(regression: bool) -> dict[str, tuple[float, float]]:
    """Return what each way takes, (seconds by the clock, of the processor), all ways in turn."""
    data, few = samples(SAMPLES, regression), samples(PRIVATE, regression)
    best: dict[str, list[tuple[float, float]]] = {}
    for _ in range(REPETITIONS):
        fresh, private, many = tacit_learner(regression), tacit_learner(regression, True), tacit_learner(regression)
        ways = {
            "first sample": (validated(fresh, data[:1]), 1.0),
            "tacit": (validated(fresh, data), 1.0),
            "river": (validated(river_learner(regression), data), 1.0),
            "learn_many": (learnt_at_once(many, data), 1.0),
            "first private sample": (validated(private, few[:1]), 1.0),
            "private": (validated(private, few), SAMPLES / PRIVATE),
        }
        for name, (work, scale) in ways.items():
            wall, processor = timed(work)
            best.setdefault(name, []).append((scale * wall, scale * processor))
    first = {name: found[0] for name, found in best.items() if name.startswith("first")}
    others = {name: (min(w for w, _ in found), min(p for _, p in found)) for name, found in best.items()}
    return {**others, **first}


SMOKE = {"SAMPLES": 20, "PRIVATE": 3, "REPETITIONS": 1}


def main() -> int:
    """Measure, print, and write results/online.json; 1 if the goal is missed."""
    found = {task: measured(task == "regression") for task in ("classification", "regression")}
    missed = []
    for task, ways in found.items():
        print(f"{task}, {SAMPLES:,} samples")
        for name, (wall, processor) in ways.items():
            ratio = f", {processor / ways['river'][1]:.1f} x river's processor time" if "first" not in name else ""
            print(f"  {name:<21} {wall:8.3f} s, processor {processor:8.3f} s{ratio}")
        if ways["tacit"][0] > GOAL:
            missed.append(f"{task}: {ways['tacit'][0]:.2f} s, goal {GOAL}")
    print("goal met" if not missed else f"missed: {'; '.join(missed)}")
    write("online", {"samples": SAMPLES, "seconds": found, "goal": GOAL, "missed": missed}, "jax", "river")
    return int(bool(missed))


if __name__ == "__main__":
    raise SystemExit(main())
