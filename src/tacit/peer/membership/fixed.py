"""Links that stay as they are for a whole epoch; the interface is that of `Members`, where they change."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Literal

from tacit.core.contract import Batch
from tacit.peer.machine.envelopes import Envelope
from tacit.peer.machine.rounds import Views

if TYPE_CHECKING:
    from tacit.peer.membership.members import Members
    from tacit.peer.node.node import Node

SIDES: tuple[Literal["into", "out"], ...] = ("into", "out")


class FixedLinks:
    """The links of a plan."""

    learns = may_begin = hurries = True
    facts = None
    """No book of links is kept."""

    def __init__(self, node: Node) -> None:
        self._node, self.plan = node, node.plan
        plan = node.plan
        self.addresses: dict[str, str] = {}
        """Of out-neighbours, where the book of links has them."""
        self._first = plan.views(0)
        self.hears, self.sends_to = (plan.neighbours(self._first, side) for side in SIDES)
        self._places = {name: (role, k) for role, names in plan.members.items() for k, name in enumerate(names)}

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
        """Whether a peer that is not heard may ask for a link."""
        return False

    def early(self, name: str) -> bool:
        """Whether a neighbour's messages have to wait for a slot."""
        return False

    def begin(self, batch: Batch, records: Iterable[int] | None) -> list[Envelope]:
        """Begin the next round of the machine."""
        return self._node.machine.begin(batch, self.views(self._node.round + 1), records)

    def restart_at(self, round_: int) -> None:
        """Nothing depends on the round."""

    def take_finals(self) -> None:
        """No link is closed."""

    def after_phase(self) -> bool:
        """Nothing has to be committed."""
        return False

    def pinned(self) -> dict[str, int]:
        """Return the out-neighbours whose last message is kept: none."""
        return {}

    def committed(self) -> None:
        """No link is closed."""

    def began(self, first: bool) -> None:
        """The state is that of a founder."""

    def keeps(self, name: str, envelope: Envelope) -> bool:
        """Whether a message is the last of a link, and is kept for the next phase."""
        return False


def links_of(node: Node, book: Mapping[str, Any] | None) -> Members | FixedLinks:
    """Return the links of a node, from the book in its snapshot where they change."""
    terms = node.plan.open_links
    if terms is None:
        return FixedLinks(node)
    from tacit.peer.membership.book import LinkBook
    from tacit.peer.membership.members import Members

    if book is None:
        return Members(node, terms, terms.book(node.plan.agent, node.waits, terms.joins))
    found = LinkBook.read(book)
    found.waits = node.waits
    return Members(node, terms, found)
