"""Link events, common to both ends of a link."""

from __future__ import annotations

from typing import Literal, Protocol

from tacit.core.errors import MessageRefused
from tacit.peer.transport.frames import TEXT_LIMIT

Direction = Literal["in", "out"]

FULL = 2**18
"""Bytes that wait for the other end of a link to read them, before nothing more is given to it."""


class LinkEvents(Protocol):
    """Observer of a transport. Names come from certificates or from the peer's own configuration."""

    def refused(self, reason: str, name: str | None, detail: str) -> None:
        """Count a refusal of this peer; `reason` is one of `codec.REASONS`."""

    def lost(self, name: str, reason: str, detail: str) -> None:
        """Note why a link to a neighbour failed; `reason` is one of `dialer.LOSSES`."""

    def sent(self, name: str, size: int) -> None:
        """Count a message of `size` bytes that went out."""

    def received(self, name: str, size: int) -> None:
        """Count bytes of messages that arrived, refused ones included."""

    def accepted(self, name: str) -> None:
        """Count a message that was taken in."""

    def linked(self, name: str, direction: Direction, up: bool) -> None:
        """Note that a link came up or went down."""


def told(refusal: MessageRefused) -> str:
    """Return a refusal in the words that the other end gets."""
    return f"{refusal.reason}: {refusal.detail}"[:TEXT_LIMIT]
