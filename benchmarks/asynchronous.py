"""How fast clients that are mostly away learn: `python -m benchmarks.asynchronous`.

PAO-Fed on the network of 001 section 4.4: 256 clients, 200 Fourier features of which 4 travel, 2,000 iterations, delays
of up to ten rounds, 20 runs at once. The goal is 60 s after compilation on two cores. Beside it, in the same run of
this script: the same method sharing everything, and two NumPy programs for this one method, one run at a time and
without delays, which would only slow them down: with all clients at once, and with a loop over clients as most
simulators have it; a few hundred of their iterations are measured and taken times as many as there are.
"""

from __future__ import annotations

import functools
import time

import numpy as np

import tacit
from benchmarks.figures import write
from tacit_reproduction.gauthier.asynchronous import (
    CLIENTS,
    ENVIRONMENTS,
    FEATURES,
    ROUNDS,
    Cell,
    network,
    objective,
    stream,
)

RUNS, SHARE, STEP, GOAL, REPETITIONS = 20, 4, 0.4, 60.0, 2
HAND_ROUNDS = 300


def seconds(share: int, runs: int) -> float:
    """Return the time of so many runs, compilation apart; the best of a few counts."""
    method = tacit.algorithms.pao_fed(
        objective("synthetic"), STEP, share=share, variant="U2", newest_only=share > SHARE
    )
    cell = Cell("U2", clients=CLIENTS, rounds=ROUNDS)
    data = functools.partial(stream, "synthetic", CLIENTS, ROUNDS)
    channel, found = ENVIRONMENTS["usual"].channel, []
    for _ in range(REPETITIONS):
        run = tacit.simulate(
            method, network(cell), data, rounds=ROUNDS, repeats=runs, channel=channel, record_every=ROUNDS,
            progress=False,
        )  # fmt: skip
        found.append(run.seconds)
    return min(found)


class Hand:
    """The same method by hand in NumPy, one run at a time and without delays."""

    def __init__(self) -> None:
        self.batch = stream("synthetic", CLIENTS, ROUNDS, 0).chunk(0, HAND_ROUNDS)
        rng = np.random.default_rng(0)
        self.omega = rng.standard_normal((4, FEATURES), dtype=np.float32)
        self.shift = rng.uniform(0, 2 * np.pi, FEATURES).astype(np.float32)
        self.there = (rng.random((HAND_ROUNDS, CLIENTS)) < 0.1) & (self.batch.weight > 0)

    def features(self, x: np.ndarray) -> np.ndarray:
        """Return the Fourier features of inputs."""
        return np.asarray(np.float32(np.sqrt(2 / FEATURES)) * np.cos(x @ self.omega + self.shift))

    def all_at_once(self, rounds: int) -> float:
        """Return the seconds of an iteration in which array operations do all clients."""
        w, local = np.zeros(FEATURES, np.float32), np.zeros((CLIENTS, FEATURES), np.float32)
        every = np.arange(CLIENTS)[:, None]
        begun = time.perf_counter()
        for n in range(rounds):
            places = (SHARE * (n + every) + np.arange(SHARE)) % FEATURES
            taken = self.there[n]
            local[every[taken], places[taken]] = w[places[taken]]
            z = self.features(self.batch.x[n])
            error = (self.batch.y[n] - np.einsum("kd,kd->k", z, local)) * self.batch.weight[n]
            local += STEP * z * error[:, None]
            answered = (places[taken] + SHARE) % FEATURES
            np.add.at(w, answered, (local[every[taken], answered] - w[answered]) / max(1, taken.sum()))
        return (time.perf_counter() - begun) / rounds

    def one_by_one(self, rounds: int) -> float:
        """Return the seconds of an iteration in which a loop goes through the clients, each an object of its own."""
        w, local = np.zeros(FEATURES, np.float32), [np.zeros(FEATURES, np.float32) for _ in range(CLIENTS)]
        begun = time.perf_counter()
        for n in range(rounds):
            change, count = np.zeros(FEATURES, np.float32), max(1, int(self.there[n].sum()))
            for k in range(CLIENTS):
                places = (SHARE * (n + k) + np.arange(SHARE)) % FEATURES
                if self.there[n, k]:
                    local[k][places] = w[places]
                if self.batch.weight[n, k]:
                    z = self.features(self.batch.x[n, k])
                    local[k] += STEP * (self.batch.y[n, k] - z @ local[k]) * z
                if self.there[n, k]:
                    answered = (places + SHARE) % FEATURES
                    change[answered] += (local[k][answered] - w[answered]) / count
            w += change
        return (time.perf_counter() - begun) / rounds


SMOKE = {"RUNS": 1, "ROUNDS": 20, "CLIENTS": 8, "REPETITIONS": 1, "HAND_ROUNDS": 10}


def main() -> int:
    """Measure, print, and write results/asynchronous.json; 1 if the goal is missed."""
    hand = Hand()
    took = {
        "4 numbers travel": seconds(SHARE, RUNS),
        "all 200 travel": seconds(FEATURES, RUNS),
        "NumPy, all clients at once": hand.all_at_once(HAND_ROUNDS) * RUNS * ROUNDS,
        "NumPy, a loop over clients": hand.one_by_one(HAND_ROUNDS // 10) * RUNS * ROUNDS,
    }
    for name, spent in took.items():
        print(f"{RUNS} runs of {ROUNDS} rounds, {CLIENTS} clients, {name}: {spent:.1f} s")
    write("asynchronous", {"runs": RUNS, "seconds": took, "goal seconds": GOAL}, "jax")
    return int(took["4 numbers travel"] > GOAL)


if __name__ == "__main__":
    raise SystemExit(main())
