"""What stands before the first round, by the number of agents: `python -m benchmarks.setup [AGENTS ...]`.

Online push-sum with logistic regression, 18 features, a random digraph of 1 to 10 links out of each agent. Every size
runs in a process of its own, first with an empty cache of programs, then with what the first has left there. Prints
seconds of making the graph, of set-up (checks, layout, data and transfers), of compiling and of the rounds, how many
programs were compiled, and peak memory; seconds of the processor stand beside those of the clock.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
import time
from collections import Counter
from typing import Any

import jax
from jax import monitoring

import tacit
from benchmarks.figures import environment, write

SIZES = [10_000, 100_000, 1_000_000, 4_000_000]
ROUNDS = 5
FEATURES = 18
MEMORY = 64
"""GiB that a run may ask for."""
COMPILED = "/jax/core/compile/backend_compile_duration"
FOUND = "/jax/compilation_cache/cache_hits"


def measure(agents: int, cache: str = "") -> dict[str, Any]:
    """Return the figures of one size, in this process."""
    seconds: Counter[str] = Counter()
    times: Counter[str] = Counter()

    def lasted(event: str, duration: float, **_: Any) -> None:
        seconds[event] += duration
        times[event] += 1

    monitoring.register_event_duration_secs_listener(lasted)
    monitoring.register_event_listener(lambda event, **_: times.update([event]))
    begun, worked = time.perf_counter(), time.process_time()
    graph = tacit.graphs.random_digraph(agents, 10, seed=0)
    made = time.perf_counter()
    stream = tacit.streams.logistic_drift(agents=agents, dim=FEATURES, seed=0)
    method = tacit.algorithms.online_push_sum(tacit.objectives.logistic())
    with tacit.limits.memory(MEMORY):
        run = tacit.simulate(method, graph, stream, rounds=ROUNDS, record_every=ROUNDS, progress=False)
    ended = time.perf_counter()
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
        "loss": float(run.per_round["loss"][0, -1]),
    }


def in_own_process(agents: int, cache: str) -> dict[str, Any]:
    """Measure one size in a process that starts afresh, and keeps its programs in a folder."""
    settings = environment(agents) | {"XDG_CACHE_HOME": cache, "JAX_ENABLE_COMPILATION_CACHE": "true"}
    command = [sys.executable, "-m", "benchmarks.setup", "--one", str(agents)]
    out = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=settings).stdout
    found: dict[str, Any] = json.loads(out.splitlines()[-1])
    return found


SMOKE = {"SIZES": [16], "ROUNDS": 2, "in_own_process": measure}


def main() -> int:
    """Measure, print, and write results/setup.json; 1 where a second process compiled anything."""
    if sys.argv[1:2] == ["--one"]:
        print(json.dumps(measure(int(sys.argv[2]))))
        return 0
    sizes = [int(size) for size in sys.argv[1:]] or SIZES
    columns = ("graph", "set-up", "compiling", "rounds", "processor", "programs", "peak")
    print(f"{'agents':>12} " + "".join(f"{column:>11}" for column in columns))
    cells, again = [], 0
    for agents in sizes:
        with tempfile.TemporaryDirectory() as cache:
            pair = [in_own_process(agents, cache) for _ in range(2)]
        if pair[0]["loss"] != pair[1]["loss"]:
            raise SystemExit(f"{agents:,} agents: programs that were kept give other losses")
        again += pair[1]["programs"]
        for cell in pair:
            row = "".join(
                f"{cell[column]:>11}" if column == "programs" else f"{cell[column]:>11.2f}" for column in columns
            )
            print(f"{agents:>12,} {row}", flush=True)
        cells += pair
    write("setup", {"cells": cells, "device": str(jax.devices()[0])}, "jax", "numpy")
    return int(again > 0)


if __name__ == "__main__":
    sys.exit(main())
