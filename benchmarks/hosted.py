"""Peers of one process: seconds to start, rounds per second and memory: `python -m benchmarks.hosted`.

Peers are those of `tacit peer host`: mutual TLS over loopback, a store, a ledger and a certificate for each. They run
online push-sum on an exponential graph, with a logistic model of ten numbers. The models of every round are compared
with the simulator's. Rounds are counted from the end of the first one of all peers; memory is the resident set of
the whole process: of Python with JAX, after all links are up, and at its highest. Prints a table and writes
benchmarks/results/hosted.json.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import json
import resource
import socket
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.figures import environment, write

SIZES = (1, 64, 256)
ROUNDS, FEATURES = 50, 10
CLOSE = 1e-6
"""Largest difference of a number of a model from the simulator's, which adds in another order."""
SMOKE = {"SIZES": (3,), "ROUNDS": 3}

JOB = """
[job]
name = "hosted"
features = {features}
bias = false
[members]
peer = {names}
[objective]
kind = "logistic"
[algorithm]
name = "online_push_sum"
step = 0.5
"""
PEER = """
job = "../job.toml"
[peer]
name = "{name}"
listen = "{listen}"
[links.peers]
sends_to = {sends_to}
hears = {hears}
[addresses]
{addresses}
[privacy]
unprotected = true
[stream]
kind = "csv"
path = "data.csv"
label = "y"
[rounds]
deadline = 600.0
last = {rounds}
[operations]
level = "error"
"""


def free_ports(count: int) -> list[int]:
    """Return free ports that the system does not give to connections by itself."""
    found: list[int] = []
    for port in range(20_000, 32_000):
        with socket.socket() as one, contextlib.suppress(OSError):
            one.bind(("127.0.0.1", port))
            found.append(port)
        if len(found) == count:
            break
    return found


def stream(agents: int) -> Any:
    import tacit

    return tacit.streams.logistic_drift(agents=agents, dim=FEATURES)


def make(folder: Path, agents: int) -> None:
    """Write a federation: its job, and for each peer settings, an identity and a sample for every round."""
    import tacit
    from tacit.cli.scaffolds.peers import enrol, rows_text

    graph, names = tacit.graphs.exponential(agents), [f"peer-{k}" for k in range(agents)]
    where = [f"127.0.0.1:{port}" for port in free_ports(agents)]
    data, columns = stream(agents).chunk(0, ROUNDS), [f"x{k}" for k in range(FEATURES)]
    folder.mkdir()
    (folder / "job.toml").write_text(JOB.format(features=FEATURES, names=json.dumps(names)))
    for k, name in enumerate(names):
        to, hears = ([int(other) for other in side] for side in (graph.neighbours_out(k), graph.neighbours_in(k)))
        text = PEER.format(
            name=name,
            listen=where[k],
            sends_to=json.dumps([names[other] for other in to]),
            hears=json.dumps([names[other] for other in hears]),
            addresses="\n".join(f'{names[other]} = "{where[other]}"' for other in to),
            rounds=ROUNDS,
        )
        (folder / name).mkdir()
        (folder / name / "peer.toml").write_text(text)
        x, y = (np.asarray(values, np.float64).reshape(ROUNDS, -1) for values in (data.x[:, k], data.y[:, k]))
        (folder / name / "data.csv").write_text(rows_text(columns, "y", x, y[:, 0]))
    enrol(folder, names)


def resident() -> float:
    """Return the memory of this process, in MB."""
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmRSS"))
    return int(line.split()[1]) / 1024


def host(folder: Path) -> dict[str, float]:
    """Host the peers of a folder as the command does, and write the models of every round beside them."""
    from tacit.deploy.host import Host, find_peers
    from tacit.peer.operations.logs import configure
    from tacit.privacy.ledger.open_files import raise_limit

    found = {"python_mb": resident()}
    began = time.perf_counter()
    raise_limit()
    gc.disable()
    configure("text")
    hosted = Host(find_peers(folder))
    models: dict[str, list[np.ndarray]] = defaultdict(list)
    ends: dict[int, float] = {}

    def ready() -> None:
        if hosted.faults:
            stop.set()
        found["start_s"] = time.perf_counter() - began
        gc.freeze()
        gc.enable()
        for name, peer in hosted.running.items():

            def after(t: int, model: Any, name: str = name) -> None:
                models[name].append(np.asarray(model))
                ends[t] = time.perf_counter()
                if t == 1:
                    found["linked_mb"] = resident()

            peer._service._after_round = after

    stop = asyncio.Event()
    asyncio.run(hosted.run(stop, ready))
    if hosted.faults:
        raise RuntimeError(str(hosted.faults))
    np.savez(folder / "models.npz", **{name: np.stack(each) for name, each in models.items()})
    found["first_round_s"] = ends[1] - began
    found["rounds_per_s"] = (ROUNDS - 1) / (ends[ROUNDS] - ends[1])
    found["peak_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    found["processor_s"] = time.process_time()
    return found


def furthest(folder: Path, agents: int) -> float:
    """Return the largest difference between the models of the peers and those of the simulator, of all rounds."""
    import jax

    import tacit
    from tacit.config.job import load_job

    method, seen = load_job(folder / "job.toml").algorithm, []

    def note(models: Any) -> float:
        seen.append(np.asarray(jax.tree.leaves(models)[0]))
        return 0.0

    graph, record = tacit.graphs.exponential(agents), {"models": note}
    tacit.simulate(method, graph, stream(agents), rounds=ROUNDS, record=record, record_every=1)
    with np.load(folder / "models.npz") as found:
        return float(max(np.abs(found[f"peer-{k}"] - np.stack(seen)[:, k]).max() for k in range(agents)))


def measured(agents: int) -> dict[str, float]:
    """Return the figures of so many peers, hosted by a process of their own."""
    with tempfile.TemporaryDirectory() as directory:
        folder = Path(directory) / "federation"
        make(folder, agents)
        code = "import sys, json; from benchmarks import hosted; hosted.ROUNDS = int(sys.argv[2]); "
        code += "print(json.dumps(hosted.host(hosted.Path(sys.argv[1]))))"
        command = [sys.executable, "-c", code, str(folder), str(ROUNDS)]
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=environment(agents))
        found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
        return {**found, "furthest": furthest(folder, agents)}


def main() -> int:
    """Print and write the figures; 1 if the peers went another way than the simulator."""
    found = {}
    for agents in SIZES:
        one = found[agents] = measured(agents)
        print(
            f"{agents:>4} peers: started in {one['start_s']:.1f} s, {one['rounds_per_s']:.2f} rounds/s, "
            f"{one['linked_mb']:.0f} MB ({one['python_mb']:.0f} MB without peers, peak {one['peak_mb']:.0f} MB), "
            f"{one['processor_s']:.0f} s of the processor, {one['furthest']:.1e} from the simulator",
            flush=True,
        )
    write("hosted", {"rounds": ROUNDS, "peers": found}, "jax")
    return int(any(one["furthest"] > CLOSE for one in found.values()))


if __name__ == "__main__":
    sys.exit(main())
