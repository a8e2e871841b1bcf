"""Agents whose data are unlike, on a ring of 16: what correction and momentum are worth beside plain steps.

    python examples/unlike_agents.py          # minutes; --seeds, --rounds and --tune for more or less of it, --out FILE

Images of digits, of which each agent holds few classes (Dirichlet with alpha = 0.1), and a small network. Four methods,
each with the step that served it best on other seeds; then fresh seeds, which deal the images out anew, and paired
differences with 95 % intervals. Needs the extras `networks` and `data`.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import jax
import numpy as np
from scipy import stats
from sklearn.datasets import load_digits

import tacit

AGENTS, BATCH, HIDDEN, ALPHA = 16, 8, 32, 0.1
STEPS = (0.1, 0.3, 1.0, 3.0, 10.0)
METHODS = {
    "plain steps": tacit.algorithms.adapt_then_combine,
    "momentum of its own": tacit.algorithms.decentralised_momentum,
    "quasi-global momentum": tacit.algorithms.quasi_global_momentum,
    "gradient tracking": tacit.algorithms.gradient_tracking,
}
TENTH = ("momentum of its own", "quasi-global momentum")
"""Methods whose momentum of 0.9 makes ten steps of one: their grid is a tenth of the others'."""


def network(params, x):  # type: ignore[no-untyped-def]
    hidden = jax.nn.relu(x @ params["in"] + params["bias"])
    return hidden @ params["out"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=10, help="of the figures, from 100 on")
    parser.add_argument("--tune", type=int, default=2, help="seeds by which steps are chosen, from 1000 on")
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--out", type=Path, help="file for the figures, as JSON")
    asked = parser.parse_args()
    digits = load_digits()
    x, y = (digits.data / 16).astype("float32"), digits.target
    order = np.random.default_rng(0).permutation(len(x))
    learnt, chosen, judged = np.split(order, [1000, 1300])
    rng = np.random.default_rng(1)
    first = {
        "in": (rng.normal(size=(64, HIDDEN)) / 8).astype("float32"),
        "bias": np.zeros(HIDDEN, "float32"),
        "out": (rng.normal(size=(HIDDEN, 10)) / HIDDEN**0.5).astype("float32"),
    }
    objective = tacit.objectives.from_model(network, "cross_entropy", first)

    def stream(seed: int) -> tacit.streams.Stream:
        parts = tacit.streams.partition.dirichlet(y[learnt], AGENTS, alpha=ALPHA, seed=seed)
        rows = x[learnt], y[learnt]
        order = {"batch": BATCH, "exhausted": "cycle", "shuffle_seed": seed}
        return tacit.streams.from_arrays(*rows, parts, task="multiclass", **order)

    def accuracy(name: str, step: float, seed: int, seeds: int, rows: np.ndarray) -> np.ndarray:
        """Return the accuracy of the agents' models on all classes, mean over the agents, for each seed."""
        run = tacit.simulate(
            METHODS[name](objective, step=step), tacit.graphs.ring(AGENTS), stream,
            rounds=asked.rounds, repeats=seeds, seed=seed, progress=False,
        )  # fmt: skip
        return np.asarray(run.evaluate(x[rows], y[rows]).scores["each"]["accuracy"])

    found, told = {}, {}
    for name in METHODS:
        steps = [step / 10 if name in TENTH else step for step in STEPS]
        step = max(steps, key=lambda step, name=name: accuracy(name, step, 1000, asked.tune, chosen).mean())
        found[name] = accuracy(name, step, 100, asked.seeds, judged)
        each = " ".join(f"{one:.3f}" for one in found[name])
        told[name] = {"step": step, "accuracy": found[name].tolist()}
        print(f"{name:<24} step {step:<6g} accuracy {found[name].mean():.3f}  ({each})")
    for name, values in list(found.items())[1:]:
        gap = values - found["plain steps"]
        half = stats.t.ppf(0.975, len(gap) - 1) * gap.std(ddof=1) / len(gap) ** 0.5
        low, high = gap.mean() - half, gap.mean() + half
        told[name] |= {"over plain steps": gap.mean(), "from": low, "to": high}
        print(f"{name} over plain steps: {gap.mean():+.3f}, 95 % interval {low:+.3f} to {high:+.3f}")
    if asked.out is not None:
        asked.out.write_text(json.dumps({"rounds": asked.rounds, "methods": told}, indent=1) + "\n")


if __name__ == "__main__":
    main()
