"""Generalised decentralised learning (004 ch. 4, (4.21)-(4.26)): consensus, CTA and ATC in one recursion.

    phi_i = sum_j A1[i, j] w_j                               before
    psi_i = sum_j A0[i, j] phi_j - mu grad J_i(phi_i)        within
    w_i   = sum_j A2[i, j] psi_j                             after

A combination that is not asked for is the identity. Consensus has `within` alone, combine-then-adapt `before`,
adapt-then-combine `after`; all are `tacit.algorithms.averaging._recursion`, which says what noise does.

Errata: (4.34) bounds the l2 norm of what changes, Laplace noise on each of M coordinates needs the l1 norm, sqrt(M)
times as large; and with a probability below 1 it is no bound for the worst case, which differential privacy is about.
"""

from __future__ import annotations

from tacit.algorithms.averaging._recursion import combinations
from tacit.algorithms.registry import register
from tacit.algorithms.schedules import StepSize
from tacit.core.contract import Algorithm, Mechanism, Objective, unprotected


@register("004 (4.21)-(4.26)", example={"after": "peers"})
def diffusion(
    objective: Objective,
    step: StepSize = 0.1,
    mechanism: Mechanism = unprotected,
    before: str | None = None,
    within: str | None = None,
    after: str | None = None,
) -> Algorithm:
    """Decentralised learning with up to three combinations, each over the named links, around a gradient step."""
    return combinations("diffusion", objective, step, mechanism, before, within, after)


@register("004 (4.15)-(4.16)")
def consensus(objective: Objective, step: StepSize = 0.1, mechanism: Mechanism = unprotected) -> Algorithm:
    """Consensus: combine the neighbours' models and step with the gradient at one's own."""
    return combinations("consensus", objective, step, mechanism, within="peers")


@register("004 (4.17)-(4.18)")
def combine_then_adapt(objective: Objective, step: StepSize = 0.1, mechanism: Mechanism = unprotected) -> Algorithm:
    """CTA diffusion: combine the neighbours' models, then step from what came of it."""
    return combinations("combine_then_adapt", objective, step, mechanism, before="peers")


@register("004 (4.19)-(4.20)")
def adapt_then_combine(objective: Objective, step: StepSize = 0.1, mechanism: Mechanism = unprotected) -> Algorithm:
    """ATC diffusion: step, then combine what the neighbours' steps led to."""
    return combinations("adapt_then_combine", objective, step, mechanism, after="peers")
