"""Forecast of the bytes that a run sends through its sockets, overhead included.

Frames are made and their bytes counted; TLS 1.3 adds 22 bytes to each record. Headers of TCP and IP and repetitions
after a broken link are not counted. Neither are signs of life, which go by the clock: on an idle link both ends send 24
bytes every two seconds, so that a slow run of few messages takes more than the forecast.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from tacit.core.contract import Algorithm
from tacit.peer.node.exchange import Parcel
from tacit.peer.transport.codec import Codec
from tacit.peer.transport.frames import PROGRESS, Place
from tacit.peer.transport.stream import RECORD
from tacit.peer.views import AgentViews
from tacit.runtime import MessageSpec

RECORD_OVERHEAD = 22
"""TLS 1.3, per record: header 5, type 1, tag 16."""
CONNECTION = 2_580
"""Both directions (measured): handshake with a certificate each way, hello and welcome."""

Pair = tuple[str, int, str, int]
"""Role and id of the sender, and of the receiver: they have one connection, whatever the links."""


class Forecast(NamedTuple):
    """Expected bytes of a run at the sockets, over all peers and both directions."""

    messages: int
    empty: int
    """Messages to neighbours that are not called."""
    confirmations: int
    """Positions that cover a message."""
    reminders: int
    """Positions that cover none."""
    content: int
    """Bytes of content alone."""
    bytes: int
    """Bytes of all frames in the rounds."""
    setup: int
    """Bytes of making the connections."""

    @property
    def total(self) -> int:
        """Bytes in all."""
        return self.bytes + self.setup


def frame_bytes(size: int) -> int:
    """Return the bytes at the socket of a frame of `size` bytes."""
    return size + RECORD_OVERHEAD * -(-size // RECORD)


def message_bytes(codec: Codec, phase: int, at_round: int, *, empty: bool = False) -> int:
    """Return the bytes at the socket of a message without masks; `empty`: to a neighbour that is not called."""
    content = b"" if empty else bytes(codec.layouts[phase].size)
    frames = codec.frames(Parcel("", phase, at_round, "", content))
    return sum(frame_bytes(len(head) + len(part)) for head, part in frames)


def position_bytes(at_round: int) -> int:
    """Return the bytes at the socket of a position between two rounds."""
    return frame_bytes(len(Place(at_round, 0).frame(PROGRESS)))


def forecast(
    algorithm: Algorithm, specs: Sequence[MessageSpec], views: AgentViews, sent: np.ndarray, position_interval: int
) -> Forecast | None:
    """Forecast a run with `sent` messages per (round, phase), over the links of its views.

    A link that is up in a phase carries a message, empty or not; each is confirmed (in a fast run one position confirms
    several, so that this is the most), and a link that was silent for `position_interval` rounds gets a position. None
    where messages are masked: their tags and the messages by which keys are agreed on are not counted here.
    """
    codec = Codec("", specs)
    if any(layout.masked for layout in codec.layouts):
        return None
    told = dict.fromkeys(_pairs(algorithm, views), 1)
    found: Counter[str] = Counter()
    for t, counts in enumerate(np.asarray(sent), start=1):
        now, spoken = views.now(t), set()
        for index, (phase, count) in enumerate(zip(algorithm.phases, map(int, counts), strict=True)):
            live = np.asarray(now[phase.links].live)
            empty = int(live.sum()) - count if specs[index].addressed and phase.answers is None else 0
            found["messages"] += count
            found["empty"] += empty
            found["content"] += count * codec.layouts[index].size
            found["bytes"] += count * message_bytes(codec, index, t)
            found["bytes"] += empty * (message_bytes(codec, index, t, empty=True) if empty else 0)
            found["confirmations"] += count + empty
            found["bytes"] += (count + empty) * position_bytes(t + 1)
            spoken |= _on(phase.links, phase.source, phase.target, views, live)
        for pair in spoken:
            told[pair] = t + 1
        for pair, at in told.items():
            if t + 1 - at >= position_interval:
                told[pair] = t + 1
                found["reminders"] += 1
                found["bytes"] += position_bytes(t + 1)
    found["setup"] = CONNECTION * len(told)
    return Forecast(*(found[name] for name in Forecast._fields))


def _pairs(algorithm: Algorithm, views: AgentViews) -> set[Pair]:
    found: set[Pair] = set()
    for phase in algorithm.phases:
        every = np.ones(len(views.topology.links[phase.links].senders), np.bool_)
        found |= _on(phase.links, phase.source, phase.target, views, every)
    return found


def _on(links: str, source: str, target: str, views: AgentViews, live: np.ndarray) -> set[Pair]:
    graph = views.topology.links[links]
    ends = zip(graph.senders[live].tolist(), graph.receivers[live].tolist(), strict=True)
    return {(source, sender, target, receiver) for sender, receiver in ends}
