"""Accounts of releases: sums of losses, budgets, and guarantees in words.

Budgets are enforced by sums only, which stay valid where a release is chosen in the light of earlier ones. The tighter
figures of `tacit.privacy.planning` speak of schedules that were fixed beforehand. docs/privacy.md states the theorems.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from tacit.core.checks import positive, proportion, whole_number
from tacit.core.contract import Adjacency
from tacit.core.errors import ConfigError, PrivacyError
from tacit.privacy.events import EVERYONE, Event, Loss, Series, Total, fresh, fresh_number
from tacit.privacy.versions import Versions

TOLERANCE = 1e-9
"""A budget is kept if it is exceeded by no more than this share of it, so that n charges of budget / n fit."""


def composed(events: Iterable[Event]) -> Loss:
    """Sum the loss of events in sequence, all on the same records.

    Args:
      events: Events of one adjacency; others are refused, since their numbers do not add.

    Returns:
      The exact sum, rounded up once.

    Example:
      >>> composed([Event("laplace", "laplace", 1.0, 4.0)] * 2)
      Loss(epsilon=0.5, rho=0.0625, delta=0.0)
    """
    events = list(events)
    found = {event.adjacency for event in events}
    if len(found) > 1:
        _refuse_mixed(*sorted(found))
    return functools.reduce(Total.plus, (Total.of(event.loss) for event in events), Total()).loss


def _refuse_mixed(first: str, second: str) -> None:
    raise PrivacyError(
        f"adjacency {first!r} and {second!r} in one account: numbers of different neighbour relations do not add; "
        "keep one account per adjacency"
    )


_Key = tuple[str | None, str]
"""Observer and label. Observer None: all together; EVERYONE: of events that everyone sees."""


class _Seen(NamedTuple):
    """A record in a block of correlated noise."""

    block: int = -1
    reads: int = 0
    place: int = 0
    """Of the last release that it took part in."""
    ratio: float = 0.0
    """What it was charged for."""
    label: str = ""
    """Of a series: the newest that is fresh, which is forgotten when the next comes."""

    def after(self, event: Event, series: Series, label: str) -> _Seen:
        """Return it with one more release; refuse what its charge does not cover."""
        if series.block > self.block:
            return _Seen(series.block, 1, series.place, event.ratio)
        apart = series.place - self.place
        covered = event.ratio <= self.ratio * (1 + TOLERANCE)
        if series.block == self.block and self.reads < series.reads and apart >= series.apart and covered:
            return self._replace(reads=self.reads + 1, place=series.place)
        raise PrivacyError(
            f"records {label!r} come again after {apart:,} release(s), for the {self.reads + 1}. time in one block of "
            f"correlated noise; it was fitted to {series.reads} time(s), {series.apart} release(s) apart, and as many "
            "copies in a batch as the first time: say so with `participation`"
        )


class Account:
    """Running sums of charges by observer and label, without the list of events.

    Events of different `records` compose in parallel (labels must name disjoint records), those of the same in
    sequence, and those of all records ("") come on top. Under adjacency "dataset" all are in sequence. An account is
    immutable. Charging costs O(1) and so does `spent` of EVERYONE; `spent` of one observer costs O(labels). Of `fresh`
    labels only the newest is kept.

    Example:
      >>> from dataclasses import replace
      >>> week = Event("laplace", "laplace", 1.0, 4.0, records="week 1")
      >>> Account().charged(week).charged(week).charged(replace(week, records="week 2"))
      Account(epsilon 0.5, rho 0.0625)
    """

    __slots__ = ("_adjacency", "_fresh", "_of_all", "_past", "_repeated", "_seen", "_sums", "_uses", "_worst")

    def __init__(self) -> None:
        self._adjacency: Adjacency | None = None
        self._sums: Versions[_Key, Total] = Versions({})
        self._seen: Versions[_Key, _Seen] = Versions({})
        """Series and label -> the record in its newest block; with an empty label the series' own last release."""
        self._of_all = Total()
        self._worst = Total()
        self._fresh: tuple[int, frozenset[str | None]] = (-1, frozenset())
        """Number of the newest fresh label, and the observers of its events."""
        self._past: Mapping[str | None, Total] = {}
        """Observer -> the worst of the fresh labels before it."""
        self._repeated = False
        self._uses = (0, 0)
        """Events of the newest fresh label, and of the one that has most."""

    @property
    def adjacency(self) -> Adjacency | None:
        """Unit of all losses; None before the first."""
        return self._adjacency

    @property
    def in_sequence(self) -> bool:
        """Whether anything was charged to all records, so that losses add up over releases."""
        return self._of_all != Total()

    @property
    def repeated(self) -> bool:
        """Whether anything was charged to records that may come again."""
        return self._repeated

    @property
    def releases_of_one(self) -> int:
        """Largest number of events that one fresh label has; 0 where none was charged."""
        return self._uses[1]

    def __repr__(self) -> str:
        return f"Account({self.spent().words()})"

    def charged(self, event: Event) -> Account:
        """Return the account after one more event."""
        if self._adjacency not in (None, event.adjacency):
            _refuse_mixed(str(self._adjacency), event.adjacency)
        labels = event.labels
        names: set[str | None] = {EVERYONE} if EVERYONE in event.observers else set(event.observers)
        loss, seen, series = Total.of(event.loss), self._taking_part(event), event.series and event.series.name
        changes = {
            (name, label): self._sums.get((name, label), Total()).plus(
                Total() if (record := seen.get((series, label))) is not None and record.reads > 1 else loss
            )
            for label in labels
            for name in names | {None}
        }
        after = Account()
        after._adjacency = event.adjacency
        after._seen = self._seen.extended(seen) if seen else self._seen
        after._fresh, after._past, gone = self._renewed(labels, names | {None})
        after._sums = self._sums.extended({**gone, **changes})
        after._repeated, after._uses = self._kinds(labels, event.loss)
        # Sums only grow, so that the worst label can be kept as a running maximum.
        after._of_all = changes.get((None, ""), self._of_all)
        after._worst = functools.reduce(Total.worst, (changes[None, label] for label in labels if label), self._worst)
        return after

    def _taking_part(self, event: Event) -> dict[_Key, _Seen | None]:
        """Return what is to be known of the records of an event with correlated noise; nothing for other noise."""
        series = event.series
        if series is None:
            return {}
        newest = (f"last of {series.name}", "")
        last = self._seen.get(newest, _Seen())
        if (series.block, series.place) <= (last.block, last.place):
            raise PrivacyError(
                f"release {series.place} of block {series.block} of the noise of {series.name} after release "
                f"{last.place} of block {last.block}: noise that goes back was drawn twice; go on from the newest store"
            )
        only = next((label for label in event.labels if fresh_number(label) is not None), "")
        found: dict[_Key, _Seen | None] = {(series.name, last.label): None} if only and last.label else {}
        for label in event.labels:
            found[series.name, label] = self._seen.get((series.name, label), _Seen()).after(event, series, label)
        return {**found, newest: _Seen(series.block, 1, series.place, label=only or last.label)}

    def _renewed(
        self, labels: tuple[str, ...], names: set[str | None]
    ) -> tuple[tuple[int, frozenset[str | None]], Mapping[str | None, Total], Mapping[_Key, None]]:
        """Return newest fresh label, the worst of those before, and the sums that are no longer needed."""
        number = fresh_number(labels[0]) if labels else None
        newest, known = self._fresh
        if number is None:
            return self._fresh, self._past, {}
        if number == newest:
            return (newest, known | names), self._past, {}
        if number < newest:
            raise PrivacyError(
                f"records {labels[0]!r} after {fresh(newest)!r}: fresh records come in growing numbers, and what was "
                "spent on earlier ones is no longer known apart; give records that come again a label of another form"
            )
        past, before = dict(self._past), fresh(newest)
        for name in known:
            together = self._sums.get((name, before), Total())
            if name not in (None, EVERYONE):
                together = together.plus(self._sums.get((EVERYONE, before), Total()))
            past[name] = past.get(name, Total()).worst(together)
        return (number, frozenset(names)), past, {(name, before): None for name in known}

    def _kinds(self, labels: tuple[str, ...], loss: Loss) -> tuple[bool, tuple[int, int]]:
        """Return whether records come again, and the events of fresh labels, after one more event that costs this."""
        if labels in ((), ("",)):
            return self._repeated, self._uses
        number, costs = fresh_number(labels[0]), loss != Loss()
        if number is None:
            return self._repeated or costs, self._uses
        count = (self._uses[0] if number == self._fresh[0] else 0) + costs
        return self._repeated, (count, max(count, self._uses[1]))

    def spent(self, observer: str = EVERYONE) -> Loss:
        """Return the loss of the dearest unit to an observer; EVERYONE stands for all observers together."""
        if observer == EVERYONE:
            return self._of_all.plus(self._worst).loss
        by_label: dict[str, Total] = {}
        for (name, label), total in self._sums.items():
            if name in (observer, EVERYONE):
                by_label[label] = by_label.get(label, Total()).plus(total)
        of_all = by_label.pop("", Total())
        past = [self._past.get(name, Total()) for name in (observer, EVERYONE)]
        return of_all.plus(functools.reduce(Total.worst, [*by_label.values(), *past], Total())).loss


@dataclass(frozen=True, repr=False)
class Budget:
    """A limit on what may be spent: `epsilon` alone (pure), `rho` alone (zCDP), or `epsilon` with `delta`.

    All are limits on sums, which makes them privacy filters: they hold under fully adaptive composition. With a delta,
    either the pure sum stays within epsilon or the zCDP sum within `rho_within(epsilon, delta - reserve)`.

    Args:
      epsilon: Largest pure loss, or loss at `delta`; above 0 and finite.
      rho: Largest zCDP loss; above 0 and finite.
      delta: Above 0 and below 1, with epsilon only; Gaussian noise needs it, or a rho.
      reserve: The part of delta set aside for noise of bounded support, from 0 (none) to delta. It is fixed beforehand:
        no proof covers a split that follows the releases.

    Example:
      >>> Budget(epsilon=1.0, delta=1e-5)
      Budget(epsilon=1.0, delta=1e-05)

    References: Rogers, Roth, Ullman and Vadhan (2016); Feldman and Zrnic (2021).
    """

    epsilon: float | None = None
    rho: float | None = None
    delta: float | None = None
    reserve: float = 0.0

    def __post_init__(self) -> None:
        if (self.epsilon is None) == (self.rho is None) or (self.rho is not None and self.delta is not None):
            raise ConfigError(
                f"budget epsilon={self.epsilon!r}, rho={self.rho!r}, delta={self.delta!r}: "
                "give epsilon alone, rho alone, or epsilon with delta"
            )
        for name, value in (("epsilon", self.epsilon), ("rho", self.rho)):
            if value is not None:
                positive(f"budget {name}", value)
        if self.delta is not None:
            proportion("budget delta", self.delta, "leave it out for none")
        if not 0 <= self.reserve <= (self.delta or 0.0):
            raise ConfigError(f"budget reserve={self.reserve!r}: expected a part of delta (delta={self.delta!r})")

    def __repr__(self) -> str:
        return f"Budget({', '.join(f'{name}={value!r}' for name, value in vars(self).items() if value)})"

    def words(self) -> str:
        """Return its settings, as a file has them."""
        return ", ".join(f"{name} = {value:g}" for name, value in vars(self).items() if value)

    @property
    def limit(self) -> Loss:
        """Largest sums that are admitted; infinite where a sum is not limited."""
        if self.rho is not None:
            return Loss(math.inf, self.rho, 0.0)
        assert self.epsilon is not None  # checked above
        if self.delta is None:
            return Loss(self.epsilon, math.inf, 0.0)
        from tacit.privacy.conversions import rho_within

        return Loss(self.epsilon, rho_within(self.epsilon, self.delta - self.reserve), self.reserve)

    def refusal(self, loss: Loss) -> str | None:
        """Return why a total loss is beyond the budget by more than `TOLERANCE` of it; None if it is within."""
        limit = self.limit
        pure, zcdp, beyond = (spent <= most * (1 + TOLERANCE) for spent, most in zip(loss, limit, strict=True))
        if not beyond:
            return (
                f"noise of bounded support costs delta = {loss.delta:g}, and {limit.delta:g} is set aside for it; "
                "use unbounded noise, or a budget with a larger reserve"
            )
        if self.delta is None:
            if pure and zcdp:
                return None
            name = "epsilon" if self.rho is None else "rho"
            total, most = getattr(loss, name), getattr(limit, name)
            return f"{name} would be {total:.6g}, above the budget of {most:.6g}; release less, or with more noise"
        if pure or zcdp:
            return None
        return (
            f"epsilon would be {loss.epsilon:.6g} and rho {loss.rho:.6g}; the budget epsilon = {limit.epsilon:.6g} at "
            f"delta = {self.delta:g} allows epsilon {limit.epsilon:.6g} or rho {limit.rho:.6g}; release less, or with "
            "more noise"
        )

    def left(self, loss: Loss) -> Loss:
        """Return the rest of the budget after a total loss: with a delta, either its epsilon or its rho; else both."""
        sums = zip(self.limit, loss, strict=True)
        return Loss(*(most if math.isinf(most) else max(0.0, most - gone) for most, gone in sums))


NEIGHBOURS: Mapping[Adjacency, tuple[str, str]] = {
    "record": ("record", "one record is replaced"),
    "component": ("component of a record's gradient", "one component of one record's clipped gradient differs"),
    "dataset": ("agent", "all records of one agent are replaced"),
}
"""Adjacency -> its unit, and the difference between two neighbouring data sets."""


@dataclass(frozen=True, repr=False)
class Guarantee:
    """A promise as every report shows it: epsilon, delta, rho, theorem and unit. Make one with `guarantee`."""

    epsilon: float
    delta: float
    rho: float
    """Of zCDP; infinite where none holds, as for noise of bounded support."""
    theorem: str
    adjacency: Adjacency
    unit: str

    def __repr__(self) -> str:
        at = "pure" if self.delta == 0 else f"delta = {self.delta:.4g}"
        return f"Guarantee({f'epsilon = {self.epsilon:.4g}, {at}' if self.private else 'not private'}, per {self.unit})"

    @property
    def private(self) -> bool:
        """Whether anything is promised."""
        return self.epsilon < math.inf and self.delta < 1

    def words(self) -> str:
        """Return one sentence with the unit, the neighbour relation and the theorem."""
        if not self.private:
            return f"not private: nothing is promised per {self.unit} ({self.theorem})"
        relation = f"two data sets are neighbours if {NEIGHBOURS[self.adjacency][1]}"
        kind = "pure" if self.delta == 0 else f"delta = {self.delta:.4g}"
        if self.delta > 0 and self.rho < math.inf:
            kind += f", rho = {self.rho:.4g}"
        return f"epsilon = {self.epsilon:.4g} per {self.unit} ({kind}; {relation}; {self.theorem})"


def guarantee(loss: Loss, adjacency: Adjacency, delta: float = 1e-5, uses: int = 1) -> Guarantee:
    """State what a total loss promises: a pure epsilon where there is one, else epsilon at `delta` by the tight rule.

    Args:
      loss: Total loss of one unit, as from `Account.spent` or `Ledger.spent`.
      adjacency: Unit of the loss.
      delta: Above 0 and below 1; used where no finite pure epsilon holds. `Loss.delta` comes on top of it.
      uses: Releases that any one unit took part in, from 1 on; for the wording alone.

    Returns:
      The guarantee; `words()` is its sentence.

    Example:
      >>> guarantee(Loss(math.inf, 0.125), "record", delta=1e-5)
      Guarantee(epsilon = 2.166, delta = 1e-05, per record)

    References: Canonne, Kamath and Steinke (2020), Prop. 12.
    """
    proportion("delta", delta, "such as 1e-5")
    whole_number("uses", uses)
    unit = NEIGHBOURS[adjacency][0]
    thing = {"record": "record", "component": "record", "dataset": "agent's data set"}[adjacency]
    times = f"each {thing} is released once" if uses == 1 else f"each {thing} is used in {uses:,} releases in sequence"
    if math.isinf(loss.rho) or loss.delta >= 1:
        return Guarantee(math.inf, 1.0, loss.zcdp, "values leave as they were computed", adjacency, unit)
    if loss == Loss():
        return Guarantee(0.0, 0.0, 0.0, "nothing that depends on the data was released", adjacency, unit)
    if loss.epsilon < math.inf:
        kind = "bounded Laplace noise" if loss.delta else "Laplace mechanism"
        return Guarantee(loss.epsilon, loss.delta, loss.zcdp, f"{kind}, {times}", adjacency, unit)
    total = loss.delta + delta
    if total >= 1:
        return Guarantee(math.inf, 1.0, loss.zcdp, "the noise is bounded too closely", adjacency, unit)
    theorem = f"Gaussian mechanism, zCDP converted at the best order, {times}"
    from tacit.privacy.conversions import tight

    return Guarantee(tight(loss.rho, delta), total, loss.zcdp, theorem, adjacency, unit)
