"""Live files: what is known of a run while it goes on, line by line, for the board and whoever else reads along.

A file has one JSON object per line, each known by its first key:

    {"tacit_live": 1, ...}    the header: what is run, by which process, since when
    {"graph": {...}}          the network: agents, or groups of them where there are many
    {"rows": [...], ...}      curves of some rounds, how far the run is, and its figures so far; one of the
                              curves, "regret_so_far", is an estimate (`tacit.simulator.watching.compared`)
    {"frame": ROUND, ...}     figures of single agents after a round, and links that were not open in it
    {"end": "done", ...}      how it ended

Lines are only added. The writer holds a lock of the system's on the file, which is free again however it ends: a file
without an end that nobody holds is that of a run that was stopped. A line that a killed writer has left half written
does not count. A disk that is full ends the file, and not the run.

Directories have a folder of them beside the results, which is no part of what summaries seal: it may be removed.
"""

from __future__ import annotations

import fcntl
import json
import math
import os
import platform
import re
import shutil
import time
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from tacit.core.errors import ResultError, TacitWarning
from tacit.metrics.intervals import mean_band
from tacit.results.live.parts import Ended

FOLDER, ENDING, VERSION = ".tacit-live", ".jsonl", 1
LONGEST_ERROR = 2000
Kind = Literal["run", "sweep", "study", "swarm"]
Block = Mapping[str, Any]
"""Rounds, and curves over them: mean, and low and high where repeats differ."""


class LiveLog:
    """Writer of one live file; it begins with the header."""

    def __init__(self, directory: str | os.PathLike[str], number: int = 1) -> None:
        """Take a directory.

        Args:
          directory: Of the results. What an earlier run left there goes once the first log begins.
          number: Of this log among those of the directory, from 1.
        """
        self.directory, self.number = Path(directory), number
        self.written = 0
        """Bytes."""
        self.label = ""
        self.path: Path | None = None
        """Where it is written, from its beginning on."""
        self._file: int | None = None
        self._broken = False

    @property
    def begun(self) -> bool:
        """Whether there is a header."""
        return self._file is not None or self._broken

    def begin(
        self, label: str, kind: Kind, facts: Mapping[str, Any], settings: Mapping[str, Any], experiment: str = ""
    ) -> None:
        """Write the header.

        Args:
          label: Name in tables.
          kind: Of what goes on.
          facts: What is known of it: algorithm, agents, repeats, rounds and so on.
          settings: As they would stand in config.toml.
          experiment: Name of what it belongs to; by default the directory's.
        """
        self.label = label
        header = {"tacit_live": VERSION, "label": label, "experiment": experiment or self.directory.name, "kind": kind}
        about = {"started": time.time(), "process": os.getpid(), "host": platform.node()}
        try:
            self._open(label)
        except OSError as error:
            self._give_up(error)
        self.line({**header, **facts, **about, "settings": _plain(settings)})

    def _open(self, label: str) -> None:
        folder = self.directory / FOLDER
        if folder.is_symlink():
            raise OSError(f"{folder} is a link")
        if self.number == 1:
            shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True, exist_ok=True)
        slug = re.sub(r"[^a-z0-9]+", "-", label.lower()).strip("-")[:40]
        self.path = path = folder / f"{self.number:02d}-{slug}{ENDING}"
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self.close()
            raise ResultError(f"{path} is being written by another run; wait, or name another directory") from None

    def rows(
        self,
        done: int,
        blocks: Sequence[Block],
        figures: Mapping[str, float | None],
        rate: float | None = None,
        rounds: int | None = None,
    ) -> None:
        """Write curves of some more rounds, and how far the run is.

        Args:
          done: Rounds so far.
          blocks: Curves.
          figures: What a list of runs tells of this one.
          rate: Rounds per second.
          rounds: That there will be; None: as the header says.
        """
        told = {name: number(value) for name, value in figures.items()}
        state = {"done": done, "at": time.time(), "rate": number(rate), "figures": told}
        self.line({"rows": list(blocks), **state, **({} if rounds is None else {"rounds": rounds})})

    def end(self, how: Ended, done: int, error: str = "") -> None:
        """Write how it ended, and close.

        Args:
          how: It ended.
          done: Rounds.
          error: Why it failed.
        """
        self.line({"end": how, "done": done, "at": time.time(), "error": error[:LONGEST_ERROR]})
        self.close()

    def line(self, content: Mapping[str, Any]) -> None:
        """Add a line.

        Args:
          content: JSON, without numbers that are not finite.
        """
        if self._file is None:
            return
        line = json.dumps(content, ensure_ascii=True, allow_nan=False, separators=(",", ":")).encode() + b"\n"
        view = memoryview(line)
        try:
            while view:
                view = view[os.write(self._file, view) :]
        except OSError as error:
            self._give_up(error)
        self.written += len(line)

    def _give_up(self, error: OSError) -> None:
        self.close()
        self._broken = True
        warnings.warn(f"the board cannot follow {self.label!r} any more ({error})", TacitWarning, stacklevel=3)

    def close(self) -> None:
        """Let go of the file; what has not ended by then counts as stopped."""
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def __enter__(self) -> LiveLog:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def block(rounds: NDArray[np.integer], curves: Mapping[str, NDArray[np.float64]]) -> Block:
    """Return curves over some rounds as a line has them.

    Args:
      rounds: (k,).
      curves: Name -> (repeats, k).
    """
    return {"rounds": rounds.tolist(), "curves": {name: _curve(values) for name, values in curves.items()}}


def _curve(values: NDArray[np.float64]) -> list[list[float | None]]:
    with np.errstate(all="ignore"):  # what diverges is told as a gap
        band = mean_band(values)
    alike = band.n == 1 or bool((values == values[:1]).all())
    return [
        [number(value) for value in line.tolist()]
        for line in ((band.mean,) if alike else (band.mean, band.low, band.high))
    ]


def number(value: float | None, digits: int = 7) -> float | None:
    """Return a number to a few digits; None where it is not finite.

    Args:
      value: Any.
      digits: That are kept.
    """
    return None if value is None or not math.isfinite(value) else float(f"{value:.{digits}g}")


def _plain(value: Any) -> Any:
    """Return settings as JSON has them."""
    if isinstance(value, Mapping):
        return {str(key): _plain(inner) for key, inner in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_plain(inner) for inner in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    return value if value is None or isinstance(value, bool | int | str) else str(value)
