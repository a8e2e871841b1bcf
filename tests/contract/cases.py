"""Every registered algorithm, in the forms that it has, with a problem that suits it."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import tacit
from tacit.core.contract import Algorithm, Mechanism
from tacit.graphs import Attendance, Channel, Delay, Graph, Topology
from tacit.objectives import Constraint, entropy, euclidean_ball, spending_limit
from tacit.privacy import graph_homomorphic, local_graph_homomorphic, per_edge

AGENTS, DIM, ROUNDS = 9, 8, 50
OBJECTIVE = tacit.objectives.logistic(l2=1e-3)
MECHANISMS = (
    tacit.privacy.laplace(epsilon=4.0, clip=1.0, norm="l1", perturbs="update"),
    tacit.privacy.gaussian(noise_multiplier=0.5, clip=1.0, perturbs="gradient"),
    tacit.privacy.gaussian(noise_multiplier=0.5, clip=1.0, perturbs="model"),
    tacit.privacy.correlated(rounds=20, rho=2.0, clip=1.0),  # the rounds of a run are more: several blocks
)
SPHERICAL = tacit.privacy.laplace(epsilon=4.0, clip=1.0)
LOSSY = Channel(loss=0.3, delay=Delay(p=0.4, longest=2))
LIMITS = (spending_limit(-0.5), Constraint("share", lambda params, batch: 0.2 - params[0], False))
"""Both violated at the first parameters of a run, whichever the geometry: their dual variables grow. One reads data."""
SHARES = tacit.algorithms.Shares(np.arange(1.0, AGENTS + 1))
WITHOUT_NOISE = ("local_online", "importance_fedavg")
"""The first sends nothing; the second has a sister for noise, `fedavg`."""
WITH_LAPLACE = (
    "adapt_then_combine",
    "centralised_online",
    "consensus",
    "decentralised_asymmetric",
    "distributed_online",
    "dp_admm",
    "fedavg",
    "lagrangian_descent",
    "loss_tolerant_push_sum",
    "mirror_descent",
    "online_fedsgd",
    "partial_diffusion",
    "pso_fed",
    "decentralised_momentum",
    "extra",
    "scaffold",
)
"""Methods that are run with Laplace noise on updates; the others have Gaussian noise on gradients."""
FORMS = {
    # Of a method that has several: what it is run as without noise, and with.
    "mirror_descent": ({"mirror": entropy(), "unbiased": True}, {"mirror": entropy()}),
    "dynamic_mirror_descent": ({"mirror": entropy()}, {"mirror": euclidean_ball(0.5), "unbiased": True}),
    "constrained_mirror_descent": ({"mirror": entropy()}, {"mirror": euclidean_ball(0.5), "dual": "released"}),
    "lagrangian_descent": ({"mirror": euclidean_ball(0.5), "dual": "released"}, {"mirror": entropy()}),
    "diffusion": ({"after": "peers"}, {"within": "peers", "after": "peers"}),
    # Given shares: with those that are made from data, who is called tells of them.
    "importance_fedavg": ({"cohort": 3, "local_steps": [1, 2, 3] * 3, "probabilities": SHARES}, {}),
    "graph_federated": ({"cohort": 2, "server_mechanism": graph_homomorphic(0.1)}, {"cohort": 2, "local_steps": 2}),
    "decentralised_symmetric": ({"apart": True}, {"apart": True}),
    "personalised_graph_federated": (
        {"clusters": 3, "tau": 0.3, "exact": True},
        {"clusters": 3, "tau": 0.3, "cohort": 2},
    ),
    "clustered_federated": ({"clusters": 3, "tau": 0.3, "cohort": 2}, {"clusters": 1}),
    "networked_personalised": ({"tau": 0.2}, {"tau": 0.2}),
    "pao_fed": ({"share": 3, "variant": "U1"}, {"share": 2, "variant": "C2"}),
    "online_fed": ({"fraction": 0.5}, {"fraction": 0.5}),
    "pso_fed": ({"share": 2, "fraction": 0.5}, {"share": 2, "fraction": 0.5, "coordinated": True}),
    "decentralised_momentum": ({"nesterov": True}, {}),
    "quasi_global_momentum": ({}, {"nesterov": True, "missing": "renormalise"}),
    "gradient_tracking": ({}, {"combine": "before"}),
    "choco_sgd": ({"operator": "sign"}, {"operator": "every_k", "share": 0.5}),
    "fedprox": ({"cohort": 3, "local_steps": [1, 2, 3] * 3}, {}),
    "scaffold": ({"local_steps": 3}, {"cohort": 3, "local_steps": [1, 2, 3] * 3}),
    "fedavgm": ({"cohort": 3}, {"local_steps": 2}),
    "fedadam": ({"variant": "yogi", "missing": "renormalise"}, {"cohort": 3, "variant": "adagrad"}),
    # Windows of its own go by a peer's number.
    "partial_diffusion": ({"share": 3, "coordinated": True, "decay": 0.5}, {"share": 2, "order": "random"}),
}
SISTERS = {
    "decentralised_symmetric": "centralised_online",
    "decentralised_asymmetric": "centralised_online",
    "dynamic_mirror_descent": "mirror_descent",
    "lagrangian_descent": "constrained_mirror_descent",
    "fedavg": "fedavg, sampled",
    "graph_federated": "fedavg, sampled",
    "adapt_then_combine": "diffusion",
    "importance_fedavg": "fedavg, sampled",
    "combine_then_adapt": "diffusion",
    "consensus": "diffusion",
    "dp_admm": "zcdp_admm",
    "private_admm": "networked_personalised",
    "zcdp_subgradient": "diffusion",
    "clustered_federated": "personalised_graph_federated",
    "networked_personalised": "personalised_graph_federated",
    "online_fedsgd": "pao_fed, there by chance",
    "online_fed": "pao_fed, there by chance",
    "pso_fed": "pao_fed, there by chance",
    "pao_fed": "pao_fed, there by chance",
    "sign_sgd": "pao_fed, there by chance",
    "decentralised_momentum": "distributed_online",
    "quasi_global_momentum": "distributed_online",
    "push_diging": "gradient_tracking",
    "extra": "gradient_tracking",
    "exact_diffusion": "gradient_tracking",
    "choco_sgd": "gradient_tracking",
    "fedprox": "fedavg, sampled",
    "scaffold": "fedavg, sampled",
    "fedavgm": "fedavg, sampled",
    "fedadam": "fedavg, sampled",
}
"""Methods that share their code with another, whose tests are enough for every day."""


class Case(NamedTuple):
    name: str
    make: Callable[[], Algorithm]
    graph: Graph | Topology
    channel: Channel


def build(name: str, mechanism: Mechanism | None = None, **settings: Any) -> Algorithm:
    """Make a registered method with what it cannot do without."""
    constructor = tacit.algorithms.find(name).constructor
    if name == "lagrangian_descent":
        settings = {"rounds": ROUNDS, **settings}
    elif "step" in inspect.signature(constructor).parameters:
        settings = {"step": 0.2, **settings}
    if name in ("constrained_mirror_descent", "lagrangian_descent"):
        settings = {"constraints": LIMITS, **settings}
    if mechanism is not None:
        settings["mechanism"] = mechanism
    return constructor(OBJECTIVE, **settings)._replace(horizon=None)  # runs are of any length here


def digraph() -> Graph:
    return tacit.graphs.random_digraph(AGENTS, 4, seed=1)


def coming_and_going() -> Graph:
    """Everybody stays away now and then, agent 0 in round 2."""
    table = np.random.default_rng(0).random((5, AGENTS)) < 0.8
    table[:, 0] = [True, False, True, True, True]
    return digraph().with_dynamics(Attendance(table))


def graph_of(algorithm: Algorithm) -> Graph | Topology:
    if algorithm.learner != "peer":
        servers = {phase.links for phase in algorithm.phases} >= {"servers"} or algorithm.name == "clustered_federated"
        # A server without a client of cluster 2, and one with clients of all.
        clusters = [0, 1, 0, 0, 1, 2, 1, 2, 2]
        return (
            tacit.graphs.federation(tacit.graphs.ring(3), AGENTS // 3, clusters)
            if servers
            else tacit.graphs.star_roles(AGENTS)
        )
    if algorithm.name == "networked_personalised":
        return tacit.graphs.small_world(AGENTS, 4, 0.2, seed=0).with_clusters(np.arange(AGENTS) % 3)
    if algorithm.name == "dynamic_mirror_descent":
        return coming_and_going()
    if (algorithm.weights == "metropolis" or "symmetric" in algorithm.requires) and algorithm.topology is None:
        return tacit.graphs.small_world(AGENTS, 4, 0.2, seed=0)
    return digraph()


def cases() -> list[Case]:
    found = []
    for name in tacit.algorithms.REGISTRY:
        plain, noisy = FORMS.get(name, ({}, {}))
        make = lambda name=name, form=plain: build(name, **form)  # noqa: E731
        algorithm = make()
        graph = graph_of(algorithm)
        found.append(Case(name, make, graph, Channel()))
        if "reliable" not in algorithm.requires and name != "local_online":
            found.append(Case(f"{name}, lossy", make, graph, LOSSY))
        if name not in WITHOUT_NOISE:
            # One mechanism each: what they have in common is tested with the mechanisms themselves.
            mine = MECHANISMS if name == "online_push_sum" else (MECHANISMS[0 if name in WITH_LAPLACE else 1],)
            if algorithm.prepare is not None:  # of local problems solved to the end, which take no other clip
                mine = (SPHERICAL,)
            for mechanism in mine:
                make = lambda name=name, m=mechanism, form=noisy: build(name, m, **form)  # noqa: E731
                found.append(Case(f"{name}, {mechanism.name} on {mechanism.perturbs}", make, graph, Channel()))
    ring = tacit.graphs.small_world(AGENTS, 4, 0.2, seed=0)
    return [
        *found,
        Case(  # for all that can renormalise: the others do it in the same words
            "distributed_online, renormalised, lossy",
            lambda: tacit.algorithms.distributed_online(OBJECTIVE, step=0.2, missing="renormalise"),
            ring,
            LOSSY,
        ),
        *(
            Case(f"adapt_then_combine, {m.name}", lambda m=m: build("adapt_then_combine", m), ring, Channel())
            for m in (per_edge(0.1, clip=1.0), graph_homomorphic(0.1, clip=1.0), local_graph_homomorphic(0.1))
        ),
        Case(
            "fedavg, sampled",
            lambda: build("fedavg", MECHANISMS[1], cohort=3, local_steps=[1, 2, 3] * 3),
            tacit.graphs.star_roles(AGENTS),
            Channel(),
        ),
        Case(
            "fedavg, sampled, correlated on update",
            lambda: build("fedavg", MECHANISMS[3], cohort=3, local_steps=[1, 2, 3] * 3),
            tacit.graphs.star_roles(AGENTS),
            Channel(),
        ),
        Case(  # who is there is the same on both link sets, and only what goes up is delayed
            "pao_fed, there by chance",
            lambda: build("pao_fed", share=3, variant="U2", download="all", newest_only=True),
            tacit.graphs.star_roles(AGENTS).available("client", np.linspace(0.2, 1, AGENTS)),
            Channel(0.1, Delay(p=0.5, longest=6, step=2), links=("uplink",)),
        ),
    ]


CASES = cases()


def stream(seed: int = 0, rounds: int = 60) -> tacit.streams.Stream:
    return tacit.streams.logistic_drift(agents=AGENTS, dim=DIM, heterogeneity=0.5, rounds=rounds, seed=seed)
