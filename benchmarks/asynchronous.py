"""How fast clients that are mostly away learn: `python -m benchmarks.asynchronous`.

PAO-Fed on the network of 001 section 4.4: 256 clients, 200 Fourier features of which 4 travel, 2,000 iterations, delays
of up to ten rounds, 20 runs at once. The goal is 60 s after compilation on two cores. Beside it, in the same run of
this script: the same method sharing everything, and a NumPy program that does all clients of one run at a time (without
delays, which would only slow it down), taken times as many runs and iterations.
"""

from __future__ import annotations

import functools
import json
import platform
import time
from pathlib import Path

import numpy as np

import tacit
from tacit.experiments.papers.asynchronous.setting import (
    CLIENTS,
    FEATURES,
    ROUNDS,
    USUAL,
    Task,
    network,
    objective,
    stream,
)

RUNS, SHARE, STEP, GOAL, REPETITIONS = 20, 4, 0.4, 60.0, 2
NUMPY_ROUNDS = 300
RESULTS = Path(__file__).parent / "results"


def seconds(share: int, runs: int) -> float:
    """Return the time of so many runs, compilation apart; the best of a few counts."""
    method = tacit.algorithms.pao_fed(
        objective("synthetic"), STEP, share=share, variant="U2", newest_only=share > SHARE
    )
    task = Task("", "pao_fed", {})
    data = functools.partial(stream, "synthetic", CLIENTS, ROUNDS)
    found = []
    for _ in range(REPETITIONS):
        run = tacit.simulate(
            method, network(task), data, rounds=ROUNDS, repeats=runs, channel=USUAL.channel, record_every=ROUNDS,
            progress=False,
        )  # fmt: skip
        found.append(run.seconds)
    return min(found)


def numpy_seconds() -> float:
    """Return the time of one iteration of one run in NumPy, all clients at once."""
    data = stream("synthetic", CLIENTS, ROUNDS, 0)
    batch = data.chunk(0, NUMPY_ROUNDS)
    rng = np.random.default_rng(0)
    omega = rng.standard_normal((4, FEATURES), dtype=np.float32)
    shift = rng.uniform(0, 2 * np.pi, FEATURES).astype(np.float32)
    there = rng.random((NUMPY_ROUNDS, CLIENTS)) < 0.1
    w, local = np.zeros(FEATURES, np.float32), np.zeros((CLIENTS, FEATURES), np.float32)
    every = np.arange(CLIENTS)[:, None]
    begun = time.perf_counter()
    for n in range(NUMPY_ROUNDS):
        places = (SHARE * (n + every) + np.arange(SHARE)) % FEATURES
        taken = there[n] & (batch.weight[n] > 0)
        local[every[taken], places[taken]] = w[places[taken]]
        z = np.sqrt(2 / FEATURES) * np.cos(batch.x[n] @ omega + shift)
        error = (batch.y[n] - np.einsum("kd,kd->k", z, local)) * (batch.weight[n] > 0)
        local += STEP * z * error[:, None]
        answered = (places[taken] + SHARE) % FEATURES
        np.add.at(w, answered, (local[every[taken], answered] - w[answered]) / max(1, taken.sum()))
    return (time.perf_counter() - begun) / NUMPY_ROUNDS


def main() -> int:
    """Measure, print, and write results/asynchronous.json; 1 if the goal is missed."""
    windows, whole = seconds(SHARE, RUNS), seconds(FEATURES, RUNS)
    plain = numpy_seconds() * RUNS * ROUNDS
    found = {
        "machine": platform.machine(),
        "runs": RUNS,
        "seconds": {f"share {SHARE}": windows, f"share {FEATURES}": whole, "NumPy, extrapolated": plain},
        "goal seconds": GOAL,
    }
    for name, took in (("4 numbers travel", windows), ("all 200 travel", whole), ("NumPy", plain)):
        print(
            f"{RUNS} runs of {ROUNDS} rounds, {CLIENTS} clients, {name}: {took:.1f} s ({plain / took:.1f} times NumPy)"
        )
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "asynchronous.json").write_text(json.dumps(found, indent=2) + "\n")
    return int(windows > GOAL)


if __name__ == "__main__":
    raise SystemExit(main())
