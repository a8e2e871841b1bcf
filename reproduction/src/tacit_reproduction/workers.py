"""Independent pieces of a study in several processes."""

import sys
import traceback
from collections.abc import Callable, Sequence
from contextlib import closing
from functools import partial
from typing import Any

from tacit.core.errors import TacitError
from tacit.sweeps.workers import Lost, in_parallel
from tacit_reproduction.datasets.fetch import looked_for

Crew = Callable[[str, Callable[[Any], Any], Sequence[Any]], list[Any]]
"""(words for the display, function of a task, tasks) -> results in the order of the tasks."""


def crew(workers: int | None = None, told: Callable[[int, int], object] = lambda done, total: None) -> Crew:
    """Return what does tasks in `workers` processes (default: one per usable core, at most eight; one: this process).

    A result depends on its task only, so the number of processes changes no figure. Give long tasks first. `told` hears
    how many tasks of all that were given so far are done, and of how many.
    """
    done = total = 0

    def do_all(what: str, do: Callable[[Any], Any], tasks: Sequence[Any]) -> list[Any]:
        from rich.console import Console
        from rich.progress import track

        nonlocal done, total
        total += len(tasks)
        told(done, total)
        found: dict[int, Any] = {}
        look: dict[str, Any] = {"total": len(tasks), "transient": True, "disable": not sys.stderr.isatty()}
        with closing(in_parallel(partial(_noting, do), tasks, workers=workers)) as results:  # type: ignore[type-var]
            for ended in track(results, what, console=Console(stderr=True), **look):
                if isinstance(ended.result, Lost):
                    raise TacitError(ended.result.reason)
                found[ended.task], asked = ended.result
                looked_for(asked)
                done += 1
                told(done, total)
        return [found[k] for k in range(len(tasks))]

    return do_all


def _noting(do: Callable[[Any], Any], task: Any) -> tuple[Any, frozenset[str]]:
    """Return the result, and the data files that were asked for; say where a fault that nobody meant came from."""
    try:
        return do(task), looked_for()
    except TacitError:
        raise
    except Exception:
        traceback.print_exc()
        raise
