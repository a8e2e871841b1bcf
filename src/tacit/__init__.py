"""tacit: peers learn together without telling."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tacit import algorithms, graphs, metrics, objectives, peer, privacy, streams
from tacit.results import Run
from tacit.simulate import simulate

if TYPE_CHECKING:
    from tacit.deploy.peer import Peer

__version__ = "0.1.0"

__all__ = ["Peer", "Run", "algorithms", "graphs", "metrics", "objectives", "peer", "privacy", "simulate", "streams"]


def __getattr__(name: str) -> Any:
    """Import `tacit.Peer` when it is asked for: gRPC takes its time."""
    if name == "Peer":
        from tacit.deploy.peer import Peer

        return Peer
    raise AttributeError(f"module 'tacit' has no attribute {name!r}")
