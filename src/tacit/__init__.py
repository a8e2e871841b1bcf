"""tacit: peers learn together without telling."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from tacit.version import __version__ as __version__

if TYPE_CHECKING:
    from tacit import (
        algorithms,
        attacks,
        audit,
        experiments,
        graphs,
        interop,
        metrics,
        models,
        objectives,
        peer,
        privacy,
        results,
        streams,
    )
    from tacit.core import contract, errors, limits
    from tacit.deploy.peer import Peer
    from tacit.experiments.references import compare
    from tacit.models import load_model
    from tacit.results import Run
    from tacit.simulator import simulate

_HOMES = {
    "Peer": "tacit.deploy.peer:Peer",
    "Run": "tacit.results:Run",
    "algorithms": "tacit.algorithms",
    "attacks": "tacit.attacks",
    "audit": "tacit.audit",
    "compare": "tacit.experiments.references:compare",
    "contract": "tacit.core.contract",
    "errors": "tacit.core.errors",
    "experiments": "tacit.experiments",
    "graphs": "tacit.graphs",
    "interop": "tacit.interop",
    "limits": "tacit.core.limits",
    "load_model": "tacit.models:load_model",
    "metrics": "tacit.metrics",
    "models": "tacit.models",
    "objectives": "tacit.objectives",
    "peer": "tacit.peer",
    "privacy": "tacit.privacy",
    "results": "tacit.results",
    "simulate": "tacit.simulator:simulate",
    "streams": "tacit.streams",
}
"""Public name -> its module, and after the colon the name there."""

__all__ = [
    "Peer", "Run", "algorithms", "attacks", "audit", "compare", "contract", "errors", "experiments", "graphs",
    "interop", "limits", "load_model", "metrics", "models", "objectives", "peer", "privacy", "results", "simulate",
    "streams",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used: `import tacit` is quick, and a peer loads no simulator."""
    if name not in _HOMES:
        raise AttributeError(f"module 'tacit' has no attribute {name!r}; dir(tacit) lists what there is")
    module, _, attribute = _HOMES[name].partition(":")
    found = import_module(module)
    return getattr(found, attribute) if attribute else found


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
