"""Crashes and disk faults in number: `python -m tests.faults.campaign [--small]` prints what was done and what broke.

A ledger is charged, and a peer commits rounds to its store and sends them. Workers are forked from this process, which has imported everything, so that 300 kills take a minute and not an hour.
"""

from __future__ import annotations

import argparse
import errno
import json
import os
import random
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from tests.faults import store_worker, worker

SHIM = Path(__file__).with_name("shim.c")
MEMORY = Path("/dev/shm")


@dataclass
class Tally:
    """What a series did and found."""

    runs: int = 0
    releases: int = 0
    hits: Counter[str] = field(default_factory=Counter)
    ended: Counter[str] = field(default_factory=Counter)
    violations: list[str] = field(default_factory=list)
    seconds: float = 0.0


@dataclass(frozen=True)
class Size:
    kills: int
    aimed: int
    power_cuts: int
    failures_up_to: int
    stride: int
    in_memory: bool
    """Where syncs cost nothing: a kill and the shim's faults are the same there."""


FULL = Size(kills=300, aimed=208, power_cuts=200, failures_up_to=48, stride=1, in_memory=False)
SMALL = Size(kills=15, aimed=32, power_cuts=32, failures_up_to=44, stride=7, in_memory=True)


def random_kills(place: worker.Place, number: int, chance: random.Random) -> Tally:
    """Kill -9 at any moment, also while the ledger is being opened."""
    tally = Tally()
    for _ in range(number):
        process = worker.start(place, 1_000_000, None, 2)
        select.select([], [], [], chance.uniform(0.0, 0.2))  # the moment is what is random here
        os.kill(process, signal.SIGKILL)
        _ended(tally, os.waitpid(process, 0)[1], "kill -9")
        _examine(tally, place, "kill -9")
    return tally


def aimed_kills(place: worker.Place, number: int, chance: random.Random) -> Tally:
    """Die right before, in or right after a write, a sync or a rename."""
    tally = Tally()
    aims = [
        (worker.Operation.SYNC, worker.Action.KILL_BEFORE),
        (worker.Operation.SYNC, worker.Action.KILL_AFTER),
        (worker.Operation.WRITE, worker.Action.KILL_TORN),
        (worker.Operation.SYNC, worker.Action.KILL_AFTER),
        (worker.Operation.WRITE, worker.Action.KILL_AFTER),
        (worker.Operation.RENAME, worker.Action.KILL_BEFORE),
        (worker.Operation.RENAME, worker.Action.KILL_AFTER),
        (worker.Operation.SYNC, worker.Action.KILL_BEFORE),
    ]
    for run in range(number):
        operation, action = aims[run % len(aims)]
        most = {worker.Operation.SYNC: 40, worker.Operation.WRITE: 90 * place.spread, worker.Operation.RENAME: 10}
        _faulty(tally, place, worker.Fault(operation, chance.randint(1, most[operation]), action))
    return tally


def every_sync(place: worker.Place, up_to: int, stride: int) -> Tally:
    """Die right before and right after the k-th sync."""
    tally = Tally()
    for at in range(1, up_to + 1, stride):
        for action in (worker.Action.KILL_BEFORE, worker.Action.KILL_AFTER):
            _faulty(tally, place, worker.Fault(worker.Operation.SYNC, at, action))
    return tally


def power_cuts(place: worker.Place, number: int, chance: random.Random) -> Tally:
    """Lose all that was written and not synced, before any call."""
    tally = Tally()
    for _ in range(number):
        fault = worker.Fault(worker.Operation.ALL, chance.randint(1, 150 * place.spread), worker.Action.POWER_CUT)
        _faulty(tally, place, fault)
    return tally


def failures(place: worker.Place, up_to: int, stride: int) -> Tally:
    """Let the k-th write or sync fail, once or from then on: releases stop, and go on when the fault is gone."""
    tally = Tally()
    kinds = [
        (operation, action, error)
        for operation in (worker.Operation.WRITE, worker.Operation.SYNC)
        for action in (worker.Action.FAIL_ONCE, worker.Action.FAIL_ON)
        for error in (errno.EIO, errno.ENOSPC)
    ]
    for number, (operation, action, error) in enumerate(kinds):
        spread = place.spread if operation is worker.Operation.WRITE else 1
        for at in range(1 + number % stride, up_to + 1, stride):
            _faulty(tally, place, worker.Fault(operation, at * spread, action, error))
    return tally


def _faulty(tally: Tally, place: worker.Place, fault: worker.Fault) -> None:
    receiver, sender = os.pipe()
    process = worker.start(place, 12, fault, sender)
    os.close(sender)
    with os.fdopen(receiver) as pipe:
        hit = pipe.read().strip()
    what = "no call"
    if hit:
        operation, path = hit.split(" ", 1)
        what = f"{operation} {_kind(Path(path))}"
        tally.hits[f"{fault.action.name} {what}"] += 1
    _ended(tally, os.waitpid(process, 0)[1], f"{fault} of {what}")
    _examine(tally, place, f"{fault} of {what}")


def _kind(path: Path) -> str:
    if path.is_dir():
        return f"{path.name}-directory"
    for suffix in ("-wal", "-shm", ".db"):
        if path.name.endswith(suffix):
            return {"-wal": "log", "-shm": "index", ".db": "database"}[suffix]
    return "witness"


def _ended(tally: Tally, status: int, after: str) -> None:
    if os.WIFSIGNALED(status):
        tally.ended[signal.Signals(os.WTERMSIG(status)).name] += 1
        return
    words = {worker.DONE: "done", worker.REFUSED: "refused", worker.WENT_ON: "went on"}
    word = words.get(os.WEXITSTATUS(status), "broken")
    tally.ended[word] += 1
    # SQLite ignores a failed sync of its directory; opening the ledger has synced it before, and does not.
    if word == "broken" or (word == "went on" and not after.endswith("sync faulty-directory")):
        tally.violations.append(f"run {tally.runs + 1}, after {after}: the worker {word}")


def _examine(tally: Tally, place: worker.Place, after: str) -> None:
    tally.runs += 1
    tally.releases = len(place.released.read_text().splitlines())
    tally.violations += [f"run {tally.runs}, after {after}: {fault}" for fault in place.violations()]


def _inside(size: Size, seed: int) -> dict[str, Any]:
    from tacit.privacy.ledger import ledger

    ledger.COMMITS_PER_CHECKPOINT, ledger.BYTES_PER_CHECKPOINT = (
        3,
        60_000,
    )  # so that checkpoints come as often as faults
    chance = random.Random(seed)
    report = {}
    with tempfile.TemporaryDirectory(dir=MEMORY if size.in_memory and MEMORY.is_dir() else None) as name:
        top = Path(name)
        series = {
            "random kills": lambda place: random_kills(place, size.kills, chance),
            "aimed kills": lambda place: aimed_kills(place, size.aimed, chance),
            "every sync": lambda place: every_sync(place, size.failures_up_to, size.stride),
            "power cuts": lambda place: power_cuts(place, size.power_cuts, chance),
            "failures": lambda place: failures(place, size.failures_up_to, size.stride),
        }
        for what, kind in (("ledger", worker.Place), ("store", store_worker.StorePlace)):
            for title, run in series.items():
                begun = time.perf_counter()
                tally = run(kind(top / f"{what}-{title.replace(' ', '-')}"))
                tally.seconds = round(time.perf_counter() - begun, 1)
                report[f"{what}, {title}"] = vars(tally)
    return report


def run(size: Size, seed: int) -> dict[str, Any]:
    """Compile the shim, run the campaign in a process that has it preloaded, and return what it found."""
    with tempfile.TemporaryDirectory() as name:
        library = Path(name) / "shim.so"
        subprocess.run(["gcc", "-shared", "-fPIC", "-O1", "-o", str(library), str(SHIM)], check=True)
        inside = subprocess.run(
            [sys.executable, "-m", "tests.faults.campaign", "--inside", json.dumps(asdict(size)), "--seed", str(seed)],
            env={**os.environ, "LD_PRELOAD": str(library)},
            cwd=Path(__file__).parents[2],
            stdout=subprocess.PIPE,
            check=True,
        )
    report: dict[str, Any] = json.loads(inside.stdout)
    return report


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--inside", type=json.loads, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.inside is None:
        report = run(SMALL if arguments.small else FULL, arguments.seed)
    else:
        report = _inside(Size(**arguments.inside), arguments.seed)
    print(json.dumps(report, indent=2))
    sys.exit(0 if arguments.inside is not None or not any(part["violations"] for part in report.values()) else 1)
