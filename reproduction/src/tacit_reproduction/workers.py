"""Independent pieces of an experiment in several processes."""

from __future__ import annotations

import multiprocessing
import os
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Protocol, TypeVar

from tacit.core.errors import TacitError
from tacit.results.live import LiveFile, LiveLog
from tacit.sweeps.workers import one_thread, worker_count
from tacit_reproduction.datasets.fetch import looked_for

Task = TypeVar("Task")
Result = TypeVar("Result")
Told = Callable[[int, int], object]
"""Hears how many tasks are done, and of how many."""


class Crew(Protocol):
    """Does a function of each task and returns the results in the order of the tasks."""

    def __call__(self, what: str, do: Callable[[Task], Result], tasks: Sequence[Task]) -> list[Result]:
        """Do all tasks; `what` names them in the display."""


_live: list[Path] = []
"""Directory of the study whose tasks this process does, for live files of their runs."""


def _begin(live: Path | None) -> None:
    _live[:] = [] if live is None else [live]


def _begin_worker(live: Path | None) -> None:
    one_thread()
    _begin(live)


@contextmanager
def watching() -> Iterator[tuple[LiveFile, ...]]:
    """Give who watches a run of a task: a live file for the board, gone when the run is over.

    Each process has one file, whose number is that of the process: what it runs takes turns in it.
    """
    if not _live:
        yield ()
        return
    with LiveLog(_live[0], os.getpid()) as log:
        yield (LiveFile(log, f"under way in process {os.getpid()}", {}, agents=False),)
    if log.path is not None:
        log.path.unlink(missing_ok=True)


@contextmanager
def crew(workers: int | None = None, told: Told = lambda done, total: None, live: Path | None = None) -> Iterator[Crew]:
    """Start `workers` processes (default: one per usable core, at most eight); one means this process itself.

    A result depends on its task only, so the number of processes changes no figure. Give long tasks first. `told` hears
    how many tasks of all that were given so far are done; `live` is a directory for live files of their runs.
    """
    count = worker_count(workers)
    display = _Display(told)
    if count <= 1:
        _begin(live)
        try:
            yield partial(_alone, display)
        finally:
            _begin(None)
        return
    # Spawned, not forked: a forked child of a process whose JAX runs threads may hang.
    pool = ProcessPoolExecutor(count, multiprocessing.get_context("spawn"), _begin_worker, (live,))
    try:
        yield _Together(pool, display)
    except BrokenProcessPool as fault:
        raise TacitError(
            f"one of {count} worker processes ended without a word. In a script of your own, call this under "
            "`if __name__ == '__main__':`, as processes that are started anew need; else memory ran out"
        ) from fault
    finally:
        pool.shutdown(cancel_futures=True)


_stopped = threading.Event()
"""Set in a worker by Ctrl-C: tasks that had been handed to it already are then not begun."""


def _unless_stopped(do: Callable[[Task], Result], task: Task) -> tuple[Result, frozenset[str]]:
    """Return the result, and the data files that were asked for."""
    try:
        if _stopped.is_set():
            raise KeyboardInterrupt
        return do(task), looked_for()
    except KeyboardInterrupt:
        _stopped.set()
        raise


def _alone(display: _Display, what: str, do: Callable[[Task], Result], tasks: Sequence[Task]) -> list[Result]:
    with display.watched(what, len(tasks)) as step:
        return [(do(task), step())[0] for task in tasks]


class _Together:
    def __init__(self, pool: ProcessPoolExecutor, display: _Display) -> None:
        self._pool, self._display = pool, display

    def __call__(self, what: str, do: Callable[[Task], Result], tasks: Sequence[Task]) -> list[Result]:
        futures = [self._pool.submit(_unless_stopped, do, task) for task in tasks]
        with self._display.watched(what, len(tasks)) as step:
            for done in as_completed(futures):
                looked_for(done.result()[1])  # a fault ends the wait at once
                step()
        return [future.result()[0] for future in futures]


class _Display:
    """Says how far the tasks are."""

    def __init__(self, told: Told) -> None:
        self._told, self._done, self._total = told, 0, 0

    @contextmanager
    def watched(self, what: str, total: int) -> Iterator[Callable[[], Any]]:
        """Give what is called when a task is done."""
        self._total += total
        self._told(self._done, self._total)
        with _bar(what, total) as step:
            yield lambda: self._done_one(step)

    def _done_one(self, step: Callable[[], Any]) -> None:
        step()
        self._done += 1
        self._told(self._done, self._total)


@contextmanager
def _bar(what: str, total: int) -> Iterator[Callable[[], Any]]:
    """Show a bar on a terminal."""
    if not sys.stderr.isatty():
        yield lambda: None
        return
    from rich.console import Console
    from rich.progress import MofNCompleteColumn, Progress

    bar = Progress(*Progress.get_default_columns(), MofNCompleteColumn(), console=Console(stderr=True), transient=True)
    with bar:
        task = bar.add_task(what, total=total)
        yield lambda: bar.advance(task)
