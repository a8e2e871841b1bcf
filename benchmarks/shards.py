"""What several devices and processes bring, and what they tell each other: `python -m benchmarks.shards`.

Online push-sum with ten out-links per agent (`benchmarks.problem`) on a random digraph, of which no partition is good,
and on a small world whose agents are in no order, of which one is. First two processes of one device each, over Gloo on
loopback, beside one process with two threads, in turn; then weak scaling over 1, 2, 4 and 8 devices of one process,
with as many agents each. Devices of one CPU share its cores, so that weak scaling here can only show what the exchange
costs: seconds per agent-round should stay what they are. Rates are the best of some repetitions.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from typing import Any

import numpy as np

import tacit
from benchmarks.figures import write
from benchmarks.problem import DIM, L2, STEP

AGENTS, EACH, ROUNDS, REPETITIONS, GOAL = 1_000_000, 50_000, 20, 2, 0.8
DEVICES = (1, 2, 4, 8)
GRAPHS = ("random_digraph", "small_world")
ROW_BYTES = 4 * (DIM + 1)
"""Of a message: the numerators and the mass."""


def graph_of(kind: str, agents: int) -> tacit.graphs.Graph:
    """Return a graph of ten links per agent; a small world's agents are shuffled."""
    if kind == "random_digraph":
        return tacit.graphs.random_digraph(agents, 10, seed=0, exact=True)
    made = tacit.graphs.small_world(agents, 10, 0.01, seed=0)
    other = np.random.default_rng(0).permutation(agents)
    return tacit.graphs.from_edges(agents, other[made.senders], other[made.receivers])


def measure(kind: str, agents: int, devices: int, rounds: int) -> dict[str, Any]:
    """One cell, in this process or in this one and others."""
    from tacit.simulator import simulation

    kept = []
    simulation.split = lambda *given, make=simulation.split: kept.append(make(*given)) or kept[-1]  # type: ignore[attr-defined]
    graph = graph_of(kind, agents)
    stream = tacit.streams.logistic_drift(agents=agents, dim=DIM, seed=0, repeat_every=2)
    method = tacit.algorithms.online_push_sum(tacit.objectives.logistic(l2=L2), step=STEP)
    seconds = []
    for _ in range(REPETITIONS):
        run = tacit.simulate(method, graph, stream, rounds=rounds, record_every=rounds, progress=False, devices=devices)
        seconds.append(run.seconds / rounds)
    halo = kept[0].layout.links["peers"].halo if kept else None
    return {
        "graph": kind,
        "agents": agents,
        "devices": devices,
        "seconds_per_round": min(seconds),
        "all": seconds,
        "rows_from_others": 0 if halo is None else halo.rows,
        "bytes_per_round": 0 if halo is None else devices * halo.rows * ROW_BYTES,
        "loss": float(run.per_round["loss"][0, -1]),
    }


def in_processes(kind: str, agents: int, devices: int, processes: int) -> dict[str, Any]:
    """Measure one cell in processes that start afresh, all devices together."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    environment = {k: v for k, v in os.environ.items() if k not in ("PJRT_NPROC", "NPROC", "XLA_FLAGS")}
    if processes == 1 and devices > 1:
        environment["XLA_FLAGS"] = f"--xla_force_host_platform_device_count={devices}"
    started = []
    for k in range(processes):
        asked = [kind, str(agents), str(devices), f"127.0.0.1:{port}", str(processes), str(k), str(ROUNDS)]
        command = [sys.executable, "-m", "benchmarks.shards", *asked]
        started.append(subprocess.Popen(command, stdout=subprocess.PIPE, env=environment))
    outs = [process.communicate()[0].decode() for process in started]
    if any(process.returncode for process in started):
        raise SystemExit(f"a process failed: {[process.returncode for process in started]}")
    found: dict[str, Any] = json.loads(outs[0].splitlines()[-1])
    return {**found, "processes": processes}


def alone(kind: str, agents: int, devices: int, processes: int) -> dict[str, Any]:
    """Measure one cell here, on one device: for tests."""
    return {**measure(kind, agents, 1, ROUNDS), "processes": processes, "devices": devices}


SMOKE = {"AGENTS": 30, "EACH": 30, "ROUNDS": 2, "REPETITIONS": 1, "DEVICES": (1,), "in_processes": alone}


def main() -> int:
    """Measure, print, and write results/shards.json; 1 if the goal is missed."""
    if len(sys.argv) > 2:
        return _as_process(*sys.argv[1:])
    ratios, cells = {}, []
    for kind in GRAPHS:
        one, two = in_processes(kind, AGENTS, 1, 1), in_processes(kind, AGENTS, 2, 2)
        ratios[kind] = one["seconds_per_round"] / two["seconds_per_round"]
        cells += [one, two]
        _show("one process, two threads", one)
        _show("two processes", two)
        print(f"{'':26} {ratios[kind]:.2f} of one process with two threads (goal {GOAL})")
    for kind in GRAPHS:
        for devices in DEVICES:
            cells.append(in_processes(kind, EACH * devices, devices, 1))
            _show(f"{devices} devices, one process", cells[-1])
    write("shards", {"cells": cells, "ratios": ratios}, "jax", "numpy")
    return int(min(ratios.values()) < GOAL)


def _as_process(
    kind: str, agents: str, devices: str, coordinator: str, processes: str, process: str, rounds: str
) -> int:
    if int(processes) > 1:
        from tacit.simulator.shards.hosts import join

        join(coordinator, int(processes), int(process))
    print(json.dumps(measure(kind, int(agents), int(devices), int(rounds))))
    return 0


def _show(name: str, cell: dict[str, Any]) -> None:
    per_agent = 1e9 * cell["seconds_per_round"] / cell["agents"]
    per_round, sent = 1e3 * cell["seconds_per_round"], cell["bytes_per_round"] / 1e6
    print(
        f"{cell['graph']:<15} {name:<26} {cell['agents']:>9,} agents {per_round:9.1f} ms a round, {per_agent:7.1f} ns "
        f"per agent; {cell['rows_from_others']:>8,} rows for each device, {sent:6.1f} MB in all",
        flush=True,
    )


if __name__ == "__main__":
    sys.exit(main())
