"""A peer of a simulated network that lies about its round, to those that hear it and to those whom it hears.

There is one in a network, and nothing else is wrong with it. What it says goes through the codec, as bytes would. It does
not send wrong models, nor does it confirm what it did not get to a method that waits: both spoil what they are
about, whatever the rounds.
"""

from __future__ import annotations

from tacit.errors import MessageRefused
from tacit.peer.codec import LAST_ROUND
from tacit.peer.exchange import Position
from tacit.peer.rounds import HORIZON
from tacit.peer.wire import tacit_pb2 as pb

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
    frame = pb.Frame.FromString(codec.hello(0))
    frame.hello.round = at_round
    return codec.check_hello(pb.Frame.FromString(frame.SerializeToString()))


def as_position(codec, at_round: int) -> Position:
    """Return a position that came as bytes, or refuse it."""
    if not 0 <= at_round < 2**32:
        raise MessageRefused("round", str(at_round))
    return codec.position(pb.Progress.FromString(pb.Progress(round=at_round).SerializeToString()))


def lie(network, liar: str) -> None:
    """Let the liar tell one neighbour one false thing; what comes of it is the receiver's business."""
    chance, own = network.chance, network.hosts[liar]
    edges = [edge for edge, link in sorted(network.connections.items()) if liar in edge and link.welcomed]
    if own.node is None or not edges:
        return
    sender, receiver = chance.choice(edges)
    to = network.hosts[receiver if sender == liar else sender]
    said = false_round(chance, own.round)
    network.faults["lied"] += 1
    try:
        if receiver == liar:
            position = as_position(to.node.codec, said)
            if not network.setting.waits or position < to.node._confirmed.get(liar, Position(0, 0)):
                to.node.confirmed(liar, position)
        elif chance.random() < 0.5:
            to.node.greeted(liar, as_hello(to.node.codec, said))
        else:
            _send(network, liar, to, said)
    except MessageRefused as refusal:
        network.refusals[refusal.reason] += 1
        if refusal.reason not in ("round", "position", "stale", "early"):
            raise
    network._alarm(to, network.now + to.work)


def _send(network, liar: str, to, said: int) -> None:
    """Send something true, as of a round in which it cannot be used."""
    sent = [key for key in network.released if (key[0], key[-1]) == (liar, to.name)]
    if sent and not to.node.round - 20 < said <= to.node.round + HORIZON:
        key = network.chance.choice(sent)
        _, links, _, phase, _ = key
        to.node.receive(liar, links, phase, said, to.node.codec.unpack(phase, network.released[key]))
