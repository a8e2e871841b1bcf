"""Rounds per second of eight peers, beside a bare exchange among as many processes: `python -m benchmarks.swarm`.

Peers are processes of their own with mutual TLS and a store each; they run online push-sum on a graph in which everyone
sends to four others, with models of 10 KB and of 1 MB. The bare exchange is eight processes that send each other as
many bytes over asyncio's own TLS, by the same links with the same certificates, and go on to the next round when all of
a round has arrived: an echo with four others at once, with no arithmetic, no disk and nothing checked. Both are counted
from the end of the first round, and run in turn; the median of the repetitions counts. Prints a table and writes
benchmarks/results/swarm.json.
"""

from __future__ import annotations

import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.figures import write
from benchmarks.transport import BareEnd, watch

AGENTS, DEGREE = 8, 4
WORKLOADS = {"10 KB": (25, 100, 300), "1 MB": (250, 1000, 30)}
"""Features and classes of a softmax model in float32, and rounds."""
GOALS = {"10 KB": 100.0, "1 MB": 15.0}
"""Rounds per second of peers."""
REPETITIONS = 3
LIMIT = 300.0

EXPERIMENT = """
[run]
rounds = {rounds}
regret_points = 0
[graph]
kind = "k_regular"
agents = {agents}
k = {degree}
[stream]
kind = "npz"
path = "data.npz"
label = "label"
task = "multiclass"
bias = false
standardise = false
exhausted = "cycle"
[objective]
kind = "softmax"
classes = {classes}
[[algorithm]]
name = "online_push_sum"
step = 0.1
"""


def make_problem(directory: Path, features: int, classes: int, rounds: int) -> Any:
    import numpy as np

    from tacit.experiments import build, load

    random = np.random.default_rng(0)
    rows = 16 * AGENTS
    np.savez(directory / "data.npz", X=random.normal(size=(rows, features)), label=random.integers(classes, size=rows))
    settings = {"agents": AGENTS, "degree": DEGREE, "rounds": rounds, "classes": classes}
    (directory / "experiment.toml").write_text(EXPERIMENT.format(**settings))
    return build(load(directory / "experiment.toml"))


def peers(problem: Any, directory: Path) -> float:
    """Run the swarm; returns rounds per second."""
    from tacit.deploy.swarm import Swarm

    with Swarm(problem, 0, directory, record=False) as swarm:
        swarm.wait(LIMIT)
    reports = [member.finished or {} for member in swarm.members.values()]
    first, last = (max(report[key] for report in reports) for key in ("first", "last"))
    return (problem.config.run.rounds - 1) / (last - first)


class Bare:
    """One process of the bare exchange."""

    def __init__(self, directory: Path, name: str, size: int) -> None:
        self.watch, self.content = watch(directory, name), os.urandom(size)
        self.got: list[int] = []
        self.due, self.news = 0, asyncio.Event()

    def end(self) -> BareEnd:
        """Count the messages of one neighbour."""
        place = len(self.got)
        self.got.append(0)
        return BareEnd(len(self.content), lambda count: self.arrived(place, count))

    def arrived(self, place: int, count: int) -> None:
        self.got[place] = count
        if min(self.got) >= self.due:
            self.news.set()

    async def run(self, rounds: int) -> None:
        """Exchange with neighbours; prints the seconds of all rounds but the first."""
        loop, credentials = asyncio.get_running_loop(), self.watch.credentials()
        server = await loop.create_server(self.end, "127.0.0.1", 0, ssl=credentials.server)
        print(server.sockets[0].getsockname()[1], flush=True)
        plan = json.loads(await loop.run_in_executor(None, sys.stdin.readline))
        ends = []
        for address in plan["sends_to"].values():
            host, _, port = address.rpartition(":")
            made = await loop.create_connection(
                lambda: BareEnd(1, lambda count: None), host, int(port), ssl=credentials.client
            )
            ends.append(made[1])
        while len(self.got) < len(plan["hears"]):
            await asyncio.sleep(0.01)
        begun = 0.0
        for t in range(1, rounds + 1):
            self.news.clear()
            self.due = t
            for end in ends:
                end.transport.write(self.content)
            while min(self.got) < t:
                self.news.clear()
                await self.news.wait()
            if t == 1:
                begun = time.perf_counter()
        print(json.dumps(time.perf_counter() - begun), flush=True)
        await loop.run_in_executor(None, sys.stdin.read)
        for end in ends:
            end.transport.close()
        server.close()


def bare(problem: Any, directory: Path, size: int) -> float:
    """Run the bare exchange over the identities of a swarm that is over; returns rounds per second."""
    rounds, graph = problem.config.run.rounds, problem.graph(problem.config.run.seed)
    names = [f"peer-{k}" for k in range(AGENTS)]
    command = [sys.executable, "-m", "benchmarks.swarm", str(directory)]
    processes = [
        subprocess.Popen(
            [*command, n, str(size), str(rounds)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        for n in names
    ]
    try:
        addresses = [f"127.0.0.1:{_answer(process)}" for process in processes]
        for k, process in enumerate(processes):
            sends_to = {names[r]: addresses[r] for s, r in zip(graph.senders, graph.receivers, strict=True) if s == k}
            hears = [names[s] for s, r in zip(graph.senders, graph.receivers, strict=True) if r == k]
            assert process.stdin is not None
            process.stdin.write(json.dumps({"sends_to": sends_to, "hears": hears}) + "\n")
            process.stdin.flush()
        seconds = max(float(_answer(process)) for process in processes)
    finally:
        for process in processes:
            assert process.stdin is not None
            process.stdin.close()
        for process in processes:
            process.wait()
            assert process.stdout is not None
            process.stdout.close()
    return (rounds - 1) / seconds


def _answer(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline()


SMOKE = {"AGENTS": 2, "DEGREE": 1, "WORKLOADS": {"tiny": (2, 2, 3)}, "REPETITIONS": 1}


def main() -> int:
    if len(sys.argv) == 5:
        directory, name, size, rounds = sys.argv[1:]
        asyncio.run(_bare_process(Path(directory), name, int(size), int(rounds)))
        return 0
    rows: list[dict[str, Any]] = []
    missed: list[str] = []
    print(f"{'model':>6}  {'peers':>14}  {'bare TLS':>14}  ratio   peers send")
    for label, (features, classes, rounds) in WORKLOADS.items():
        size = features * classes * 4
        found: dict[str, list[float]] = {"peers": [], "bare": []}
        for _ in range(REPETITIONS):
            with tempfile.TemporaryDirectory() as folder:
                problem = make_problem(Path(folder), features, classes, rounds)
                found["peers"].append(peers(problem, Path(folder) / "swarm"))
                found["bare"].append(bare(problem, Path(folder) / "swarm", size))
        rates = {kind: statistics.median(values) for kind, values in found.items()}
        edges = problem.graph(problem.config.run.seed).edges
        rows.append(
            {"model": label, "bytes": size, "rounds": rounds, "messages_per_round": edges, "rounds_per_second": found}
        )
        cells = "  ".join(f"{rates[kind]:>8.1f} /s   " for kind in ("peers", "bare"))
        sent = rates["peers"] * edges * size / 1e6
        print(f"{label:>6}  {cells}  {rates['peers'] / rates['bare']:.2f}  {sent:>8,.0f} MB/s", flush=True)
        if rates["peers"] < GOALS.get(label, 0.0):
            missed.append(label)
            print(f"{label}: the goal of {GOALS[label]:g} rounds/s was missed")
    write("swarm", {"agents": AGENTS, "neighbours": DEGREE, "rows": rows}, "jax")
    return 1 if missed else 0


async def _bare_process(directory: Path, name: str, size: int, rounds: int) -> None:
    await Bare(directory, name, size).run(rounds)


if __name__ == "__main__":
    sys.exit(main())
