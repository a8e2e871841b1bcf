"""What is booked: one immutable event per release, and what it costs."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import NamedTuple, get_args

from tacit.contract import Adjacency, Distribution
from tacit.errors import ConfigError

EVERYONE = "*"
"""The observer who sees every release."""
_SMALLEST = math.ulp(0.0)
_FRESH = re.compile(r"fresh ([0-9]{1,18})")


def fresh(number: int) -> str:
    """Return the label of records that come in no other number: a stream that never repeats, counted upwards.

    An account forgets a fresh label when the next one comes, so that an endless stream takes no memory; to come back
    to an earlier one is refused.
    """
    return f"fresh {number}"


def fresh_number(label: str) -> int | None:
    """Return the number of a fresh label; None for any other."""
    found = _FRESH.fullmatch(label)
    return None if found is None else int(found[1])


class Loss(NamedTuple):
    """A loss of privacy: three sums, each of which adds up over releases (also where later ones depend on earlier).

    `epsilon` is pure (infinite for Gaussian noise), `rho` is zero-concentrated, and both hold except with probability
    `delta`, which is 0 but for noise of bounded support.
    """

    epsilon: float = 0.0
    rho: float = 0.0
    delta: float = 0.0

    def plus(self, other: Loss) -> Loss:
        """Return the loss of both, one after the other, rounded up: never below the exact sum."""
        return Loss(*map(_sum_rounded_up, self, other))

    def worst(self, other: Loss) -> Loss:
        """Return a loss that covers either: that of releases which touch different records."""
        return Loss(*map(max, self, other))


def _sum_rounded_up(a: float, b: float) -> float:
    total = a + b
    of_b = total - a
    lost = (a - (total - of_b)) + (b - of_b)  # exact (Knuth's two-sum); not a number where the sum is infinite
    return math.nextafter(total, math.inf) if lost > 0 else total


@dataclass(frozen=True)
class Event:
    """One release: the declaration that the noise was drawn from, what it touched and who sees it."""

    mechanism: str
    """Name of the noise."""
    distribution: Distribution | None
    """None: released as it is, which costs everything."""
    sensitivity: float
    """How far one record can move the value."""
    scale: float
    """Of the noise, per coordinate."""
    coordinates: int = 1
    """Numbers that were released."""
    bound: float | None = None
    """Bounded Laplace only."""
    adjacency: Adjacency = "record"
    """What its numbers speak of: see `Adjacency`."""
    records: str = ""
    """Which records it was computed from. Events of other records compose in parallel, events of the same one after
    the other; the empty string stands for all records. Under adjacency "dataset" it plays no part."""
    observers: tuple[str, ...] = (EVERYONE,)
    """Who sees it."""

    def __post_init__(self) -> None:
        if self.distribution is not None and self.distribution not in get_args(Distribution):
            known = ", ".join(get_args(Distribution))
            raise ConfigError(f"distribution {self.distribution!r}: expected one of {known}")
        if self.adjacency not in get_args(Adjacency):
            raise ConfigError(f"adjacency {self.adjacency!r}: expected one of {', '.join(get_args(Adjacency))}")
        if not (math.isfinite(self.sensitivity) and self.sensitivity >= 0):
            raise ConfigError(f"sensitivity {self.sensitivity!r}: expected a finite number from 0 on")
        if not (math.isfinite(self.scale) and self.scale >= 0):
            raise ConfigError(f"scale {self.scale!r}: expected a finite number from 0 on")
        if self.coordinates < 1:
            raise ConfigError(f"coordinates {self.coordinates!r}: expected a whole number from 1 on")
        if (self.distribution == "bounded_laplace") != (self.bound is not None):
            raise ConfigError(
                f"bound {self.bound!r} with {self.distribution!r}: bounded_laplace needs one, no other has"
            )
        if self.bound is not None and not self.bound > 0:
            raise ConfigError(f"bound {self.bound!r}: expected a number above 0")
        if not self.observers:
            raise ConfigError("observers is empty: what nobody sees is not a release")

    @property
    def ratio(self) -> float:
        """Sensitivity in units of the noise's scale."""
        if self.sensitivity == 0:
            return 0.0
        # What differs from 0 must not be rounded to it, here and below: it would be booked as free.
        return math.inf if self.scale == 0 else max(self.sensitivity / self.scale, _SMALLEST)

    @property
    def loss(self) -> Loss:
        """What it costs whoever sees it."""
        if self.distribution is None:
            return Loss(math.inf, math.inf)
        ratio = self.ratio
        rho = max(ratio * ratio / 2, _SMALLEST) if ratio else 0.0
        if self.distribution == "gaussian":
            return Loss(math.inf if ratio else 0.0, rho)
        # Laplace noise: epsilon is the ratio, and epsilon-DP is epsilon^2/2-zCDP (Bun and Steinke 2016, Prop. 1.4).
        return Loss(ratio, rho, self._chance_beyond_bound)

    @property
    def _chance_beyond_bound(self) -> float:
        """Probability of what a neighbour could never have released, for noise of bounded support.

        A coordinate outside the bound becomes an atom at value + bound / 2, which the neighbour puts elsewhere; and a
        strip as wide as the change lies outside the neighbour's support. The strips' sum is largest for one coordinate.
        """
        if self.bound is None or self.ratio == 0:
            return 0.0
        if self.scale == 0 or self.sensitivity >= self.bound:
            return 1.0
        outside = math.exp(-self.bound / self.scale)
        strip = math.exp((self.sensitivity - self.bound) / self.scale) * -math.expm1(-self.ratio) / 2
        return min(1.0, max(self.coordinates * outside + strip, _SMALLEST))
