"""A progress bar on a terminal, and Ctrl-C that ends a run in good order."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterable
from types import FrameType, TracebackType
from typing import Any

LONG = 10.0
"""Seconds after which a hint is of use."""


class Progress:
    """Steps done, their speed, time passed and time left on a terminal; silent elsewhere."""

    def __init__(self, steps: int, done: int, title: str, shown: bool | None) -> None:
        self._bar: Any = None
        if shown if shown is not None else sys.stderr.isatty():
            from rich.console import Console
            from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
            from rich.progress import Progress as Bar

            self._bar = Bar(
                TextColumn("{task.description}", markup=False),  # names may hold brackets
                BarColumn(20),
                MofNCompleteColumn(),
                TextColumn("{task.fields[rate]}", markup=False),
                TimeElapsedColumn(),
                TimeRemainingColumn(),
                console=Console(stderr=True),
                transient=True,
            )
            self._task = self._bar.add_task(title, total=steps, completed=done, rate="")

    def at(self, done: int) -> None:
        """Say how many steps are done."""
        if self._bar is not None:
            speed = self._bar.tasks[0].speed
            self._bar.update(self._task, completed=done, rate=f"{speed:,.0f} rounds/s" if speed else "")

    def of(self, done: int, steps: int, hint: str = "") -> None:
        """Say how many steps are done of how many, where that was not known; a hint is shown from ten seconds on."""
        if self._bar is not None:
            long = (self._bar.tasks[0].elapsed or 0) > LONG
            self._bar.update(self._task, completed=done, total=steps, rate=hint if long else "")

    def __enter__(self) -> Progress:
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: Any, trace: TracebackType | None) -> None:
        if self._bar is not None:
            self._bar.stop()


def satisfied(recorders: Iterable[Any]) -> bool:
    """Whether one of a run's recorders wants no more of it (:class:`tacit.results.Best`)."""
    return any(getattr(recorder, "satisfied", False) for recorder in recorders)


class Interrupts:
    """Remembers the first Ctrl-C instead of raising it; the second one is raised."""

    def __init__(self) -> None:
        self.asked = False
        self._before: Any = None
        self._mine = threading.current_thread() is threading.main_thread()

    def _note(self, number: int, frame: FrameType | None) -> None:
        if self.asked:
            raise KeyboardInterrupt
        self.asked = True

    def __enter__(self) -> Interrupts:
        if self._mine:
            self._before = signal.signal(signal.SIGINT, self._note)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: Any, trace: TracebackType | None) -> None:
        if self._mine:
            signal.signal(signal.SIGINT, self._before)
