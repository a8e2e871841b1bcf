"""Live files: what is known of a run while it goes on, line by line, for the board and whoever else reads along.

A file has one JSON object per line, each known by its first key:

    {"tacit_live": 1, ...}    the header: what is run, by which process, since when
    {"graph": {...}}          the network, where it is not too large
    {"rows": {...}, ...}      figures of some rounds, and how far the run is
    {"frame": ROUND, ...}     figures of single agents after a round
    {"end": "done", ...}      how it ended

Lines are only added. What grows with the run is thinned: at most `MOST_ROWS` rounds are kept, evenly, and after so many
frames every other one is. The writer holds a lock of the system's on the file, which is free again
however it ends: a file without an end that nobody holds is that of a run that was stopped. A line that a killed writer
has left half written does not count. A disk that is full ends the file, and not the run.

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
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.core.errors import ResultError, TacitWarning
from tacit.metrics.intervals import mean_band
from tacit.results.live.parts import Drawing, Part
from tacit.results.live.running import RunningAverages

FOLDER, ENDING, VERSION = ".tacit-live", ".jsonl", 1
MOST_ROWS = 4000
"""Rounds of which figures are kept."""
MOST_NODES, MOST_LINKS, MOST_SAMPLED = 2000, 100_000, 10**6
"""Agents of which each is kept, and links; of more agents there are groups, with links made of so many."""
MOST_FRAMES, FRAME_BYTES, LARGEST = 200, 2**23, 2**26
"""Frames before every other one is left out; bytes of these; bytes of a file, beyond which there are no more frames."""
SHARE, SOONEST = 0.01, 1.0
"""Of a run's time that frames may take; seconds after which there is a first one."""
DIGITS = 5
"""Of a figure of a single agent."""


class LiveFolder:
    """The live files of a directory, from one run of an experiment."""

    def __init__(self, directory: str | os.PathLike[str], kind: str = "run") -> None:
        """Take a directory: files that an earlier run left go once the first of this one begins.

        Args:
          directory: Of the results.
          kind: "run", "sweep", "study" or "swarm".
        """
        self.directory, self.kind = Path(directory), kind
        self._begun = 0

    def __call__(self, label: str, settings: Mapping[str, Any] | None = None) -> LiveFile:
        """Return the file of one run; it begins when the run does.

        Args:
          label: Name of the run, as in tables.
          settings: As they would stand in config.toml.
        """
        return LiveFile(self._path, label, settings or {}, self.directory.name, self.kind)

    def _path(self, label: str) -> Path:
        folder = self.directory / FOLDER
        if folder.is_symlink():
            raise OSError(f"{folder} is a link")
        if self._begun == 0:
            shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True, exist_ok=True)
        self._begun += 1
        slug = re.sub(r"[^a-z0-9]+", "-", label.lower()).strip("-")[:40]
        return folder / f"{self._begun:02d}-{slug}{ENDING}"


class LiveFile:
    """Writer of one live file: a `Watch` of one run."""

    def __init__(
        self, path: Any, label: str, settings: Mapping[str, Any], experiment: str = "", kind: str = "run"
    ) -> None:
        """Take what the header says beside the run's own facts.

        Args:
          path: File to write, or a function of the label that names it.
          label: Name of the run; empty: that of its algorithm.
          settings: As they would stand in config.toml.
          experiment: Name of what it belongs to.
          kind: "run", "sweep", "study" or "swarm".
        """
        self._path, self.label, self.settings = path, label, settings
        self.experiment, self.kind = experiment, kind
        self._file: int | None = None
        self._broken = False
        self._written = 0
        self._averages = RunningAverages()
        self._frames = _Thinned(MOST_FRAMES)
        self._framed, self._spent_on_frames, self._dearest = 0, 0.0, 0.0
        self._groups: NDArray[np.int64] | None = None
        self._latest: dict[str, float | None] = {}

    def __call__(self, part: Part) -> None:
        """Write what is new."""
        if self._broken:
            return
        try:
            if self._file is None:
                self._begin(part)
            self._go_on(part)
            if part.ended:
                self._line({"end": part.ended, "done": part.done, "at": time.time(), "error": part.error[:2000]})
                self.close()
        except OSError as error:
            self._broken = True
            self.close()
            warnings.warn(f"the board cannot follow {self.label!r} any more ({error})", TacitWarning, stacklevel=2)

    def close(self) -> None:
        """Let go of the file; a run that has not ended by then counts as stopped."""
        if self._file is not None:
            os.close(self._file)
            self._file = None

    # -- lines ---------------------------------------------------------------------------------------------------------

    def _begin(self, part: Part) -> None:
        about = part.about
        self.label = self.label or about.algorithm
        path = self._path(self.label) if callable(self._path) else Path(self._path)
        path.parent.mkdir(parents=True, exist_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
        self._file = os.open(path, flags, 0o644)
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self.close()
            raise ResultError(f"{path} is being written by another run; wait, or name another directory") from None
        os.ftruncate(self._file, 0)
        self._every = max(1, math.ceil(about.rounds / MOST_ROWS))
        header = {
            "tacit_live": VERSION,
            "label": self.label,
            "experiment": self.experiment,
            "kind": self.kind,
            **about._asdict(),
            "started": time.time(),
            "process": os.getpid(),
            "host": platform.node(),
        }
        self._line(header | {"settings": _plain(self.settings)})
        self._draw(part)

    def _draw(self, part: Part) -> None:
        drawn = part.sights.drawing()
        nodes = max(drawn.agents, len(drawn.names))
        if not nodes:
            return
        found = grouped(drawn) if nodes > MOST_NODES else whole(drawn)
        self._groups = found.pop("groups")
        self._line({"graph": found})

    def _go_on(self, part: Part) -> None:
        rows = self._rows(part)
        framed = self._frame(part) if self._wants_frame(part) else None
        if framed is not None:
            self._line(framed[0])
            self._latest["epsilon"] = _number(framed[1])
            rows.append({"rounds": [part.done], "curves": {"epsilon": _curve(np.array([[framed[1]]]))}})
        state = {"done": part.done, "at": time.time(), "rate": _number(part.rate), "figures": self._latest}
        self._line({"rows": rows, **state})

    def _line(self, content: Mapping[str, Any]) -> None:
        assert self._file is not None
        line = json.dumps(content, ensure_ascii=True, allow_nan=False, separators=(",", ":")).encode() + b"\n"
        view = memoryview(line)
        while view:
            view = view[os.write(self._file, view) :]
        self._written += len(line)

    # -- figures -------------------------------------------------------------------------------------------------------

    def _rows(self, part: Part) -> list[dict[str, Any]]:
        """Return curves of the part, thinned: rounds, and for each curve mean and ends of the interval over repeats."""
        found: list[dict[str, Any]] = []
        if part.rounds:
            first = part.done - part.rounds + 1
            rounds = np.arange(first, part.done + 1)
            kept = (rounds % self._every == 0) | (rounds == 1) | (rounds == part.about.rounds)
            curves = self._averages.after(part)
            if kept.any():
                lines = {name: _curve(values[:, kept]) for name, values in curves.items()}
                found.append({"rounds": rounds[kept].tolist(), "curves": lines})
            last = {name: _number(float(values[:, -1].mean())) for name, values in curves.items()}
            self._latest |= {"loss": last["average_loss"], "bits": last["bits"], "accuracy": last.get("score")}
        if part.recorded is not None and "consensus" in part.recorded:
            values = np.asarray(part.recorded["consensus"], np.float64).T
            found.append({"rounds": list(part.recorded_rounds), "curves": {"consensus": _curve(values)}})
            self._latest["consensus"] = _number(float(values[:, -1].mean()))
        return found

    def _wants_frame(self, part: Part) -> bool:
        """Whether there is time for a frame: they take a hundredth of the run's, but for the first and the last."""
        if part.ended == "failed" or part.done in (0, self._framed) or self._written > LARGEST:
            return False
        if part.ended:
            return True
        allowed = self._spent_on_frames + self._dearest <= SHARE * part.seconds
        return (allowed if self._dearest else part.seconds >= SOONEST) and self._frames.wants(part.done)

    def _frame(self, part: Part) -> tuple[dict[str, Any], float] | None:
        if not self._dearest:  # the first time compiles what the others use
            part.sights.agents()
        begun = time.perf_counter()
        measures = dict(part.sights.agents())
        epsilon, each = part.sights.spent()
        if each is not None:
            measures["privacy"] = each
        self._framed = part.done
        if measures:
            size = sum(8 * values.size for values in measures.values())
            self._frames.most = int(np.clip(FRAME_BYTES // max(1, size), 10, MOST_FRAMES))
            self._frames.take(part.done)
        content = {name: self._per_node(np.asarray(values, np.float64)) for name, values in measures.items()}
        taken = time.perf_counter() - begun
        self._spent_on_frames, self._dearest = self._spent_on_frames + taken, max(taken, self._dearest)
        return ({"frame": part.done, "measures": content}, epsilon) if content else None

    def _per_node(self, values: NDArray[np.float64]) -> list[float | None]:
        if self._groups is not None:
            there = np.isfinite(values)
            count = np.bincount(self._groups[there], minlength=int(self._groups.max()) + 1)
            sums = np.bincount(self._groups[there], values[there], minlength=count.size)
            values = np.where(count > 0, sums / np.maximum(count, 1), np.nan)
        return [float(f"{value:.{DIGITS}g}") if math.isfinite(value) else None for value in values.tolist()]


class _Thinned:
    """Which rounds have a frame: as often as asked, then half as often, and so on."""

    def __init__(self, most: int) -> None:
        self.most = most
        self._apart, self._count, self._next = 1, 0, 0

    def wants(self, done: int) -> bool:
        return done >= self._next

    def take(self, done: int) -> None:
        self._count += 1
        if self._count >= self.most:
            self._apart, self._count = max(2 * self._apart, 2 * done // self.most), self.most // 2
        self._next = done + self._apart


def whole(drawn: Drawing) -> dict[str, Any]:
    """Return a network as its line has it, each agent a node.

    Args:
      drawn: The network.
    """
    names = list(drawn.names) + [""] * (drawn.agents - len(drawn.names))
    clusters = None if drawn.clusters is None else drawn.clusters.tolist()
    links = np.stack([drawn.senders, drawn.receivers], axis=1)
    return {
        "agents": drawn.agents,
        "aggregated": False,
        "labels": names if any(names) else None,
        "count": len(names),
        "clusters": clusters,
        "sizes": None,
        "links": links.tolist() if len(links) <= MOST_LINKS else [],
        "left_out": 0 if len(links) <= MOST_LINKS else len(links),
        "groups": None,
    }


def grouped(drawn: Drawing, most: int = 200) -> dict[str, Any]:
    """Return a large network as its line has it, groups of its learners as nodes: its clusters, or neighbours in order.

    Args:
      drawn: The network.
      most: Groups.
    """
    agents = drawn.agents
    if drawn.clusters is not None and 1 < np.unique(drawn.clusters).size <= most:
        _, groups = np.unique(drawn.clusters, return_inverse=True)
    else:
        groups = np.arange(agents) * most // agents
    count = int(groups.max()) + 1
    apart = 1 + drawn.senders.size // MOST_SAMPLED  # of very many links some say who is linked to whom
    senders, receivers = drawn.senders[::apart], drawn.receivers[::apart]
    among = (senders < agents) & (receivers < agents)
    pairs = groups[senders[among]] * count + groups[receivers[among]]
    found = np.unique(pairs)
    links = np.stack(np.divmod(found, count), axis=1)
    sizes = np.bincount(groups, minlength=count)
    first = np.searchsorted(groups, np.arange(count)) if drawn.clusters is None else None
    ends = None if first is None else [f"agents {a} to {a + n - 1}" for a, n in zip(first, sizes.tolist(), strict=True)]
    return {
        "agents": agents,
        "aggregated": True,
        "labels": ends,
        "count": count,
        "clusters": list(range(count)) if drawn.clusters is not None else None,
        "sizes": sizes.tolist(),
        "links": links[links[:, 0] != links[:, 1]].tolist(),
        "left_out": 0,
        "groups": groups,
    }


def _curve(values: NDArray[np.float64]) -> list[list[float | None]]:
    """Return a curve's mean, and the ends of its interval where repeats differ."""
    band = mean_band(values)
    alike = band.n == 1 or bool((values == values[:1]).all())
    return [_numbers(line) for line in ((band.mean,) if alike else (band.mean, band.low, band.high))]


def _numbers(values: NDArray[np.float64]) -> list[float | None]:
    return [_number(value) for value in values.tolist()]


def _number(value: float | None) -> float | None:
    return None if value is None or not math.isfinite(value) else float(f"{value:.7g}")


def _plain(value: Any) -> Any:
    """Return settings as JSON has them."""
    if isinstance(value, Mapping):
        return {str(key): _plain(inner) for key, inner in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_plain(inner) for inner in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    return value if value is None or isinstance(value, bool | int | str) else str(value)
