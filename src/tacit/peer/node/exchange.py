"""Protocol of a link: positions, parcels, and the interfaces that the transport needs of its peer.

An edge A -> B is a connection that the *sender* A opens. A sends messages; B answers with its position, which tells A
what it may forget, and with receipts of what it refused. B needs no way to call A, which may not trust it::

    A: hello(version, job, round, forms)
    B: welcome(position)             A sends again whatever the position does not cover
    A: header, content, content ...  one message
    B: receipt(why)                  if B refuses it
    B: progress(position)            after a commit at B that covers a message of A; where rounds wait, for several
    A: letter(recipient)             a sealed key message for another neighbour of B; B answers what became of it
    B: letter(sender)                one that B passes on
    either: notice, beat, end        a few bytes of another protocol; a sign of life; the last word
    B: notice, end                   to a hello of an epoch that B has left behind

A message may be a few numbers, so overhead counts: what hello has settled, or what follows from the phase (links,
types, sizes), is not repeated, and a position that confirms nothing of A is sent only now and then.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from tacit.core.contract import Message
from tacit.core.errors import MessageRefused
from tacit.runtime import MessageSpec

VERSION = 3
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
        overdue = position.round >= self.position.round + self._every
        return overdue or (bool(self._uncovered) and min(self._uncovered) < position)

    def is_urgent(self, position: Position, patience: int) -> bool:
        """Whether a position that is due may not be left: the neighbour's is `patience` rounds old."""
        return position.round >= self.position.round + patience

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


class Arrival:
    """A message of a neighbour that fits its phase's spec, until the peer has taken it in or refused it."""

    __slots__ = ("_on_decision", "masks", "message", "name", "phase", "sent")

    def __init__(
        self,
        name: str,
        phase: int,
        sent: int,
        message: Message | None,
        masks: bytes,
        on_decision: Callable[[Arrival, MessageRefused | None], None],
    ) -> None:
        """Take the message; `on_decision` is told the refusal, or None when it is in."""
        self.name, self.phase, self.sent, self.message, self.masks = name, phase, sent, message, masks
        self._on_decision: Callable[[Arrival, MessageRefused | None], None] | None = on_decision

    @property
    def is_open(self) -> bool:
        """Whether it is neither taken in, nor refused, nor dropped with its link."""
        return self._on_decision is not None

    def decide(self, refusal: MessageRefused | None) -> None:
        """Say what became of it."""
        told, self._on_decision = self._on_decision, None
        if told is not None:
            told(self, refusal)

    def drop(self) -> None:
        """Have it left out: its link is over, and a newer one brings it again."""
        self._on_decision = None


class Reception(Protocol):
    """Interface of a peer to the listening side of its transport. `name` always comes from a certificate."""

    job: str
    """Hash of the job in hexadecimal."""
    specs: Sequence[MessageSpec]
    """Message spec of each phase."""
    position_interval: int
    """Rounds after which a position is sent to a neighbour even if it confirms nothing."""
    patience: int
    """Rounds for which a position that confirms something may wait for the next one; 0: it is sent at once."""

    def admit(self, name: str) -> None:
        """Return if this peer hears `name` on any link; otherwise raise MessageRefused("sender")."""

    def position(self, name: str) -> Position:
        """Return the position from which on a neighbour's messages are wanted."""

    def greeted(self, name: str, at_round: int) -> None:
        """Note the round that a neighbour names in its hello."""

    def take(self, arrival: Arrival) -> None:
        """Take in a message, now or later, or refuse it: `arrival.decide` says so.

        A message that is too early is held here until its round is near. Until it is decided, nothing more is read from
        that neighbour, so that back-pressure reaches it. One that is no longer open must be left out.
        """

    async def relay_key_message(self, name: str, recipient: str, payload: bytes) -> None:
        """Pass on a sealed key-agreement message to another neighbour of this peer, or raise MessageRefused."""

    def noticed(self, name: str, payload: bytes) -> None:
        """Take a notice of an in-neighbour, or raise MessageRefused, which ends the link."""

    def parting(self, name: str) -> bytes:
        """Return a notice for one that says hello with another job, before its link ends; nothing: none."""


class Dispatch(Protocol):
    """Interface of a peer to the sending side of its transport."""

    job: str
    specs: Sequence[MessageSpec]

    def current_round(self) -> int:
        """Return the round in which this peer is."""

    def waiting(self, name: str) -> Sequence[Parcel]:
        """Return the unconfirmed parcels to a neighbour that may leave now, oldest first."""

    def confirmed(self, name: str, position: Position) -> None:
        """Forget the parcels that a neighbour at this position needs no more, and wake its dialer then."""

    def refused(self, name: str, parcel: Parcel, reason: str, detail: str) -> None:
        """Note that a neighbour did not accept a parcel."""

    def key_message(self, relay: str, sender: str, payload: bytes) -> None:
        """Take a sealed key-agreement message of another neighbour of `relay`."""

    def noticed(self, name: str, payload: bytes) -> None:
        """Take a notice of an out-neighbour, or raise MessageRefused, which ends the link."""
