"""Schedules of a file: which links are up and which agents or members are there, in every round.

In a job, on which all peers agree::

    [dynamics]        kind = "link_drop", "rotation" or "timetable", and its parameters
    [[availability]]  members, first, last, period, rounds, probability

An experiment has the same as [graph.dynamics] and [[graph.availability]], with numbers of `agents` in place of names.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import jax
import numpy as np
from pydantic import Field, model_validator

from tacit import graphs, runtime  # graphs are lazy: a job without a schedule loads none
from tacit.config.choices import Choice, choose
from tacit.config.sections import Place, Section, check, located, toml_text
from tacit.core.contract import Algorithm
from tacit.core.errors import ConfigError, GraphError
from tacit.core.limits import MOST_ROUNDS
from tacit.privacy.noise import hides

if TYPE_CHECKING:
    from tacit.graphs import Availability, LinkDrop, Schedule, Timetable

LEAST_PROBABILITY = 1e-3
"""Of being there in a round: a peer looks for its next round one after the other."""


class ShiftSettings(Section):
    """A table of availability: in which rounds some are there; they rest in all others."""

    first: int = Field(default=1, ge=1, le=MOST_ROUNDS)
    last: int | None = Field(default=None, ge=1, le=MOST_ROUNDS)
    """Without it there is no last round."""
    period: int = Field(default=1, ge=1, le=MOST_ROUNDS)
    """Rounds after which it repeats, counted from the first."""
    rounds: int = Field(default=1, ge=1, le=MOST_ROUNDS)
    """Rounds of each period in which they are there, at its beginning."""
    probability: float = Field(default=1.0, ge=LEAST_PROBABILITY, le=1)
    """Of being there in such a round, drawn from the seed."""

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if self.last is not None and self.last < self.first:
            raise ValueError(f"last = {self.last} is before first = {self.first}; expected a round after it")
        if ("period" in self.model_fields_set) != ("rounds" in self.model_fields_set):
            raise ValueError("period and rounds go together, as period = 24 and rounds = 8; give both, or neither")
        if self.rounds > self.period:
            raise ValueError(f"rounds = {self.rounds} of a period of {self.period}; expected 1 to {self.period}")
        return self


class AgentShift(ShiftSettings):
    """A table of [[graph.availability]]."""

    agents: list[int] | None = Field(default=None, min_length=1)
    """Whom it is about, by number from 0; without it all whom no other table names."""


class MemberShift(ShiftSettings):
    """A table of [[availability]]."""

    members: list[str] | None = Field(default=None, min_length=1)
    """Whom it is about; without it all whom no other table names."""


def availability_of_agents(tables: Sequence[Any], place: Place) -> list[AgentShift] | None:
    """Return the tables of an experiment's [[graph.availability]]; None where it is a list of probabilities."""
    if not any(isinstance(table, dict) for table in tables):
        return None
    for table in tables:
        if not isinstance(table, dict):
            raise ConfigError(f"{place} holds {toml_text(table)}: expected tables only, or probabilities only")
    return [check(AgentShift, table, place) for table in tables]


def shifts_of(rules: Sequence[tuple[Sequence[int] | None, ShiftSettings]], size: int, place: Place) -> Availability:
    """Return who of a role of that size is there when, given whom each table is about (None: all others)."""
    found: dict[int, ShiftSettings] = {}
    for ids, rule in rules:
        for k in ids or ():
            if not 0 <= k < size:
                raise ConfigError(f"{place} names agent {k}: expected numbers from 0 to {size - 1}")
            if k in found:
                raise ConfigError(f"{place} names {k} twice; put all that is about one into one table")
            found[k] = rule
    others = [rule for ids, rule in rules if ids is None]
    if len(others) > 1:
        raise ConfigError(
            f"{place} has {len(others)} tables about all others; make them one, or say whom each is about"
        )
    each = [found.get(k, others[0] if others else ShiftSettings()) for k in range(size)]
    shifts = graphs.Shifts.of(
        size,
        first=[rule.first for rule in each],
        last=[rule.last or MOST_ROUNDS for rule in each],
        period=[rule.period for rule in each],
        rounds=[rule.rounds for rule in each],
    )
    return graphs.Availability.of(size, [rule.probability for rule in each], shifts=shifts)


@dataclass(frozen=True)
class NamedTimetable:
    """A timetable by the names of members.

    Args:
      rounds: For each round of the period its links, as [sender, receiver].
      symmetric: Whether a pair stands for both directions.
    """

    rounds: list[list[list[str]]]
    symmetric: bool = False

    def numbered(self, names: Sequence[str]) -> Timetable:
        """Return it by the numbers of these members."""
        for name in (name for links in self.rounds for link in links for name in link):
            if name not in names:
                raise ConfigError(
                    f"rounds: {name!r} is not a member; expected [sender, receiver] of {', '.join(names)}"
                )
        rounds = [[[names.index(name) for name in link] for link in links] for links in self.rounds]
        return graphs.Timetable(rounds, self.symmetric)


def _kinds() -> Mapping[str, Any]:
    """Return the kinds of [dynamics] of a job: those of which both ends of a link know by themselves if it is up."""
    return {"link_drop": graphs.LinkDrop, "rotation": graphs.Rotation, "timetable": NamedTimetable}


@dataclass(frozen=True, eq=False)
class JobSchedule:
    """Dynamics and availability of a job."""

    dynamics: LinkDrop | Schedule | None
    availability: Mapping[str, Availability]
    """Role -> who of it is there when; of a role that is left out, everybody always."""
    place: Place
    described: Mapping[str, Any]
    """Both tables as plain data, defaults spelt out."""
    draws: str
    """Digest of draws from the job's seed, where there are any: peers whose libraries draw otherwise do not talk."""

    def on(self, source: str, target: str) -> LinkDrop | Schedule | None:
        """Return the dynamics of links from one role to another; turns are taken within one role."""
        return None if source != target and isinstance(self.dynamics, graphs.Schedule) else self.dynamics

    def varies(self, source: str, target: str) -> bool:
        """Whether links from one role to another come and go."""
        return self.on(source, target) is not None or bool(self.availability.keys() & {source, target})


def job_schedule(
    data: Mapping[str, Any], members: Mapping[str, tuple[str, ...]], algorithm: Algorithm, seed: int, path: Path
) -> JobSchedule:
    """Read [dynamics] and [[availability]] of a job; refuse those that its method cannot have."""
    place = Place(str(path), "[dynamics]")
    table, rules = data.get("dynamics"), data.get("availability")
    if table is not None and not isinstance(table, dict):
        raise ConfigError(f"{path}: dynamics = {toml_text(table)} is no table; write [dynamics] on a line of its own")
    choice = None if table is None else choose(_kinds(), table, place)
    tables = _tables(rules, Place(str(path), "[[availability]]"))
    refuse_method(algorithm, place if choice is not None else Place(str(path), "[[availability]]"))
    dynamics = None if choice is None else _made(choice, members, algorithm)
    there = _there(tables, members, Place(str(path), "[[availability]]"))
    random = isinstance(dynamics, graphs.LinkDrop) or any(np.any(a.probability < 1) for a in there.values())
    described = {
        **({} if choice is None else {"dynamics": choice.settings()}),
        **({} if not tables else {"availability": [table.model_dump(exclude_none=True) for table in tables]}),
    }
    return JobSchedule(dynamics, there, place, described, _digest(seed) if random else "")


def refuse_method(algorithm: Algorithm, place: Place) -> None:
    """Refuse a method for which links have to be the same in every round."""
    if "fixed" in algorithm.requires:
        raise ConfigError(
            f"{place}: {algorithm.name!r} requires links that are the same in every round; remove the table, or use "
            "online_push_sum, say, whose links may come and go"
        )
    if any(hides(phase.mechanism) for phase in algorithm.phases):
        raise ConfigError(
            f"{place}: messages of {algorithm.name!r} are masked, and masks cancel only where a receiver hears the "
            "same senders in every round; remove the table, or use noise that needs no masks"
        )


def _tables(rules: Any, place: Place) -> list[MemberShift]:
    if rules is None:
        return []
    if not isinstance(rules, list) or not all(isinstance(rule, dict) for rule in rules):
        raise ConfigError(f"{place} = {toml_text(rules)}: expected tables; write [[availability]] above each")
    return [check(MemberShift, rule, place) for rule in rules]


def _there(
    tables: Sequence[MemberShift], members: Mapping[str, tuple[str, ...]], place: Place
) -> dict[str, Availability]:
    """Return the availability of each role of which a table speaks."""
    known = {name for names in members.values() for name in names}
    for table in tables:
        for name in table.members or ():
            if name not in known:
                raise ConfigError(
                    f"{place} members: {name!r} is not a member; expected some of {', '.join(sorted(known))}"
                )
    found = {}
    for role, names in members.items():
        about = [
            (None if table.members is None else [names.index(name) for name in table.members if name in names], table)
            for table in tables
        ]
        if any(ids is None or ids for ids, _ in about):
            found[role] = shifts_of(about, len(names), place)
    return found


def _made(choice: Choice, members: Mapping[str, tuple[str, ...]], algorithm: Algorithm) -> LinkDrop | Schedule:
    """Return the dynamics that a file names, with numbers for names."""
    inside = [role for role, target in runtime.link_ends(algorithm).values() if role == target]
    if choice.kind != "link_drop" and len(inside) != 1:
        raise ConfigError(
            f"{choice.place} kind = {choice.kind!r}: turns are for one set of links within one role, and "
            f"{algorithm.name!r} has {len(inside)} such; use [[availability]], or link_drop"
        )
    with located(choice.place):
        try:
            found = choice.function(**choice.arguments())
            made: LinkDrop | Schedule = (
                found.numbered(members[inside[0]]) if isinstance(found, NamedTimetable) else found
            )
        except GraphError as error:
            raise ConfigError(str(error)) from error
    return made


def _digest(seed: int) -> str:
    root = jax.random.key(seed)
    up = graphs.LinkDrop(0.5).live(1, runtime.links_key(root, 0, 1), np.arange(32), np.arange(32)[::-1].copy(), 32)[0]
    there = graphs.Availability.of(32, 0.5).present(1, runtime.presence_key(root, "peer", 1))
    return hashlib.sha256(np.asarray(up).tobytes() + np.asarray(there).tobytes()).hexdigest()[:16]
