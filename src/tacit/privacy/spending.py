"""Privacy spent by a whole run, from the declarations of its releases: the figures of every table and report."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacit.core.contract import Adjacency, Correlation, PrivacyStatement
from tacit.core.errors import PrivacyError
from tacit.privacy.accounting import NEIGHBOURS, Guarantee, guarantee
from tacit.privacy.charges import Held, Release, charges_all, event_of
from tacit.privacy.events import Event, Loss, Total

DELTA = 1e-5
"""At which Gaussian noise is shown."""


class Reading(NamedTuple):
    """An agent's records by round, and the rounds in which it released something of them."""

    records: NDArray[np.int64] | None
    """(rounds, places) numbers of the records in its batches, as `Stream.records`; None: no record comes twice."""
    took_part: NDArray[np.bool_] | None = None
    """(rounds, phases) whether it released anything; None: always."""


class Spent(NamedTuple):
    """The loss of a run's dearest record."""

    guarantee: Guarantee | None
    """None: the method makes no promise."""
    reads: int
    """Most reads of a record in rounds that released something, counted twice where it is twice in one."""


@dataclass(frozen=True, repr=False)
class RunPrivacy:
    """A method's privacy statement, and the loss of one run of it (`run.privacy`)."""

    statement: PrivacyStatement
    guarantee: Guarantee | None = None
    """None: the method makes no promise."""
    reads: int | None = None
    """In how many rounds a record was read at most, counted twice where one round reads it twice."""
    public: tuple[str, ...] = ()
    """Quantities learnt from all rows before the run and declared public, so that they are not charged."""

    def __repr__(self) -> str:
        found = "not private" if self.guarantee is None else repr(self.guarantee)[len("Guarantee(") : -1]
        return f"RunPrivacy({found})"

    @property
    def private(self) -> bool:
        """Whether anything is promised."""
        return self.guarantee is not None and self.guarantee.private

    def words(self) -> str:
        """Return the loss, its assumptions and the source's claim in sentences."""
        statement = self.statement
        source = f"The source says: {_sentence(statement.text_claims, capital=False)}"
        if self.guarantee is None:
            return f"{_sentence(statement.holds)} {source}"
        spent = _sentence(self.guarantee.words())
        if not self.guarantee.private:
            return f"{spent} {source}"
        assumed = f" Assumed: {'; '.join(statement.assumptions)}." if statement.assumptions else ""
        public = f" Declared public, and not charged: {'; '.join(self.public)}." if self.public else ""
        return f"{spent} {_sentence(statement.holds)}{assumed}{public} {source}"

    def summary(self) -> dict[str, Any]:
        """Return all of it as it stands in summary.json; what is infinite or unknown is None."""
        statement, found = self.statement, self.guarantee
        return {
            "private": self.private,
            "words": self.words(),
            "epsilon": None if found is None else _finite(found.epsilon),
            "delta": found.delta if found is not None and found.private else None,
            "rho": None if found is None else _finite(found.rho),
            "theorem": "none" if found is None else found.theorem,
            "unit": "none" if found is None else found.unit,
            "adjacency": "none" if found is None else NEIGHBOURS[found.adjacency][1],
            "composition": "none" if found is None else composition_in_words(statement, found.adjacency),
            "assumptions": list(statement.assumptions),
            "text_claims": statement.text_claims,
            "holds": statement.holds,
            "reads": self.reads,
            "public": list(self.public),
        }


def spent_in_run(
    statement: PrivacyStatement,
    releases: Sequence[Release],
    ratios: ArrayLike,
    readings: Sequence[Reading],
    delta: float = DELTA,
) -> Spent:
    """Return the guarantee of a run's releases together, to the dearest record of the dearest agent.

    Each release costs, and is charged, as `tacit.privacy.charges` says, as in a peer: the outcome is the largest of the
    agents' ledgers, to the bit.

    Args:
      statement: The method's privacy statement.
      releases: One per phase.
      ratios: (rounds, phases) sensitivity of the dearest release in units of its noise's scale; 0: none was made.
      readings: One per agent.
      delta: Above 0 and below 1, for Gaussian noise, where the mechanism does not say at which it was asked for.
    """
    table = np.asarray(ratios, np.float64)
    reads = max(_most_read(releases, reading) for reading in readings)
    if not statement.private:
        return Spent(None, reads)
    charged = [(phase, release) for phase, release in enumerate(releases) if release.from_data]
    _one_correlation([release for _, release in charged])
    adjacency = _one_adjacency([release for _, release in charged] or releases)
    for phase, release in charged:
        if release.mechanism.distribution is None:
            return Spent(_nothing(f"phase {phase} releases values as they were computed", adjacency), reads)
        if release.mechanism.clip is None and np.isinf(table[:, phase]).any():
            reason = f"phase {phase} adds noise, but no clip bounds what a record can change"
            return Spent(_nothing(reason, adjacency), reads)
        unprotected = np.flatnonzero(~np.isfinite(table[:, phase]))
        if unprotected.size:
            return Spent(_nothing(f"no noise was added in round {unprotected[0] + 1:,}", adjacency), reads)
    sums = _dearest([_Account(releases, table, reading) for reading in readings])
    total = functools.reduce(Total.worst, (sum_ for sum_, _ in sums), Total())
    uses = max((count for _, count in sums), default=0)
    asked, shared = (charged[0][1].mechanism.delta, charged[0][1].mechanism.correlation) if charged else (None, None)
    found = guarantee(total.loss, adjacency, delta if asked is None else asked, max(1, uses))
    if shared is not None:
        theorem = f"Gaussian mechanism on blocks of {shared.rounds:,} releases with correlated noise, zCDP"
        found = replace(found, theorem=f"{theorem} converted at the best order, each record charged once for a block")
    return Spent(found, reads)


class _Account:
    """The account of one agent, with rounds that cost the same taken together."""

    def __init__(self, releases: Sequence[Release], ratios: NDArray[np.float64], reading: Reading) -> None:
        records, took_part = reading
        rounds = len(ratios)
        there = ratios > 0 if took_part is None else (ratios > 0) & took_part
        self._copies = np.ones(rounds, np.int64) if records is None else _most_copies(records)
        self._records = records
        calibrated = [k for k, r in enumerate(releases) if r.mechanism.ratio is not None and r.mechanism.decay != 1]
        # Rounds are alike in what they cost if these are the same; noise that decays is the same in no two of them.
        marks = [np.where(there, ratios, 0), self._copies[:, None]]
        if calibrated:
            marks.append(np.arange(rounds)[:, None])
        _, first, self._kind = np.unique(np.concatenate(marks, axis=1), axis=0, return_index=True, return_inverse=True)
        self._kind = self._kind.reshape(-1)
        made = [self._events(releases, ratios[t], there[t], int(t)) for t in first]
        self._totals = [functools.reduce(Total.plus, (Total.of(e.loss) for e in events), Total()) for events in made]
        self._uses = np.array([sum(event.ratio > 0 for event in events) for events in made])
        self._in_sequence = any(release.in_sequence for release in releases if release.from_data)
        self._first = records
        if records is not None:
            charging = [
                _first_reads(release.mechanism.correlation, records, there[:, phase], self._copies)
                for phase, release in enumerate(releases)
                if release.mechanism.correlation is not None and release.from_data
            ]
            # Phases in which an agent took part in other rounds: what charges a record in one of them counts for all.
            self._first = functools.reduce(np.maximum, charging) if charging else records

    def _events(
        self, releases: Sequence[Release], ratios: NDArray[np.float64], there: NDArray[np.bool_], t: int
    ) -> list[Event]:
        held = Held("", int(self._copies[t]))
        return [
            event_of(release, t + 1, release.mechanism.ratio_in(t + 1) or float(ratios[k]), 1.0, held)
            for k, release in enumerate(releases)
            if there[k] and release.from_data
        ]

    def by_record(self) -> Iterator[NDArray[np.int64]]:
        """Yield for each record (or all of them at once, where they are charged for everything) its rounds' kinds."""
        if self._in_sequence:
            yield self._kind
        elif self._records is None:
            yield from np.unique(self._kind)[:, None]
        else:
            assert self._first is not None
            round_, place = np.nonzero(self._first >= 0)
            pairs = np.unique(np.stack([self._first[round_, place], round_], axis=1), axis=0)
            yield from np.split(self._kind[pairs[:, 1]], np.flatnonzero(np.diff(pairs[:, 0])) + 1)

    def rough(self, kinds: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the sum of some rounds' losses in floats."""
        return np.asarray(self._losses[kinds].sum(axis=0))

    @functools.cached_property
    def _losses(self) -> NDArray[np.float64]:
        return np.array([total.loss for total in self._totals], np.float64).reshape(-1, len(Loss._fields))

    def exact(self, kinds: NDArray[np.int64]) -> tuple[Total, int]:
        """Return the sum of some rounds' losses, and of how many releases it is."""
        found, counts = np.unique(kinds, return_counts=True)
        total = Total()
        for kind, count in zip(found.tolist(), counts.tolist(), strict=True):
            total = total.plus(self._totals[kind].times(count))
        return total, int(self._uses[kinds].sum())


def _first_reads(
    correlation: Correlation, records: NDArray[np.int64], there: NDArray[np.bool_], copies: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return the records of rounds that charge them: in a block of correlated noise, the first that reads a record.

    A record that is read more often than the noise is fitted to is refused, as by an agent's account.
    """
    block, place = np.divmod(np.cumsum(there) - 1, correlation.rounds)
    round_, column = np.nonzero((records >= 0) & there[:, None])
    number = records[round_, column]
    order = np.lexsort((round_, block[round_], number))
    round_, column, number = round_[order], column[order], number[order]
    once = np.ones(round_.size, bool)
    once[1:] = (np.diff(number) != 0) | (np.diff(round_) != 0)  # copies in one batch are one read
    round_, column, number = round_[once], column[once], number[once]
    again = np.zeros(round_.size, bool)
    again[1:] = (np.diff(number) == 0) & (np.diff(block[round_]) == 0)
    begins = np.maximum.accumulate(np.where(again, 0, np.arange(round_.size)))
    reads = np.arange(round_.size) - begins + 1
    apart = np.diff(place[round_], prepend=0)
    wrong = again & (
        (reads > correlation.reads) | (apart < correlation.apart) | (copies[round_] > copies[round_[begins]])
    )
    if np.any(wrong):
        k = int(np.argmax(wrong))
        raise PrivacyError(
            f"record {number[k]} is read for the {reads[k]}. time in round {round_[k] + 1:,}, {apart[k]:,} release(s) "
            f"after the last; the noise is fitted to {correlation.reads} read(s) of a record, {correlation.apart} "
            "release(s) apart, in as many places of a batch as at first: say so with participation = (reads, apart)"
        )
    first = np.full(records.shape, -1, np.int64)
    first[round_[~again], column[~again]] = number[~again]
    return first


def _most_read(releases: Sequence[Release], reading: Reading) -> int:
    """Return how often a record was read at most in rounds that released something of the data."""
    records, took_part = reading
    from_data = [release.from_data for release in releases]
    there = slice(None) if took_part is None else np.flatnonzero(np.any(took_part[:, from_data], axis=1))
    if records is None:
        return int(took_part is None or np.any(took_part[:, from_data]))
    numbers = records[there]
    return int(np.unique(numbers[numbers >= 0], return_counts=True)[1].max(initial=0))


def _most_copies(records: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return (rounds,) how often a record stands in a batch at most."""
    ordered = np.sort(records, axis=1)
    run = np.ones(ordered.shape, np.int64)
    for place in range(1, ordered.shape[1]):
        again = (ordered[:, place] == ordered[:, place - 1]) & (ordered[:, place] >= 0)
        run[:, place] = np.where(again, run[:, place - 1] + 1, 1)
    return np.asarray(run.max(axis=1))


def _dearest(accounts: Sequence[_Account]) -> list[tuple[Total, int]]:
    """Return the exact sums of the records that may cost most; which these are, floats tell well enough."""
    rough = [(account, kinds, account.rough(kinds)) for account in accounts for kinds in account.by_record()]
    if not rough:
        return []
    table = np.array([sums for _, _, sums in rough])
    most = np.max(table, axis=0)
    near = np.any(table >= most * (1 - 1e-9), axis=1, where=np.isfinite(most))
    near[np.argmax(table, axis=0)] = True  # of numbers that are infinite one is enough
    chosen = [rough[k] for k in np.flatnonzero(near)]
    once = {(id(account), np.sort(kinds).tobytes()): (account, kinds) for account, kinds, _ in chosen}
    return [account.exact(kinds) for account, kinds in once.values()]


def composition_in_words(statement: PrivacyStatement, adjacency: Adjacency) -> str:
    """Say how losses add up."""
    if charges_all(statement, adjacency):
        return "sequential: every release is charged to every record"
    return "parallel: each release is charged to the records of its round alone"


def _nothing(reason: str, adjacency: Adjacency) -> Guarantee:
    return replace(guarantee(Loss(math.inf, math.inf), adjacency), theorem=reason)


def _one_adjacency(releases: Sequence[Release]) -> Adjacency:
    found = sorted({release.mechanism.adjacency for release in releases})
    if len(found) > 1:
        raise PrivacyError(
            f"phases with adjacency {' and '.join(map(repr, found))} in one run: their losses do not add; give every "
            "mechanism of the algorithm the same adjacency"
        )
    return found[0]


def _one_correlation(releases: Sequence[Release]) -> None:
    found = {release.mechanism.correlation for release in releases}
    if len(found) > 1:
        raise PrivacyError(
            "phases with independent and with correlated noise, or with two kinds of it, in one run; give every "
            "mechanism of the algorithm the same"
        )


def _sentence(words: str, capital: bool = True) -> str:
    words = words.strip().rstrip(".")
    return (words[:1].upper() + words[1:] if capital else words) + "."


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
