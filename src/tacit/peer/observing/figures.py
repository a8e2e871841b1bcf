"""Figures of a running peer that are computed when they are asked for."""

from __future__ import annotations

import shutil
from collections import Counter
from typing import TYPE_CHECKING

from tacit.peer.observing.link_states import STATES, link_states
from tacit.peer.operations.status import model_fault

if TYPE_CHECKING:
    from tacit.peer.node.service import PeerService


def publish_state(service: PeerService) -> None:
    """Set the figures of links, model, ledger and disk.

    Args:
      service: The running peer.
    """
    counters, ledger = service.counters, service.node.store.ledger
    found = Counter((row["direction"], row["state"]) for row in link_states(service))
    for direction in ("in", "out"):
        for state in STATES:
            counters.set("tacit_links", found[direction, state], direction=direction, state=state)
    counters.set("tacit_failed", service.fault is not None)
    counters.set("tacit_model_finite", model_fault(service.node) is None)
    counters.set("tacit_disk_free_bytes", shutil.disk_usage(ledger.path.parent).free)
    counters.set("tacit_ledger_releases", ledger.releases)
