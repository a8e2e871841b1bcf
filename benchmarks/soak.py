"""Eight peers for some minutes: memory, open files and rounds, by `python -m benchmarks.soak --minutes 5`.

Real processes (`tacit peer run`) on loopback with mutual TLS, booked noise and a method that waits for its neighbours.
Memory and open files of each process are read every five seconds after a warm-up, and a straight line is put through
them by least squares; also through the second half alone, since what is freed once early would hide what grows. The
standard error takes the residuals for independent, which they are not quite. A lost round would be a gap in a ledger,
or mass of push-sum that is missing; there may be none. Prints a table and writes benchmarks/results/soak.json.
"""

from __future__ import annotations

import argparse
import json
import math
import re
import sys
import tempfile
import time
import urllib.request
from pathlib import Path
from typing import Any

import numpy as np
from tests.faults.evidence import Evidence
from tests.faults.processes import Federation

from benchmarks.figures import write

PEERS = 8
SAMPLE_EVERY = 5.0
MINUTES, WARM_UP = 5.0, 30.0
"""The latter in seconds."""
FLAT = 0.2
"""MiB a minute: no slope may be larger than this by two standard errors."""


def graph(peers: int) -> dict[str, list[str]]:
    """Everybody sends to the next and to the one after it."""
    names = [f"peer-{k}" for k in range(peers)]
    return {name: [names[(k + 1) % peers], names[(k + 2) % peers]] for k, name in enumerate(names)}


def asked(federation: Federation, name: str, what: str) -> str:
    """Ask a running peer on its loopback port."""
    control = json.loads(federation.members[name].settings().control.read_text())
    with urllib.request.urlopen(f"http://127.0.0.1:{control['port']}/{what}", timeout=20) as answer:
        return str(answer.read().decode())


def memory_of(pid: int) -> tuple[float, float]:
    """Return what of a process is in memory, in MiB: all of it, and without the pages of files."""
    text = Path(f"/proc/{pid}/status").read_text()
    found = {key: int(size) / 1024 for key, size in re.findall(r"^(VmRSS|RssAnon):\s+(\d+) kB$", text, re.MULTILINE)}
    return found["VmRSS"], found["RssAnon"]


def open_files(pid: int) -> int:
    return sum(1 for _ in Path(f"/proc/{pid}/fd").iterdir())


def line(minutes: np.ndarray, values: np.ndarray) -> tuple[float, float]:
    """Return slope per minute and its standard error; of fewer than three looks nothing can be said."""
    if len(values) < 3:
        return 0.0, math.inf
    centred = minutes - minutes.mean()
    spread = float(centred @ centred)
    slope = float(centred @ values) / spread
    residuals = values - values.mean() - slope * centred
    return slope, math.sqrt(float(residuals @ residuals) / (len(values) - 2) / spread)


def soak(directory: Path, minutes: float, warm_up: float) -> dict[str, Any]:
    rows: list[dict[str, Any]] = []
    with Federation(directory, graph(PEERS), "online_push_sum", interval=0.2, rows=40_000, level="info") as federation:
        for member in federation.members.values():
            member.start()
        for name, member in federation.members.items():
            federation.await_event(name, member.spawned, lambda e: e["event"] == "peer started", 180, "its start")
        time.sleep(warm_up)
        begun = time.monotonic()
        samples: dict[str, list[tuple[float, float, float, int]]] = {name: [] for name in federation.members}
        first = {name: json.loads(asked(federation, name, "status"))["round"] for name in federation.members}
        while (now := time.monotonic()) < begun + 60 * minutes:
            for name, member in federation.members.items():
                samples[name].append(((now - begun) / 60, *memory_of(member.pid), open_files(member.pid)))
            time.sleep(max(0.0, now + SAMPLE_EVERY - time.monotonic()))
        lasted = time.monotonic() - begun
        refusals: dict[str, float] = {}
        for name in federation.members:
            status = json.loads(asked(federation, name, "status"))
            times, resident, own, files = (np.array(column) for column in zip(*samples[name], strict=True))
            half = times >= times[-1] / 2
            rows.append(
                {
                    "peer": name,
                    "rounds": status["round"] - first[name],
                    "resident_mib": [round(float(resident[at]), 1) for at in (0, -1)],
                    "own_mib": [round(float(own[at]), 1) for at in (0, -1)],
                    "resident_slope": line(times, resident),
                    "own_slope": line(times, own),
                    "own_slope_of_second_half": line(times[half], own[half]),
                    "open_files": [int(files.min()), int(files.max())],
                }
            )
            for reason, count in re.findall(
                r'^tacit_refusals_total\{reason="([^"]+)"\} (\S+)$', asked(federation, name, "metrics"), re.MULTILINE
            ):
                if float(count):
                    refusals[reason] = refusals.get(reason, 0) + float(count)
        codes = federation.stop()
        evidence = Evidence(federation, messages=False)
        evidence.at_rest()
    return {"seconds": lasted, "rows": rows, "refusals": refusals, "exit_codes": codes, "faults": evidence.violations}


SMOKE = {"PEERS": 3, "SAMPLE_EVERY": 0.2, "MINUTES": 0.03, "WARM_UP": 0.0}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=MINUTES)
    parser.add_argument("--warm-up", type=float, default=WARM_UP, help="seconds")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="tacit-soak-") as directory:
        found = soak(Path(directory) / "peers", given.minutes, given.warm_up)
    print("MiB and MiB a minute with standard error; own: without the pages of files")
    print(
        f"{'peer':>8} {'rounds':>7} {'resident':>14} {'slope':>16} {'own':>14} {'slope':>16} {'second half':>16}  files"
    )
    for row in found["rows"]:
        cells = []
        for kind in ("resident", "own"):
            first, last = row[f"{kind}_mib"]
            cells += [f"{first:>6.1f}, {last:>6.1f}", "{:>8.3f} ±{:.3f}".format(*row[f"{kind}_slope"])]
        cells.append("{:>8.3f} ±{:.3f}".format(*row["own_slope_of_second_half"]))
        low, high = row["open_files"]
        shown = " ".join(f"{cell:>{width}}" for cell, width in zip(cells, (14, 16, 14, 16, 16), strict=True))
        print(f"{row['peer']:>8} {row['rounds']:>7} {shown}  {low}-{high}")
    growing = [
        row["peer"]
        for row in found["rows"]
        for slope, error in (row["resident_slope"], row["own_slope"], row["own_slope_of_second_half"])
        if slope - 2 * error > FLAT
    ]
    mean = sum(row["own_slope"][0] for row in found["rows"]) / PEERS
    print(
        f"mean slope of own memory {mean:.3f} MiB/min over {found['seconds']:.0f} s; "
        f"refusals {found['refusals'] or 'none'}"
    )
    print(f"exit codes {found['exit_codes']}; lost rounds and other faults: {found['faults'] or 'none'}")
    print(
        f"memory grows in {', '.join(sorted(set(growing)))}" if growing else f"memory is flat (within {FLAT} MiB/min)"
    )
    write("soak", {**found, "mean_own_slope": mean}, "jax")
    return 1 if growing or found["faults"] or any(found["exit_codes"].values()) else 0


if __name__ == "__main__":
    sys.exit(main())
