"""Execution of an experiment: runs, and the directory that holds them, also of an interrupted one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import NamedTuple

from tacit.experiments.build import Problem, WatchOf, none_ran
from tacit.results import Comparison, Run
from tacit.results.live import LiveFolder
from tacit.results.locks import writing
from tacit.results.store import check_libraries


class Outcome(NamedTuple):
    """Outcome of an experiment."""

    comparison: Comparison
    directory: Path | None
    """None: nothing was written."""
    interrupted: bool


def execute(
    problem: Problem,
    directory: Path | None,
    *,
    command: str | None = None,
    progress: bool | None = None,
    finished: Callable[[Run], None] = lambda run: None,
    watch: Sequence[WatchOf] = (),
    bar: bool | None = None,
) -> Outcome:
    """Run every algorithm and write the directory; `finished` is told of each run, and `watch` of its rounds.

    While runs go on, live files grow in the directory, for the board. `bar` is False where a watcher shows the rounds.

    The directory is locked all the while: a second writer is refused before it has begun. Ctrl-C ends it early: what
    is done is written, the algorithm that was under way with the rounds that it had finished. With nothing done yet it
    is raised. A method that is refused when it is tried does not stop the others, where the problem was built so
    (`build(config, strict=False)`); an error says why if none of them could run.
    """
    if directory is not None:
        check_libraries()
    with nullcontext() if directory is None else writing(directory):
        live = () if directory is None else (LiveFolder(directory),)
        runs, stopped = _runs(problem, progress, finished, (*live, *watch), bar)
        config = problem.config
        refused = tuple(problem.refused or ())
        comparison = Comparison(tuple(run.record() for run in runs), config.run.name, config.settings(), refused)
        if directory is not None:
            alone = len(config.algorithms) == 1 and not problem.references.of and not refused
            kept = runs[0] if alone else comparison
            kept.save(directory, command=command)
    return Outcome(comparison, directory, stopped or comparison.partial)


def _runs(
    problem: Problem,
    progress: bool | None,
    finished: Callable[[Run], None],
    watch: Sequence[WatchOf],
    bar: bool | None,
) -> tuple[list[Run], bool]:
    """Return what was run, and whether it was interrupted."""
    runs: list[Run] = []
    try:
        for run in problem.runs(progress, watch, bar):
            runs.append(run)
            finished(run)
    except KeyboardInterrupt:
        if not runs:
            raise
        return runs, True
    if not runs:
        raise none_ran(problem.refused or ())
    return runs, False
