"""Mixing across clusters, and refusals of graphs whose clusters a method cannot run on."""

from __future__ import annotations

from collections.abc import Callable

import jax.numpy as jnp
import numpy as np

from tacit.algorithms.schedules import evaluated
from tacit.core.checks import proportion
from tacit.core.contract import Array, Inbox, Params, View
from tacit.core.errors import ConfigError
from tacit.graphs import Topology

Strength = float | Callable[[Array], Array]
"""How much other clusters weigh in, from 0 to 1: a number, or a function of the round."""


def mixing(tau: Strength, clusters: int) -> Callable[[Params, View], Params]:
    """Return the learning across clusters, Gauthier (2023), (5.10)."""
    if not callable(tau):
        proportion("tau", tau, "or a function of the round; at 0 clusters stay apart", zero=True, one=True)

    def mixed(models: Params, view: View) -> Params:
        if clusters == 1 or (not callable(tau) and tau == 0):
            return models
        strength = jnp.asarray(evaluated(tau, view.round, "tau") if callable(tau) else tau, models.dtype)
        others = (jnp.sum(models, axis=0) - models) / (clusters - 1)
        return (1 - strength) * models + strength * others

    return mixed


def mean_of_others(inbox: Inbox) -> tuple[Params, Array]:
    """Return the mean over the clusters heard of the mean of their models, (6.3), and how many clusters those are.

    A message's public part says which cluster it comes from.
    """
    others = inbox.arrived & (inbox.slot > 0)
    heard = inbox.values()
    same = (heard.public[:, None] == heard.public) & others[:, None] & others
    share_of = jnp.where(others, 1 / jnp.maximum(jnp.sum(same, axis=1), 1), 0).astype(heard.private.dtype)
    clusters = jnp.sum(share_of)  # each of those heard adds up to one
    return (share_of @ heard.private) / jnp.maximum(clusters, 1), clusters


def refuse_other_clusters(given: Topology, name: str, clusters: int) -> None:
    """Refuse a topology without servers and clients, or whose clusters are others than the method's."""
    if "server" not in given.roles or "client" not in given.roles:
        roles = ", ".join(f"{size} {role}s" for role, size in given.roles.items())
        raise ConfigError(
            f"{name} got a graph of {roles}; say who serves whom and who belongs together with "
            "tacit.graphs.federation(graph of the servers, clients=..., clusters=...)"
        )
    labels = given.clusters.get("client")
    found = 1 if labels is None else int(labels.max()) + 1
    if clusters not in (1, found):
        raise ConfigError(
            f"clusters = {clusters}, but the clients are in {found}; give tacit.graphs.federation(..., clusters=...) "
            "one number from 0 on per client, or say clusters=1 to learn one model for all"
        )


def refuse_unsolvable(given: Topology, l2: float) -> None:
    """Refuse a graph without clusters, and agents whose local problem has no unique solution."""
    if not {"cluster", "bridge"} <= given.links.keys():
        raise ConfigError(
            f"networked_personalised got links {', '.join(sorted(given.links))}; say who belongs to which cluster with "
            "graph.with_clusters([0, 1, ...])"
        )
    labels = given.clusters.get("peer", np.zeros(given.roles["peer"], np.int32))
    for name, inside in (("cluster", True), ("bridge", False)):
        links = given.links[name]
        strange = np.flatnonzero((labels[links.senders] == labels[links.receivers]) != inside)
        if strange.size:
            a, b = links.senders[strange[0]], links.receivers[strange[0]]
            raise ConfigError(
                f"the link {a} -> {b} is of {name!r}, but agent {a} is in cluster {labels[a]} and agent {b} in "
                f"{labels[b]}; {name!r} links lead {'within one cluster' if inside else 'from one cluster to another'}"
            )
    alone = np.flatnonzero(given.links["cluster"].in_degree == 0)
    if alone.size and l2 == 0:
        raise ConfigError(
            f"agent {alone[0]} has no neighbour of its own cluster, so that nothing makes its local problem's solution "
            "unique; link it to one, or give the objective l2 > 0"
        )
