"""Events: one immutable record per release, its loss of privacy, and exact sums of losses."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple, get_args

from tacit.core.checks import nonnegative, one_of, whole_number
from tacit.core.contract import Adjacency, Distribution
from tacit.core.errors import ConfigError

EVERYONE = "*"
"""The observer who sees every release."""
NO_RECORDS = "none"
"""Label of a batch that holds no record: its release costs nothing."""
_SMALLEST = math.ulp(0.0)
_UNIT = 1074
"""The smallest float is 2^-1074: every finite one is a whole number of these."""
_FRESH = re.compile(r"fresh ([0-9]{1,18})")
_ROWS = re.compile(r"rows( [0-9]{1,18}(-[0-9]{1,18})?)+")


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


def rows(numbers: Iterable[int]) -> str:
    """Return the label of numbered records, which may come again: each is charged by itself."""
    spans: list[list[int]] = []
    for number in sorted(set(numbers)):
        if spans and number == spans[-1][1] + 1:
            spans[-1][1] = number
        else:
            spans.append([number, number])
    if not spans:
        return NO_RECORDS
    return " ".join(["rows", *(str(first) if first == last else f"{first}-{last}" for first, last in spans)])


def labels_in(records: str) -> tuple[str, ...]:
    """Return the labels that sums are kept by: of numbered records one for each, of no records none."""
    if records == NO_RECORDS:
        return ()
    if not _ROWS.fullmatch(records):
        return (records,)
    spans = [[int(end) for end in span.split("-")] for span in records.split()[1:]]
    return tuple(f"row {number}" for span in spans for number in range(span[0], span[-1] + 1))


class Loss(NamedTuple):
    """A loss of privacy: three sums, each of which adds up over releases (also where later ones depend on earlier).

    Args:
      epsilon: Pure loss, from 0 to infinity (Gaussian noise).
      rho: Loss of zero-concentrated privacy (zCDP), from 0 to infinity (no noise).
      delta: Probability with which the other two do not hold, from 0 to 1; above 0 for noise of bounded support alone.

    Example:
      >>> Loss(0.5, 0.125).plus(Loss(0.25, 0.03125))
      Loss(epsilon=0.75, rho=0.15625, delta=0.0)
    """

    epsilon: float = 0.0
    rho: float = 0.0
    delta: float = 0.0

    @property
    def zcdp(self) -> float:
        """The rho of zCDP as such, which is what may be shown; infinite where `rho` holds but for `delta` only."""
        return math.inf if self.delta > 0 else self.rho

    def plus(self, other: Loss) -> Loss:
        """Return the loss of both, one after the other, rounded up: never below the exact sum.

        Args:
          other: Loss of the other releases.
        """
        return Total.of(self).plus(Total.of(other)).loss

    def worst(self, other: Loss) -> Loss:
        """Return a loss that covers either: that of releases which touch different records.

        Args:
          other: Loss of the other releases.
        """
        return Loss(*map(max, self, other))

    def words(self) -> str:
        """Return the finite sums in words."""
        known = [f"{name} {value:.4g}" for name, value in zip(self._fields[:2], self, strict=False) if value < math.inf]
        if self.delta > 0:
            known.append(f"delta {self.delta:.4g}")
        return ", ".join(known) or "no finite loss"


class Total(NamedTuple):
    """An exact sum of losses, whatever the order: each number in units of 2^-1074; None stands for infinity."""

    epsilon: int | None = 0
    rho: int | None = 0
    delta: int | None = 0

    @classmethod
    def of(cls, loss: Loss) -> Total:
        """Return the sum of one loss."""
        return cls(*map(_in_units, loss))

    def times(self, count: int) -> Total:
        """Return the sum of so many alike, one at least."""
        return Total(*(None if number is None else number * count for number in self))

    def plus(self, other: Total) -> Total:
        """Return the sum of both."""
        return Total(*(None if a is None or b is None else a + b for a, b in zip(self, other, strict=True)))

    def worst(self, other: Total) -> Total:
        """Return the larger of each number."""
        return Total(*(None if a is None or b is None else max(a, b) for a, b in zip(self, other, strict=True)))

    @property
    def loss(self) -> Loss:
        """The sum in floats, rounded up once."""
        return Loss(*(math.inf if number is None else _rounded_up(number) for number in self))


def _in_units(number: float) -> int | None:
    if not number < math.inf:  # what is no number promises nothing, as what is infinite
        return None
    numerator, denominator = max(number, 0.0).as_integer_ratio()
    return (numerator << _UNIT) // denominator  # exact: the denominator is a power of two, at most 2^1074


def _rounded_up(units: int) -> float:
    shift = max(0, units.bit_length() - 53)
    top = -(-units >> shift)
    try:
        return math.ldexp(top, shift - _UNIT)
    except OverflowError:
        return math.inf


class Series(NamedTuple):
    """The place of a release among those that share correlated noise; what all of them cost a record is booked once.

    Args:
      name: Of the noise: one agent's and one phase's.
      block: Block of releases with one C, from 0 on.
      place: Of the release in its block, from 1 on.
      reads: Releases of a block that one record may take part in.
      apart: Least distance between two of them.
    """

    name: str
    block: int
    place: int
    reads: int
    apart: int


@dataclass(frozen=True, repr=False)
class Event:
    """One release: the declaration that its noise was drawn from, its records and its observers.

    Runtimes make events with ``tacit.privacy.charges.event_of``; make one by hand to book a release of your own.

    Args:
      mechanism: Name of the noise, for listings.
      distribution: "laplace", "gaussian" or "bounded_laplace"; None: released as it is, which costs everything.
      sensitivity: Largest change of the value by one unit, in the noise's norm (Laplace l1, Gaussian l2), from 0 on; at
        0 the release is free.
      scale: Scale (Laplace) or standard deviation (Gaussian) per coordinate, from 0 on; at 0 it costs everything.
      coordinates: Numbers that were released, from 1 on.
      bound: Bounded Laplace only: half-width of the support in units of the scale, above 0.
      adjacency: Unit of the loss: "record", "component" or "dataset".
      records: Label of the records behind the value: a name, `fresh` or numbered `rows`. Events of other records
        compose in parallel, events of the same in sequence; "" stands for all records, "none" for no record. Under
        adjacency "dataset" it plays no part.
      observers: Names of all that see it; `EVERYONE` by default.
      calibration: Declared sensitivity / scale of calibrated noise, free of rounding; None: their quotient.
      series: Of correlated noise: its place in it. Sensitivity and loss are then those of a block, and a record that
        comes again in it is not charged again.

    Example:
      >>> Event("laplace", "laplace", sensitivity=1.0, scale=10.0, records="week 1")
      Event(laplace, sensitivity 1, scale 10, records week 1: epsilon 0.1, rho 0.005)
    """

    mechanism: str
    distribution: Distribution | None
    sensitivity: float
    scale: float
    coordinates: int = 1
    bound: float | None = None
    adjacency: Adjacency = "record"
    records: str = ""
    observers: tuple[str, ...] = (EVERYONE,)
    calibration: float | None = None
    series: Series | None = None

    def __post_init__(self) -> None:
        if self.distribution is not None:
            one_of("distribution", self.distribution, get_args(Distribution))
        one_of("adjacency", self.adjacency, get_args(Adjacency))
        nonnegative("sensitivity", self.sensitivity)
        nonnegative("scale", self.scale)
        whole_number("coordinates", self.coordinates)
        if (self.distribution == "bounded_laplace") != (self.bound is not None):
            raise ConfigError(
                f"bound {self.bound!r} with {self.distribution!r}: bounded_laplace needs one, no other has"
            )
        if self.bound is not None and not self.bound > 0:
            raise ConfigError(f"bound {self.bound!r}: expected a number above 0")
        if self.calibration is not None and not self._is_calibrated:
            raise ConfigError(
                f"calibration {self.calibration!r}: expected the quotient of sensitivity and scale, "
                f"{self.sensitivity!r} / {self.scale!r}"
            )
        if self.series is not None and (self.distribution, self.adjacency, self.observers) != (
            "gaussian",
            "record",
            (EVERYONE,),
        ):
            raise ConfigError(f"{self.series!r}: only gaussian noise that everyone sees is booked so, record by record")
        if not self.observers:
            raise ConfigError("observers is empty: what nobody sees is not a release")

    def __repr__(self) -> str:
        of = f"records {self.records}" if self.records else "all records"
        declared = f"{self.mechanism}, sensitivity {self.sensitivity:g}, scale {self.scale:g}, {of}"
        return f"Event({declared}: {self.loss.words()})"

    @property
    def _is_calibrated(self) -> bool:
        """Whether the declared calibration is the quotient of sensitivity and scale."""
        wanted = (self.calibration or 0.0) * self.scale
        return self.sensitivity == 0 or abs(wanted - self.sensitivity) <= 1e-9 * self.sensitivity

    @property
    def labels(self) -> tuple[str, ...]:
        """Labels that it is booked under: see `labels_in`."""
        return ("",) if self.adjacency == "dataset" else labels_in(self.records)

    @property
    def ratio(self) -> float:
        """Sensitivity in units of the noise's scale."""
        if self.sensitivity == 0:
            return 0.0
        if self.calibration is not None:
            return self.calibration
        # What differs from 0 must not be rounded to it, here and below: it would be booked as free.
        return math.inf if self.scale == 0 else max(self.sensitivity / self.scale, _SMALLEST)

    @property
    def loss(self) -> Loss:
        """Loss of privacy to an observer that sees it."""
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
        """Probability of outputs that a neighbouring data set could never have given, for noise of bounded support.

        A coordinate outside the bound becomes an atom at value + bound / 2, which the neighbour puts elsewhere; and a
        strip as wide as the change lies outside the neighbour's support. The strips' sum is largest for one coordinate.
        Under `component` one coordinate moves: the others' atoms lie where the neighbour has them, and what is said is
        exact (docs/privacy.md).
        """
        if self.bound is None or self.ratio == 0:
            return 0.0
        if self.ratio >= self.bound:
            return 1.0
        outside = math.exp(-self.bound)
        strip = math.exp(self.ratio - self.bound) * -math.expm1(-self.ratio) / 2
        atoms = 1 if self.adjacency == "component" else self.coordinates
        return min(1.0, max(atoms * outside + strip, _SMALLEST))
