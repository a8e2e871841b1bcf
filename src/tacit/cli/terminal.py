"""Runs on a terminal as they learn: bar, speed, time left, a line of the loss, and the privacy that was spent.

It is drawn in place on standard error, a few lines at most and never wider than the terminal, whenever a run tells of
its rounds; nothing of it stays. Elsewhere than on a terminal there is none of it.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tacit.core.text import visible

if TYPE_CHECKING:
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    from tacit.results.live import Part

BLOCKS, LETTERS = "▁▂▃▄▅▆▇█", "_.-=+*#@"
"""Heights of a line of figures, lowest first; letters where the terminal's encoding has no blocks."""
MOST_VALUES = 512
"""Of a curve that are kept."""
WIDEST_CURVE, WIDEST_BAR = 40, 24
SHARE = 0.01
"""Of a run's time that may go into looking at its privacy."""


class Curve:
    """Means of a figure over stretches of rounds, all as long, all of a run in a few hundred values."""

    def __init__(self) -> None:
        self._stretch = 1
        self._means: list[float] = []
        self._rest = np.zeros(0)
        """Rounds after the last whole stretch."""

    def add(self, values: np.ndarray) -> None:
        """Add the values of the next rounds.

        Args:
          values: One for each round.
        """
        values = np.concatenate([self._rest, values])
        while len(self._means) + len(values) // self._stretch > MOST_VALUES:
            if len(self._means) % 2:  # the last one has no pair yet
                values = np.concatenate([np.full(self._stretch, self._means.pop()), values])
            self._means = np.mean(np.reshape(self._means, (-1, 2)), axis=1).tolist()
            self._stretch *= 2
        whole = len(values) // self._stretch * self._stretch
        self._means += values[:whole].reshape(-1, self._stretch).mean(axis=1).tolist()
        self._rest = values[whole:]

    def columns(self, width: int) -> list[float]:
        """Return the curve in so many columns at most."""
        values = [*self._means, *([float(self._rest.mean())] if len(self._rest) else [])]
        return [float(np.mean(part)) for part in np.array_split(values, min(width, len(values)) or 1) if len(part)]


def sparkline(values: Sequence[float], letters: str = BLOCKS) -> str:
    """Return figures as a line of blocks, the largest the highest; a gap where one is not finite.

    Args:
      values: The figures.
      letters: Heights, lowest first.

    Example:
      >>> sparkline([4.0, 3.0, 2.0, 1.0], "_-=#")
      '#=-_'
    """
    finite = [value for value in values if math.isfinite(value)]
    low, high = (min(finite), max(finite)) if finite else (0.0, 0.0)
    scale = (len(letters) - 1) / (high - low) if high > low else 0.0
    return "".join(letters[round(scale * (value - low))] if math.isfinite(value) else " " for value in values)


class TerminalView:
    """Makes who watches each run of an experiment, and draws it.

    Args:
      console: Where it is drawn.
    """

    def __init__(self, console: Console) -> None:
        self._console = console

    def __call__(self, label: str, settings: Mapping[str, Any] | None = None) -> _Shown:
        """Return who is to be told of a run's rounds."""
        return _Shown(self._console, label)


class _Shown:
    """One run."""

    def __init__(self, console: Console, label: str) -> None:
        self._console, self._label = console, label
        self._live: Live | None = None
        self._loss = Curve()
        self._last: dict[str, float] = {}
        self._epsilon, self._look_again = math.nan, 0.0
        self._links = ""

    def __call__(self, part: Part) -> None:
        if part.rounds:
            self._loss.add(np.nanmean(part.figures["loss"], axis=1))
            last = {name: float(np.mean(values[-1])) for name, values in part.figures.items()}
            self._last |= {name: last[name] for name in ("loss", part.about.score) if name in last}
            self._look(part)
        if part.ended:
            if self._live is not None:
                self._live.stop()
            return
        if self._live is None:
            from rich.live import Live

            self._live = Live(console=self._console, auto_refresh=False, transient=True)
            self._live.start()
        self._live.update(self.lines(part), refresh=True)

    def lines(self, part: Part) -> Text:
        """Return what is drawn: what does not fit into the terminal's width is left out, or cut."""
        from rich.text import Text

        width, plain = self._console.width, self._console.options.ascii_only
        label = visible(self._label or part.about.algorithm)
        first = [f"{part.done:,}/{part.about.rounds:,}"]
        if part.rate:
            left = (part.about.rounds - part.done) / part.rate
            first += [f"{part.rate:,.0f} rounds/s" if part.rate >= 10 else f"{part.rate:.2g} rounds/s", _left(left)]
        else:
            first.append("compiling")
        bar = min(WIDEST_BAR, width - len(label) - sum(map(len, first)) - 3 * len(first))
        if bar >= 8:
            first.insert(0, _bar(part.done / part.about.rounds, bar, "#-" if plain else "━─"))
        rows = [_fitting([label, *first], width)]
        if self._last:
            figures = [f"{name} {value:.4g}" for name, value in self._last.items()]
            if part.about.private and math.isfinite(self._epsilon):
                figures.append(f"epsilon {self._epsilon:.4g}")
            room = min(WIDEST_CURVE, width - len(figures[0]) - 6)
            if room >= 8:
                figures.insert(0, sparkline(self._loss.columns(room), LETTERS if plain else BLOCKS))
            rows.append(("  " + _fitting(figures, max(0, width - 2)))[:width])
            if self._links:
                rows.append(("  " + self._links)[:width])
        return Text("\n".join(rows), no_wrap=True, overflow="crop", end="")

    def _look(self, part: Part) -> None:
        """Look at the privacy that was spent, and at late and lost links, now and then."""
        begun = time.perf_counter()
        delayed = "late" in part.sights.drawing().states
        if (part.about.private or delayed) and begun >= self._look_again:
            if part.about.private:
                self._epsilon, _ = part.sights.spent()
            self._links = _links(part) if delayed else ""
            now = time.perf_counter()
            self._look_again = now + (now - begun) / SHARE


def _links(part: Part) -> str:
    """Return the slowest link of the last round, and how many were late and lost, in words; empty: none was."""
    seen, drawing = part.sights.links(), part.sights.drawing()
    if not seen.states:
        return ""
    told = ", ".join(f"{len(places):,} {state}" for state, places in seen.states.items())
    if seen.slowest is None:
        return f"links: {told}"
    place, rounds = seen.slowest
    ends = (drawing.names[k] or str(k) for k in (drawing.senders[place], drawing.receivers[place]))
    return f"links: {told}; slowest {' to '.join(ends)}, {rounds} rounds"


def _fitting(parts: Sequence[str], width: int) -> str:
    """Return as many parts as fit into a width, the first cut if need be."""
    line = parts[0][:width]
    for part in parts[1:]:
        if len(line) + 2 + len(part) > width:
            break
        line += "  " + part
    return line


def _bar(share: float, width: int, letters: str) -> str:
    done = round(share * width)
    return letters[0] * done + letters[1] * (width - done)


def _left(seconds: float) -> str:
    whole = math.ceil(seconds)
    hours, minutes = divmod(whole // 60, 60)
    return f"{hours}:{minutes:02d}:{whole % 60:02d} left" if hours else f"{minutes}:{whole % 60:02d} left"
