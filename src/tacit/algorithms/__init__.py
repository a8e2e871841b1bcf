"""Methods, one per file; baselines that differ only in graph and weights share one."""

from __future__ import annotations

from tacit.algorithms.averaging import (
    centralised_online,
    decentralised_asymmetric,
    decentralised_symmetric,
    local_online,
)
from tacit.algorithms.distributed_online import distributed_minibatch, distributed_online
from tacit.algorithms.loss_tolerant_push_sum import loss_tolerant_push_sum
from tacit.algorithms.online_push_sum import online_push_sum
from tacit.algorithms.registry import REGISTRY, Entry, find, register
from tacit.algorithms.schedules import inverse, inverse_sqrt

__all__ = [
    "REGISTRY",
    "Entry",
    "centralised_online",
    "decentralised_asymmetric",
    "decentralised_symmetric",
    "distributed_minibatch",
    "distributed_online",
    "find",
    "inverse",
    "inverse_sqrt",
    "local_online",
    "loss_tolerant_push_sum",
    "online_push_sum",
    "register",
]
