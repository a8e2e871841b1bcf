"""Scheduler of all studies: several at a time, each in a process of its own, finished ones kept.

The longest begin first, after them what takes hours. A study writes its directory whole or not at all: what has a
summary of the same form and seed, made of the same code, versions and data files, is kept.
"""

import math
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

from tacit.core.errors import ConfigError, ResultError, TacitError
from tacit.results.locks import writing
from tacit.results.record import usable_cores
from tacit.sweeps.workers import MOST_WORKERS, Lost, check_place, in_parallel
from tacit_reproduction.study import Study
from tacit_reproduction.summary import is_current, read

LOG = "log.txt"  # in a study's directory: what it printed, and why it failed if it did
CORES_OF_A_LARGE_MACHINE = 2
"""For each study, where there are enough cores for eight of these: long ones then end sooner."""


class Finished(NamedTuple):
    """Outcome of one study."""

    study: Study
    directory: Path
    summary: dict[str, Any] | None  # none if it failed
    fault: str = ""
    kept: bool = False  # it was there already


def summaries(outcomes: Iterable[Finished]) -> list[dict[str, Any]]:
    """Return what there is."""
    return [outcome.summary for outcome in outcomes if outcome.summary is not None]


def reproduce_all(
    studies: Sequence[Study], out: Path, told: Callable[[Finished], object] = lambda outcome: None,
    quick: bool = False, seed: int = 0, jobs: int | None = None, on: str = "pool",
) -> list[Finished]:  # fmt: skip
    """Run the studies that `out` does not hold yet, `jobs` at a time, and return how each ended, in their order.

    `told` hears of each as it ends. `on` is "pool" for processes of this machine, or "ray" or "ray://HOST", whose
    workers see the same files.
    """
    check_place(on)
    count, cores = core_shares(len(usable_cores()), jobs) if on == "pool" else (jobs, None)
    found = {study.name: _kept(study, out / study.name, quick, seed) for study in studies}
    before = [study for study in studies if found[study.name]]
    ended = {study.name: Finished(study, out / study.name, found[study.name], kept=True) for study in before}
    for outcome in ended.values():
        told(outcome)
    new = [study for study in studies if study.name not in ended]
    waiting = sorted(new, key=lambda study: (study.minutes == math.inf, -study.minutes))
    for study in waiting:
        try:
            (out / study.name).mkdir(parents=True, exist_ok=True)
        except OSError as error:
            remedy = "give another directory with --out"
            raise ResultError(f"{out / study.name} cannot be written ({error}); {remedy}") from error
    tasks = [(_named, study.name, (out / study.name).resolve(), quick, seed, cores) for study in waiting]
    with closing(in_parallel(_reproduce, tasks, on, count, fresh=True)) as results:  # type: ignore[type-var]
        for each in results:
            study = waiting[each.task]
            ended[study.name] = _ended(study, out / study.name, each.result)
            told(ended[study.name])
    return [ended[study.name] for study in studies]


def core_shares(cores: int, jobs: int | None) -> tuple[int, int]:
    """Return how many studies run at a time, and cores for each: by default one, two on a large machine."""
    large = cores >= CORES_OF_A_LARGE_MACHINE * MOST_WORKERS
    count = jobs or max(1, cores // (CORES_OF_A_LARGE_MACHINE if large else 1))
    if count > cores:
        raise ConfigError(f"{count} jobs on {cores} cores: give --jobs a number from 1 to {cores}")
    return count, cores // count


def judge_all(studies: Sequence[Study], out: Path) -> list[Finished]:
    """Judge again what `out` holds of the studies, of whatever form and seed, and write its pages anew."""
    outcomes = []
    for study in studies:
        summary, fault = None, ""
        try:
            summary = study.judge_again(out / study.name)
        except TacitError as error:
            fault = str(error)
        outcomes.append(Finished(study, out / study.name, summary, fault, kept=summary is not None))
    return outcomes


def _kept(study: Study, directory: Path, quick: bool, seed: int) -> dict[str, Any] | None:
    """Return the summary of an earlier run that need not be done again."""
    try:
        summary = read(directory)
    except ResultError:
        return None
    same = (summary["experiment"], summary["quick"], summary["seed"]) == (study.name, quick, seed)
    return summary if same and is_current(summary) else None


def _named(name: str) -> Study:
    from tacit_reproduction.catalogue import all_studies

    return all_studies()[name]


def _reproduce(task: tuple[Callable[[str], Study], str, Path, bool, int, int | None]) -> None:
    """Run one study in a process of its own; what it prints goes to its log."""
    import jax

    find, name, directory, quick, seed, cores = task
    # Workers keep to the CPU; a study may use an accelerator, and leaves some of its memory to the others.
    jax.config.update("jax_platforms", os.environ.get("JAX_PLATFORMS"))
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    with writing(directory), (directory / LOG).open("w", encoding="utf-8") as log:
        for stream in (1, 2):
            os.dup2(log.fileno(), stream)
        try:
            find(name).run(quick, directory, seed, cores)
        finally:
            sys.stdout.flush()


def _ended(study: Study, directory: Path, result: Lost | None) -> Finished:
    try:
        if result is not None:
            raise ResultError(f"{result.reason} (what it printed: {directory / LOG})")
        return Finished(study, directory, read(directory))
    except ResultError as error:
        return Finished(study, directory, None, str(error))
