"""Networked subgradient descent under zCDP, zCDP-grad-NFL (Gauthier (2023), sec. 3.4, baseline).

w_k = sum_l W[k, l] u_l - eta_t f_k'(u_k);   u_k = w_k + noise
"""

from __future__ import annotations

from tacit.algorithms.admm.zcdp_admm import VANISHING, ZCDP_CLAIM
from tacit.algorithms.averaging.diffusion import consensus
from tacit.algorithms.registry import register
from tacit.algorithms.schedules import StepSize
from tacit.core.contract import Algorithm, Mechanism, Objective, unprotected


@register("Gauthier (2023), sec. 3.4, baseline", title="Subgradient descent under zCDP (zCDP-grad-NFL)")
def zcdp_subgradient(objective: Objective, step: StepSize = VANISHING, mechanism: Mechanism = unprotected) -> Algorithm:
    """Networked subgradient descent under zCDP (zCDP-grad-NFL): a baseline.

    In a round each agent mixes its neighbours' noisy models and steps along a subgradient at its own: `consensus` by
    another name, with a vanishing step.

    Args:
      objective: Loss and regulariser, e.g. `tacit.objectives.logistic(l2=1e-4)`.
      step: Step size above 0, a number or a function of the round t = 1, 2, ...; `inverse_sqrt(0.5)` by default.
      mechanism: Noise, its place and its account, e.g. `tacit.privacy.laplace(1.0, clip=1.0)`; none by default.

    Returns:
      An algorithm for `tacit.simulate`, a peer or an audit.

    Example:
      >>> import tacit
      >>> tacit.algorithms.zcdp_subgradient(tacit.objectives.squared(l1=0.01)).name
      'zcdp_subgradient'

    References:
      Gauthier (2023), thesis, NTNU, sec. 3.4; Rizk (2023), thesis, EPFL, (4.15).
    """
    made = consensus(objective, step, mechanism)
    return made._replace(name="zcdp_subgradient", privacy=made.privacy._replace(text_claims=ZCDP_CLAIM))
