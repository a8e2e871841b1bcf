"""`make bench`: agent-rounds per second and peak memory of the engine beside four other ways to compute the same.

Every cell runs in a process of its own (peak memory, number of threads), the variants of one size one after the other.
A cell is warmed up, then timed at least three times for at least a second each; the median counts. Prints a table and
writes benchmarks/results/engine.json.
"""

from __future__ import annotations

import json
import resource
import statistics
import subprocess
import sys
import time
from typing import Any

from benchmarks.figures import environment, write

SIZES = [128, 1_024, 10_000, 100_000, 1_000_000]
REPETITIONS = 3
SECONDS = 1.2
SKIP = {("python loop", 1_000_000)}
"""Minutes per round; its rate does not depend on the size."""
GOALS = {"jax by hand": 0.8, "numpy + csr": 1.5, "c kernel": 0.3}


def measure(variant: str, agents: int) -> dict[str, Any]:
    """One cell, in this process."""
    from benchmarks.variants import VARIANTS

    advance = VARIANTS[variant](agents)
    check = advance(5)  # warm-up, compiles; also compared between variants
    rounds, seconds = 5, 0.0
    while True:
        begun = time.perf_counter()
        advance(rounds)
        seconds = getattr(advance, "seconds", time.perf_counter() - begun)
        if seconds >= SECONDS:
            break
        rounds = max(rounds + 1, int(rounds * min(20.0, 1.3 * SECONDS / max(seconds, 1e-4))))
    rates = []
    for _ in range(REPETITIONS):
        begun = time.perf_counter()
        advance(rounds)
        seconds = getattr(advance, "seconds", time.perf_counter() - begun)
        rates.append(agents * rounds / seconds)
    return {
        "variant": variant,
        "agents": agents,
        "rounds": rounds,
        "agent_rounds_per_second": statistics.median(rates),
        "all": rates,
        "peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        "loss_of_first_rounds": check,
    }


def in_own_process(variant: str, agents: int) -> dict[str, Any]:
    """Measure one cell in a process that starts afresh."""
    command = [sys.executable, "-m", "benchmarks.engine", variant, str(agents)]
    out = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=environment(agents)).stdout
    found: dict[str, Any] = json.loads(out.splitlines()[-1])
    return found


SMOKE = {"SIZES": [16], "REPETITIONS": 1, "SECONDS": 0.0, "in_own_process": measure}


def main() -> int:
    if len(sys.argv) == 3:
        print(json.dumps(measure(sys.argv[1], int(sys.argv[2]))))
        return 0
    from benchmarks.variants import VARIANTS

    cells: dict[tuple[str, int], dict[str, Any]] = {}
    for agents in SIZES:
        for variant in VARIANTS:
            if (variant, agents) in SKIP:
                continue
            cell = cells[variant, agents] = in_own_process(variant, agents)
            rate, peak = cell["agent_rounds_per_second"] / 1e6, cell["peak_bytes"] / 2**30
            spread = (max(cell["all"]) - min(cell["all"])) / 1e6
            print(f"{agents:>9,}  {variant:<12} {rate:>9.3f} M/s (spread {spread:.3f})  {peak:>6.2f} GiB", flush=True)
        agree([cells[v, agents] for v in VARIANTS if (v, agents) in cells])
    misses = verdict(cells)
    write("engine", {"cells": list(cells.values()), "missed": misses}, "jax", "numpy")
    return 1 if misses else 0


def agree(cells: list[dict[str, Any]]) -> None:
    """All variants must have computed the same losses."""
    losses = [c["loss_of_first_rounds"] for c in cells]
    if max(losses) - min(losses) > 1e-4 * abs(losses[0]):
        raise SystemExit(f"variants disagree: {[(c['variant'], c['loss_of_first_rounds']) for c in cells]}")


def verdict(cells: dict[tuple[str, int], dict[str, Any]]) -> list[str]:
    """Print the ratios and return the goals that were missed."""
    misses = []
    print("\ntacit's rate over that of")
    for agents in SIZES:
        words = []
        for other, goal in GOALS.items():
            ratio = cells["tacit", agents]["agent_rounds_per_second"] / cells[other, agents]["agent_rounds_per_second"]
            applies = other != "c kernel" or agents <= 10_000
            words.append(f"{other} {ratio:.2f}" + (f" (goal {goal})" if applies else ""))
            if applies and ratio < goal:
                misses.append(f"{agents:,} agents: {ratio:.2f} of {other}, goal {goal}")
        print(f"{agents:>9,}  " + "   ".join(words))
    peak = cells["tacit", SIZES[-1]]["peak_bytes"] / 2**30
    print(f"peak memory at {SIZES[-1]:,} agents: {peak:.2f} GiB (goal 6)")
    if peak > 6:
        misses.append(f"peak memory {peak:.2f} GiB")
    print("all goals met" if not misses else "missed: " + "; ".join(misses))
    return misses


if __name__ == "__main__":
    sys.exit(main())
