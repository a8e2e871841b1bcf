"""Networked subgradient descent under zCDP, zCDP-grad-NFL: the baseline of 001 section 3.4.

    w_k = sum_l W[k, l] u_l - eta_t f_k'(u_k);   u_k = w_k + noise

It is `consensus` (004 (4.15)) by another name, of which the text's comparison speaks.
"""

from __future__ import annotations

from tacit.algorithms.admm.zcdp_admm import VANISHING, ZCDP_CLAIM
from tacit.algorithms.averaging.diffusion import consensus
from tacit.algorithms.registry import register
from tacit.algorithms.schedules import StepSize
from tacit.core.contract import Algorithm, Mechanism, Objective, unprotected


@register("001 section 3.4, baseline")
def zcdp_subgradient(objective: Objective, step: StepSize = VANISHING, mechanism: Mechanism = unprotected) -> Algorithm:
    """zCDP-grad-NFL: mix the neighbours' noisy models, and step along a subgradient."""
    made = consensus(objective, step, mechanism)
    return made._replace(name="zcdp_subgradient", privacy=made.privacy._replace(text_claims=ZCDP_CLAIM))
