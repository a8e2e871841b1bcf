"""Outbox of a peer: messages that its out-neighbours have not confirmed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from tacit.core.errors import MessageRefused, StoreError
from tacit.peer.machine.claims import FURTHEST_AHEAD
from tacit.peer.machine.envelopes import Envelope
from tacit.peer.machine.rounds import HORIZON, RoundMachine
from tacit.peer.node.assignment import Plan
from tacit.peer.node.exchange import Parcel, Position
from tacit.peer.node.store import Key
from tacit.peer.transport.codec import Codec


class Outbox:
    """Parcels for each out-neighbour, oldest first, as the last commit left them."""

    def __init__(self, receivers: Iterable[str], waits: bool, longest_delay: int) -> None:
        """Begin empty. `waits`: no message may be lost, however far behind its receiver is."""
        self._waits, self._longest_delay = waits, longest_delay
        self.parcels: dict[str, list[Parcel]] = {name: [] for name in receivers}
        self.positions: dict[str, Position] = {}
        """The last position that each out-neighbour has sent."""
        self._notices: dict[str, Parcel] = {}
        """The one message that goes to an out-neighbour far behind, until it sends a position."""
        self._dropped: list[Parcel] = []
        self.commits = 0
        """Commits that have brought parcels."""
        self.pinned: dict[str, int] = {}
        """Out-neighbour -> round of the one message that is kept until its link is gone."""

    def add(self, name: str) -> None:
        """Keep messages for another neighbour too."""
        self.parcels.setdefault(name, [])

    def remove(self, name: str) -> None:
        """Forget a neighbour and the messages to it."""
        self.pinned.pop(name, None)
        self._drop(self.parcels.get(name, []).copy())
        for kept in (self.parcels, self.positions, self._notices):
            kept.pop(name, None)

    def restore(self, parcels: Iterable[Parcel]) -> None:
        """Take over the parcels of a store."""
        for parcel in parcels:
            if parcel.receiver not in self.parcels:
                raise StoreError(
                    f"the outbox holds a message to {parcel.receiver!r}, to whom this peer no longer sends: a change "
                    "of the graph is a new epoch, with a job and a store of its own"
                )
            self.parcels[parcel.receiver].append(parcel)

    def committed(self, parcels: Sequence[Parcel]) -> None:
        """Add parcels that a commit has made durable; the store has let go of those that were dropped."""
        self._dropped = []
        self.commits += bool(parcels)
        for parcel in parcels:
            self.parcels[parcel.receiver].append(parcel)

    def dropped(self) -> list[Key]:
        """Return the keys of the parcels that the next commit takes out of the store."""
        return [(p.receiver, p.links, p.round, p.phase) for p in self._dropped]

    def oldest(self, round_: int) -> int:
        """Return the oldest round of any parcel, at most `round_`."""
        return min([round_, *(p.round for waiting in self.parcels.values() for p in tuple(waiting))])

    def held_back_by(self, round_: int) -> set[str]:
        """Return the out-neighbours that have to confirm before the round after `round_` may begin."""
        if not self._waits:
            return set()
        oldest = round_ + 1 - FURTHEST_AHEAD - self._longest_delay  # so long they are kept in any case
        return {name for name, kept in self.parcels.items() if [p for p in kept[:1] if p.round <= oldest]}

    def silent(self, round_: int) -> list[str]:
        """Return the out-neighbours that have confirmed nothing of the eight rounds before `round_`."""
        return [name for name, kept in self.parcels.items() if kept and kept[0].round <= round_ - FURTHEST_AHEAD]

    def wanted(self, name: str) -> tuple[Parcel, ...]:
        """Return what an out-neighbour has not confirmed and can use.

        Of a method that does not wait, a neighbour that is behind gets what it can use; one that is far behind gets a
        single message that says how far. Otherwise it would have to read all that is on the way before it knows.
        """
        parcels = tuple(self.parcels.get(name, ()))  # a copy: another thread may be about to commit
        if name in self.pinned:
            return tuple(parcel for parcel in parcels if parcel.round == self.pinned[name])
        if self._waits or name not in self.positions:
            return parcels
        latest = self.positions[name].round + HORIZON
        if not parcels or parcels[0].round <= latest:
            return tuple(parcel for parcel in parcels if parcel.round <= latest)
        return (self._notices.setdefault(name, parcels[-1]),)

    def check(self, name: str, position: Position, masked: int | None, furthest: int | None) -> None:
        """Refuse a position that cannot be.

        `masked` is this peer's round where messages are masked, `furthest` the furthest round that is believed, if any.
        """
        before = self.positions.get(name, position)
        if position < before:
            raise MessageRefused(
                "position",
                f"{name!r} is back at {position} and was at {before}: it has lost its "
                "store, and what it confirmed is gone here; begin a new epoch of the job",
            )
        if masked is not None and position.round > masked + 1:
            raise MessageRefused(
                "position",
                f"{name!r} is at {position}, and this peer has not sent it more than round {masked}: an old "
                "copy of this peer's store was put back, which would put masks that were used on other values; nothing "
                "is sent to it: put the newest store back, or begin a new epoch of the job",
            )
        if furthest is not None and position.round > furthest:
            raise MessageRefused(
                "position",
                f"{name!r} is at {position}, further than this peer and all whom it hears (round {furthest} "
                "at most): not believed, until they are as far",
            )

    def confirm(self, name: str, position: Position) -> None:
        """Drop what an out-neighbour at this position needs no more."""
        if name not in self.parcels:
            return
        self.positions[name] = position
        self._notices.pop(name, None)
        self._drop([parcel for parcel in self.parcels[name] if self._is_covered(parcel, position)])

    def drop_expired(self, round_: int) -> None:
        """Drop what no neighbour of a method that does not wait would still take in a round."""
        if not self._waits:
            oldest = round_ - self._longest_delay - FURTHEST_AHEAD
            self._drop([p for parcels in self.parcels.values() for p in parcels if p.round < oldest])

    def drop_from(self, round_: int) -> None:
        """Drop the messages of a round and of all later ones."""
        self._drop([p for parcels in self.parcels.values() for p in parcels if p.round >= round_])

    def _is_covered(self, parcel: Parcel, position: Position) -> bool:
        if self._longest_delay == 0:
            return (parcel.round, parcel.phase) < position
        return parcel.round < position.round - self._longest_delay  # late ones may still be wanted

    def _drop(self, parcels: Sequence[Parcel]) -> None:
        parcels = [parcel for parcel in parcels if self.pinned.get(parcel.receiver) != parcel.round]
        for parcel in parcels:
            self.parcels[parcel.receiver].remove(parcel)
        self._dropped += parcels


def parcels_of(
    plan: Plan,
    codec: Codec,
    machine: RoundMachine,
    envelopes: Sequence[Envelope],
    name_of: Callable[[str, int], str],
) -> list[Parcel]:
    """Return what a phase sends; neighbours that it does not call get an empty parcel, or they would wait for ever.

    `name_of` is from a role and an id to the name of a neighbour.
    """
    packed: dict[int, bytes] = {}  # by identity: a broadcast is one object for all of its receivers, and stored once
    parcels = []
    for links, phase, round_, _, receiver, message, _ in envelopes:
        name = name_of(plan.algorithm.phases[phase].target, receiver)
        if id(message) not in packed:
            packed[id(message)] = codec.pack(phase, message)
        parcels.append(Parcel(links, phase, round_, name, packed[id(message)]))
    if machine.phase is not None:
        current = plan.algorithm.phases[machine.phase]
        names = [name_of(current.target, agent) for agent in machine.not_called]
        parcels += [Parcel(current.links, machine.phase, machine.round, name, b"") for name in names]
    return parcels
