"""tacit: peers learn together without telling."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from tacit.version import __version__ as __version__

if TYPE_CHECKING:
    from tacit import algorithms, audit, graphs, interop, metrics, objectives, peer, privacy, streams
    from tacit.core import contract, errors, limits
    from tacit.deploy.peer import Peer
    from tacit.results import Run
    from tacit.simulator import simulate

_PLACES = {
    "Peer": "tacit.deploy.peer",
    "Run": "tacit.results",
    "simulate": "tacit.simulator",
    "contract": "tacit.core",
    "errors": "tacit.core",
    "limits": "tacit.core",
}
_PACKAGES = ("algorithms", "audit", "graphs", "interop", "metrics", "objectives", "peer", "privacy", "streams")

__all__ = [
    "Peer",
    "Run",
    "algorithms",
    "audit",
    "contract",
    "errors",
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
    """Import what is asked for, so that `import tacit` costs nothing and a peer imports no simulator."""
    if name in _PACKAGES:
        return import_module(f"tacit.{name}")
    if name not in _PLACES:
        raise AttributeError(f"module 'tacit' has no attribute {name!r}; dir(tacit) lists what there is")
    place = import_module(_PLACES[name])
    if name in ("contract", "errors", "limits"):
        return import_module(f"tacit.core.{name}")
    return getattr(place, name)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
