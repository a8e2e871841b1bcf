"""First and second start of a peer, from the command to "peer started" in its log: `python -m benchmarks.start`.

Each repetition has a new federation of three (`tacit new federation`), of which one member is started with an empty
folder of compiled programs, stopped, and started again. Seconds by the clock, and of the processor, which other
processes disturb less. The median of the repetitions counts. Prints a table and writes benchmarks/results/start.json.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.figures import write

REPETITIONS = 5
GOALS = {"second": 1.5}
"""Seconds by the clock."""
STARTS = ("first", "second")
SMOKE = {"REPETITIONS": 1}


def started(file: Path) -> tuple[float, float]:
    """Start a peer and stop it; returns the seconds until it had started, by the clock and of the processor."""
    command = [sys.executable, "-m", "tacit", "peer", "run", str(file)]
    began = time.perf_counter()
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        for line in process.stderr:
            if '"event": "peer started"' in line:
                break
        else:
            raise RuntimeError(f"{file}: the peer did not start")
        seconds, ticks = time.perf_counter() - began, Path(f"/proc/{process.pid}/stat").read_text()
        process.terminate()
        process.stderr.read()
    user, system = ticks.rpartition(")")[2].split()[11:13]
    return seconds, (int(user) + int(system)) / 100


def main() -> int:
    """Print and write the figures; 1 if a goal is missed."""
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in STARTS}
    with tempfile.TemporaryDirectory() as folder:
        for k in range(REPETITIONS):
            made = Path(folder) / f"federation-{k}"
            subprocess.run(
                [sys.executable, "-m", "tacit", "new", "federation", str(made)], check=True, stdout=subprocess.DEVNULL
            )
            for name in STARTS:
                times[name].append(started(made / "hospital-a" / "peer.toml"))
    found = {name: [statistics.median(column) for column in zip(*rows, strict=True)] for name, rows in times.items()}
    for name, (seconds, processor) in found.items():
        print(f"{name:>8} start: {seconds:.2f} s, of the processor {processor:.2f} s")
    write("start", {"seconds": times, "median": found}, "jax")
    return int(any(found[name][0] > goal for name, goal in GOALS.items()))


if __name__ == "__main__":
    sys.exit(main())
