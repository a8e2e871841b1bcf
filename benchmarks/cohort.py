"""What calling a few of many clients costs: `python -m benchmarks.cohort`.

Federated averaging with a cohort of 50, two local steps on two records each, logistic regression with 22 features: 50
clients, of whom all are called, against 100,000 and others. All sizes are run in turn in one process, so that other
work on the machine hits them alike; the best time of each counts. The goal is at most twice the time of 50 clients.
"""

from __future__ import annotations

import numpy as np

import tacit
from benchmarks.figures import write

COHORT, ROUNDS, REPETITIONS, GOAL = 50, 4000, 7, 2.0
SIZES = (50, 1_000, 10_000, 100_000)
RECORDS, FEATURES = 4, 22


def problem(clients: int) -> tuple[tacit.graphs.Topology, tacit.streams.Stream]:
    """Return clients around a server, each with a few records that stay."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((1, clients, RECORDS, FEATURES)).astype(np.float32)
    y = np.sign(x[..., 0] + 0.3 * rng.standard_normal(x.shape[:-1])).astype(np.float32)

    def chunk(start: int, stop: int) -> tacit.streams.Batch:
        return tacit.streams.Batch(*(np.broadcast_to(a, (stop - start, *a.shape[1:])) for a in (x, y)))

    stream = tacit.streams.from_function(chunk, agents=clients, period=1, data_size=RECORDS)
    return tacit.graphs.star_roles(clients), stream


def seconds(clients: int) -> float:
    """Return the time of one run, compilation apart."""
    algorithm = tacit.algorithms.fedavg(
        tacit.objectives.logistic(l2=1e-3), 0.1, cohort=COHORT, local_steps=2, batch_size=2
    )
    topology, stream = problem(clients)
    run = tacit.simulate(
        algorithm, topology, stream, rounds=ROUNDS, evaluate="cohort", record_every=ROUNDS, progress=False
    )
    return run.seconds


SMOKE = {"COHORT": 2, "ROUNDS": 3, "REPETITIONS": 1, "SIZES": (2,)}


def main() -> int:
    """Measure, print, and write results/cohort.json; 1 if the goal is missed."""
    best = dict.fromkeys(SIZES, float("inf"))
    for _ in range(REPETITIONS):
        for clients in SIZES:
            best[clients] = min(best[clients], seconds(clients))
    ratio = {clients: best[clients] / best[SIZES[0]] for clients in SIZES}
    for clients in SIZES:
        per_round = 1e6 * best[clients] / ROUNDS
        print(f"{clients:>9,} clients, {COHORT} a round: {per_round:7.1f} us, {ratio[clients]:.2f} x of {SIZES[0]}")
    write("cohort", {"rounds": ROUNDS, "seconds": best, "ratio": ratio}, "jax")
    return int(ratio[SIZES[-1]] > GOAL)


if __name__ == "__main__":
    raise SystemExit(main())
