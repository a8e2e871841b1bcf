"""Averages up to each round, part by part: the figures of `Run.running_average` while a run goes on."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tacit.results.live.parts import Part
from tacit.results.record import judged_totals

Curves = dict[str, NDArray[np.float64]]


class RunningAverages:
    """Sums of the rounds so far."""

    def __init__(self) -> None:
        self._sums: Curves = {}

    def after(self, part: Part) -> Curves:
        """Return curves of a part's rounds, (repeats, rounds) each: loss, its average, that of the score, and bits.

        Args:
          part: The rounds after those of the last call; at least one.
        """
        rows = {name: np.asarray(values, np.float64).T for name, values in part.figures.items()}
        found = {"loss": rows["loss"], "average_loss": self._average(rows, "loss", part.about.score)}
        if part.about.score in rows:
            found["score"] = self._average(rows, str(part.about.score), part.about.score)
        if "bits" in rows:
            found["bits"] = self._sum("bits", rows["bits"])
        return found

    def _average(self, rows: Curves, name: str, score: str | None) -> NDArray[np.float64]:
        totals, judged = judged_totals(rows, name, score)
        count = self._sum(f"{name}, judged", judged)
        return self._sum(name, totals) / np.where(count > 0, count, 1)

    def _sum(self, name: str, values: NDArray[np.float64]) -> NDArray[np.float64]:
        before = self._sums.get(name, np.zeros((len(values), 1)))
        with np.errstate(all="ignore"):
            found: NDArray[np.float64] = before + np.cumsum(values, axis=1)
        self._sums[name] = found[:, -1:]
        return found
