"""Counts and log entries of link events."""

from __future__ import annotations

from tacit.peer import masking
from tacit.peer.operations.counters import Counters
from tacit.peer.operations.logs import Log
from tacit.peer.operations.traces import NO_TRACES, Traces
from tacit.peer.transport.codec import REASONS
from tacit.peer.transport.link import Direction

REFUSALS = tuple(sorted({*REASONS, *masking.REASONS, "server name", "position"}))
"""Every reason with a series of its own."""
STRANGERS = frozenset({"identity", "revoked", "role", "sender", "job", "version"})
"""Reasons for which a neighbour's link is refused as a whole."""


class LinkEventLog:
    """Link events as metrics and log entries; see `tacit.peer.transport.link.LinkEvents`."""

    def __init__(self, counters: Counters, log: Log, traces: Traces = NO_TRACES) -> None:
        self._counters, self._log, self._traces = counters, log, traces
        self.troubles: dict[tuple[str, Direction], str] = {}
        """Why a link is down, by one of `dialer.LOSSES`."""

    def refused(self, reason: str, name: str | None, detail: str) -> None:
        """Count a refusal of this peer."""
        if name is not None and reason in STRANGERS:
            self.troubles[name, "in"] = "untrusted"
        self._counters.add("tacit_refusals_total", reason=reason)
        self._log.seldom(f"refused {reason} {name}", "refused", reason=reason, neighbour=name, detail=detail)

    def lost(self, name: str, reason: str, detail: str) -> None:
        """Log why a link is down."""
        self.troubles[name, "out"] = reason
        self._log.seldom(f"link {name} {reason}", "no link", neighbour=name, reason=reason, detail=detail)

    def sent(self, name: str, size: int) -> None:
        """Count a message that went out."""
        self._counters.add("tacit_messages_sent_total", to=name)
        self._counters.add("tacit_sent_bytes_total", size, to=name)
        with self._traces.span("send", to=name, bytes=size):  # the moment when it went out
            pass

    def received(self, name: str, size: int) -> None:
        """Count bytes that came in."""
        self._counters.add("tacit_received_bytes_total", size, from_=name)

    def accepted(self, name: str) -> None:
        """Count a message that was taken in."""
        self._counters.add("tacit_messages_received_total", from_=name)

    def linked(self, name: str, direction: Direction, up: bool) -> None:
        """Note that a link came up or went down."""
        if up:
            self.troubles.pop((name, direction), None)
        self._counters.set("tacit_connected", float(up), neighbour=name, direction=direction)
        self._log.info("link up" if up else "link down", neighbour=name, direction=direction)
