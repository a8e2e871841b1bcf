"""Links that stay as they are for a whole epoch (`epochs.py`); the interface is that of `Members`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Literal

from tacit.core.contract import Batch
from tacit.core.errors import ConfigError
from tacit.peer.machine.envelopes import Envelope
from tacit.peer.machine.rounds import Views

if TYPE_CHECKING:
    from tacit.peer.membership.epochs import Epochs
    from tacit.peer.membership.members import Members
    from tacit.peer.node.node import Node

SIDES: tuple[Literal["into", "out"], ...] = ("into", "out")


class PeerLinks:
    """Links of a peer, in an epoch that need not end."""

    epochs: Epochs | None = None
    """Change to another epoch; None: nobody has spoken of one."""

    def at_most(self, round_: int) -> int:
        """Return a round, or the last of the epoch where that is earlier."""
        return round_ if self.epochs is None else min(round_, self.epochs.limit)

    @property
    def over(self) -> bool:
        """Whether this peer has done all rounds of its epoch, and another follows."""
        return self.epochs is not None and self.epochs.is_over

    @property
    def lingers(self) -> bool:
        """Whether this peer leaves with its epoch, and a neighbour still needs it."""
        return self.epochs is not None and self.epochs.lingers


class FixedLinks(PeerLinks):
    """The links of a plan."""

    learns = hurries = True
    ending: frozenset[str] = frozenset()
    _joins = False

    def __init__(self, node: Node, facts: Mapping[str, Any] | None = None) -> None:
        self._node, self.plan = node, node.plan
        plan = node.plan
        self.addresses: dict[str, str] = {}
        """Of out-neighbours, where the book of links has them."""
        self._first = plan.views(0)
        self.hears, self.sends_to = (plan.neighbours(self._first, side) for side in SIDES)
        self._places = {name: (role, k) for role, names in plan.members.items() for k, name in enumerate(names)}
        self._given = facts

    def speak_of_epochs(self) -> Epochs:
        """Return the change to another epoch, whether or not anybody has spoken of one."""
        if self.epochs is None:
            from tacit.peer.membership.epochs import Epochs

            self.epochs = Epochs(self._node, dict(self._given or {}), joining=self._given is None and self._joins)
        return self.epochs

    @property
    def facts(self) -> dict[str, Any] | None:
        """What a snapshot keeps of epochs; None where there is nothing."""
        return None if self.epochs is None else self.epochs.facts()

    @property
    def may_begin(self) -> bool:
        """Whether the epoch has a next round."""
        return self.epochs is None or self.epochs.may_begin

    def views(self, t: int) -> Views:
        """Return this peer's view of its links in a round."""
        return self.plan.views(t) if t else self._first

    def name_of(self, role: str, agent: int) -> str:
        """Return the name of a member."""
        return self.plan.members[role][agent]

    def place_of(self, name: str) -> tuple[str, int]:
        """Return role and id of a neighbour."""
        return self._places[name]

    def table(self) -> list[dict[str, Any]]:
        """Return all links as rows, for people."""
        sides = (("out", self.sends_to), ("in", self.hears))
        return [{"way": way, "name": name, "state": "open"} for way, names in sides for name in sorted(names)]

    def expects(self, name: str) -> bool:
        """Whether a peer that is not heard may speak: a neighbour of a past epoch, which is told of this one."""
        return self.epochs is not None and name in self.epochs.former

    def early(self, name: str) -> bool:
        """Whether a neighbour's messages have to wait for a slot."""
        return False

    def begin(self, batch: Batch, records: Iterable[int] | None) -> list[Envelope]:
        """Begin the next round of the machine."""
        return self._node.machine.begin(batch, self.views(self._node.round + 1), records)

    def restart_at(self, round_: int) -> None:
        """Refuse a round that is not one of the epoch's."""
        if self.epochs is not None and not max(1, self.epochs.began) <= round_ <= self.epochs.limit:
            raise ConfigError(
                f"--round {round_}: this epoch has rounds {max(1, self.epochs.began)} to {self.epochs.limit}"
            )

    def take_finals(self) -> None:
        """No link is closed."""

    def after_phase(self) -> bool:
        """Look whether the last round of the epoch is over: that is committed at once, for no other follows."""
        return self._node.between_rounds and self.epochs is not None and self._node.round >= self.epochs.limit

    def pinned(self) -> dict[str, int]:
        """Return the out-neighbours whose last message is kept: none."""
        return {}

    def committed(self) -> None:
        """No link is closed."""

    def began(self, first: bool) -> None:
        """The state is that of a founder; one that is new in its epoch waits for the first round of it."""
        self._joins = first and self.plan.joins
        if self._joins or self._given is not None:
            self.speak_of_epochs()

    def keeps(self, name: str, envelope: Envelope) -> bool:
        """Whether a message is the last of a link, and is kept for the next phase."""
        return False


def links_of(node: Node, book: Mapping[str, Any] | None) -> Members | FixedLinks:
    """Return the links of a node, from the book in its snapshot where they change."""
    terms = node.plan.open_links
    if terms is None:
        return FixedLinks(node, book)
    from tacit.peer.membership.book import LinkBook
    from tacit.peer.membership.members import Members

    if book is None:
        return Members(node, terms, terms.book(node.plan.agent, node.waits, terms.joins))
    found = LinkBook.read(book)
    found.waits = node.waits
    return Members(node, terms, found)
