"""A peer that lies about its round.

`Liar`, of a simulated network, lies about its round to those that hear it and to those whom it hears. There is one in a
network, and nothing else is wrong with it. What it says goes through the codec, as bytes would. It does not send wrong
models, nor does it confirm what it did not get to a method that waits: both spoil what they are about, whatever the
rounds.
"""

from __future__ import annotations

import random

from tacit.core.errors import MessageRefused
from tacit.peer.machine.rounds import HORIZON
from tacit.peer.node.exchange import Position
from tacit.peer.transport.codec import LAST_ROUND
from tacit.peer.transport.frames import HELLO, PROGRESS, Place, parse

IMPOSSIBLE = (-1, -(2**31), LAST_ROUND + 2, 2**32 - 1, 2**32, 2**63, 2**64)
"""Rounds that no frame of a peer may name."""
LAST = (LAST_ROUND, LAST_ROUND - 1, LAST_ROUND - 64)


def false_round(chance, truth: int) -> int:
    """Return a round other than the true one."""
    match chance.randrange(4):
        case 0:
            return chance.choice(IMPOSSIBLE)
        case 1:
            return chance.choice(LAST)
        case 2:
            return truth + chance.choice((9, 10, 100, 1000, 2000, 10**6, 2**30))
        case _:
            return max(0, truth - chance.randrange(1, 20))


def as_hello(codec, at_round: int) -> int:
    """Return the round of a hello that came as bytes, or refuse it."""
    if not 0 <= at_round < 2**32:  # no field holds it: what stands in its place is another number
        raise MessageRefused("round", str(at_round))
    frame = codec.hello(at_round).frame()
    return codec.check_hello(parse(HELLO, memoryview(frame)[2 if frame[1] < 0x80 else 3 :]))


def as_position(codec, at_round: int) -> Position:
    """Return a position that came as bytes, or refuse it."""
    if not 0 <= at_round < 2**32:
        raise MessageRefused("round", str(at_round))
    return codec.position(parse(PROGRESS, memoryview(Place(at_round, 0).frame(PROGRESS))[2:]))


class Liar:
    """One peer, and how often it lies; its chance is its own, so that the rest of a seed is as without it."""

    def __init__(self, seed: str, names) -> None:
        self.chance = random.Random(f"{seed} lies")
        self.name = self.chance.choice(sorted(names))
        self.rate = 0.0 if self.chance.random() < 0.35 else 8.0 * self.chance.random()
        """Per second."""

    def lie(self, network) -> float:
        """Tell one neighbour one false thing, and return the time to the next; the rest is the neighbour's business."""
        edges = [edge for edge, link in sorted(network.connections.items()) if self.name in edge and link.welcomed]
        if edges:
            sender, receiver = self.chance.choice(edges)
            to = network.hosts[receiver if sender == self.name else sender]
            network.faults["lied"] += 1
            try:
                self._tell(network, to, receiver == self.name)
            except MessageRefused as refusal:
                network.refusals[refusal.reason] += 1
                if refusal.reason not in ("round", "position", "stale", "early"):
                    raise
            network._alarm(to, network.now + to.work)
        return self.chance.expovariate(network.weather.lies)

    def _tell(self, network, to, hears: bool) -> None:
        said = false_round(self.chance, network.hosts[self.name].round)
        if hears:
            position = as_position(to.node.codec, said)
            if not network.setting.waits or position < to.node.outbox.positions.get(self.name, Position(0, 0)):
                to.node.confirmed(self.name, position)
        elif self.chance.random() < 0.5:
            to.node.greeted(self.name, as_hello(to.node.codec, said))
        else:
            self._send(network, to, said)

    def _send(self, network, to, said: int) -> None:
        """Send something true, as of a round in which it cannot be used."""
        sent = [key for key in network.released if (key[0], key[-1]) == (self.name, to.name)]
        if sent and not to.node.round - 20 < said <= to.node.round + HORIZON:
            key = self.chance.choice(sent)
            _, links, _, phase, _ = key
            to.node.receive(self.name, links, phase, said, to.node.codec.unpack(phase, network.released[key]))
