"""What travels between peers, and what the transport asks of the peer that it works for.

An edge A -> B is a stream that the *sender* A opens. A says what it has to say; B answers with its position, which is
how A learns what it may forget, and with receipts of what it refused. B needs no way to call A, who may not trust it::

    A: hello(version, job, round, forms)
    B: welcome(position)             A sends again whatever the position does not cover
    A: header, content, content ...  one message
    B: receipt(why)                  if B refuses it
    B: progress(position)            after the commit at B that covers a message of A

A message may be a few numbers, so that what stands around it counts: all that hello has settled, or that follows from
the phase (links, types, sizes), is not said again, and a position that changes nothing for A is told now and then only.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from tacit.core.contract import Message
from tacit.runtime import MessageSpec

VERSION = 2
"""Of what is said on a link; peers of different versions do not talk."""


class Position(NamedTuple):
    """Where a peer stands by its last commit: it needs no message any more that is older than this."""

    round: int
    phase: int


class KnownPosition:
    """What a neighbour on a link knows of this peer's position, and whether it is time to tell it more."""

    def __init__(self, position: Position, every: int) -> None:
        """Begin with the welcome; `every` so many rounds it is told whether that concerns it or not."""
        self.position, self._every = position, every
        self._uncovered: set[Position] = set()

    def holds(self, sent: int, phase: int) -> None:
        """Note that a message of the neighbour is here, which it keeps until a position covers it."""
        self._uncovered.add(Position(sent, phase))

    def is_due(self, position: Position) -> bool:
        """Whether the neighbour should hear of this position: it covers a message, or is the first in a while."""
        if position == self.position:
            return False
        return position.round >= self.position.round + self._every or any(at < position for at in self._uncovered)

    def tell(self, position: Position) -> None:
        """Note that it is told this."""
        self.position = position
        self._uncovered = {at for at in self._uncovered if at >= position}


class Parcel(NamedTuple):
    """A message on its way to one neighbour, as it lies on the disk and on the wire."""

    links: str
    phase: int
    round: int
    receiver: str
    """Name of the neighbour."""
    content: bytes
    """The leaves of the message one after the other, little-endian."""
    masks: bytes = b""
    """Tags of the sessions that its masks come from; empty on the disk, and where messages are not masked."""


class Reception(Protocol):
    """What the listening side of the transport asks of its peer. `name` always comes from a certificate."""

    job: str
    """Hash of the job in hexadecimal."""
    specs: Sequence[MessageSpec]
    """What each phase sends."""
    position_interval: int
    """Rounds after which a neighbour is told the position though that covers no new message of its."""

    def admit(self, name: str) -> None:
        """Return if this peer hears `name` on any link; otherwise raise MessageRefused("sender")."""

    def position(self, name: str) -> Position:
        """Return from where on a neighbour's messages are wanted."""

    def greeted(self, name: str, at_round: int) -> None:
        """Note the round that a neighbour names in its hello."""

    async def take(self, name: str, phase: int, sent: int, message: Message | None, masks: bytes) -> None:
        """Take in a message that fits its phase's spec; returns when it is in, or raises MessageRefused.

        A message that is too early is held here until its time has come. While it is held nothing more is read from
        that neighbour, so that back-pressure reaches it.
        """

    async def relay_key_message(self, name: str, recipient: str, payload: bytes) -> None:
        """Pass on a sealed letter to another neighbour of this peer, or raise MessageRefused."""


class Dispatch(Protocol):
    """What the sending side of the transport asks of its peer."""

    job: str
    specs: Sequence[MessageSpec]

    def current_round(self) -> int:
        """Return the round in which this peer is."""

    def waiting(self, name: str) -> Sequence[Parcel]:
        """Return what may leave now of all that the neighbour has not confirmed, oldest first."""

    def confirmed(self, name: str, position: Position) -> None:
        """Forget what a neighbour needs no more."""

    def refused(self, name: str, parcel: Parcel, reason: str, detail: str) -> None:
        """Note that a neighbour did not accept a parcel."""

    def key_message(self, relay: str, sender: str, payload: bytes) -> None:
        """Take a sealed letter of another neighbour of `relay`."""
