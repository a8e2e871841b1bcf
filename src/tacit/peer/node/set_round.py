"""Recovery of a store whose round was led astray by lying neighbours: it goes on at a round that was never used.

Every release of the peer stays booked under its name, so that none is drawn again, and its state stays as it is. Its
messages of the false rounds, which no neighbour can use, are dropped. Methods that wait, those with masks among them,
need a new epoch instead: their neighbours miss no round.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from tacit.core.errors import ConfigError, StoreError
from tacit.peer.machine.claims import LONGEST_LEAP
from tacit.peer.machine.functions import AgentFunctions
from tacit.peer.node.assignment import Plan
from tacit.peer.node.node import Node
from tacit.peer.node.store import PeerStore
from tacit.peer.transport.codec import LAST_ROUND

_ROUND = re.compile(r"round (\d+)")


class Moved(NamedTuple):
    """Result of `set_round`."""

    name: str
    before: int
    """Round under way, or the last one."""
    next: int
    """Round that begins next."""
    dropped: int
    """Messages that were not delivered, and were dropped."""
    releases: int
    """Releases that the ledger holds, before and after."""


def set_round(
    plan: Plan, store: PeerStore, next_round: int | None = None, functions: AgentFunctions | None = None
) -> Moved:
    """Have a peer go on with `next_round`; by default the round after the last one before the longest leap."""
    if plan.algorithm.missing == "wait":  # masked messages belong to methods that wait
        raise ConfigError(
            f"{plan.algorithm.name!r} waits for every round of every neighbour, so that a peer cannot take up another "
            "round by itself; begin a new epoch of the job"
        )
    node = Node(plan, store, 1.0, 0.0, functions)
    before = node.round
    used = sorted({*_booked(store), before})
    goal = _before_the_leap(used) + 1 if next_round is None else next_round
    _refuse_used(goal, used)
    waiting = sum(node.unconfirmed(name) for name in node.sends_to)
    node.restart_at(goal)
    dropped = waiting - sum(node.unconfirmed(name) for name in node.sends_to)
    return Moved(plan.name, before, goal, dropped, store.ledger.releases)


def _booked(store: PeerStore) -> set[int]:
    """Return all rounds in which something was released."""

    def read(connection: sqlite3.Connection) -> list[tuple[str]]:
        return connection.execute("SELECT release FROM entry").fetchall()

    return {int(found[1]) for (release,) in store.ledger.read(read) if (found := _ROUND.search(release))}


def _before_the_leap(used: Sequence[int]) -> int:
    """Return the last round before the longest leap over rounds that were not used."""
    leap, before = max(((b - a, a) for a, b in pairwise(used)), default=(0, 0))
    if leap <= LONGEST_LEAP:
        raise ConfigError(
            f"the ledger shows no round before {used[-1]} from which this peer was carried away; name the round to go "
            "on with: --round N, one that it has not done"
        )
    return before


def _refuse_used(goal: int, used: Sequence[int]) -> None:
    if not 1 <= goal <= LAST_ROUND:
        raise ConfigError(f"--round {goal}: expected 1 to {LAST_ROUND}")
    near = next((t for t in used if goal <= t < goal + LONGEST_LEAP), None)
    if near is not None:
        raise StoreError(
            f"--round {goal}: round {near} was done, and what was released in a round is not released again; expected "
            f"one after which {LONGEST_LEAP} rounds were not used, as round {used[-1] + 1} is"
        )
