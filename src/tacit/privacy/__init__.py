"""Privacy: mechanisms, clipping, statements and events; accounts in `accounting`, the durable `ledger`, `noise`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tacit.core.contract import unprotected as unprotected
from tacit.core.lazy import lazy_exports

if TYPE_CHECKING:
    from tacit.privacy.clipping import clipped_gradient as clipped_gradient
    from tacit.privacy.clipping import clipped_mean as clipped_mean
    from tacit.privacy.clipping import gradient_parts as gradient_parts
    from tacit.privacy.correlated_noise import correlated as correlated
    from tacit.privacy.draws import release as release
    from tacit.privacy.events import EVERYONE as EVERYONE
    from tacit.privacy.events import Event as Event
    from tacit.privacy.events import Loss as Loss
    from tacit.privacy.graph_mechanisms import graph_homomorphic as graph_homomorphic
    from tacit.privacy.graph_mechanisms import laplace_of_size as laplace_of_size
    from tacit.privacy.graph_mechanisms import local_graph_homomorphic as local_graph_homomorphic
    from tacit.privacy.graph_mechanisms import on_grid as on_grid
    from tacit.privacy.graph_mechanisms import per_edge as per_edge
    from tacit.privacy.mechanisms import bounded_laplace as bounded_laplace
    from tacit.privacy.mechanisms import classic_gaussian as classic_gaussian
    from tacit.privacy.mechanisms import decaying_gaussian as decaying_gaussian
    from tacit.privacy.mechanisms import gaussian as gaussian
    from tacit.privacy.mechanisms import laplace as laplace
    from tacit.privacy.network import LinearNetwork as LinearNetwork
    from tacit.privacy.network import NetworkLoss as NetworkLoss
    from tacit.privacy.network import averaging_network as averaging_network
    from tacit.privacy.network import network_loss as network_loss
    from tacit.privacy.noise import from_grid as from_grid
    from tacit.privacy.per_record.records import present_in as present_in
    from tacit.privacy.per_record.records import records_in as records_in
    from tacit.privacy.statements import statement as statement

__getattr__, __dir__, __all__ = lazy_exports(
    __name__,
    {
        "clipping": "clipped_gradient clipped_mean gradient_parts",
        "correlated_noise": "correlated",
        "draws": "release",
        "events": "EVERYONE Event Loss",
        "graph_mechanisms": "graph_homomorphic laplace_of_size local_graph_homomorphic on_grid per_edge",
        "mechanisms": "bounded_laplace classic_gaussian decaying_gaussian gaussian laplace",
        "network": "LinearNetwork NetworkLoss averaging_network network_loss",
        "noise": "from_grid",
        "per_record.records": "present_in records_in",
        "statements": "statement",
    },
)
__all__ += ["unprotected"]
