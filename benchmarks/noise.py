"""What noise costs in a simulation: `python -m benchmarks.noise` (CPU), `python -m benchmarks.noise --gpu`.

The problem of `benchmarks.engine` without noise, with Laplace and with Gaussian noise, drawn by tacit's generator and
by `jax.random` (threefry) in its place; besides with draws of nothing, which is what clipping and declaring cost. All
run in turn in one process per size, so that other work on the machine hits them alike; the best time of each counts.
"""

from __future__ import annotations

import argparse
import importlib
import json
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from benchmarks.figures import environment, write

SIZES = [128, 1_024, 10_000, 100_000]
GPU_SIZE = 1_000_000
REPETITIONS = 7
AGENT_ROUNDS = 8e6
"""Per repetition on the CPU; the GPU gets a hundred times as many."""
GOAL = 2.0
DISTRIBUTIONS = ("laplace", "gaussian")


def threefry(distribution: str) -> Callable[..., Any]:
    """Draw as `jax.random` does, its key derived per agent, round, phase and leaf by its own means."""
    import jax
    import jax.numpy as jnp

    draw = {"laplace": jax.random.laplace, "gaussian": jax.random.normal}[distribution]

    def unit(words: Any, leaf: int, shape: Sequence[int], dtype: Any) -> Any:
        key = jax.random.wrap_key_data(jnp.stack([words.first, words.second]))
        key = jax.random.fold_in(jax.random.fold_in(key, 0), leaf)
        return draw(jax.random.split(key, 1)[0], shape, dtype)

    return unit


def nothing(words: Any, leaf: int, shape: Sequence[int], dtype: Any) -> Any:
    import jax.numpy as jnp

    return jnp.zeros(shape, dtype)


@contextmanager
def drawn_by(replacement: Callable[[str], Callable[..., Any]] | None) -> Iterator[None]:
    """Put other draws in the place of tacit's while something is compiled."""
    draws = importlib.import_module("tacit.privacy.draws")._UNIT_DRAWS
    before = dict(draws)
    if replacement is not None:
        draws.update({name: replacement(name) for name in DISTRIBUTIONS})
    try:
        yield
    finally:
        draws.update(before)


def timed(algorithm: Any, problem: Any, rounds: int, by: Any) -> float:
    """Return the seconds of a run, compilation apart."""
    import tacit

    with drawn_by(by):
        run = tacit.simulate(
            algorithm, problem.graph, problem.stream, rounds=rounds, record_every=rounds, progress=False
        )
    return run.seconds


def measure(agents: int, agent_rounds: float) -> dict[str, Any]:
    """Return agent-rounds per second of every variant at one size, in this process."""
    import jax

    import tacit
    from benchmarks.problem import L2, STEP, make

    problem = make(agents)
    objective = tacit.objectives.logistic(l2=L2)
    mechanisms = {
        "laplace": tacit.privacy.laplace(epsilon=1.0, clip=1.0),
        "gaussian": tacit.privacy.gaussian(noise_multiplier=1.0, clip=1.0),
    }
    variants: dict[str, tuple[Any, Any]] = {"without": (tacit.privacy.unprotected, None)}
    for name, mechanism in mechanisms.items():
        variants[f"{name}, tacit"] = (mechanism, None)
        variants[f"{name}, threefry"] = (mechanism, threefry)
    variants["no draw"] = (mechanisms["laplace"], lambda name: nothing)
    rounds = max(20, round(agent_rounds / agents))
    seconds: dict[str, list[float]] = {name: [] for name in variants}
    for _ in range(REPETITIONS):
        for name, (mechanism, by) in variants.items():
            algorithm = tacit.algorithms.online_push_sum(objective, step=STEP, mechanism=mechanism)
            seconds[name].append(timed(algorithm, problem, rounds, by))
    return {
        "agents": agents,
        "rounds": rounds,
        "device": str(jax.devices()[0]),
        "jax": jax.__version__,
        "agent_rounds_per_second": {name: agents * rounds / min(times) for name, times in seconds.items()},
        "times_without": {name: min(times) / min(seconds["without"]) for name, times in seconds.items()},
        "seconds": seconds,
    }


def in_own_process(agents: int) -> dict[str, Any]:
    """Measure one size in a process that starts afresh."""
    command = [sys.executable, "-m", "benchmarks.noise", "--size", str(agents)]
    out = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=environment(agents)).stdout
    found: dict[str, Any] = json.loads(out.splitlines()[-1])
    return found


def show(cell: dict[str, Any]) -> None:
    rates = cell["agent_rounds_per_second"]
    print(f"{cell['agents']:>9,} agents, {cell['device']}: {rates['without'] / 1e6:.1f} M agent-rounds/s without noise")
    for name, times in cell["times_without"].items():
        if name != "without":
            print(f"{'':>11}{name:<20} {rates[name] / 1e6:>8.1f} M/s, {times:.2f} times the time", flush=True)


SMOKE = {"SIZES": [16], "REPETITIONS": 1, "in_own_process": lambda agents: measure(agents, 32)}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gpu", action="store_true", help=f"{GPU_SIZE:,} agents on the device that JAX finds")
    parser.add_argument("--size", type=int, help="one size in this process; prints JSON")
    chosen = parser.parse_args()
    if chosen.size is not None:
        print(json.dumps(measure(chosen.size, AGENT_ROUNDS)))
        return 0
    cells = []
    if chosen.gpu:
        cells.append(measure(GPU_SIZE, 100 * AGENT_ROUNDS))
        show(cells[-1])
    else:
        for agents in SIZES:
            cells.append(in_own_process(agents))
            show(cells[-1])
    missed = [
        f"{cell['agents']:,} agents, {name}: {cell['times_without'][f'{name}, tacit']:.2f} times, goal {GOAL}"
        for cell in cells
        for name in DISTRIBUTIONS
        if cell["times_without"][f"{name}, tacit"] >= GOAL
    ]
    print("all goals met" if not missed else "missed: " + "; ".join(missed))
    write("noise_gpu" if chosen.gpu else "noise", {"cells": cells, "missed": missed}, "jax")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
