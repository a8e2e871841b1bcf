"""What watchers of a simulation are told, and when: about twice a second, whatever a round takes.

Rounds are run in pieces that end where the state is recorded. Where somebody watches, a piece that would take long is
cut: the compiled program takes the number of rounds as an argument, so that figures stay the same to the bit. Of pieces
that are short, watchers hear together.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any, NamedTuple

import jax
import numpy as np
from numpy.typing import NDArray

from tacit.core.contract import Tree
from tacit.results.live.parts import About, Ended, NoSights, Part, Watch
from tacit.simulator.checkpoint import Log
from tacit.simulator.loop_state import LoopState
from tacit.simulator.shards.hosts import is_first
from tacit.simulator.watching.sights import Seen

EVERY, LONGEST = 0.5, 1.0
"""Seconds from one part to the next, at least; and of rounds that are run at once, at most."""


class Piece(NamedTuple):
    """Rounds that are run at once."""

    first: np.int32
    """Rounds before them."""
    skipped: np.int32
    """Rounds of their data that were run before."""
    length: np.int32
    data: Tree


class Told:
    """A run's watchers, and what they have not heard yet."""

    def __init__(self, watchers: Sequence[Watch], about: About, done: int, seen: Seen | None, cuts: bool) -> None:
        """Take the watchers of a run.

        Args:
          watchers: Who is told; nobody, and nothing is kept for them.
          about: Facts of the run.
          done: Rounds before it.
          seen: Where it can be looked at; None where nobody watches.
          cuts: Whether pieces may be cut.
        """
        # Of several processes the first one tells.
        self.watchers: Sequence[Watch] = watchers if is_first() else ()
        self._about, self._done, self._seen = about, done, seen
        # Processes of one run have to cut alike, and what who took part takes is as large as the longest piece.
        self._longest = 1 if watchers and cuts and jax.process_count() == 1 else None
        self._waiting: list[Mapping[str, NDArray[Any]]] = []
        self._recorded: list[tuple[int, Mapping[str, NDArray[Any]]]] = []
        self._begun = self._last = time.perf_counter()
        self._first = done

    def start(self) -> float:
        """Return the time at which the first round begins: now."""
        self._begun = self._last = time.perf_counter()
        return self._begun

    def pieces(self, given: Iterator[tuple[Any, Any, Tree]]) -> Iterator[Piece]:
        """Yield pieces, long ones in parts."""
        for first, count, data in given:
            before = 0
            while before < count:
                now = count - before if self._longest is None else min(self._longest, count - before)
                begun = time.perf_counter()
                yield Piece(np.int32(first + before), np.int32(before), np.int32(now), data)
                before += now
                if self._longest is not None:
                    seconds = max(time.perf_counter() - begun, 1e-6)
                    self._longest = max(1, min(2 * self._longest, int(LONGEST * now / seconds)))

    def rounds(
        self, done: int, figures: Mapping[str, NDArray[Any]], recorded: Mapping[str, NDArray[Any]] | None
    ) -> None:
        """Take figures of the rounds up to `done`, and of the state after it where that was recorded."""
        self._done = done
        self._waiting.append(figures)
        if recorded is not None:
            self._recorded.append((done, recorded))

    def now(self, loop: LoopState, data: Tree, index: int, log: Log) -> None:
        """Tell what there is, if it is time to, of a state as `Seen.at` takes it."""
        if self._seen is not None:
            self._seen.at(loop, data, index, log)
        if time.perf_counter() - self._last >= EVERY:
            self._tell()

    def _tell(self, ended: Ended = "", error: str = "") -> None:
        if not self.watchers:
            return
        now = time.perf_counter()
        self._last = now
        names = list(self._waiting[0]) if self._waiting else []
        seconds = now - self._begun
        part = Part(
            about=self._about,
            done=self._done,
            figures={name: np.concatenate([figures[name] for figures in self._waiting]) for name in names},
            recorded_rounds=tuple(done for done, _ in self._recorded),
            recorded=_stacked([figures for _, figures in self._recorded]),
            rate=(self._done - self._first) / seconds if self._done > self._first and seconds > 0 else None,
            seconds=seconds if self._done > self._first else 0.0,
            ended=ended,
            error=error,
            sights=self._seen or NoSights(),
        )
        self._waiting, self._recorded = [], []
        for watch in self.watchers:
            watch(part)

    def end(self, interrupted: bool) -> None:
        """Tell watchers that the last round is over."""
        self._tell("interrupted" if interrupted else "done")
        self.watchers = ()

    def __enter__(self) -> Told:
        self._tell()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            stopped = isinstance(error, KeyboardInterrupt)
            self._tell("interrupted" if stopped else "failed", "" if stopped else f"{type(error).__name__}: {error}")


def _stacked(found: Sequence[Mapping[str, NDArray[Any]]]) -> dict[str, NDArray[Any]] | None:
    return {name: np.stack([each[name] for each in found]) for name in found[0]} if found else None
