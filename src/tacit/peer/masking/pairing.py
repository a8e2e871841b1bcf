"""Mask pairing: the pairs of a receiver's senders that share masks, and the check that masks cancel."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar

from tacit.core.errors import MessageRefused

TAG_BYTES = 8
"""Bytes of a session's name in a message."""

Sender = TypeVar("Sender")


def partners_of(own: Sender, senders: Sequence[Sender]) -> tuple[list[Sender], bool]:
    """Return the partners of one of a receiver's senders (in the order of ids), and whether it adds the masks."""
    plus, minus = _sides(senders)
    return (minus, True) if own in plus else (plus, False)


def check_tags(sender: int, tags: bytes, senders: Sequence[int]) -> None:
    """Refuse a message that was masked for another set of senders than its receiver's."""
    partners, _ = partners_of(sender, senders)
    if len(tags) != TAG_BYTES * len(partners):
        raise MessageRefused(
            "masks",
            f"agent {sender} names {len(tags) / TAG_BYTES:g} sessions, its partners here are agents "
            f"{', '.join(map(str, partners))}; give all peers the same co_senders",
        )


def unmatched(senders: Sequence[int], tags: Mapping[int, bytes]) -> set[int]:
    """Return the senders of a receiver whose message is missing, or whose masks would not cancel.

    `tags` are those of the messages that have come: of the session with each partner, in the order of ids.
    """
    plus, minus = _sides(senders)
    apart = {
        sender
        for k, adds in enumerate(plus)
        for j, subtracts in enumerate(minus)
        if adds in tags and subtracts in tags and _tag(tags[adds], j) != _tag(tags[subtracts], k)
        for sender in (adds, subtracts)
    }
    return apart | (set(senders) - tags.keys())


def _sides(senders: Sequence[Sender]) -> tuple[list[Sender], list[Sender]]:
    from tacit.graphs import masking_sides

    return masking_sides(senders)


def _tag(tags: bytes, place: int) -> bytes:
    return tags[place * TAG_BYTES : (place + 1) * TAG_BYTES]
