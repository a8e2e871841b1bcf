"""Terms on which a peer's links may change while it runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tacit.peer.membership.book import InLink, LinkBook, OutLink


@dataclass(frozen=True, eq=False)
class OpenLinks:
    """Terms on which a peer's links may change."""

    links: str
    """Name of the link set."""
    out: Mapping[str, OutLink]
    """Links to begin with; those of a joiner are opened when it has joined."""
    into: Mapping[str, InLink]
    joins: bool
    """Whether it joins: it begins with nothing."""
    agent_of: Callable[[str, bytes], int]
    """Name and invitation of a peer -> its id; MessageRefused where it is no member."""
    expects: Callable[[str], bool]
    """Whether a peer is to be heard if it asks for it."""
    invitation: bytes = b""
    """Own invitation, shown to those to whom links are opened."""

    def book(self, agent: int, waits: bool, joins: bool) -> LinkBook:
        """Return the first book: of a founder with all links, of a joiner with plans."""
        filed = sorted(self.out)
        if not joins:
            return LinkBook.first(self.links, agent, waits, self.out, self.into, filed)
        book = LinkBook(self.links, agent, waits, joining=True, filed=filed)
        for name, link in self.out.items():
            book.plan(name, link.agent, link.address)
        return book
