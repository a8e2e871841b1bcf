"""tacit: peers learn together without telling."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tacit import algorithms, graphs, limits, metrics, objectives, peer, privacy, streams
from tacit.results import Run
from tacit.simulate import simulate
from tacit.version import __version__ as __version__

if TYPE_CHECKING:
    from tacit import interop
    from tacit.deploy.peer import Peer

__all__ = [
    "Peer",
    "Run",
    "algorithms",
    "graphs",
    "interop",
    "limits",
    "metrics",
    "objectives",
    "peer",
    "privacy",
    "simulate",
    "streams",
]


def __getattr__(name: str) -> Any:
    """Import `tacit.Peer` and `tacit.interop` when they are asked for: gRPC and scikit-learn take their time."""
    if name == "Peer":
        from tacit.deploy.peer import Peer

        return Peer
    if name == "interop":
        from importlib import import_module

        return import_module("tacit.interop")
    raise AttributeError(f"module 'tacit' has no attribute {name!r}")
