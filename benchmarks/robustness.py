"""Robustness: held-out accuracy of the honest agents where 4 of 20 lie, by rule and by attack.

Graph: random regular of degree 12, a new one for each seed, so that an honest agent hears at most 4 liars among 12. All
rules tolerate b = 4. Method: distributed_online (a step, then the mean over neighbours). Rows have norm 1 and are
shared out at random. Steps are the best of 1, 2, 4, 8 and 16 for plain averaging without attack, on seeds of
their own, with noise and without.

Occupancy: logistic, trained on the first file, judged on the third. MNIST: softmax on 14 x 14 images (means of 2 x 2
pixels), trained on 60,000 and judged on 10,000.

With `--sweep`, where rules hold under noise: one epsilon at every batch size and number of passes of `GRID`, models
averaged over their tail, the step the best of `STEPS` for plain averaging without attack on seeds of their own.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import jax
import numpy as np
from numpy.typing import NDArray

import tacit
from benchmarks.figures import write

AGENTS, DEGREE, LIARS, SEEDS = 20, 12, (2, 7, 11, 16), 5
RULES = ("plain", "clipped", "trimmed_mean", "median", "geometric_median")
ATTACKS = ("none", *tacit.attacks.ATTACKS)
NEAR, ENOUGH = 0.02, 5
"""The best rule is to be this near to the accuracy without attack, in so many of the attacks."""
GRID = tuple((batch, passes) for batch in (20, 100, 400) for passes in (5, 20))
STEPS = (2.0, 8.0, 32.0)
CHOOSING, JUDGING = 300, 400
"""First seeds of the sweep: for steps, and for what is reported."""


class Rows(NamedTuple):
    """A data set."""

    x: NDArray[Any]
    y: NDArray[Any]
    test_x: NDArray[Any]
    test_y: NDArray[Any]


class Problem(NamedTuple):
    """What is learnt, and how."""

    rows: Callable[[], Rows]
    classes: int
    batch: int
    passes: int
    step: float
    noisy_step: float
    rho: float = 0.3
    """Cost of a record over all of its readings, where there is noise."""


def _unit(x: NDArray[Any]) -> NDArray[Any]:
    x = np.concatenate([x, np.ones((len(x), 1))], axis=1)
    return (x / np.linalg.norm(x, axis=1, keepdims=True)).astype(np.float32)


@cache
def occupancy() -> Rows:
    from tacit_reproduction.datasets.occupancy import occupancy as load

    data = load()
    train, held = data.parts["train"], data.parts["test2"]
    by = np.zeros(len(data.x), bool)
    by[train] = True
    x = _unit(data.standardised(by).x)
    return Rows(x[train], data.y[train], x[held], data.y[held])


@cache
def mnist() -> Rows:
    from tacit_reproduction.datasets.mnist import mnist as load

    data = load()
    x = _unit(data.x.reshape(-1, 14, 2, 14, 2).mean(axis=(2, 4)).reshape(len(data.x), -1))
    train, held = data.parts["train"], data.parts["test"]
    return Rows(x[train], data.y[train], x[held], data.y[held])


@cache
def made() -> Rows:
    """Rows that need no file."""
    rng = np.random.default_rng(0)
    x = _unit(rng.normal(size=(900, 4)))
    y = np.sign(x[:, 0] + 0.5 * x[:, 1]).astype(np.float32)
    return Rows(x[:800], y[:800], x[800:], y[800:])


PROBLEMS = {
    "occupancy": Problem(occupancy, 2, 20, 5, 16.0, 8.0),
    "mnist": Problem(mnist, 10, 50, 1, 16.0, 8.0),
}
SMOKE = {
    "PROBLEMS": {"made": Problem(made, 2, 20, 1, 2.0, 0.5)},
    "SEEDS": 1,
    "RULES": ("plain", "median"),
    "ATTACKS": ("none", "sign_flip"),
    "GRID": ((20, 1),),
    "STEPS": (0.5,),
}


def mechanism(problem: Problem) -> Any:
    """Return Gaussian noise that costs a record rho over all of its readings."""
    return tacit.privacy.gaussian(math.sqrt(problem.passes / (2 * problem.rho)), clip=1.0)


def cell(
    problem: Problem, rule: str, attack: str, noisy: bool, seed: int = 0, averaged: bool = False
) -> dict[str, Any]:
    """Run one rule under one attack, all seeds side by side."""
    rows = problem.rows()
    objective = tacit.objectives.logistic() if problem.classes == 2 else tacit.objectives.softmax(problem.classes)
    step = problem.noisy_step if noisy else problem.step
    settings = {"mechanism": mechanism(problem)} if noisy else {}
    method = tacit.algorithms.distributed_online(objective, step=step, **settings)
    if rule != "plain":
        method = tacit.algorithms.robust(method, rule, liars=len(LIARS))
    if averaged:
        method = tacit.algorithms.averaged(method, "tail")

    def stream(of: int) -> tacit.streams.Stream:
        owners = tacit.streams.partition.iid(len(rows.y), AGENTS, seed=of)
        task = "binary" if problem.classes == 2 else "multiclass"
        return tacit.streams.from_arrays(
            rows.x, rows.y, owners, batch=problem.batch, passes=problem.passes, shuffle_seed=of, task=task
        )

    kind = tacit.attacks.ATTACKS.get(attack)
    made = None if kind is None else kind(classes=problem.classes) if attack == "label_flip" else kind()
    run = tacit.simulate(
        method,
        lambda of: tacit.graphs.k_regular(AGENTS, DEGREE, seed=of),
        stream,
        rounds=stream(seed).rounds or 1,
        repeats=SEEDS,
        seed=seed,
        liars={} if made is None else dict.fromkeys(LIARS, made),
        progress=False,
    )
    accuracy = np.array([np.mean([_right(model, rows) for model in own]) for own in np.asarray(run.models)])
    return {
        "rule": rule,
        "attack": attack,
        "accuracy": float(accuracy.mean()),
        "deviation": float(accuracy.std(ddof=1)) if len(accuracy) > 1 else 0.0,
        "privacy": run.privacy.summary().get("words", ""),
    }


def _right(model: NDArray[Any], rows: Rows) -> float:
    said = rows.test_x @ model.T
    return float(np.mean(np.where(said > 0, 1, -1) == rows.test_y if said.ndim == 1 else said.argmax(1) == rows.test_y))


def judged(cells: list[dict[str, Any]]) -> tuple[int, int]:
    """Return in how many attacks plain averaging lost more than NEAR, and in how many the best rule did not."""
    free = next(c["accuracy"] for c in cells if (c["rule"], c["attack"]) == ("plain", "none"))
    fell = held = 0
    for attack in (a for a in ATTACKS if a != "none"):
        of = {c["rule"]: c["accuracy"] for c in cells if c["attack"] == attack}
        fell += of.pop("plain") < free - NEAR
        held += max(of.values()) >= free - NEAR
    return fell, held


def table(problem: Problem, noisy: bool) -> dict[str, Any]:
    """Run every rule under every attack, and print the accuracies."""
    cells: list[dict[str, Any]] = []
    print(f"{'attack':20}" + "".join(f"{rule:>18}" for rule in RULES), flush=True)
    for attack in ATTACKS:
        began = time.perf_counter()
        cells += [cell(problem, rule, attack, noisy) for rule in RULES]
        jax.clear_caches()
        shown = "".join(f"{c['accuracy']:>10.3f} ± {c['deviation']:.3f}" for c in cells[-len(RULES) :])
        print(f"{attack:20}{shown}   ({time.perf_counter() - began:.0f} s)", flush=True)
    fell, held = judged(cells)
    attacks = len(ATTACKS) - 1
    print(f"plain lost more than {NEAR:.0%} in {fell} of {attacks}, the best rule held in {held}\n", flush=True)
    return {"cells": cells, "plain_fell": fell, "best_held": held, "attacks": attacks}


def sweep(problem: Problem) -> dict[str, Any]:
    """Run every rule under every attack with noise, at every batch size and number of passes."""
    found = []
    for batch, passes in GRID:
        began, tried = time.perf_counter(), problem._replace(batch=batch, passes=passes)
        choice = [cell(tried._replace(noisy_step=step), "plain", "none", True, CHOOSING, True) for step in STEPS]
        tried = tried._replace(noisy_step=STEPS[int(np.argmax([c["accuracy"] for c in choice]))])
        cells = [cell(tried, rule, attack, True, JUDGING, True) for attack in ATTACKS for rule in RULES]
        jax.clear_caches()
        fell, held = judged(cells)
        free = cells[0]["accuracy"]
        best = {
            attack: max((c["accuracy"], c["rule"]) for c in cells if c["attack"] == attack and c["rule"] != "plain")
            for attack in ATTACKS
        }
        row = {"batch": batch, "passes": passes, "step": tried.noisy_step, "free": free, "fell": fell, "held": held}
        print(f"{row} {best} ({time.perf_counter() - began:.0f} s)", flush=True)
        found.append({**row, "cells": cells})
    return {"settings": found}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--problem", choices=sorted(PROBLEMS), help="one of them")
    parser.add_argument("--noise", choices=("with", "without"), help="one of the two")
    parser.add_argument("--sweep", action="store_true", help="batch sizes and passes with noise, and nothing else")
    chosen = parser.parse_args()
    if chosen.sweep:
        for name, problem in PROBLEMS.items():
            if chosen.problem in (None, name):
                write(f"robustness_{name}_sweep", sweep(problem), "jax")
        return 0
    missed = []
    for name, problem in PROBLEMS.items():
        for noise in ("without", "with"):
            if chosen.problem not in (None, name) or chosen.noise not in (None, noise):
                continue
            print(f"{name}, {noise} noise", flush=True)
            found = table(problem, noise == "with")
            write(f"robustness_{name}_{noise}_noise", found, "jax")
            # With noise no goal is set: it is missed at these steps (docs/robustness.md).
            if noise == "without" and found["best_held"] < min(ENOUGH, found["attacks"]):
                missed.append(name)
    print(f"missed: {', '.join(missed)}" if missed else "all goals are met")
    return 1 if missed else 0


if __name__ == "__main__":
    raise SystemExit(main())
