"""tacit in the manner of other libraries: river's online learners, scikit-learn's estimators, TensorBoard and MLflow.

None of these is needed to import this package, and only what is asked for is loaded.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from tacit.core.extras import require

if TYPE_CHECKING:
    from tacit.interop.estimators import PeerClassifier, PeerRegressor
    from tacit.interop.online import OnlineClassifier, OnlineRegressor
    from tacit.interop.trackers import log_to_mlflow, log_to_tensorboard

_HOMES = {
    "PeerClassifier": "estimators",
    "PeerRegressor": "estimators",
    "OnlineClassifier": "online",
    "OnlineRegressor": "online",
    "log_to_mlflow": "trackers",
    "log_to_tensorboard": "trackers",
}

__all__ = [
    "OnlineClassifier",
    "OnlineRegressor",
    "PeerClassifier",
    "PeerRegressor",
    "log_to_mlflow",
    "log_to_tensorboard",
]


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used: scikit-learn takes its time."""
    if name not in _HOMES:
        raise AttributeError(f"module 'tacit.interop' has no attribute {name!r}; dir() lists what there is")
    if _HOMES[name] == "estimators":
        require("sklearn", "data", f"tacit.interop.{name}")
    return getattr(import_module(f"tacit.interop.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return __all__
