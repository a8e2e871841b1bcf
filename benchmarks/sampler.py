"""Noise for peers, in draws per second: `python -m benchmarks.sampler`.

Prints the grid sampler, NumPy's floating-point noise (which is not safe to release) and OpenDP's exact sampler, the
last on fewer draws.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable

import numpy as np

from tacit.privacy.noise import NoiseSource, release_on_grid

DRAWS = 1_000_000
OPENDP_DRAWS = 20_000
REPETITIONS = 7


def seconds(draw: Callable[[], object], repetitions: int | None = None) -> float:
    """Median, after one call to warm up."""
    draw()
    taken = []
    for _ in range(repetitions or REPETITIONS):
        begun = time.perf_counter()
        draw()
        taken.append(time.perf_counter() - begun)
    return statistics.median(taken)


def opendp_sampler(distribution: str) -> Callable[[], object]:
    import opendp.prelude as dp

    dp.enable_features("contrib")
    space = dp.vector_domain(dp.atom_domain(T=float, nan=False))
    values = [0.0] * OPENDP_DRAWS
    if distribution == "laplace":
        sampler = dp.m.make_laplace(space, dp.l1_distance(T=float), scale=1.0)
    else:
        sampler = dp.m.make_gaussian(space, dp.l2_distance(T=float), scale=1.0)
    return lambda: sampler(values)


SMOKE = {"DRAWS": 100, "OPENDP_DRAWS": 10, "REPETITIONS": 1}


def main() -> int:
    values, source, rng = np.zeros(DRAWS), NoiseSource(), np.random.default_rng(0)
    naive: dict[str, Callable[[], object]] = {
        "laplace": lambda: values + rng.laplace(size=DRAWS),
        "gaussian": lambda: values + rng.normal(size=DRAWS),
    }
    print(f"{'noise':<16} {'sampler':<16} {'draws/s':>12} {'s per 1e6':>10}")
    for distribution in ("laplace", "gaussian", "bounded_laplace"):
        bound = 3.0 if distribution == "bounded_laplace" else None
        rows = [
            ("grid", DRAWS, seconds(lambda d=distribution, b=bound: release_on_grid(values, d, 1.0, source, bound=b)))
        ]
        if distribution in naive:
            rows.append(("numpy, unsafe", DRAWS, seconds(naive[distribution])))
            rows.append(("opendp", OPENDP_DRAWS, seconds(opendp_sampler(distribution), 3)))
        for name, draws, taken in rows:
            print(f"{distribution:<16} {name:<16} {draws / taken:>12,.0f} {taken / draws * 1e6:>10.3f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
