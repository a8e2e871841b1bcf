"""Every registered algorithm, and the four written on paper, with a problem that suits it."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import tacit
from tacit.contract import Algorithm
from tacit.graphs import Channel, Delay, Graph, Topology
from tests.contract import on_paper

AGENTS, DIM = 9, 8
OBJECTIVE = tacit.objectives.logistic(l2=1e-3)
MECHANISMS = (
    tacit.privacy.laplace(epsilon=4.0, clip=1.0, norm="l1", perturbs="update"),
    tacit.privacy.gaussian(noise_multiplier=0.5, clip=1.0, perturbs="gradient"),
    tacit.privacy.gaussian(noise_multiplier=0.5, clip=1.0, perturbs="model"),
)
LOSSY = Channel(loss=0.3, delay=Delay(p=0.4, longest=2))


class Case(NamedTuple):
    name: str
    make: Callable[[], Algorithm]
    graph: Graph | Topology
    channel: Channel


def digraph() -> Graph:
    return tacit.graphs.random_digraph(AGENTS, 4, seed=1)


def cases() -> list[Case]:
    found = []
    ring = tacit.graphs.small_world(AGENTS, 4, 0.2, seed=0)
    for name, entry in tacit.algorithms.REGISTRY.items():
        make = lambda entry=entry: entry.constructor(OBJECTIVE, step=0.2)  # noqa: E731
        algorithm = make()
        graph = ring if "doubly_stochastic" in algorithm.requires and algorithm.topology is None else digraph()
        found.append(Case(name, make, graph, Channel()))
        if "reliable" not in algorithm.requires and name != "local_online":
            found.append(Case(f"{name}, lossy", make, graph, LOSSY))
        if name != "local_online":
            # One mechanism each, in turn: what they have in common is tested with the mechanisms themselves.
            mine = MECHANISMS if name == "online_push_sum" else (MECHANISMS[len(found) % 2],)
            for mechanism in mine:
                make = lambda entry=entry, m=mechanism: entry.constructor(OBJECTIVE, step=0.2, mechanism=m)  # noqa: E731
                found.append(Case(f"{name}, {mechanism.name} on {mechanism.perturbs}", make, graph, Channel()))
    return [
        *found,
        Case(  # for all that can renormalise: the others do it in the same words
            "distributed_online, renormalised, lossy",
            lambda: tacit.algorithms.distributed_online(OBJECTIVE, step=0.2, missing="renormalise"),
            ring,
            LOSSY,
        ),
        Case("on paper: ATC", lambda: on_paper.adapt_then_combine(OBJECTIVE, 0.2), ring, Channel()),
        Case("on paper: ADMM", lambda: on_paper.networked_admm(OBJECTIVE, 0.5, 0.3), ring, Channel()),
        Case(
            "on paper: FedAvg",
            lambda: on_paper.sampled_fedavg(OBJECTIVE, 0.2, 3, AGENTS),
            tacit.graphs.star_roles(AGENTS),
            Channel(),
        ),
        Case(
            "on paper: partial sharing",
            lambda: on_paper.delayed_partial_sharing(OBJECTIVE, 0.2, 2, 0.5),
            digraph(),
            LOSSY,
        ),
    ]


CASES = cases()


def stream(seed: int = 0, rounds: int = 60) -> tacit.streams.Stream:
    return tacit.streams.logistic_drift(agents=AGENTS, dim=DIM, heterogeneity=0.5, rounds=rounds, seed=seed)
