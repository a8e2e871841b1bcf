"""Time-varying networks with doubly stochastic weights: an agent hears at most one other (Li et al., Assumption 2)."""

from __future__ import annotations

import numpy as np

from tacit.core.errors import ConfigError
from tacit.graphs import Graph, RandomMatching, complete, periodic


def matchings(nodes: int) -> Graph:
    """Return a network in which random pairs talk in each round: connected over time, with certainty in the limit."""
    return complete(nodes) if nodes == 1 else complete(nodes).with_dynamics(RandomMatching())


def exchanges(nodes: int) -> Graph:
    """Return a network whose pairs take turns so that all average exactly in log2(nodes) rounds (dimension exchange).

    In round t, i talks to the node whose number differs from its own in bit (t - 1) mod log2(nodes).
    """
    if nodes < 1 or nodes & (nodes - 1):
        raise ConfigError(f"nodes = {nodes}: dimension exchange needs a power of two")
    everyone = np.arange(nodes)
    if nodes == 1:
        return complete(1)
    turns = [Graph.from_edges(nodes, everyone ^ (1 << bit), everyone) for bit in range(rounds_to_average(nodes))]
    return periodic(turns, name="dimension exchange")


def rounds_to_average(nodes: int) -> int:
    """Return after how many rounds of `exchanges` all hold the average; at least one round is run."""
    return max(1, nodes.bit_length() - 1)
