"""Protocol of a link: positions, parcels, and the interfaces that the transport needs of its peer.

An edge A -> B is a stream that the *sender* A opens. A sends messages; B answers with its position, which tells A what
it may forget, and with receipts of what it refused. B needs no way to call A, which may not trust it::

    A: hello(version, job, round, forms)
    B: welcome(position)             A sends again whatever the position does not cover
    A: header, content, content ...  one message
    B: receipt(why)                  if B refuses it
    B: progress(position)            after the commit at B that covers a message of A

A message may be a few numbers, so overhead counts: what hello has settled, or what follows from the phase (links,
types, sizes), is not repeated, and a position that confirms nothing of A is sent only now and then.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from tacit.core.contract import Message
from tacit.runtime import MessageSpec

VERSION = 2
"""Version of the protocol; peers of different versions do not talk."""


class Position(NamedTuple):
    """Progress of a peer by its last commit: it needs no message that is older than this."""

    round: int
    phase: int

    def __str__(self) -> str:
        return f"round {self.round}, phase {self.phase}"


class KnownPosition:
    """This peer's position as a neighbour knows it, and the rule when to send a newer one."""

    def __init__(self, position: Position, every: int) -> None:
        """Begin with the position in the welcome; another is due after `every` rounds even if it confirms nothing."""
        self.position, self._every = position, every
        self._uncovered: set[Position] = set()

    def holds(self, sent: int, phase: int) -> None:
        """Note a message of the neighbour, which keeps it until a position covers it."""
        self._uncovered.add(Position(sent, phase))

    def is_due(self, position: Position) -> bool:
        """Whether to send this position: it covers a message, or is the first in a while."""
        if position == self.position:
            return False
        return position.round >= self.position.round + self._every or any(at < position for at in self._uncovered)

    def tell(self, position: Position) -> None:
        """Note that this position is sent."""
        self.position = position
        self._uncovered = {at for at in self._uncovered if at >= position}


class Parcel(NamedTuple):
    """A message to one neighbour, as it is stored and sent."""

    links: str
    phase: int
    round: int
    receiver: str
    """Name of the neighbour."""
    content: bytes
    """The leaves of the message one after the other, little-endian."""
    masks: bytes = b""
    """Tags of the sessions that its masks come from; empty in the store, and where messages are not masked."""


class Reception(Protocol):
    """Interface of a peer to the listening side of its transport. `name` always comes from a certificate."""

    job: str
    """Hash of the job in hexadecimal."""
    specs: Sequence[MessageSpec]
    """Message spec of each phase."""
    position_interval: int
    """Rounds after which a position is sent to a neighbour even if it confirms nothing."""

    def admit(self, name: str) -> None:
        """Return if this peer hears `name` on any link; otherwise raise MessageRefused("sender")."""

    def position(self, name: str) -> Position:
        """Return the position from which on a neighbour's messages are wanted."""

    def greeted(self, name: str, at_round: int) -> None:
        """Note the round that a neighbour names in its hello."""

    async def take(self, name: str, phase: int, sent: int, message: Message | None, masks: bytes) -> None:
        """Take in a message that fits its phase's spec; returns when it is in, or raises MessageRefused.

        A message that is too early is held here until its round is near. Meanwhile nothing more is read from that
        neighbour, so that back-pressure reaches it.
        """

    async def relay_key_message(self, name: str, recipient: str, payload: bytes) -> None:
        """Pass on a sealed key-agreement message to another neighbour of this peer, or raise MessageRefused."""


class Dispatch(Protocol):
    """Interface of a peer to the sending side of its transport."""

    job: str
    specs: Sequence[MessageSpec]

    def current_round(self) -> int:
        """Return the round in which this peer is."""

    def waiting(self, name: str) -> Sequence[Parcel]:
        """Return the unconfirmed parcels to a neighbour that may leave now, oldest first."""

    def confirmed(self, name: str, position: Position) -> None:
        """Forget the parcels that a neighbour at this position needs no more."""

    def refused(self, name: str, parcel: Parcel, reason: str, detail: str) -> None:
        """Note that a neighbour did not accept a parcel."""

    def key_message(self, relay: str, sender: str, payload: bytes) -> None:
        """Take a sealed key-agreement message of another neighbour of `relay`."""
