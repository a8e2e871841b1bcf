"""What several devices and processes bring, and what they tell each other.

Run it by `python -m benchmarks.shards`, or in two parts, with `processes` and with `weak` behind it. Online push-sum
with ten out-links per agent (`benchmarks.problem`) on a random digraph, of which no partition is good, and on a small
world whose agents are in no order, of which one is. First the links that partitions cut; then two processes of one
device each, over Gloo on loopback, beside one process with two threads, in turn; then weak scaling over 1, 2, 4 and 8
devices of one process, with as many agents each. Devices of one CPU share its cores, so that weak scaling here can only
show what the exchange costs: seconds per agent-round should stay what they are. The best of some repetitions counts.

Two processes cannot be faster than one process and the exchange by itself, which the same processes measure after their
rounds: as many rows, and nothing else. A third pair of processes takes its own rows for those of the others, and sends
nothing: what it takes beyond one process is no exchange, but that either process has all messages in its own memory,
while two threads of one process read the same ones out of the cache that they share. Fewer rows could not do: whatever
agents of one side tell the other, the sums there are linear in it, so that at least as many rows are needed as the rank
of the weights between the two sides, which is for weights in general position the size of a largest matching of the
links between them.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from contextlib import nullcontext
from typing import Any
from unittest import mock

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import maximum_bipartite_matching

import tacit
from benchmarks.figures import write
from benchmarks.problem import DIM, L2, STEP
from tacit import runtime
from tacit.graphs import Channel, Topology
from tacit.simulator.layout import Halo, lay_out
from tacit.simulator.shards import partition
from tacit.simulator.shards.hosts import join
from tacit.simulator.simulation import Options, Simulation

AGENTS, EACH, ROUNDS, REPETITIONS, GOAL = 1_000_000, 50_000, 20, 3, 0.8
DEVICES = (1, 2, 4, 8)
FITTED = 2
"""Devices up to which the two constants of the formula are fitted; for more it predicts."""
TURNS = 2
"""How often one process and two are measured in turn."""
CUT = 20_000
"""Agents of the graphs that are only cut."""
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


def cuts() -> list[dict[str, Any]]:
    """Links between four shards of agents in a random order: as they are given, and as they are cut."""
    method = tacit.algorithms.online_push_sum(tacit.objectives.logistic())
    ends, found = runtime.link_ends(method), []
    for made in (
        tacit.graphs.ring(CUT),
        tacit.graphs.small_world(CUT, 10, 0.01, seed=0),
        tacit.graphs.geometric(CUT, 3 * CUT**-0.5, seed=0),
        tacit.graphs.random_digraph(CUT, 10, seed=0),
    ):
        other = np.random.default_rng(0).permutation(CUT)
        graph = tacit.graphs.from_edges(CUT, other[made.senders], other[made.receivers])
        layout = lay_out(Topology.union([runtime.prepared_topology(method, graph, Channel())]), ends, 1)
        homes = np.arange(CUT) * 4 // CUT, partition.homes(layout, ends, 4)["peer"]
        given, chosen = (int(np.sum(home[graph.senders] != home[graph.receivers])) for home in homes)
        read, least = rows_of_two(graph, partition.homes(layout, ends, 2)["peer"])
        found.append({"graph": made.name, "links": graph.edges, "given": given, "chosen": chosen})
        found[-1] |= {"rows of two": read, "least": least}
        print(
            f"{made.name}: {graph.edges:,} links, between four shards {given:,} as given, {chosen:,} as cut; two read "
            f"{read:,} rows of each other, at least {least:,} are needed",
            flush=True,
        )
    return found


def rows_of_two(graph: tacit.graphs.Graph, home: np.ndarray) -> tuple[int, int]:
    """Return how many rows two shards read of each other, and how many have to cross at least, both ways together."""
    read = least = 0
    for shard in (0, 1):
        away = (home[graph.receivers] == shard) & (home[graph.senders] != shard)
        ends = graph.senders[away], graph.receivers[away]
        read += np.unique(ends[0]).size
        links = csr_matrix((np.ones(ends[0].size, np.int8), ends), (graph.agents, graph.agents))
        least += int(np.sum(maximum_bipartite_matching(links) >= 0))
    return read, least


def measure(kind: str, agents: int, devices: int, rounds: int, sends: bool = True) -> dict[str, Any]:
    """One cell, in this process or in this one and others; of a run that sends nothing figures mean nothing."""
    stream = tacit.streams.logistic_drift(agents=agents, dim=DIM, seed=0, repeat_every=2)
    method = tacit.algorithms.online_push_sum(tacit.objectives.logistic(l2=L2), step=STEP)
    options = Options(
        rounds=rounds, repeats=1, seed=0, channel=Channel(), dtype=np.dtype("float32"), start=None, node_loss=None,
        figures={}, evaluate="everyone", record={}, record_every=rounds, checkpoint=None, progress=False, liars={},
        devices=devices,
    )  # fmt: skip
    graph = graph_of(kind, agents)
    with nullcontext() if sends else mock.patch("tacit.simulator.setup.with_halo", sent_nowhere):
        simulation = Simulation(method, graph, stream, options)
        runs = [simulation.run() for _ in range(REPETITIONS)]
    halo = None if simulation.split is None else simulation.split.layout.links["peers"].halo
    seconds = [run.seconds / rounds for run in runs]
    return {
        "graph": kind,
        "agents": agents,
        "links": graph.edges,
        "cut": 0 if halo is None else cut_of(graph, simulation),
        "devices": devices,
        "seconds_per_round": min(seconds),
        "all": seconds,
        "rows_from_others": 0 if halo is None else halo.rows,
        "bytes_per_round": 0 if halo is None else devices * halo.rows * ROW_BYTES,
        "loss": float(runs[-1].per_round["loss"][0, -1]),
        "exchange_alone": 0.0 if halo is None else exchange_alone(halo.rows),
        "sends": sends,
    }


def sent_nowhere(halo: Halo | None, sends: Any, shards: int, rows: jax.Array, own: int) -> jax.Array:
    """Return what `with_halo` does, with a shard's own rows in the place of others'."""
    if halo is None:
        return rows
    mine = rows[:own]
    if halo.whole:
        return jnp.concatenate([mine] * shards)
    others: jax.Array = jnp.resize(mine, (halo.rows, *mine.shape[1:]))
    return jnp.concatenate([mine, others])


def cut_of(graph: tacit.graphs.Graph, simulation: Simulation) -> int:
    """Return how many links lead from one shard to another."""
    learners = simulation.metrics.learners
    home = np.empty(graph.agents, np.int64)
    real = np.ones(learners.order.size, bool) if learners.real is None else learners.real
    home[learners.order[real]] = np.repeat(np.arange(learners.shards), learners.rows)[real]
    return int(np.sum(home[graph.senders] != home[graph.receivers]))


def fitted(cells: list[dict[str, Any]]) -> tuple[float, float]:
    """Return seconds per slot and per row from another shard, on cores that all devices share: least squares."""
    sizes = np.array([[cell["agents"] + cell["links"], cell["devices"] * cell["rows_from_others"]] for cell in cells])
    seconds = np.array([cell["seconds_per_round"] for cell in cells])
    a, b = np.linalg.lstsq(sizes / seconds[:, None], np.ones(len(cells)), rcond=None)[0]
    return float(a), float(b)


def predict(cells: list[dict[str, Any]], known: list[dict[str, Any]]) -> dict[str, float]:
    """Say of each cell what the formula of docs/scale.md gives with constants of those that are known."""
    a, b = fitted(known)
    for cell in cells:
        slots = cell["agents"] + cell["links"]
        cell["predicted"] = a * slots + b * cell["devices"] * cell["rows_from_others"]
        cell["fitted"] = cell in known
    return {"a": a, "b": b}


def exchange_alone(rows: int) -> float:
    """Return the seconds in which each device gets so many rows of the others, and nothing else is done."""
    mesh, own = Mesh(np.array(jax.devices()), ("all",)), rows // (jax.device_count() - 1)
    mine = np.ones((own * len(jax.local_devices()), DIM + 1), np.float32)
    place = NamedSharding(mesh, P("all"))
    made = jax.make_array_from_process_local_data(place, mine, (own * jax.device_count(), DIM + 1))

    def exchanged(mine: jax.Array) -> jax.Array:
        def once(_: int, so_far: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
            mine = so_far[0].at[0, 0].add(1)  # another one each time, or it would be sent once for all
            return mine, jax.lax.all_gather(mine, "all", tiled=True)

        everyones = jax.lax.all_gather(mine, "all", tiled=True)
        last: jax.Array = jax.lax.fori_loop(0, ROUNDS, once, (mine, everyones))[1]
        return last[:1]

    program = jax.jit(jax.shard_map(exchanged, mesh=mesh, in_specs=P("all"), out_specs=P(), check_vma=False))
    jax.block_until_ready(program(made))
    seconds = []
    for _ in range(REPETITIONS):
        begun = time.perf_counter()
        jax.block_until_ready(program(made))
        seconds.append(time.perf_counter() - begun)
    return min(seconds) / (ROUNDS + 1)


def in_processes(kind: str, agents: int, devices: int, processes: int, sends: bool = True) -> dict[str, Any]:
    """Measure one cell in processes that start afresh, all devices together."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    environment = {k: v for k, v in os.environ.items() if k not in ("PJRT_NPROC", "NPROC", "XLA_FLAGS")}
    if processes == 1 and devices > 1:
        environment["XLA_FLAGS"] = f"--xla_force_host_platform_device_count={devices}"
    started = []
    for k in range(processes):
        asked = [
            kind,
            str(agents),
            str(devices),
            f"127.0.0.1:{port}",
            str(processes),
            str(k),
            str(ROUNDS),
            str(int(sends)),
        ]
        command = [sys.executable, "-m", "benchmarks.shards", *asked]
        started.append(subprocess.Popen(command, stdout=subprocess.PIPE, env=environment))
    outs = [process.communicate()[0].decode() for process in started]
    if any(process.returncode for process in started):
        raise SystemExit(f"a process failed: {[process.returncode for process in started]}")
    found: dict[str, Any] = json.loads(outs[0].splitlines()[-1])
    return {**found, "processes": processes}


def alone(kind: str, agents: int, devices: int, processes: int, sends: bool = True) -> dict[str, Any]:
    """Measure one cell here, on one device: for tests."""
    return {**measure(kind, agents, 1, ROUNDS, sends), "processes": processes, "devices": devices}


SMOKE = {
    "AGENTS": 30,
    "EACH": 30,
    "ROUNDS": 2,
    "REPETITIONS": 1,
    "DEVICES": (1,),
    "CUT": 40,
    "TURNS": 1,
    "in_processes": alone,
}


def main() -> int:
    """Measure, print, and write results/shards.json or shards_weak.json; 1 if the goal is missed."""
    if len(sys.argv) > 2:
        return _as_process(*sys.argv[1:])
    parts = {"processes": two_processes, "weak": weak_scaling}
    return max(parts[name]() for name in sys.argv[1:] or parts)


def two_processes() -> int:
    """Measure one process and two in turn; constants of the formula are those of the first graph."""
    ratios, cells, cut = {}, [], cuts()
    for kind in GRAPHS:
        turns = [(in_processes(kind, AGENTS, 1, 1), in_processes(kind, AGENTS, 2, 2)) for _ in range(TURNS)]
        one, two = (min(side, key=lambda cell: cell["seconds_per_round"]) for side in zip(*turns, strict=True))
        silent = in_processes(kind, AGENTS, 2, 2, sends=False)
        ratios[kind] = one["seconds_per_round"] / two["seconds_per_round"]
        two["without_sending"] = silent["seconds_per_round"]
        one["turns"], two["turns"] = ([cell["all"] for cell in side] for side in zip(*turns, strict=True))
        cells += [one, two]
        _show("one process, two threads", one)
        _show("two processes", two)
        _show("two, nothing sent", silent)
        alone_ms, at_best = 1e3 * two["exchange_alone"], 1 / (1 + two["exchange_alone"] / one["seconds_per_round"])
        print(
            f"{'':26} {ratios[kind]:.2f} of one process with two threads (goal {GOAL}); the exchange alone takes "
            f"{alone_ms:.1f} ms, so that {at_best:.2f} is the most there can be",
            flush=True,
        )
    constants = predict(cells, [cell for cell in cells if cell["graph"] == GRAPHS[0]])
    _compare(cells)
    write("shards", {"cells": cells, "ratios": ratios, "cuts": cut, "constants": constants}, "jax", "numpy")
    return int(min(ratios.values()) < GOAL)


def weak_scaling() -> int:
    """Measure as many agents for each device; constants of the formula are those of one and two devices."""
    cells = []
    for kind in GRAPHS:
        for devices in DEVICES:
            cells.append(in_processes(kind, EACH * devices, devices, 1))
            _show(f"{devices} devices, one process", cells[-1])
    constants = predict(cells, [cell for cell in cells if cell["devices"] <= FITTED])
    _compare(cells)
    write("shards_weak", {"cells": cells, "constants": constants}, "jax", "numpy")
    return 0


def _compare(cells: list[dict[str, Any]]) -> None:
    for cell in cells:
        known, where = "fitted" if cell["fitted"] else "predicted", f"{cell['graph']}, {cell['agents']:,} agents"
        took, said = 1e3 * cell["seconds_per_round"], 1e3 * cell["predicted"]
        print(f"{where} on {cell['devices']}: {took:.1f} ms, {known} {said:.1f}")


def _as_process(
    kind: str, agents: str, devices: str, coordinator: str, processes: str, process: str, rounds: str, sends: str
) -> int:
    if int(processes) > 1:
        join(coordinator, int(processes), int(process))
    print(json.dumps(measure(kind, int(agents), int(devices), int(rounds), bool(int(sends)))))
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
