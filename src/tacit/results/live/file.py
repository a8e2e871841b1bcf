"""Live files of the simulator: curves, thinned, and figures of single agents as often as there is time for them."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.results.live.drawn import line_of
from tacit.results.live.log import Block, Kind, LiveLog, block, number
from tacit.results.live.parts import Part
from tacit.results.live.running import RunningAverages

MOST_ROWS = 4000
"""Rounds of which figures are kept, evenly over the run."""
MOST_FRAMES, FRAME_BYTES, LARGEST = 200, 2**23, 2**26
"""Frames before every other one is left out; bytes of these; bytes of a file, beyond which there are no more frames."""
SHARE, REGRET_SHARE, SOONEST = 0.006, 0.004, 1.0
"""Of a run's time that frames may take, and regret so far; seconds after which there is a first frame."""
DIGITS = 5
"""Of a figure of a single agent."""


class LiveFolder:
    """Live files of a directory: makes those of the runs of one experiment, one after the other.

    Example:
      >>> import tempfile, tacit
      >>> ops = tacit.algorithms.online_push_sum(tacit.objectives.logistic(), step=0.3)
      >>> graph, stream = tacit.graphs.directed_ring(4), tacit.streams.logistic_drift(4, 3)
      >>> with tempfile.TemporaryDirectory() as folder:
      ...     watch = LiveFolder(folder)("slow")
      ...     run = tacit.simulate(ops, graph, stream, rounds=5, watch=watch)
      ...     [path.name for path in Path(folder).glob(".tacit-live/*")]
      ['01-slow.jsonl']
    """

    def __init__(self, directory: str | os.PathLike[str], kind: Kind = "run") -> None:
        """Take a directory.

        Args:
          directory: Of the results; what an earlier experiment left goes once the first run of this one begins.
          kind: Of what goes on.
        """
        self._directory, self._kind, self._made = Path(directory), kind, 0

    def __call__(self, label: str, settings: Mapping[str, Any] | None = None) -> LiveFile:
        """Return the writer of one run's file, to be given to `tacit.simulate(watch=)`.

        Args:
          label: Name of the run in tables; empty: that of its algorithm.
          settings: As they would stand in config.toml.
        """
        self._made += 1
        return LiveFile(LiveLog(self._directory, self._made), label, settings or {}, self._kind)


class LiveFile:
    """Writes one run's live file: it is told of the run's parts."""

    def __init__(
        self, log: LiveLog, label: str, settings: Mapping[str, Any], kind: Kind = "run", agents: bool = True
    ) -> None:
        """Take what the header says beside the run's own facts.

        Args:
          log: Where lines go.
          label: Name of the run in tables; empty: that of its algorithm.
          settings: As they would stand in config.toml.
          kind: Of what goes on.
          agents: Whether it has the network and figures of single agents.
        """
        self._log, self._label, self._settings, self._kind, self._agents = log, label, settings, kind, agents
        self._averages, self._frames = RunningAverages(), Thinned(MOST_FRAMES)
        self._framed, self._spent_on_frames, self._dearest = 0, 0.0, 0.0
        self._spent_on_regret = 0.0
        self._groups: NDArray[np.int64] | None = None
        self._links = False
        """Whether the file has each link."""
        self._figures: dict[str, float | None] = {}

    def __call__(self, part: Part) -> None:
        """Write what is new."""
        if not self._log.begun:
            self._begin(part)
        rows = [*self._rows(part), *self._regret(part)]
        if self._wants_frame(part):
            rows.append(self._frame(part))
        self._log.rows(part.done, rows, self._figures, part.rate)
        if part.ended:
            self._log.end(part.ended, part.done, part.error)

    def _begin(self, part: Part) -> None:
        label = self._label or part.about.algorithm
        named = self._settings.get("run", {}).get("name", "")
        self._log.begin(label, self._kind, part.about._asdict(), self._settings, str(named or ""))
        self._every = max(1, math.ceil(part.about.rounds / MOST_ROWS))
        drawn = part.sights.drawing()
        if drawn.names and self._agents:
            line = line_of(drawn)
            self._groups = line.pop("groups", None)
            self._log.line({"graph": line})
            self._links = bool(line["links"]) and self._groups is None

    def _rows(self, part: Part) -> list[Block]:
        """Return curves of the part's rounds, thinned."""
        found = []
        if part.rounds:
            rounds = np.arange(part.done - part.rounds + 1, part.done + 1)
            kept = (rounds % self._every == 0) | (rounds == 1) | (rounds == part.about.rounds)
            curves = self._averages.after(part)
            if kept.any():
                found.append(block(rounds[kept], {name: values[:, kept] for name, values in curves.items()}))
            last = {name: float(values[:, -1].mean()) for name, values in curves.items()}
            self._figures |= {"loss": last["average_loss"], "bits": last["bits"], "accuracy": last.get("score")}
        if part.recorded is not None and "consensus" in part.recorded:
            values = np.asarray(part.recorded["consensus"], np.float64).T
            found.append(block(np.array(part.recorded_rounds), {"consensus": values}))
            self._figures["consensus"] = float(values[:, -1].mean())
        return found

    def _regret(self, part: Part) -> list[Block]:
        """Return regret so far, where there is time for it; the true one comes with the run's results."""
        if not self._agents or part.ended or not part.rounds or not part.rate:
            return []
        begun = time.perf_counter()
        found = part.sights.regret(REGRET_SHARE * part.seconds - self._spent_on_regret, part.rate)
        self._spent_on_regret += time.perf_counter() - begun
        told = [] if found is None else [[number(value, DIGITS)] for value in found]
        return [{"rounds": [part.done], "curves": {"regret_so_far": told}}] if told else []

    def _wants_frame(self, part: Part) -> bool:
        """Whether there is time for a frame: they take a part of the run's, but for the first and the last."""
        if not self._agents or part.ended == "failed" or part.done in (0, self._framed) or self._log.written > LARGEST:
            return False
        if part.ended:
            return True
        if not self._dearest:
            return part.seconds >= SOONEST
        return self._spent_on_frames + self._dearest <= SHARE * part.seconds and self._frames.wants(part.done)

    def _frame(self, part: Part) -> Block:
        """Write figures of single agents; returns the privacy spent, which is looked at then too."""
        if not self._dearest:  # the first time compiles what the others use
            part.sights.agents(), self._links and part.sights.links()
        begun = time.perf_counter()
        measures = dict(part.sights.agents())
        epsilon, each = part.sights.spent()
        if each is not None:
            measures["privacy"] = each
        if measures:
            links = part.sights.links().states if self._links else {}
            size = sum(8 * values.size for values in (*measures.values(), *links.values()))
            self._frames.most = int(np.clip(FRAME_BYTES // max(1, size), 10, MOST_FRAMES))
            content = {name: self._per_node(np.asarray(values, np.float64)) for name, values in measures.items()}
            told = {"links": {state: places.tolist() for state, places in links.items()}} if self._links else {}
            self._log.line({"frame": part.done, "measures": content, **told})
        self._framed = part.done
        self._frames.take(part.done)
        self._figures["epsilon"] = epsilon
        taken = time.perf_counter() - begun
        self._spent_on_frames, self._dearest = self._spent_on_frames + taken, max(taken, self._dearest)
        return block(np.array([part.done]), {"epsilon": np.array([[epsilon]])} if math.isfinite(epsilon) else {})

    def _per_node(self, values: NDArray[np.float64]) -> list[float | None]:
        if self._groups is not None:
            there = np.isfinite(values)
            count = np.bincount(self._groups[there], minlength=int(self._groups.max()) + 1)
            sums = np.bincount(self._groups[there], values[there], minlength=count.size)
            values = np.where(count > 0, sums / np.maximum(count, 1), np.nan)
        return [number(value, DIGITS) for value in values.tolist()]


class Thinned:
    """Which rounds are taken: as often as can be, then half as often, and so on, so that there are never many."""

    def __init__(self, most: int) -> None:
        """Take how many there are before every other one is left out."""
        self.most = most
        self._apart, self._count, self._next = 1, 0, 0

    def wants(self, done: int) -> bool:
        """Whether it is time for the next one."""
        return done >= self._next

    def take(self, done: int) -> None:
        """Note that one is taken."""
        self._count += 1
        if self._count >= self.most:
            self._apart, self._count = max(2 * self._apart, 2 * done // self.most), self.most // 2
        self._next = done + self._apart
