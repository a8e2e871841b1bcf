"""Decentralised online gradient descent by plain averaging, and the baselines of 003 section 5 made of it.

    x'_i = x_i - gamma grad f_it(x_i);   x_i = sum_j W[i, j] x'_j

- COL: the complete graph with equal weights, as if one centre averaged everybody.
- DOL-Symm: one-sided links are dropped; Metropolis weights make what is left doubly stochastic.
- DOL-Asymm: the sender-normalised matrix of push-sum without the mass. Its rows do not sum to 1, so it is biased:
  that is the point of the comparison.
- Local OGD: nobody talks.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Literal

from tacit.algorithms._parts.descent import gradient_step
from tacit.algorithms._parts.mixing import IfMissing, averaged_step, first_model, link_requirements
from tacit.algorithms.registry import register
from tacit.algorithms.schedules import StepSize, as_rate
from tacit.core.contract import Algorithm, Mechanism, Objective, Requirement, unprotected
from tacit.core.errors import TacitWarning
from tacit.graphs import Graph, Topology
from tacit.graphs.checks import component_count
from tacit.privacy import statement


def _averaging(
    name: str,
    objective: Objective,
    step: StepSize,
    mechanism: Mechanism,
    requires: frozenset[Requirement],
    weights: Literal["sender", "receiver", "metropolis"],
    rewire: Callable[[Graph], Graph] | None,
    missing: IfMissing = "wait",
) -> Algorithm:
    descent = gradient_step(objective, as_rate(step), mechanism)

    def topology(given: Topology) -> Topology:
        assert rewire is not None
        return replace(given, links={**given.links, "peers": rewire(given.links["peers"])})

    return Algorithm(
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
    )


@register("003 section 5.2 (COL)")
def centralised_online(objective: Objective, step: StepSize = 0.1, mechanism: Mechanism = unprotected) -> Algorithm:
    """COL: everybody averages with everybody, whatever the given graph says; the ideal to compare with."""
    requires: frozenset[Requirement] = frozenset({"doubly_stochastic"})
    return _averaging(
        "centralised_online", objective, step, mechanism, requires, "receiver", lambda graph: graph.completed()
    )


@register("003 section 5.2 (DOL-Symm)")
def decentralised_symmetric(
    objective: Objective,
    step: StepSize = 0.1,
    mechanism: Mechanism = unprotected,
    missing: IfMissing = "wait",
    apart: bool = False,
) -> Algorithm:
    """DOL-Symm: averaging over the mutual links only, with doubly stochastic weights.

    Without its one-sided links a network may fall into parts that do not hear each other, each of which then learns by
    itself. A warning says into how many, unless `apart` says that this is meant.
    """
    requires: frozenset[Requirement] = frozenset({"symmetric", "doubly_stochastic"})
    name = "decentralised_symmetric"

    def mutual(given: Graph) -> Graph:
        kept = given.mutual()
        parts = component_count(kept)
        if parts > 1 and not apart:
            warnings.warn(
                f"{name}: without one-sided links {kept.agents} agents are in {parts} parts, each of which learns by "
                "itself; add reverse links, use online_push_sum, or say apart=True (apart = true in a file)",
                TacitWarning,
                stacklevel=2,
            )
        return kept

    return _averaging(name, objective, step, mechanism, requires, "metropolis", mutual, missing)


@register("003 section 5.2 (DOL-Asymm)")
def decentralised_asymmetric(
    objective: Objective, step: StepSize = 0.1, mechanism: Mechanism = unprotected
) -> Algorithm:
    """DOL-Asymm: averaging with the sender-normalised weights of push-sum but without its mass, hence biased."""
    requires: frozenset[Requirement] = frozenset({"strongly_connected", "sender_normalised"})
    return _averaging("decentralised_asymmetric", objective, step, mechanism, requires, "sender", None)


@register("003 appendix B.2 (Local OGD)")
def local_online(objective: Objective, step: StepSize = 0.1) -> Algorithm:
    """Local OGD: every agent learns alone; nothing is sent."""
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
    holds = "not private, though nothing is sent: whoever gets to see a model sees what it has learnt"
    return alone._replace(privacy=alone.privacy._replace(holds=holds))
