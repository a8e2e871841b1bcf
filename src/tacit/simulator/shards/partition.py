"""Partition of agents into shards that have few links between them."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tacit.attacks.kinds import Attack
from tacit.core.errors import ConfigError
from tacit.simulator.layout import Layout


def homes(layout: Layout, ends: Mapping[str, tuple[str, str]], shards: int) -> dict[str, np.ndarray]:
    """Return the shard of each agent of each role, by id in the union."""
    return {role: np.arange(found.order.size) * shards // found.order.size for role, found in layout.roles.items()}


def refuse_liars(liars: Mapping[int, Attack]) -> None:
    """Refuse liars: what they tell is made of messages of all shards."""
    if liars:
        raise ConfigError(
            f"agents {list(liars)} lie, and liars look at the messages of all agents, which several devices do not "
            "hold; leave out devices, or the liars"
        )
