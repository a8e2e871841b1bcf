"""Keys that a peer shares with the other senders of a receiver, as its store holds them.

A pair's key comes from two X25519 keys, one of each end, each made once and on the disk before it is sent
(`agreement.py`). Once the other end's is known, the private half is replaced by the key that masks are made from.
That key is a chain: every `ROUNDS_PER_KEY` rounds it is replaced by its hash, and the one before is forgotten as soon
as no message of those rounds is in the outbox. A thief of the store finds no key of the rounds before.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import sqlite3
from collections.abc import Mapping
from typing import NamedTuple

from tacit.core.errors import PrivacyError

ROUNDS_PER_KEY = 64
"""Rounds between two replacements of a key; each costs one row per pair."""
_NEXT = b"tacit mask key, the next one\0"

Pair = tuple[str, str]
"""Receiver and partner."""


class PairKey(NamedTuple):
    """One end's keys of a pair."""

    own: bytes
    """Public key of this end, which stays the same as long as the store lives."""
    key: bytes
    """Private half of it until the other end's is known; from then on the key of the masks of `span`."""
    remote: bytes | None = None
    """Public key of the other end, once it has signed this end's."""
    span: int = 0
    """The key serves rounds from `span * ROUNDS_PER_KEY` on; earlier ones have none any more."""

    def at(self, round_: int) -> bytes:
        """Return the key of a round's masks."""
        span = round_ // ROUNDS_PER_KEY
        if self.remote is None or span < self.span:
            raise PrivacyError(
                f"there is no key for masks of round {round_}: that of its partner is not known yet, or keys before "
                f"round {self.span * ROUNDS_PER_KEY} were given up since their messages had arrived"
            )
        key = self.key
        for _ in range(span - self.span):
            key = hmac.digest(key, _NEXT, "sha256")
        return key

    def aged(self, oldest: int) -> PairKey:
        """Return the keys that are left when rounds before `oldest` need no masks any more."""
        if self.remote is None or oldest // ROUNDS_PER_KEY <= self.span:
            return self
        return self._replace(key=self.at(oldest), span=oldest // ROUNDS_PER_KEY)


class KeyRing:
    """All pairs of a peer, with a hash of them; immutable."""

    def __init__(self, pairs: Mapping[Pair, PairKey] | None = None) -> None:
        self.pairs = dict(pairs or {})
        rows = [[*pair, *(v.hex() if isinstance(v, bytes) else v for v in key)] for pair, key in self.pairs.items()]
        self.digest = hashlib.sha256(json.dumps(sorted(rows)).encode()).digest()

    def aged(self, oldest: int) -> dict[Pair, PairKey]:
        """Return the pairs whose keys are due to be replaced."""
        aged = {pair: key.aged(oldest) for pair, key in self.pairs.items()}
        return {pair: key for pair, key in aged.items() if key is not self.pairs[pair]}

    def written(self, connection: sqlite3.Connection, pairs: Mapping[Pair, PairKey]) -> KeyRing:
        """Write pairs to a store, and return all pairs that it then holds."""
        if not pairs:
            return self
        rows = [(*pair, *key) for pair, key in pairs.items()]
        connection.executemany("INSERT OR REPLACE INTO pair_key VALUES (?, ?, ?, ?, ?, ?)", rows)
        return KeyRing(self.pairs | dict(pairs))


def read_keys(connection: sqlite3.Connection) -> KeyRing:
    """Read all pairs of a store."""
    rows = connection.execute("SELECT receiver, partner, own, key, remote, span FROM pair_key").fetchall()
    return KeyRing({(receiver, partner): PairKey(*rest) for receiver, partner, *rest in rows})
