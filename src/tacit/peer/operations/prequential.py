"""Prequential figures of a peer: how well its model predicts each batch before it learns from it.

They are the owner's own, made of its raw data, and not private: they are written to its log, served on loopback and,
where the owner's file names `progress`, to observers; never sent to another peer. Means are over the samples of the
last rounds; nothing is stored, so that a peer that is started again begins with none.
"""

from __future__ import annotations

import functools
import math
import threading
from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np

from tacit.core.contract import Batch, Objective, Params
from tacit.peer.operations.counters import Counters
from tacit.peer.operations.logs import Log

SHORTEST = 10.0
"""Seconds between two lines of the log, at least: rounds may be fast."""
SHOWN = ("accuracy", "mse")
"""Scores that have a metric."""


class Judged(NamedTuple):
    """Sums over the samples of some rounds."""

    samples: float = 0.0
    loss: float = 0.0
    score: float = 0.0

    def plus(self, other: Judged) -> Judged:
        """Return the sums of both."""
        return Judged(*(a + b for a, b in zip(self, other, strict=True)))


@functools.lru_cache(maxsize=8)
def _figures(objective: Objective) -> Callable[[Params, Batch], tuple[Any, Any]]:
    """Return what computes loss and score, compiled once for all peers of a process that share an objective."""

    def figures(params: Params, batch: Batch) -> tuple[Any, Any]:
        batch = batch._replace(weight=jax.numpy.maximum(batch.weight, 0))  # a bad row counts as none
        score = objective.score
        return objective.loss(params, batch), 0.0 if score is None else score(params, batch)

    return jax.jit(figures)


class Prequential:
    """Loss and score of the model that a round begins with, on the round's batch.

    `judge` before the batch is learnt from, `learnt` when it is committed: a batch that is refused does not count.
    """

    def __init__(
        self,
        objective: Objective,
        rounds: int,
        counters: Counters,
        log: Log,
        clock: Callable[[], float],
    ) -> None:
        """Take means over the last `rounds` rounds, and log them as often; 0 takes and logs none.

        `judge` and `learnt` are called in one thread, `status` and `publish` in any.
        """
        self.rounds, self._objective, self._counters, self._log, self._clock = rounds, objective, counters, log, clock
        self._of_batch = _figures(objective)
        self._lock = threading.Lock()
        self._recent: deque[Judged] = deque(maxlen=max(1, rounds))
        self._since_start = Judged()
        self._since_line, self._rounds_since, self._line_at = Judged(), 0, clock()

    def start(self) -> None:
        """Take the time from now on."""
        self._line_at = self._clock()

    def judge(self, params: Params, batch: Batch) -> Judged:
        """Return the sums of a batch, which the model has not seen."""
        samples = float(np.maximum(np.asarray(batch.weight), 0).sum())
        if not self.rounds or not samples:
            return Judged()
        loss, score = self._of_batch(params, batch)
        return Judged(samples, samples * float(loss), samples * float(score))

    def learnt(self, round_: int, judged: Judged) -> None:
        """Count a batch that was learnt from; log the figures when it is time."""
        if not self.rounds:
            return
        with self._lock:
            self._recent.append(judged)
            self._since_start = self._since_start.plus(judged)
        self._since_line = self._since_line.plus(judged)
        self._rounds_since += 1
        now = self._clock()
        if self._rounds_since >= self.rounds and now - self._line_at >= SHORTEST:
            pace = self._rounds_since / (now - self._line_at)
            self._log.info("progress", round=round_, rounds_per_second=round(pace, 2), **self._means(self._since_line))
            self._since_line, self._rounds_since, self._line_at = Judged(), 0, now

    def status(self) -> dict[str, Any] | None:
        """Return the means over the last rounds and since the start, as plain data; None where none are taken."""
        if not self.rounds:
            return None
        with self._lock:
            recent, all_ = tuple(self._recent), self._since_start
        last = Judged(*np.sum(recent, axis=0).tolist()) if recent else Judged()
        return {"rounds": len(recent), "recent": self._means(last), "since_start": self._means(all_)}

    def publish(self) -> None:
        """Set the metrics: means over the last rounds, NaN where these brought no sample."""
        recent = (self.status() or {}).get("recent", {})
        for name in ("loss", *SHOWN):
            if name in recent:
                value = recent[name]
                self._counters.set(f"tacit_prequential_{name}", math.nan if value is None else value)

    def _means(self, judged: Judged) -> dict[str, Any]:
        """Return the number of samples and the means; None where there is no sample, or no finite mean."""
        names = ["loss"] if self._objective.score is None else ["loss", self._objective.score_name]
        means = {
            name: float(f"{total / judged.samples:.6g}") if judged.samples and math.isfinite(total) else None
            for name, total in zip(names, judged[1:], strict=False)
        }
        return {"samples": int(judged.samples), **means}
