"""Privacy: mechanisms, clipping, statements and events; accounts in `accounting`, the durable `ledger`, `noise`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tacit.core.contract import unprotected
from tacit.core.lazy import lazy_exports
from tacit.privacy.clipping import clipped_gradient, clipped_mean, gradient_parts
from tacit.privacy.events import EVERYONE, Event, Loss
from tacit.privacy.mechanisms import bounded_laplace, classic_gaussian, decaying_gaussian, gaussian, laplace
from tacit.privacy.noise import from_grid
from tacit.privacy.per_record.records import present_in, records_in
from tacit.privacy.release import release
from tacit.privacy.statements import statement

if TYPE_CHECKING:
    from tacit.privacy.correlated_noise import correlated
    from tacit.privacy.graph_mechanisms import (
        graph_homomorphic,
        laplace_of_size,
        local_graph_homomorphic,
        on_grid,
        per_edge,
    )
    from tacit.privacy.network import LinearNetwork, NetworkLoss, averaging_network, network_loss

# No peer needs these, or only one that asks for it.
__getattr__ = lazy_exports(
    __name__,
    {
        "correlated_noise": "correlated",
        "graph_mechanisms": "graph_homomorphic laplace_of_size local_graph_homomorphic on_grid per_edge",
        "network": "LinearNetwork NetworkLoss averaging_network network_loss",
    },
)[0]
__all__ = [
    "EVERYONE",
    "Event",
    "LinearNetwork",
    "Loss",
    "NetworkLoss",
    "averaging_network",
    "bounded_laplace",
    "classic_gaussian",
    "clipped_gradient",
    "clipped_mean",
    "correlated",
    "decaying_gaussian",
    "from_grid",
    "gaussian",
    "gradient_parts",
    "graph_homomorphic",
    "laplace",
    "laplace_of_size",
    "local_graph_homomorphic",
    "network_loss",
    "on_grid",
    "per_edge",
    "present_in",
    "records_in",
    "release",
    "statement",
    "unprotected",
]
