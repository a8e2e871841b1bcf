"""Axes of a plot: where a value stands, which values get a tick, and how these are written."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

STEPS = (1.0, 2.0, 2.5, 5.0, 10.0)
RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
FAR = 300.0
"""Powers of ten that a logarithmic scale goes to."""
PREFIXES = ("", "k", "M", "G", "T", "P", "E")


class Scale(NamedTuple):
    """A range of values, linear or logarithmic."""

    low: float
    high: float
    log: bool

    @classmethod
    def over(cls, values: Iterable[NDArray[np.float64]], log: bool, padding: float) -> Self:
        """Return a scale that holds all finite values, on a logarithmic one those above 0.

        Args:
          values: Arrays of values.
          log: Whether the scale is logarithmic.
          padding: Room on each side, as a share of the range.
        """
        every = np.concatenate([np.ravel(each) for each in values])
        every = every[np.isfinite(every) & ((every > 0) | (not log))]
        every = every.clip(10.0**-FAR, 10.0**FAR) if log else every
        low, high = (float(every.min()), float(every.max())) if every.size else (1.0, 1.0)
        if high - low <= max(1e-9 * abs(high), 10.0**-FAR):  # all of one height, or almost: room around it
            low, high = low - (0.05 * abs(low) or 1.0), high + (0.05 * abs(high) or 1.0)
        if log:
            room = padding * (math.log10(high) - math.log10(low))
            return cls(10.0 ** max(math.log10(low) - room, -FAR), 10.0 ** min(math.log10(high) + room, FAR), log)
        return cls(low - padding * (high - low), high + padding * (high - low), log)

    def places(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return where values stand: 0 at the low end, 1 at the high one, NaN where they have no place."""
        low, high = (math.log(end) if self.log else end for end in (self.low, self.high))
        with np.errstate(divide="ignore", invalid="ignore"):
            there = np.log(values) if self.log else np.asarray(values, np.float64)
        return np.where(np.isfinite(there), (there - low) / (high - low), np.nan)

    def ticks(self, most: int = 6) -> list[float]:
        """Return round values within the range, at most so many."""
        few = not self.log or math.log10(self.high) - math.log10(self.low) < 0.7
        return self._even(most) if few else self._decades(most)

    def _even(self, most: int) -> list[float]:
        rough = (self.high - self.low) / most
        size = 10.0 ** math.floor(math.log10(rough))
        step = size * next(each for each in STEPS if each * size >= rough * (1 - 1e-9))
        first, last = math.ceil(self.low / step - 1e-9), math.floor(self.high / step + 1e-9)
        return [k * step for k in range(first, last + 1)]

    def _decades(self, most: int) -> list[float]:
        first, last = math.floor(math.log10(self.low)), math.ceil(math.log10(self.high))
        for parts in ((1, 2, 5), (1, 3), (1,)):
            found = [part * 10.0**k for k in range(first, last + 1) for part in parts]
            found = [value for value in found if self.low <= value <= self.high]
            if len(found) <= most:
                return found
        return found[:: -(-len(found) // most)]


def written(value: float) -> str:
    """Return the words of a tick: as short as they can be, thousands told apart.

    Args:
      value: A round number.

    Example:
      >>> from tacit.results.pages.scales import written
      >>> [written(value) for value in (0.0, 0.25, 1500.0, 1e-6, -3e7)]
      ['0', '0.25', '1,500', '10⁻⁶', '-3·10⁷']
    """
    if value == 0 or 1e-3 <= abs(value) < 1e6:
        text = f"{value:,.6f}".rstrip("0").rstrip(".")
        return "0" if text == "-0" else text
    factor, _, power = f"{value:.3g}".partition("e") if "e" in f"{value:.3g}" else f"{value:.2e}".partition("e")
    factor = factor.rstrip("0").rstrip(".") if "." in factor else factor
    ten = f"10{str(int(power)).translate(RAISED)}"
    return ten if factor == "1" else f"{factor}·{ten}"


def in_bits(value: float) -> str:
    """Return an amount of data in few letters.

    Args:
      value: Number of bits.

    Example:
      >>> from tacit.results.pages.scales import in_bits
      >>> [in_bits(value).split() for value in (96, 20_000, 1.25e9)]
      [['96', 'bit'], ['20', 'kbit'], ['1.25', 'Gbit']]
    """
    power = 0 if value < 1000 else min(int(math.log10(value)) // 3, len(PREFIXES) - 1)
    return f"{value / 1000**power:.3g}\N{NO-BREAK SPACE}{PREFIXES[power]}bit"
