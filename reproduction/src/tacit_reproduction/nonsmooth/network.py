"""Random connected networks of a given mean degree."""

from __future__ import annotations

import numpy as np

from tacit.core.errors import ConfigError
from tacit.graphs import Graph, from_edges


def connected(agents: int, mean_degree: float, seed: int) -> Graph:
    """Return a symmetric graph of that mean degree: a random tree, and links between random pairs on top of it.

    Plain random graphs of few links per agent are hardly ever connected, as these methods need it.
    """
    links = round(agents * mean_degree / 2)
    if agents < 2 or not agents - 1 <= links <= agents * (agents - 1) // 2:
        raise ConfigError(
            f"connected({agents}, {mean_degree}): {links} links; expected at least {agents - 1}, a tree's, "
            "and at most one between any two of at least two agents"
        )
    rng = np.random.default_rng([seed, agents, links])
    order = rng.permutation(agents)
    taken = np.zeros((agents, agents), bool)
    for place in range(1, agents):
        ends = order[place], order[rng.integers(place)]
        taken[min(ends), max(ends)] = True
    free = np.argwhere(np.triu(~taken, 1))
    more = free[rng.choice(len(free), links - (agents - 1), replace=False)]
    taken[more[:, 0], more[:, 1]] = True
    first, second = np.nonzero(taken)
    name = f"connected({agents}, {mean_degree:g})"
    return from_edges(agents, np.concatenate([first, second]), np.concatenate([second, first]), name=name)
