"""What stands before the first round, by agents: `python -m benchmarks.setup [--exact] [--rate ROUNDS] [AGENTS ...]`.

Online push-sum with logistic regression, 18 features, a random digraph of 1 to 10 links out of each agent (5.5 on
average), or with `--exact` of 10. Every size runs in a process of its own, first with an empty cache of programs, then
with what the first has left there. Prints seconds of making the graph, of set-up (checks, layout, data and transfers),
of compiling and of the rounds, how many programs were compiled, and peak memory, of the device too where it tells;
seconds of the processor stand beside those of the clock. With `--rate` there are twice so many rounds, all on one round
of data, of which the second half is timed (with one look at the models): agent-rounds per second, of the same run.
"""

from __future__ import annotations

import argparse
import json
import math
import resource
import subprocess
import sys
import tempfile
import time
from collections import Counter
from typing import Any

import jax
import numpy as np
from jax import monitoring

import tacit
from benchmarks.figures import environment, write

SIZES = [10_000, 100_000, 1_000_000, 4_000_000]
ROUNDS = 5
FEATURES = 18
MEMORY = 64
"""GiB that a run may ask for."""
TOLERANCE = 1e-5
"""Relative difference of losses of two processes where sums have no fixed order: on anything but a CPU."""
COMPILED = "/jax/core/compile/backend_compile_duration"
FOUND = "/jax/compilation_cache/cache_hits"


def measure(agents: int, cache: str = "", rate: int = 0, exact: bool = False) -> dict[str, Any]:
    """Return the figures of one size, in this process."""
    seconds: Counter[str] = Counter()
    times: Counter[str] = Counter()

    def lasted(event: str, duration: float, **_: Any) -> None:
        seconds[event] += duration
        times[event] += 1

    monitoring.register_event_duration_secs_listener(lasted)
    monitoring.register_event_listener(lambda event, **_: times.update([event]))
    begun, worked = time.perf_counter(), time.process_time()
    method = tacit.algorithms.online_push_sum(tacit.objectives.logistic())
    with tacit.limits.memory(MEMORY):
        graph = tacit.graphs.random_digraph(agents, 10, seed=0, exact=exact)
        made = time.perf_counter()
        stream = tacit.streams.logistic_drift(agents=agents, dim=FEATURES, seed=0, repeat_every=1 if rate else None)
        run = tacit.simulate(
            method, graph, stream, rounds=2 * rate or ROUNDS, record_every=rate or ROUNDS, progress=False,
            record={"clock": lambda _: time.perf_counter()} if rate else {},
        )  # fmt: skip
    ended = time.perf_counter()
    device = jax.local_devices()[0]
    return {
        "agents": agents,
        "links": graph.edges,
        "graph": made - begun,
        "set-up": ended - made - run.seconds - seconds[COMPILED],
        "compiling": seconds[COMPILED],
        "rounds": run.seconds,
        "processor": time.process_time() - worked,
        "programs": times[COMPILED] - times[FOUND],
        "peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20,
        "on device": (device.memory_stats() or {}).get("peak_bytes_in_use", 0) / 2**30,
        "loss": float(run.per_round["loss"][0, -1]),
        "platform": device.platform,
        "rate": agents * rate / float(np.diff(run.recorded["clock"][0])[0]) if rate else 0.0,
    }


def in_own_process(agents: int, cache: str, rate: int = 0, exact: bool = False) -> dict[str, Any]:
    """Measure one size in a process that starts afresh, and keeps its programs in a folder."""
    settings = environment(agents) | {"XDG_CACHE_HOME": cache, "JAX_ENABLE_COMPILATION_CACHE": "true"}
    command = [sys.executable, "-m", "benchmarks.setup", "--one", str(agents), "--rate", str(rate)]
    command += ["--exact"] if exact else []
    out = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=settings).stdout
    found: dict[str, Any] = json.loads(out.splitlines()[-1])
    return found


def agree(one: dict[str, Any], other: dict[str, Any]) -> bool:
    """Whether two processes have the same loss: to the bit on a CPU."""
    tolerance = 0.0 if one["platform"] == "cpu" else TOLERANCE
    return math.isclose(one["loss"], other["loss"], rel_tol=tolerance)


SMOKE = {"SIZES": [16], "ROUNDS": 2, "in_own_process": measure}


def main() -> int:
    """Measure, print, and write results/setup.json; 1 where a second process compiled anything."""
    parser = argparse.ArgumentParser("benchmarks.setup")
    parser.add_argument("agents", nargs="*", type=int)
    parser.add_argument("--rate", type=int, default=0, help="rounds that are timed")
    parser.add_argument("--exact", action="store_true", help="10 links out of each agent, and not 1 to 10")
    parser.add_argument("--one", type=int, help="one size, in this process")
    asked = parser.parse_args()
    if asked.one is not None:
        print(json.dumps(measure(asked.one, rate=asked.rate, exact=asked.exact)))
        return 0
    columns = ("graph", "set-up", "compiling", "rounds", "processor", "programs", "peak", "on device")
    print(f"{'agents':>12} " + "".join(f"{column:>11}" for column in columns) + "  agent-rounds/s")
    cells, again = [], 0
    for agents in asked.agents or SIZES:
        with tempfile.TemporaryDirectory() as cache:
            pair = [in_own_process(agents, cache, asked.rate, asked.exact) for _ in range(2)]
        if not agree(*pair):
            raise SystemExit(f"{agents:,} agents: programs that were kept give other losses")
        again += pair[1]["programs"]
        for cell in pair:
            row = "".join(
                f"{cell[column]:>11}" if column == "programs" else f"{cell[column]:>11.2f}" for column in columns
            )
            print(f"{agents:>12,} {row}" + (f"{cell['rate']:>16.3e}" if asked.rate else ""), flush=True)
        cells += pair
    write("setup", {"cells": cells, "device": str(jax.devices()[0])}, "jax", "numpy")
    return int(again > 0)


if __name__ == "__main__":
    sys.exit(main())
