"""Commands that write results, killed (SIGKILL) at random moments: what they leave is whole or not there.

    python -m tests.faults.result_kills                              50 kills of each command
    python -m tests.faults.result_kills --kills 5 --only run compare --seed 3

Moments are drawn evenly over the time that the command takes when it is left alone. Commands are forked from a process that
has imported the package, and has not started JAX, so that a kill costs no start of an interpreter; a swarm's members
and what an experiment imports start anew. After each kill the directory must hold the old results, the new ones, or none,
as the readers see it; then the command is run again in the same place (a checkpoint: gone on with), and what it
writes must equal, to the bit, what it writes undisturbed. The exit code is 1 if anything was not so.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

# As for tests: a compiler that tries less hard. Before JAX is imported.
os.environ.setdefault("JAX_DISABLE_MOST_OPTIMIZATIONS", "1")
os.environ.setdefault("JAX_PLATFORMS", "cpu")

import tacit
from tacit import algorithms, graphs, objectives, streams
from tacit.cli import main
from tacit.core.errors import ResultError
from tacit.deploy import comparison as _deploy  # noqa: F401 - imported once, here
from tacit.experiments import execute as _execute  # noqa: F401
from tacit.results import load_all
from tacit.results import report as _report  # noqa: F401

EXPERIMENT = """
[run]
name = "killed"
rounds = 30
repeats = 2
dtype = "float64"
regret_points = 0

[graph]
kind = "directed_ring"
agents = 3

[stream]
kind = "logistic_drift"
dim = 2

[objective]
kind = "logistic"

[[algorithm]]
name = "online_push_sum"
"""
SECOND = '\n[[algorithm]]\nname = "local_online"\n'
EVERY = 5
"""One kill in so many is followed by the whole command, except for checkpoints, which always go on."""


class Command(NamedTuple):
    """Something that writes results."""

    work: Callable[[Path], object]
    """What the process does, given a place of its own."""
    seen: Callable[[Path], Any]
    """What the readers see there: figures that must not differ, or None where there is nothing that they take."""
    prepare: Callable[[Path], object]
    """What is there before: older results, or nothing."""
    again: int = EVERY


@dataclass
class Tale:
    """What one command went through."""

    seconds: float = 0.0
    kills: int = 0
    ended: int = 0
    """The command was done before the kill."""
    left: Counter[str] = field(default_factory=Counter)
    again: int = 0
    violations: list[str] = field(default_factory=list)


# -- the commands ------------------------------------------------------------------------------------------------------


def tacit_command(*arguments: str) -> None:
    main(arguments)


def write_experiment(place: Path) -> None:
    place.mkdir(parents=True, exist_ok=True)
    (place / "x.toml").write_text(EXPERIMENT + SECOND)
    (place / "swarm.toml").write_text(EXPERIMENT)


def runs_of(directory: Path) -> Any:
    """Everything but times of the runs in a directory."""
    try:
        records = load_all(directory)
    except ResultError:
        return None
    return [
        (
            {key: value for key, value in record.summary.items() if key != "timings"},
            {name: values.tobytes() for name, values in vars(record.trace).items() if values is not None},
            record.settings,
        )
        for record in records
    ]


def with_older_runs(place: Path) -> None:
    write_experiment(place)
    shutil.copytree(OLDER["runs"], place / "out")


def to_compare(place: Path) -> None:
    shutil.copytree(OLDER["runs"], place / "b")
    shutil.copytree(OLDER["one"], place / "a")
    shutil.copytree(OLDER["one"], place / "out")


def reproduce(place: Path) -> None:
    """A study that takes a moment, by the command that runs those of the texts."""
    from reproduction.tests import made_up

    from tacit_reproduction import catalogue

    catalogue.all_studies = lambda: {"fine": made_up.named("fine")}
    tacit_command("reproduce", "fine", "--out", str(place / "out"), "--seed", "1")


def experiment_of(place: Path) -> Any:
    from tacit.results.sealed import SUMMARY

    found = _in_a_child(_experiment_of, place / "out") if (place / "out" / SUMMARY).exists() else None
    return None if found is None else json.loads(found)


def _experiment_of(directory: Path) -> str:
    from tacit_reproduction.summary import outcomes, read

    summary = read(directory)
    outcomes(directory)
    return json.dumps({key: summary[key] for key in ("claims", "headlines", "seed", "figures", "table")})


def swarm(place: Path) -> None:
    shutil.rmtree(place / "out", ignore_errors=True)
    arguments = ("swarm", "run", str(place / "swarm.toml"), "--out", str(place / "out"), "--rounds", "4")
    tacit_command(*arguments)


def swarm_of(place: Path) -> Any:
    try:
        found = json.loads((place / "out" / "swarm.json").read_bytes())
    except FileNotFoundError:
        return None
    return [(row["verdict"], row["loss"], row["difference"]) for row in found["algorithms"]]


def checkpointed(place: Path) -> None:
    """A run that saves its state after every second round, and writes its results at the end."""
    path = place / "state.npz"
    noisy = algorithms.online_push_sum(objectives.logistic(), mechanism=tacit.privacy.laplace(epsilon=1.0, clip=1.0))
    stream, graph = streams.logistic_drift(3, 2, seed=0), graphs.directed_ring(3)
    run = tacit.simulate(noisy, graph, stream, rounds=60, record_every=2, checkpoint=path, progress=False)
    np.savez(place / "models.npz", *[np.asarray(leaf) for leaf in _leaves(run.models)])
    run.save(place / "out")


def _leaves(tree: Any) -> list[Any]:
    import jax

    return list(jax.tree.leaves(tree))


def checkpoint_of(place: Path) -> Any:
    found = runs_of(place / "out")
    return None if found is None else (found, (place / "models.npz").read_bytes())


def _nothing(place: Path) -> None:
    write_experiment(place)


COMMANDS = {
    "run": Command(
        lambda place: tacit_command("run", str(place / "x.toml"), "--out", str(place / "out")),
        lambda place: runs_of(place / "out"),
        with_older_runs,
    ),
    "compare": Command(
        lambda place: tacit_command("compare", str(place / "a"), str(place / "b"), "--out", str(place / "out")),
        lambda place: runs_of(place / "out"),
        to_compare,
    ),
    "reproduce": Command(reproduce, experiment_of, _nothing),
    "swarm": Command(swarm, swarm_of, _nothing),
    "checkpoint": Command(checkpointed, checkpoint_of, _nothing, again=1),
}
OLDER: dict[str, Path] = {}
"""Results of another seed, which are there before."""


# -- processes ---------------------------------------------------------------------------------------------------------


def start(work: Callable[[Path], object], place: Path) -> int:
    """Fork a process that does some work in a group of its own; returns its number."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # JAX warns of forks; it has not been started here
        child = os.fork()
    if child:
        return child
    code = 1
    try:
        os.setsid()
        log = os.open(place.parent / "log.txt", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        for stream in (1, 2):
            os.dup2(log, stream)
        work(place)
        code = 0
    except SystemExit as left:
        code = int(left.code or 0) if not isinstance(left.code, str) else 1
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        os._exit(code)


def end(child: int, patience: float | None) -> int | None:
    """Wait for a process; after `patience` seconds kill it. Returns its exit code, None if it was killed."""
    deadline = None if patience is None else time.monotonic() + patience
    while deadline is None or time.monotonic() < deadline:
        done, status = os.waitpid(child, 0 if deadline is None else os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.002)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return None


def clear_group(child: int) -> None:
    """End what a killed process has started, members of a swarm say, and wait until it is gone."""
    for _ in range(1000):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child, signal.SIGKILL)
            time.sleep(0.01)
            continue
        return


def _in_a_child(do: Callable[[Path], str], place: Path) -> str | None:
    """Ask what would start JAX here."""
    answer = place.parent / "answer.json"
    answer.unlink(missing_ok=True)

    def work(_: Path) -> None:
        answer.write_text(do(place))

    return answer.read_text() if end(start(work, place), None) == 0 else None


# -- the campaign ------------------------------------------------------------------------------------------------------


def campaign(name: str, kills: int, chance: random.Random, folder: Path) -> Tale:
    """Kill one command so many times."""
    command, tale = COMMANDS[name], Tale()
    place = folder / "undisturbed"
    command.prepare(place)
    before = command.seen(place)
    begun = time.monotonic()
    if (code := end(start(command.work, place), None)) != 0:
        words = (folder / "log.txt").read_text()[-2000:]
        raise SystemExit(f"{name} left alone ended with exit code {code}: {words}")
    tale.seconds = time.monotonic() - begun
    whole = command.seen(place)
    assert whole is not None
    assert whole != before
    for number in range(kills):
        place = folder / f"kill-{number}"
        command.prepare(place)
        _kill_once(command, tale, place, chance.uniform(0, tale.seconds), (before, whole), number)
        shutil.rmtree(place, ignore_errors=True)
    return tale


def _kill_once(
    command: Command, tale: Tale, place: Path, moment: float, expected: tuple[Any, Any], number: int
) -> None:
    child = start(command.work, place)
    killed = end(child, moment) is None
    tale.kills += killed
    tale.ended += not killed
    clear_group(child)
    before, whole = expected
    found = command.seen(place)
    kind = "none" if found is None else "new" if found == whole else "old" if found == before else "MIXED"
    tale.left[f"{kind}, with a checkpoint" if (place / "state.npz").exists() else kind] += 1
    if kind == "MIXED":
        tale.violations.append(f"kill {number} after {moment:.2f} s: what is there is neither old nor new")
    if number % command.again == 0:
        tale.again += 1
        code = end(start(command.work, place), None)
        if code != 0 or command.seen(place) != whole:
            tale.violations.append(f"kill {number} after {moment:.2f} s: done again, exit code {code}, others came out")


def make_older(folder: Path) -> None:
    """Write results of another seed."""
    write_experiment(folder)
    for name, file in (("runs", "x.toml"), ("one", "swarm.toml")):
        work = ("run", str(folder / file), "--out", str(folder / name), "--seed", "9")
        if end(start(lambda place, work=work: tacit_command(*work), folder / name), None) != 0:
            raise SystemExit((folder / "log.txt").read_text()[-2000:])
        OLDER[name] = folder / name


def run() -> int:
    """Run the campaign from the command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", nargs="+", choices=list(COMMANDS), default=list(COMMANDS))
    asked = parser.parse_args()
    wrong = 0
    with tempfile.TemporaryDirectory(prefix="tacit-kills-") as folder:
        if {"run", "compare"} & set(asked.only):
            make_older(Path(folder) / "older")
        for name in asked.only:
            begun = time.monotonic()
            (Path(folder) / name).mkdir()
            tale = campaign(name, asked.kills, random.Random(asked.seed), Path(folder) / name)
            wrong += len(tale.violations)
            print(
                f"{name}: {tale.kills} killed of {tale.kills + tale.ended} ({tale.seconds:.1f} s left alone); found "
                f"{dict(tale.left)}; done again {tale.again} times; violations {len(tale.violations)}; "
                f"{time.monotonic() - begun:.0f} s in all",
                flush=True,
            )
            for violation in tale.violations:
                print(f"  {violation}")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(run())
