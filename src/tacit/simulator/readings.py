"""What each agent read in a run, and in which rounds it released something of it: what privacy is charged for."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tacit.core.contract import PrivacyStatement
from tacit.privacy.charges import Release
from tacit.privacy.spending import Reading, Spent, spent_in_run
from tacit.simulator.checkpoint import Log
from tacit.simulator.layout import RoleLayout
from tacit.streams import Stream

MOST_KINDS = 32
"""Agents that read differently, up to which each one's loss is told while a run goes on."""


class Charged(NamedTuple):
    """What privacy is charged for in a run: releases, and who reads which records."""

    statement: PrivacyStatement
    releases: Sequence[Release]
    """One per phase."""
    streams: Sequence[Stream]
    learners: RoleLayout
    answering: Sequence[int]
    """Phases in which agents take part only in some rounds."""

    def spent(self, log: Log) -> Spent:
        """Return what the rounds of a log have spent of the dearest record."""
        in_sequence = any(release.in_sequence for release in self.releases if release.from_data)
        took_part, ratios = log.took_part(), log.ratios()
        readings = readings_of(self.streams, self.learners, self.answering, took_part, ratios, in_sequence)
        return spent_in_run(self.statement, self.releases, ratios, readings)

    def rounds_released(self, log: Log) -> NDArray[np.float64] | None:
        """Return in how many rounds each learner of the first repeat has released something; None: it is not noted."""
        if not self.answering:
            return None
        order = self.learners.order
        parts = [_by_learner(found, order.size) for found in log.took_part()]
        found = np.zeros(order.size)
        found[order] = np.any(parts, axis=0).sum(axis=0)
        return found[: self.learners.agents]

    def of_each(self, log: Log) -> NDArray[np.float64] | None:
        """Return epsilon of each learner's dearest record in the first repeat; None where that takes long to find."""
        stream, ratios = self.streams[0], log.ratios()
        kinds, first, kind = np.unique(stream.alike(), return_index=True, return_inverse=True)
        if self.answering or kinds.size > MOST_KINDS or not self.statement.private:
            return None
        own = [Reading(stream.numbered(int(agent), 0, log.rounds)) for agent in first]
        found = [spent_in_run(self.statement, self.releases, ratios, [reading]).guarantee for reading in own]
        return np.array([math.inf if each is None else each.epsilon for each in found])[kind]


def readings_of(
    streams: Sequence[Stream],
    learners: RoleLayout,
    answering: Sequence[int],
    took_part: Sequence[NDArray[np.generic]],
    ratios: NDArray[np.floating],
    in_sequence: bool = False,
) -> list[Reading]:
    """Return readings of which every learner of every repeat has one, alike ones once.

    `streams` is one for all repeats or one for each. Who takes part only in some rounds did so in phases `answering`,
    as `took_part` has it: (rounds, learners) by position, or the positions of those who were called. `in_sequence`:
    every release is charged to every record of its agent, so that whose rounds they were counts.
    """
    rounds, phases = ratios.shape
    if not answering:
        return [reading for stream in streams for reading in _everybody(stream, rounds)]
    by_phase = [_by_learner(found, learners.order.size) for found in took_part]
    found: dict[tuple[int, int, bytes], Reading] = {}
    for number, stream in enumerate(streams):
        mine = learners.order // learners.agents == number if len(streams) > 1 else np.ones(learners.order.size, bool)
        present = np.ones((int(mine.sum()), rounds, phases), bool)
        present[:, :, answering] = np.stack([part[:, mine].T for part in by_phase], axis=2)
        agents, kinds = learners.order[mine] % learners.agents, stream.alike()
        records = {
            kind: stream.numbered(int(np.argmax(kinds == kind)), 0, rounds) for kind in np.unique(kinds).tolist()
        }
        fresh = all(numbers is None for numbers in records.values())
        if fresh and not in_sequence and len(answering) == 1:  # no record comes twice, whoever reads it
            agents, present = agents[:1], np.any(present, axis=0, keepdims=True)
        elif len(answering) == 1 and _constant(ratios) and _one_record(list(records.values())):
            most = present.sum(axis=(1, 2))  # one record each, read in every round: who took part most often pays most
            agents, present = agents[most == most.max()], present[most == most.max()]
        for agent, part in zip(agents.tolist(), present, strict=True):
            kind = int(kinds[agent])
            found.setdefault((number, kind, part.tobytes()), Reading(records[kind], part))
    return list(found.values())


def _everybody(stream: Stream, rounds: int) -> list[Reading]:
    _, first = np.unique(stream.alike(), return_index=True)
    return [Reading(stream.numbered(int(agent), 0, rounds)) for agent in first]


def _by_learner(found: NDArray[np.generic], learners: int) -> NDArray[np.bool_]:
    """Return (rounds, learners) who took part."""
    if found.dtype == np.bool_:
        return found.astype(np.bool_)
    there = np.zeros((len(found), learners + 1), bool)  # the last place is for those who were not called
    there[np.arange(len(found))[:, None], found.astype(np.int64)] = True
    return there[:, :-1]


def _one_record(records: Sequence[NDArray[np.int64] | None]) -> bool:
    """Whether each agent has one record, in every round and equally often."""
    known = [numbers for numbers in records if numbers is not None and not numbers.any()]
    return len(known) == len(records) and len({numbers.shape for numbers in known}) == 1


def _constant(ratios: NDArray[np.floating]) -> bool:
    return bool(np.all(ratios == ratios[:1]))
