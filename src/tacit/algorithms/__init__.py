"""Methods of decentralised, federated and private online learning, by family; each is imported when it is asked for."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from tacit.algorithms.registry import METHODS, REGISTRY, Entry, find, register

if TYPE_CHECKING:
    from tacit.algorithms.admm.private_admm import private_admm
    from tacit.algorithms.admm.zcdp_admm import dp_admm, zcdp_admm
    from tacit.algorithms.admm.zcdp_subgradient import zcdp_subgradient
    from tacit.algorithms.asynchronous.online_federated import online_fed, online_fedsgd, pso_fed
    from tacit.algorithms.asynchronous.pao_fed import pao_fed
    from tacit.algorithms.asynchronous.partial_diffusion import partial_diffusion
    from tacit.algorithms.asynchronous.sign_sgd import sign_sgd
    from tacit.algorithms.averaging.averaging import (
        centralised_online,
        decentralised_asymmetric,
        decentralised_symmetric,
        local_online,
    )
    from tacit.algorithms.averaging.choco_sgd import choco_sgd
    from tacit.algorithms.averaging.diffusion import adapt_then_combine, combine_then_adapt, consensus, diffusion
    from tacit.algorithms.averaging.distributed_online import distributed_minibatch, distributed_online
    from tacit.algorithms.compression import compressed
    from tacit.algorithms.federated._importance import Shares, optimal_shares
    from tacit.algorithms.federated.fedavg import fedavg
    from tacit.algorithms.federated.fedprox import fedprox
    from tacit.algorithms.federated.graph_federated import graph_federated
    from tacit.algorithms.federated.importance_fedavg import importance_fedavg
    from tacit.algorithms.federated.scaffold import scaffold
    from tacit.algorithms.federated.server_optimiser import fedadam, fedavgm
    from tacit.algorithms.mirror.constrained_mirror_descent import constrained_mirror_descent, saddle_constants
    from tacit.algorithms.mirror.dynamic_mirror_descent import dynamic_mirror_descent
    from tacit.algorithms.mirror.lagrangian_descent import lagrangian_descent
    from tacit.algorithms.mirror.mirror_descent import mirror_descent
    from tacit.algorithms.model_average import averaged
    from tacit.algorithms.momentum.local_momentum import decentralised_momentum
    from tacit.algorithms.momentum.quasi_global_momentum import quasi_global_momentum
    from tacit.algorithms.personalised._discovery import Found, find_clusters
    from tacit.algorithms.personalised.networked_personalised import networked_personalised
    from tacit.algorithms.personalised.personalised_graph_federated import (
        clustered_federated,
        personalised_graph_federated,
    )
    from tacit.algorithms.push_sum.loss_tolerant_push_sum import loss_tolerant_push_sum
    from tacit.algorithms.push_sum.online_push_sum import online_push_sum
    from tacit.algorithms.robust_mixing import robust
    from tacit.algorithms.schedules import inverse, inverse_sqrt
    from tacit.algorithms.tracking.exact_diffusion import exact_diffusion
    from tacit.algorithms.tracking.extra import extra
    from tacit.algorithms.tracking.gradient_tracking import gradient_tracking
    from tacit.algorithms.tracking.push_diging import push_diging

_MODULES = {
    **METHODS,
    "Found": "personalised._discovery",
    "Shares": "federated._importance",
    "averaged": "model_average",
    "compressed": "compression",
    "find_clusters": "personalised._discovery",
    "inverse": "schedules",
    "inverse_sqrt": "schedules",
    "optimal_shares": "federated._importance",
    "robust": "robust_mixing",
    "saddle_constants": "mirror.constrained_mirror_descent",
}
"""Public name -> its module."""

__all__ = [
    "REGISTRY", "Entry", "Found", "Shares", "adapt_then_combine", "averaged", "centralised_online", "choco_sgd",
    "clustered_federated", "combine_then_adapt", "compressed", "consensus", "constrained_mirror_descent",
    "decentralised_asymmetric", "decentralised_momentum", "decentralised_symmetric", "diffusion",
    "distributed_minibatch", "distributed_online", "dp_admm", "dynamic_mirror_descent", "exact_diffusion", "extra",
    "fedadam", "fedavg", "fedavgm", "fedprox", "find", "find_clusters", "gradient_tracking", "graph_federated",
    "importance_fedavg", "inverse", "inverse_sqrt", "lagrangian_descent", "local_online", "loss_tolerant_push_sum",
    "mirror_descent", "networked_personalised", "online_fed", "online_fedsgd", "online_push_sum", "optimal_shares",
    "pao_fed", "partial_diffusion", "personalised_graph_federated", "private_admm", "pso_fed", "push_diging",
    "quasi_global_momentum", "register", "robust", "saddle_constants", "scaffold", "sign_sgd", "zcdp_admm",
    "zcdp_subgradient",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    """Import the module of a public name."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}; dir({__name__}) lists what there is")
    found = globals()[name] = getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
    return found


def __dir__() -> list[str]:
    return list(__all__)
