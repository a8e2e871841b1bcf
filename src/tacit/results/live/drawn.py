"""Networks as a live file has them: agent by agent, or in groups where there are many."""

from __future__ import annotations

from typing import Any

import numpy as np

from tacit.results.live.parts import Drawing

MOST_NODES, MOST_LINKS, MOST_SAMPLED = 2000, 100_000, 10**6
"""Agents of which each is kept, and links; of more agents there are groups, with links made of so many."""


def line_of(drawn: Drawing) -> dict[str, Any]:
    """Return the line of a network, and under "groups" the group of each agent where they are aggregated.

    Args:
      drawn: The network.
    """
    return grouped(drawn) if len(drawn.names) > MOST_NODES else whole(drawn)


def whole(drawn: Drawing) -> dict[str, Any]:
    """Return a network as its line has it, each agent a node.

    Args:
      drawn: The network.
    """
    names = list(drawn.names) + [""] * (drawn.agents - len(drawn.names))
    clusters = None if drawn.clusters is None else drawn.clusters.tolist()
    links = np.stack([drawn.senders, drawn.receivers], axis=1)
    return {
        "agents": drawn.agents,
        "aggregated": False,
        "labels": names if any(names) else None,
        "count": len(names),
        "clusters": clusters,
        "sizes": None,
        "links": links.tolist() if len(links) <= MOST_LINKS else [],
        "left_out": 0 if len(links) <= MOST_LINKS else len(links),
        "states": list(drawn.states) if len(links) <= MOST_LINKS else [],
        "groups": None,
    }


def grouped(drawn: Drawing, most: int = 200) -> dict[str, Any]:
    """Return a large network as its line has it, groups of its learners as nodes: its clusters, or neighbours in order.

    Args:
      drawn: The network.
      most: Groups.
    """
    agents = drawn.agents
    if drawn.clusters is not None and 1 < np.unique(drawn.clusters).size <= most:
        _, groups = np.unique(drawn.clusters, return_inverse=True)
    else:
        groups = np.arange(agents) * most // agents
    count = int(groups.max()) + 1
    apart = 1 + drawn.senders.size // MOST_SAMPLED  # of very many links some say who is linked to whom
    senders, receivers = drawn.senders[::apart], drawn.receivers[::apart]
    among = (senders < agents) & (receivers < agents)
    pairs = groups[senders[among]] * count + groups[receivers[among]]
    found = np.unique(pairs)
    links = np.stack(np.divmod(found, count), axis=1)
    sizes = np.bincount(groups, minlength=count)
    first = np.searchsorted(groups, np.arange(count)) if drawn.clusters is None else None
    ends = None if first is None else [f"agents {a} to {a + n - 1}" for a, n in zip(first, sizes.tolist(), strict=True)]
    return {
        "agents": agents,
        "aggregated": True,
        "labels": ends,
        "count": count,
        "clusters": list(range(count)) if drawn.clusters is not None else None,
        "sizes": sizes.tolist(),
        "links": links[links[:, 0] != links[:, 1]].tolist(),
        "left_out": 0,
        "states": [],
        "groups": groups,
    }
