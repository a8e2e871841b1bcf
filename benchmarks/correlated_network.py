"""A network under correlated and under independent noise, at the same cost: `python -m benchmarks.correlated_network`.

Images of digits (scikit-learn's, 8 x 8), dealt out at random to ten agents that hear each other, a network of one
hidden layer, batch 8, five passes. Both kinds of noise charge a record the same rho for all passes together, and clip
its gradient at the same norm; beside them the same clip without noise. Each has the step that served it best on other
seeds, of one grid. Prints accuracies of the agents' models on rows that nobody learnt from, with 95 % intervals, and
writes benchmarks/results/correlated_network.json. Nothing here is a matter of time, so that a busy machine does.
"""

from __future__ import annotations

import math
import sys
from typing import Any

import jax
import numpy as np
from scipy import stats
from sklearn.datasets import load_digits

import tacit
from benchmarks.figures import write
from tacit.core.contract import Mechanism

AGENTS, BATCH, HIDDEN, CLIP, PASSES = 10, 8, 32, 1.0, 5
RHO = (0.5,)
ROWS, TUNED = 960, 300
STEPS = (0.1, 0.3, 1.0, 3.0)
SEEDS, TUNING = 10, 2
SMOKE = {
    "AGENTS": 3,
    "HIDDEN": 2,
    "PASSES": 1,
    "RHO": (2.0,),
    "ROWS": 48,
    "TUNED": 10,
    "STEPS": (0.3,),
    "SEEDS": 2,
    "TUNING": 1,
}


def network(params: Any, x: Any) -> Any:
    return jax.nn.relu(x @ params["in"] + params["bias"]) @ params["out"]


def rounds() -> int:
    """Return the rounds of a run: a pass of an agent that holds its part of all rows, several times."""
    return PASSES * (ROWS // AGENTS // BATCH)


def mechanisms(rho: float) -> dict[str, Mechanism]:
    """Return the kinds of noise, which cost a record rho in all its reads."""
    reads = {"rounds": rounds(), "rho": rho, "clip": CLIP, "participation": (PASSES, rounds() // PASSES)}
    kinds = {name: tacit.privacy.correlated(**reads, strategy=name) for name in ("blt", "independent")}  # type: ignore[arg-type]
    return {**kinds, "a clip, no noise": kinds["blt"]._replace(distribution=None, correlation=None)}


def main() -> int:
    """Run, print and save."""
    digits = load_digits()
    x, y = (digits.data / 16).astype("float32"), digits.target
    learnt, tuned, judged = np.split(np.random.default_rng(0).permutation(len(x)), [ROWS, ROWS + TUNED])
    rng = np.random.default_rng(1)
    first = {
        "in": (rng.normal(size=(64, HIDDEN)) / 8).astype("float32"),
        "bias": np.zeros(HIDDEN, "float32"),
        "out": (rng.normal(size=(HIDDEN, 10)) / HIDDEN**0.5).astype("float32"),
    }
    objective = tacit.objectives.from_model(network, "cross_entropy", first)

    def stream(seed: int) -> tacit.streams.Stream:
        # Equal parts, so that every record is read once in a pass, and no sooner.
        parts = tacit.streams.partition.iid(ROWS, AGENTS, seed=seed)
        order = {"batch": BATCH, "passes": PASSES, "exhausted": "mask"}
        return tacit.streams.from_arrays(x[learnt], y[learnt], parts, task="multiclass", **order)  # type: ignore[arg-type]

    def accuracy(noise: Mechanism, step: float, seed: int, seeds: int, rows: Any) -> Any:
        method = tacit.algorithms.adapt_then_combine(objective, step, noise)
        run = tacit.simulate(
            method, tacit.graphs.complete(AGENTS), stream, rounds=rounds(), repeats=seeds, seed=seed, progress=False
        )
        return np.asarray(run.evaluate(x[rows], y[rows]).scores["each"]["accuracy"])

    found = []
    for rho in RHO:
        for name, noise in mechanisms(rho).items():
            step = max(STEPS, key=lambda step, noise=noise: accuracy(noise, step, 1000, TUNING, tuned).mean())  # type: ignore[misc]
            each = accuracy(noise, step, 100, SEEDS, judged)
            half = float(stats.t.ppf(0.975, len(each) - 1)) * each.std(ddof=1) / math.sqrt(len(each))
            found.append({"rho": rho, "noise": name, "step": step, "accuracy": each.tolist(), "half": half})
            print(f"rho {rho:<5g} {name:<18} step {step:<5g} accuracy {each.mean():.3f} +- {half:.3f}", flush=True)
    write("correlated_network", {"runs": found}, "jax", "scikit-learn")
    return 0


if __name__ == "__main__":
    sys.exit(main())
