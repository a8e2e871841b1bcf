"""Methods, one per file; baselines that differ little share one. What several methods need has a file of its own."""

from __future__ import annotations

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
from tacit.algorithms.averaging.distributed_online import distributed_minibatch, distributed_online
from tacit.algorithms.diffusion.diffusion import adapt_then_combine, combine_then_adapt, consensus, diffusion
from tacit.algorithms.federated._importance import optimal_shares
from tacit.algorithms.federated._probabilities import Shares
from tacit.algorithms.federated.fedavg import fedavg
from tacit.algorithms.federated.graph_federated import graph_federated
from tacit.algorithms.federated.importance_fedavg import importance_fedavg
from tacit.algorithms.mirror.constrained_mirror_descent import constrained_mirror_descent, saddle_constants
from tacit.algorithms.mirror.dynamic_mirror_descent import dynamic_mirror_descent
from tacit.algorithms.mirror.lagrangian_descent import lagrangian_descent
from tacit.algorithms.mirror.mirror_descent import mirror_descent
from tacit.algorithms.personalised.discovery import Found, find_clusters
from tacit.algorithms.personalised.networked_personalised import networked_personalised
from tacit.algorithms.personalised.personalised_graph_federated import clustered_federated, personalised_graph_federated
from tacit.algorithms.push_sum.loss_tolerant_push_sum import loss_tolerant_push_sum
from tacit.algorithms.push_sum.online_push_sum import online_push_sum
from tacit.algorithms.registry import REGISTRY, Entry, find, register
from tacit.algorithms.schedules import inverse, inverse_sqrt

__all__ = [
    "REGISTRY",
    "Entry",
    "Found",
    "Shares",
    "adapt_then_combine",
    "centralised_online",
    "clustered_federated",
    "combine_then_adapt",
    "consensus",
    "constrained_mirror_descent",
    "decentralised_asymmetric",
    "decentralised_symmetric",
    "diffusion",
    "distributed_minibatch",
    "distributed_online",
    "dp_admm",
    "dynamic_mirror_descent",
    "fedavg",
    "find",
    "find_clusters",
    "graph_federated",
    "importance_fedavg",
    "inverse",
    "inverse_sqrt",
    "lagrangian_descent",
    "local_online",
    "loss_tolerant_push_sum",
    "mirror_descent",
    "networked_personalised",
    "online_fed",
    "online_fedsgd",
    "online_push_sum",
    "optimal_shares",
    "pao_fed",
    "partial_diffusion",
    "personalised_graph_federated",
    "private_admm",
    "pso_fed",
    "register",
    "saddle_constants",
    "sign_sgd",
    "zcdp_admm",
    "zcdp_subgradient",
]
