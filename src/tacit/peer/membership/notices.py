"""Notices about a link between its two ends: a kind, a round, and a text, as bytes."""

from __future__ import annotations

import struct
from enum import IntEnum
from typing import NamedTuple

from tacit.core.errors import MessageRefused
from tacit.peer.transport.codec import LAST_ROUND

_HEAD = struct.Struct(">BQ")


class Kind(IntEnum):
    """Kinds of notices."""

    OPEN = 1
    OPENED = 2
    CLOSE = 3
    CLOSED = 4
    LEAVE = 5
    REFUSED = 6


class Notice(NamedTuple):
    """A word about a link, from one of its ends to the other."""

    kind: Kind
    round: int = 0
    text: bytes = b""
    """An invitation, or why a link is refused."""

    def packed(self) -> bytes:
        """Return it as bytes."""
        return _HEAD.pack(self.kind, self.round) + self.text

    @classmethod
    def read(cls, payload: bytes) -> Notice:
        """Return a notice from its bytes; refuse what is none."""
        try:
            kind, round_ = _HEAD.unpack_from(payload)
            notice = cls(Kind(kind), round_, bytes(payload[_HEAD.size :]))
        except (struct.error, ValueError) as error:
            raise MessageRefused("malformed", f"{len(payload)} bytes that are no notice of a link") from error
        if notice.round > LAST_ROUND:
            raise MessageRefused("round", f"round {notice.round} in a notice, the last is {LAST_ROUND}")
        return notice
