"""Decentralised online gradient descent by plain averaging, and the baselines of the OPS paper, sec. 5, made of it.

x'_i = x_i - gamma grad f_it(x_i);   x_i = sum_j W[i, j] x'_j
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Literal

from tacit.algorithms._parts.descent import gradient_step
from tacit.algorithms._parts.mixing import IfMissing, averaged_step, first_model, link_requirements
from tacit.algorithms.local_step import LocalStep, optimised, rate_of
from tacit.algorithms.registry import register
from tacit.core.contract import Algorithm, Mechanism, Objective, Requirement, same_state, unprotected
from tacit.core.errors import TacitWarning
from tacit.graphs import Graph, Topology
from tacit.graphs.checks import component_count
from tacit.privacy import statement


def _averaging(
    name: str,
    objective: Objective,
    step: LocalStep,
    mechanism: Mechanism,
    requires: frozenset[Requirement],
    weights: Literal["sender", "receiver", "metropolis"],
    rewire: Callable[[Graph], Graph] | None,
    missing: IfMissing = "wait",
) -> Algorithm:
    descent = gradient_step(objective, rate_of(step), mechanism)

    def topology(given: Topology) -> Topology:
        assert rewire is not None
        return replace(given, links={**given.links, "peers": rewire(given.links["peers"])})

    made = Algorithm(
        name=name,
        objective=objective,
        init={"peer": first_model},
        phases=(averaged_step(descent, missing),),
        model=lambda state: state,
        requires=requires | link_requirements(missing),
        privacy=statement(mechanism),
        weights=weights,
        topology=None if rewire is None else topology,
        missing=missing,
        continuation={"peer": same_state},
    )
    return optimised(made, descent, lambda state: state)


@register("OPS paper, sec. 5.2 (COL)", title="Central, all data pooled (COL)")
def centralised_online(objective: Objective, step: LocalStep = 0.1, mechanism: Mechanism = unprotected) -> Algorithm:
    """Central online learning (COL): averaging over the complete graph, the ideal to compare with.

    In a round each agent takes a gradient step and then the mean of all agents' models, whatever the given graph says:
    as if one centre held all data.

    Args:
      objective: Loss and regulariser, e.g. `tacit.objectives.logistic(l2=1e-4)`.
      step: Step size above 0, a number or a function of the round t = 1, 2, ..., or an optimiser such as
        `optax.adam(1e-3)`; 0.1 by default.
      mechanism: Noise, its place and its account, e.g. `tacit.privacy.laplace(1.0, clip=1.0)`; none by default.

    Returns:
      An algorithm for `tacit.simulate`, a peer or an audit.

    Example:
      >>> import tacit
      >>> col = tacit.algorithms.centralised_online(tacit.objectives.logistic())
      >>> sorted(col.requires)
      ['doubly_stochastic', 'reliable']

    References:
      OPS paper (ICLR 2021 submission), sec. 5.2.
    """
    requires: frozenset[Requirement] = frozenset({"doubly_stochastic"})
    return _averaging(
        "centralised_online", objective, step, mechanism, requires, "receiver", lambda graph: graph.completed()
    )


@register("OPS paper, sec. 5.2 (DOL-Symm)", title="Mutual links only (DOL-Symm)")
def decentralised_symmetric(
    objective: Objective,
    step: LocalStep = 0.1,
    mechanism: Mechanism = unprotected,
    missing: IfMissing = "wait",
    apart: bool = False,
) -> Algorithm:
    """Averaging over mutual links only (DOL-Symm), with doubly stochastic weights.

    In a round each agent takes a gradient step and averages with the neighbours that hear it as well, by Metropolis
    weights; one-way links are dropped. A network may then fall into parts that do not hear each other, each of which
    learns by itself: a warning says into how many.

    Args:
      objective: Loss and regulariser, e.g. `tacit.objectives.logistic(l2=1e-4)`.
      step: Step size above 0, a number or a function of the round t = 1, 2, ..., or an optimiser such as
        `optax.adam(1e-3)`; 0.1 by default.
      mechanism: Noise, its place and its account, e.g. `tacit.privacy.laplace(1.0, clip=1.0)`; none by default.
      missing: "wait" for every message of a round, or "renormalise" over those that arrived.
      apart: Whether parts that do not hear each other are meant, so that there is no warning; no by default.

    Returns:
      An algorithm for `tacit.simulate`, a peer or an audit.

    Example:
      >>> import tacit
      >>> mutual = tacit.algorithms.decentralised_symmetric(tacit.objectives.logistic(), missing="renormalise")
      >>> sorted(mutual.requires)
      ['doubly_stochastic', 'symmetric']

    References:
      OPS paper (ICLR 2021 submission), sec. 5.2.
    """
    requires: frozenset[Requirement] = frozenset({"symmetric", "doubly_stochastic"})
    name = "decentralised_symmetric"

    def mutual(given: Graph) -> Graph:
        kept = given.mutual()
        parts = component_count(kept)
        if parts > 1 and not apart:
            warnings.warn(
                f"{name}: without one-sided links {kept.agents} agents are in {parts} parts, each of which learns by "
                "itself; add reverse links, use online_push_sum, or say apart=True",
                TacitWarning,
                stacklevel=2,
            )
        return kept

    return _averaging(name, objective, step, mechanism, requires, "metropolis", mutual, missing)


@register("OPS paper, sec. 5.2 (DOL-Asymm)", title="Push without mass (DOL-Asymm)")
def decentralised_asymmetric(
    objective: Objective, step: LocalStep = 0.1, mechanism: Mechanism = unprotected
) -> Algorithm:
    """Averaging over one-way links without push-sum's mass (DOL-Asymm), hence biased.

    In a round each agent takes a gradient step and adds up what its in-neighbours sent it, by weights that sum to 1
    over the receivers of a sender, not over the senders of a receiver. That bias is the point of the comparison.

    Args:
      objective: Loss and regulariser, e.g. `tacit.objectives.logistic(l2=1e-4)`.
      step: Step size above 0, a number or a function of the round t = 1, 2, ..., or an optimiser such as
        `optax.adam(1e-3)`; 0.1 by default.
      mechanism: Noise, its place and its account, e.g. `tacit.privacy.laplace(1.0, clip=1.0)`; none by default.

    Returns:
      An algorithm for `tacit.simulate`, a peer or an audit.

    Example:
      >>> import tacit
      >>> biased = tacit.algorithms.decentralised_asymmetric(tacit.objectives.logistic())
      >>> biased.weights, "reliable" in biased.requires
      ('sender', True)

    References:
      OPS paper (ICLR 2021 submission), sec. 5.2.
    """
    requires: frozenset[Requirement] = frozenset({"strongly_connected", "sender_normalised"})
    return _averaging("decentralised_asymmetric", objective, step, mechanism, requires, "sender", None)


@register("OPS paper, app. B.2 (Local OGD)", title="Each agent alone (Local OGD)")
def local_online(objective: Objective, step: LocalStep = 0.1) -> Algorithm:
    """Local online gradient descent: every agent learns alone, and nothing is sent.

    Args:
      objective: Loss and regulariser, e.g. `tacit.objectives.logistic(l2=1e-4)`.
      step: Step size above 0, a number or a function of the round t = 1, 2, ..., or an optimiser such as
        `optax.adam(1e-3)`; 0.1 by default.

    Returns:
      An algorithm for `tacit.simulate`, a peer or an audit.

    Example:
      >>> import tacit
      >>> alone = tacit.algorithms.local_online(tacit.objectives.logistic())
      >>> sorted(alone.requires), alone.privacy.private
      ([], False)

    References:
      OPS paper (ICLR 2021 submission), app. B.2.
    """
    alone = _averaging(
        "local_online",
        objective,
        step,
        unprotected,
        frozenset(),
        "receiver",
        lambda graph: graph.disconnected(),
        "renormalise",
    )
    holds = "not private: nothing is sent, but whoever gets to see a model sees what it has learnt"
    return alone._replace(privacy=alone.privacy._replace(holds=holds))
