"""States of a peer's links, one word each, for a view of many peers."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Literal, get_args
from weakref import WeakKeyDictionary

from tacit.peer.operations.status import standing_of

if TYPE_CHECKING:
    from tacit.peer.node.service import PeerService

State = Literal["open", "late", "dead", "refused", "quarantined"]
STATES: tuple[State, ...] = get_args(State)
LATE_ROUNDS, LATE_TIME = 2, 2.0
"""Rounds by which a neighbour has to be behind to be late, and seconds for which it has to be waited for."""
REFUSING = frozenset({"untrusted", "turned away"})
"""Losses of a dialled link after which the other end, or its identity, is refused."""


def link_states(service: PeerService) -> list[dict[str, Any]]:
    """Return every link of a running peer: the other end, the direction, its state and by how much it lags.

    Args:
      service: The running peer.

    Returns:
      Rows ``{"peer", "direction", "state", "lag"}``. The lag of a link in is in rounds by which the neighbour is
      behind, that of a link out in messages that it has not confirmed.
    """
    return _watches.setdefault(service, _Watch()).table(service)


class _Watch:
    """Remembers since when a peer is where it is."""

    def __init__(self) -> None:
        self._position: object = None
        self._since = 0.0

    def table(self, service: PeerService) -> list[dict[str, Any]]:
        """Return the rows of `link_states`."""
        node, now = service.node, time.monotonic()
        if self._position != node.position:
            self._position, self._since = node.position, now
        stuck = node.missing() | node.held_back_by if now - self._since >= LATE_TIME else set()
        said, listener, rows = node.claims.said, service.links.listener, []
        troubles = service.events.troubles
        for name in sorted(node.hears):
            lag = max(0, node.round - said[name]) if name in said else 0
            late = lag >= LATE_ROUNDS or name in stuck
            rows.append(_row(name, "in", _state(name in listener.connected, late, troubles.get((name, "in"))), lag))
        for name, dialer in sorted(service.links.dialers.items()):
            lag = node.unconfirmed(name)
            late = lag > node.position_interval or name in stuck
            rows.append(_row(name, "out", _state(dialer.connected, late, troubles.get((name, "out"))), lag))
        held = {name for name, one in standing_of(node).items() if one["quarantined_until"] is not None}
        return [{**row, "state": "quarantined"} if row["peer"] in held else row for row in rows]


def _row(name: str, direction: str, state: State, lag: int) -> dict[str, Any]:
    return {"peer": name, "direction": direction, "state": state, "lag": lag}


def _state(up: bool, late: bool, trouble: str | None) -> State:
    if up:
        return "late" if late else "open"
    return "dead" if trouble is None or trouble not in REFUSING else "refused"


_watches: WeakKeyDictionary[PeerService, _Watch] = WeakKeyDictionary()
