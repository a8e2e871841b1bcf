"""What can happen to a simulated network, and what it is made of: its weather, its hosts and their connections."""

from __future__ import annotations

import random
from collections import deque
from dataclasses import dataclass, field
from pathlib import Path

from tacit.peer.machine.snapshots import Memories
from tacit.peer.node.exchange import KnownPosition, Position
from tacit.peer.node.node import Node
from tacit.peer.node.store import PeerStore
from tacit.privacy.accounting import Budget

DEADLINE = 1.0
"""How long a phase waits, of methods that do not wait for ever."""
BACKOFF = 0.1
LIFETIME = 3.0
"""Of a connection; links are made anew after it, faults or none."""
SLOWEST = 0.06
"""Of a link: seconds that a message takes at half the worst; a few of them must fit into the deadline."""
BUDGET = Budget(epsilon=1e6, delta=1e-6)
FIRST = Position(0, 0)


class BrokenInvariantError(AssertionError):
    """An invariant that did not hold."""


class Killed(BaseException):
    """Stands for kill -9."""


@dataclass(frozen=True)
class Weather:
    """How bad a network is. Rates are per second, the others probabilities."""

    until: float = 4.0
    """When the faults stop."""
    latency: float = 0.01
    slow_links: float = 0.2
    breaks: float = 0.3
    """Of each connection."""
    ghosts: float = 0.2
    """What was under way on a broken connection arrives all the same."""
    repeats: float = 0.05
    overtakes: float = 0.05
    crashes: float = 0.3
    """Of each peer, at any event."""
    crashes_at_commit: float = 0.01
    partings: float = 0.2
    data_gap: float = 0.1
    data_pauses: float = 0.05
    work: float = 0.005
    lies: float = 0.0
    """Of one peer, about its round."""

    @staticmethod
    def drawn(chance: random.Random) -> Weather:
        """Return the weather of a seed: each fault is off in about a third of them."""

        def upto(most: float) -> float:
            return 0.0 if chance.random() < 0.35 else most * chance.random()

        return Weather(
            chance.uniform(2.0, 5.0),
            chance.choice((0.001, 0.01, 0.05)),
            upto(0.5),
            upto(2.0),
            upto(0.6),
            upto(0.3),
            upto(0.3),
            upto(0.8),
            upto(0.08),
            upto(0.6),
            chance.choice((0.1, 0.2, 0.3)),
            upto(0.1),
            chance.choice((0.001, 0.02)),
        )


CALM = Weather(0.0, 0.01, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)


@dataclass(eq=False)
class Connection:
    """One stream from a sender to a receiver."""

    number: int
    sender: str
    receiver: str
    alive: bool = True
    greeted: bool = False
    """The receiver has welcomed it."""
    welcomed: bool = False
    """The welcome has arrived."""
    sent: set = field(default_factory=set)
    arrives: float = 0.0
    """When the last message forth arrives."""
    returns: float = 0.0
    queue: deque = field(default_factory=deque)
    told: KnownPosition | None = None
    """Since it was welcomed."""


@dataclass(eq=False)
class Host:
    """A peer and the machine it runs on."""

    name: str
    path: Path
    work: float
    ready: list[float]
    """When each batch is there."""
    node: Node | None = None
    store: PeerStore | None = None
    life: int = 0
    alarm: float = float("inf")
    position: Position = FIRST
    round: int = 0
    memories: Memories | None = None
    """Of its noise, as of its last commit."""
    progressed: float = 0.0
    """When it last got on."""
    began: list[tuple[float, int]] = field(default_factory=list)
    """(time, round) of each round that it began."""


def described(argument) -> str:
    """Name an argument of an event."""
    if isinstance(argument, Connection):
        return f"{argument.sender}->{argument.receiver}#{argument.number}"
    if hasattr(argument, "content"):
        return f"({argument.links} round {argument.round} phase {argument.phase})"
    return str(argument)
