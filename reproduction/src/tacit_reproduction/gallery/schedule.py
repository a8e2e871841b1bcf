"""Scheduler of all studies: several at a time, each in a process with its own cores, finished ones kept.

No study needs the outcome of another, so any order is right; the longest begin first, so that no long one is left
alone at the end. A study writes its directory whole or not at all. So an interrupted run goes on where it
was: what has a summary of the same form and seed, made of the same code, versions and data files, is kept.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from itertools import chain
from multiprocessing.connection import wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from tacit.core.errors import ConfigError, ResultError, TacitError
from tacit.results.locks import writing
from tacit.results.record import usable_cores
from tacit.sweeps.workers import MOST_WORKERS, Lost, check_place, in_parallel
from tacit_reproduction.study import Study
from tacit_reproduction.summary import is_current, read

LOG = "log.txt"
"""In a study's directory: what it printed, and why it failed if it did."""
CORES_OF_A_LARGE_MACHINE = 2
"""For each study, where there are enough cores for eight of these: long ones then end sooner."""


class Finished(NamedTuple):
    """Outcome of one study."""

    study: Study
    directory: Path
    summary: dict[str, Any] | None
    """None if it failed."""
    fault: str = ""
    kept: bool = False
    """It was there already."""


def summaries(outcomes: Iterable[Finished]) -> list[dict[str, Any]]:
    """Return what there is."""
    return [outcome.summary for outcome in outcomes if outcome.summary is not None]


class Watcher(Protocol):
    """Is told what happens."""

    def started(self, study: Study) -> None:
        """One study begins."""

    def finished(self, outcome: Finished) -> None:
        """One study ended, or was there already."""

    def tick(self) -> None:
        """Some time went by."""


class _Slot(NamedTuple):
    process: BaseProcess
    study: Study
    cores: tuple[int, ...]


def reproduce_all(
    studies: Sequence[Study],
    out: Path,
    watcher: Watcher,
    quick: bool = False,
    seed: int = 0,
    jobs: int | None = None,
    on: str = "pool",
) -> list[Finished]:
    """Run the studies that `out` does not hold yet, `jobs` at a time, and return how each ended, in their order.

    `on` is "pool" for processes of this machine, or "ray" or "ray://HOST", whose workers see the same files.
    """
    check_place(on)
    shares = core_shares(usable_cores(), jobs) if on == "pool" else []
    found = {study.name: _kept(study, out / study.name, quick, seed) for study in studies}
    kept = [Finished(study, out / study.name, found[study.name], kept=True) for study in studies if found[study.name]]
    waiting = sorted((study for study in studies if not found[study.name]), key=lambda study: -study.minutes)
    for study in waiting:
        _make(out / study.name)
    if on == "pool":
        ending = _on_pool(waiting, out, watcher, quick, seed, shares)
    else:
        ending = _on_ray(waiting, out, watcher, quick, seed, jobs, on)
    outcomes = {}
    with closing(ending):  # also where the watcher is interrupted
        for outcome in chain(kept, ending):
            watcher.finished(outcome)
            outcomes[outcome.study.name] = outcome
    return [outcomes[study.name] for study in studies]


def _on_pool(
    waiting: list[Study], out: Path, watcher: Watcher, quick: bool, seed: int, shares: list[tuple[int, ...]]
) -> Generator[Finished, None, None]:
    """Run studies in processes of this machine, on its shares of cores."""
    running: list[_Slot] = []
    try:
        while waiting or running:
            while waiting and shares:
                running.append(_begin(waiting.pop(0), out, quick, seed, shares.pop(0)))
                watcher.started(running[-1].study)
            wait([slot.process.sentinel for slot in running], timeout=0.5)
            watcher.tick()
            for slot in [slot for slot in running if not slot.process.is_alive()]:
                running.remove(slot)
                shares.append(slot.cores)
                slot.process.join()
                yield _ended(slot.study, slot.process.exitcode, out)
    finally:
        _stop(running)


def judge_all(studies: Sequence[Study], out: Path) -> list[Finished]:
    """Judge again what `out` holds of the studies, of whatever form and seed, and write its pages anew."""
    outcomes = []
    for study in studies:
        directory = out / study.name
        try:
            outcomes.append(Finished(study, directory, study.judge_again(directory), kept=True))
        except TacitError as error:
            outcomes.append(Finished(study, directory, None, str(error)))
    return outcomes


def _on_ray(
    waiting: Sequence[Study], out: Path, watcher: Watcher, quick: bool, seed: int, jobs: int | None, on: str
) -> Generator[Finished, None, None]:
    """Run studies on Ray, each in a process of its own; one whose worker is killed is begun again."""
    tasks = [(_named, study.name, (out / study.name).resolve(), quick, seed) for study in waiting]
    for ended in in_parallel(_reproduce_there, tasks, on, jobs, fresh=True, tick=watcher.tick):
        study, result = waiting[ended.task], ended.result
        if isinstance(result, Lost):
            yield Finished(study, out / study.name, None, result.reason)
        else:
            yield _ended(study, result, out)


def _reproduce_there(task: tuple[Callable[[str], Study], str, Path, bool, int]) -> int:
    """Run one study in this process, and return the exit code that it would have."""
    try:
        _reproduce(*task, tuple(usable_cores()))
    except SystemExit as left:
        return int(left.code or 0)
    return 0


def core_shares(cores: Sequence[int], jobs: int | None) -> list[tuple[int, ...]]:
    """Deal the cores out to the studies that run at a time: by default one for each, two on a large machine."""
    large = len(cores) >= CORES_OF_A_LARGE_MACHINE * MOST_WORKERS
    count = jobs or max(1, len(cores) // (CORES_OF_A_LARGE_MACHINE if large else 1))
    if count > len(cores):
        raise ConfigError(f"{count} jobs on {len(cores)} cores: give --jobs a number from 1 to {len(cores)}")
    return [tuple(cores[k::count]) for k in range(count)]


def _kept(study: Study, directory: Path, quick: bool, seed: int) -> dict[str, Any] | None:
    """Return the summary of an earlier run that need not be done again."""
    try:
        summary = read(directory)
    except ResultError:
        return None
    wanted = {"experiment": study.name, "quick": quick, "seed": seed}
    same = all(summary[key] == value for key, value in wanted.items())
    return summary if same and is_current(summary) else None


def _begin(study: Study, out: Path, quick: bool, seed: int, cores: tuple[int, ...]) -> _Slot:
    # Spawned, not forked: a forked child of a process whose JAX runs threads may hang. Not a daemon: it may have
    # workers of its own.
    process = multiprocessing.get_context("spawn").Process(
        target=_reproduce, args=(_named, study.name, out / study.name, quick, seed, cores), name=study.name
    )
    process.start()
    return _Slot(process, study, cores)


def _make(directory: Path) -> None:
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ResultError(f"{directory} cannot be written ({error}); give another directory with --out") from error


def _named(name: str) -> Study:
    from tacit_reproduction.catalogue import all_studies

    return all_studies()[name]


def _reproduce(
    find: Callable[[str], Study], name: str, directory: Path, quick: bool, seed: int, cores: tuple[int, ...]
) -> None:
    """Run one study in a process of its own, on its own cores; what it prints goes to its log."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, cores)
    # Several processes may share an accelerator: none is to take all of its memory at the start.
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    with ExitStack() as held:
        try:
            held.enter_context(writing(directory))
            held.enter_context(_logged(directory / LOG, "w"))
            find(name).run(quick, directory, seed)
        except TacitError as error:
            with _logged(directory / LOG, "a"):
                print(f"error: {error}", file=sys.stderr, flush=True)
            raise SystemExit(2) from error
        except KeyboardInterrupt as error:
            raise SystemExit(130) from error


@contextmanager
def _logged(path: Path, mode: str) -> Iterator[None]:
    """Send what this process prints to a file."""
    with path.open(mode, encoding="utf-8") as log:
        for stream in (1, 2):
            os.dup2(log.fileno(), stream)
        yield


def _ended(study: Study, code: int | None, out: Path) -> Finished:
    directory = out / study.name
    if code == 0:
        try:
            return Finished(study, directory, read(directory))
        except ResultError as error:
            return Finished(study, directory, None, str(error))
    lines: list[str] = []
    with suppress(OSError):  # it may have been killed before it had a log
        lines = (directory / LOG).read_text(encoding="utf-8", errors="replace").strip().splitlines()
    told = [line.removeprefix("error: ") for line in lines if line.startswith("error: ")] or lines
    said = told[-1] if told else "it said nothing"
    return Finished(study, directory, None, f"{said} (exit code {code}; all of it: {directory / LOG})")


def _stop(running: Sequence[_Slot]) -> None:
    """End what still runs, as Ctrl-C would, so that it ends its own workers too; it has written nothing yet."""
    for slot in running:
        with suppress(ProcessLookupError):
            os.kill(int(slot.process.pid or 0), signal.SIGINT)
    deadline = time.monotonic() + 10
    for slot in running:
        with suppress(KeyboardInterrupt):
            slot.process.join(max(0.0, deadline - time.monotonic()))
        if slot.process.is_alive():  # an interruption can be lost while modules are imported
            slot.process.kill()
            slot.process.join()
