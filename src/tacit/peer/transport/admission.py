"""Admission policy for connections, without input or output. Time is an argument.

A connection that has not proved its identity is a stranger. Strangers are bounded in number, per address and in all,
and in time. Where there are too many, one is closed: of the address with most strangers, one that has sent nothing
first, and of these the oldest. So a new connection always gets in, and has as long to prove itself as a crowd takes to
fill all places again; the crowd of one address does not push out another. Connections that have proved themselves are
neighbours, one each, and are never pushed out.
"""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from typing import NamedTuple

CROWDED, UNPROVEN = "crowded", "unproven"
"""Reasons for closing a connection: to make room, or because its time was up."""
DESCRIPTORS = 2
"""File descriptors per connection: its own, and one for another that is about to close."""
RESERVED = 40
"""Descriptors that connections leave to files: the store and its log, the witness, data, links that this peer dials."""
FEWEST = 4


class DoorLimits(NamedTuple):
    """Limits for strangers."""

    connections: int = 256
    """In all."""
    per_address: int = 64
    """IPv6: per network of 64 bits, which one host may have all of."""
    proof_time: float = 10.0
    """Seconds from the connection to the proof of identity."""

    def beside(self, neighbours: int) -> DoorLimits:
        """Return limits with room for all neighbours to come at once, perhaps from one address."""
        return self._replace(connections=self.connections + neighbours, per_address=self.per_address + neighbours)

    def within(self, descriptors: int | None, neighbours: int) -> DoorLimits | None:
        """Return limits that leave descriptors for files and neighbours; None if so few are left that none fit."""
        if descriptors is None:
            return self
        room = (descriptors - RESERVED - local_limit(descriptors)) // DESCRIPTORS - neighbours
        if room < FEWEST:
            return None
        return self._replace(connections=min(self.connections, room), per_address=min(self.per_address, room))


def local_limit(descriptors: int | None) -> int:
    """Return the largest number of connections of programs on this host."""
    return 64 if descriptors is None else max(FEWEST, min(64, descriptors // 8))


@dataclass
class _Stranger:
    source: str
    since: float
    spoke: bool = False


class Admission:
    """Connections at one door, by ticket."""

    def __init__(self, limits: DoorLimits) -> None:
        self.limits = limits
        self._strangers: dict[int, _Stranger] = {}
        """In the order of `since`."""
        self._of: dict[str, dict[int, _Stranger]] = {}
        """The same by source, so that a crowd costs no more one by one than a few do."""
        self._proven: dict[str, tuple[int, str]] = {}
        self._tickets = 0

    @property
    def strangers(self) -> int:
        """Number of connections that have not proved their identity."""
        return len(self._strangers)

    def arrive(self, address: str, now: float) -> tuple[int, list[int]]:
        """Note a connection; returns its ticket, and the tickets of those to close."""
        self._tickets += 1
        self._add(self._tickets, _Stranger(source_of(address), now))
        return self._tickets, self._crowded_out(self._tickets)

    def spoke(self, ticket: int) -> None:
        """Note that a connection has said something."""
        if ticket in self._strangers:
            self._strangers[ticket].spoke = True

    def prove(self, ticket: int, name: str, now: float) -> list[int]:
        """Note that a connection is a neighbour's; its older one is a stranger again. Returns the tickets to close."""
        stranger = self._remove(ticket)
        if stranger is None:
            return []
        older = self._proven.get(name)
        self._proven[name] = ticket, stranger.source
        if older is None:
            return []
        self._add(older[0], _Stranger(older[1], now, spoke=True))
        return self._crowded_out(older[0])

    def leave(self, ticket: int) -> None:
        """Forget a connection that has ended."""
        self._remove(ticket)
        for name, (proven, _) in tuple(self._proven.items()):
            if proven == ticket:
                del self._proven[name]

    def overdue(self, now: float) -> list[int]:
        """Return the tickets of strangers whose time is up."""
        found = []
        for ticket, one in self._strangers.items():
            if now - one.since < self.limits.proof_time:
                break
            found.append(ticket)
        return found

    def deadline(self) -> float | None:
        """Return when the next stranger's time will be up."""
        first = next(iter(self._strangers.values()), None)
        return None if first is None else first.since + self.limits.proof_time

    def oldest(self) -> int | None:
        """Return the ticket to close first when resources run out."""
        return min(self._strangers, key=self._rank, default=None)

    def _crowded_out(self, newest: int) -> list[int]:
        """Return the ticket to close so that the newest may stay, if any."""
        there = self._of[self._strangers[newest].source]
        if len(there) <= self.limits.per_address:
            if len(self._strangers) <= self.limits.connections:
                return []
            there = max(self._of.values(), key=len)
        others = (t for t in there if t != newest)
        first = next(others, None)
        if first is None or not there[first].spoke:
            return [] if first is None else [first]
        return [min((first, *others), key=self._rank)]

    def _add(self, ticket: int, stranger: _Stranger) -> None:
        self._strangers[ticket] = stranger
        self._of.setdefault(stranger.source, {})[ticket] = stranger

    def _remove(self, ticket: int) -> _Stranger | None:
        stranger = self._strangers.pop(ticket, None)
        if stranger is not None:
            there = self._of[stranger.source]
            del there[ticket]
            if not there:
                del self._of[stranger.source]
        return stranger

    def _rank(self, ticket: int) -> tuple[bool, float, int]:
        one = self._strangers[ticket]
        return one.spoke, one.since, ticket


def source_of(address: str) -> str:
    """Return the unit that counts as one address: an IPv4 address, also if mapped to IPv6, or a network of 64 bits."""
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(found, ipaddress.IPv6Address):
        if found.ipv4_mapped is not None:
            return str(found.ipv4_mapped)
        if not found.is_loopback:
            return str(ipaddress.ip_network((found, 64), strict=False))
    return str(found)
