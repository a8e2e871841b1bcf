"""Charges: the event of a release and the records that it is charged to, decided here for every runtime.

The simulator, peers in memory, swarms and deployed peers all make their events here, of three things: the phase's
release (settled before the run), the round's declaration, and the records of the batch.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple, Protocol

from tacit.core.contract import Adjacency, Mechanism, PrivacyStatement
from tacit.privacy.events import EVERYONE, NO_RECORDS, Event, Series, fresh, rows


class Release(Protocol):
    """The release of a phase, as the runtime settles it before the run."""

    @property
    def mechanism(self) -> Mechanism:
        """Its noise."""

    @property
    def coordinates(self) -> int:
        """How many numbers are released."""

    @property
    def from_data(self) -> bool:
        """Whether it depends on data."""

    @property
    def phase(self) -> int:
        """Number of the phase, from 0 on."""

    @property
    def in_sequence(self) -> bool:
        """Whether it is charged to every record, those of other rounds too."""


class Held(NamedTuple):
    """The records that a batch holds."""

    records: str
    """Their label, as in `Event.records`."""
    copies: int = 1
    """How often a record is in the batch at most: the mean moves by that many times the declared sensitivity."""

    @classmethod
    def of(cls, numbers: Iterable[int] | None, round_: int) -> Held:
        """Return what a round's batch holds, by the numbers of its records (-1: an empty place).

        None: records that are in no other batch, counted by the round.
        """
        if numbers is None:
            return cls(fresh(round_))
        counts = Counter(int(number) for number in numbers if number >= 0)
        return cls(rows(counts), max(counts.values())) if counts else cls(NO_RECORDS)


def charges_all(statement: PrivacyStatement, adjacency: Adjacency) -> bool:
    """Whether every release is charged to every record."""
    return statement.composition != "parallel" or adjacency == "dataset"


def series_of(release: Release, count: int) -> Series | None:
    """Return the place of an agent's next release in its correlated noise, after `count` of them."""
    correlation = release.mechanism.correlation
    if correlation is None:
        return None
    block, place = divmod(count, correlation.rounds)
    return Series(f"phase {release.phase}", block, place + 1, correlation.reads, correlation.apart)


def event_of(
    release: Release, round_: int, sensitivity: float, scale: float, held: Held, series: Series | None = None
) -> Event:
    """Return what is booked for a release of one agent; everyone sees it, since what leaves is passed on in mixtures.

    What calibrated noise costs follows from its ratio in this round alone, in double precision; of other noise it is
    sensitivity / scale. A value that no record can move costs nothing. Numbers that are none promise nothing.
    """
    mechanism = release.mechanism
    copies = 1 if mechanism.adjacency == "dataset" else held.copies
    ratio = mechanism.ratio_in(round_)
    known = mechanism.distribution is not None and all(map(math.isfinite, (sensitivity, scale, ratio or 0.0)))
    return Event(
        mechanism.name,
        mechanism.distribution,
        sensitivity=copies * sensitivity if known else 1.0,
        scale=scale if known else 0.0,
        coordinates=max(1, release.coordinates),
        bound=mechanism.bound,
        adjacency=mechanism.adjacency,
        records="" if release.in_sequence else held.records,
        observers=(EVERYONE,),
        calibration=None if ratio is None or not known else copies * ratio,
        series=series if known else None,
    )
