"""Generalised decentralised learning (Rizk (2023), ch. 4, (4.21)-(4.26)): consensus, CTA and ATC in one recursion.

    phi_i = sum_j A1[i, j] w_j                               before
    psi_i = sum_j A0[i, j] phi_j - mu grad J_i(phi_i)        within
    w_i   = sum_j A2[i, j] psi_j                             after

All are `tacit.algorithms.averaging._recursion`, which says what noise does.

Errata: (4.34) bounds the l2 norm of what changes, Laplace noise on each of M coordinates needs the l1 norm, sqrt(M)
times as large; and with a probability below 1 it is no bound for the worst case, which differential privacy is about.
"""

from __future__ import annotations

from tacit.algorithms._parts.local_steps import local_work
from tacit.algorithms.averaging._recursion import combinations
from tacit.algorithms.local_step import LocalStep
from tacit.algorithms.registry import register
from tacit.core.contract import Algorithm, Mechanism, Objective, unprotected


@register("Rizk (2023), (4.21)-(4.26)", {"after": "peers"}, title="Diffusion")
def diffusion(
    objective: Objective,
    step: LocalStep = 0.1,
    mechanism: Mechanism = unprotected,
    before: str | None = None,
    within: str | None = None,
    after: str | None = None,
    local_steps: int = 1,
    batch_size: int | None = None,
    local_epochs: int | None = None,
) -> Algorithm:
    """Diffusion: a gradient step with up to three combinations of neighbours' models around it.

    In a round each agent combines its neighbours' models w to phi (`before`), combines their phi and steps by its
    gradient at its own phi (`within`), and combines what came of that to the next w (`after`), with which it predicts.
    A combination that is not asked for is left out. Noise goes on the messages of each combination, or on the gradient.

    Args:
      objective: Loss and regulariser, e.g. `tacit.objectives.logistic(l2=1e-4)`.
      step: Step size above 0, a number or a function of the round t = 1, 2, ..., or an optimiser such as
        `optax.adam(1e-3)`; 0.1 by default.
      mechanism: Noise, its place and its account, e.g. `tacit.privacy.laplace(1.0, clip=1.0)`; none by default.
      before: Links over which models are combined before the step, e.g. "peers"; None for no combination.
      within: Links over which they are combined in the step; None for no combination.
      after: Links over which they are combined after it; None for no combination. At least one of the three.
      local_steps: Gradient steps of an agent in a round, from 1 on, each by that part of `step`; 1 by default.
      batch_size: Records drawn for each step, without replacement, from 1 on; by default the batch as it comes.
      local_epochs: Passes through all records that a round brings, shuffled, `batch_size` of them at a time, in the
        place of `local_steps`; none by default.

    Returns:
      An algorithm for `tacit.simulate`, a peer or an audit.

    Example:
      >>> import tacit
      >>> both = tacit.algorithms.diffusion(tacit.objectives.logistic(), before="peers", after="peers")
      >>> [phase.links for phase in both.phases]
      ['peers', 'peers']

    References:
      Rizk (2023), thesis, EPFL, (4.21)-(4.26).
    """
    work = local_work(local_steps, batch_size, local_epochs)
    return combinations("diffusion", objective, step, mechanism, work, before, within, after)


@register("Rizk (2023), (4.15)-(4.16)", title="Consensus")
def consensus(
    objective: Objective,
    step: LocalStep = 0.1,
    mechanism: Mechanism = unprotected,
    local_steps: int = 1,
    batch_size: int | None = None,
    local_epochs: int | None = None,
) -> Algorithm:
    """Consensus: combine the neighbours' models, and step by the gradient at one's own.

    In a round each agent sends its model, combines what it hears, and subtracts the step size times its gradient,
    taken at the model that it had before.

    Args:
      objective: Loss and regulariser, e.g. `tacit.objectives.logistic(l2=1e-4)`.
      step: Step size above 0, a number or a function of the round t = 1, 2, ..., or an optimiser such as
        `optax.adam(1e-3)`; 0.1 by default.
      mechanism: Noise, its place and its account, e.g. `tacit.privacy.laplace(1.0, clip=1.0)`; none by default.
      local_steps: Gradient steps of an agent in a round, from 1 on, each by that part of `step`; 1 by default.
      batch_size: Records drawn for each step, without replacement, from 1 on; by default the batch as it comes.
      local_epochs: Passes through all records that a round brings, shuffled, `batch_size` of them at a time, in the
        place of `local_steps`; none by default.

    Returns:
      An algorithm for `tacit.simulate`, a peer or an audit.

    Example:
      >>> import tacit
      >>> sorted(tacit.algorithms.consensus(tacit.objectives.logistic()).requires)
      ['receiver_normalised', 'reliable', 'strongly_connected']

    References:
      Rizk (2023), thesis, EPFL, (4.15)-(4.16).
    """
    work = local_work(local_steps, batch_size, local_epochs)
    return combinations("consensus", objective, step, mechanism, work, within="peers")


@register("Rizk (2023), (4.17)-(4.18)", title="Combine-then-adapt diffusion (CTA)")
def combine_then_adapt(
    objective: Objective,
    step: LocalStep = 0.1,
    mechanism: Mechanism = unprotected,
    local_steps: int = 1,
    batch_size: int | None = None,
    local_epochs: int | None = None,
) -> Algorithm:
    """Combine-then-adapt diffusion (CTA): combine the neighbours' models, then step from the outcome.

    In a round each agent sends its model, combines what it hears, and takes a gradient step from there.

    Args:
      objective: Loss and regulariser, e.g. `tacit.objectives.logistic(l2=1e-4)`.
      step: Step size above 0, a number or a function of the round t = 1, 2, ..., or an optimiser such as
        `optax.adam(1e-3)`; 0.1 by default.
      mechanism: Noise, its place and its account, e.g. `tacit.privacy.laplace(1.0, clip=1.0)`; none by default.
      local_steps: Gradient steps of an agent in a round, from 1 on, each by that part of `step`; 1 by default.
      batch_size: Records drawn for each step, without replacement, from 1 on; by default the batch as it comes.
      local_epochs: Passes through all records that a round brings, shuffled, `batch_size` of them at a time, in the
        place of `local_steps`; none by default.

    Returns:
      An algorithm for `tacit.simulate`, a peer or an audit.

    Example:
      >>> import tacit
      >>> cta = tacit.algorithms.combine_then_adapt(tacit.objectives.logistic(), step=0.2)
      >>> cta.weights
      'metropolis'

    References:
      Rizk (2023), thesis, EPFL, (4.17)-(4.18).
    """
    work = local_work(local_steps, batch_size, local_epochs)
    return combinations("combine_then_adapt", objective, step, mechanism, work, before="peers")


@register("Rizk (2023), (4.19)-(4.20)", title="Adapt-then-combine diffusion (ATC)")
def adapt_then_combine(
    objective: Objective,
    step: LocalStep = 0.1,
    mechanism: Mechanism = unprotected,
    local_steps: int = 1,
    batch_size: int | None = None,
    local_epochs: int | None = None,
) -> Algorithm:
    """Adapt-then-combine diffusion (ATC): step, then combine what the neighbours' steps led to.

    In a round each agent takes a gradient step, sends the outcome, and combines what it hears to its next model.

    Args:
      objective: Loss and regulariser, e.g. `tacit.objectives.logistic(l2=1e-4)`.
      step: Step size above 0, a number or a function of the round t = 1, 2, ..., or an optimiser such as
        `optax.adam(1e-3)`; 0.1 by default.
      mechanism: Noise, its place and its account, e.g. `tacit.privacy.laplace(1.0, clip=1.0)`; none by default.
      local_steps: Gradient steps of an agent in a round, from 1 on, each by that part of `step`; 1 by default.
      batch_size: Records drawn for each step, without replacement, from 1 on; by default the batch as it comes.
      local_epochs: Passes through all records that a round brings, shuffled, `batch_size` of them at a time, in the
        place of `local_steps`; none by default.

    Returns:
      An algorithm for `tacit.simulate`, a peer or an audit.

    Example:
      >>> import tacit
      >>> noise = tacit.privacy.gaussian(noise_multiplier=1.0, clip=1.0)
      >>> atc = tacit.algorithms.adapt_then_combine(tacit.objectives.logistic(), mechanism=noise)
      >>> atc.privacy.private
      True

    References:
      Rizk (2023), thesis, EPFL, (4.19)-(4.20).
    """
    work = local_work(local_steps, batch_size, local_epochs)
    return combinations("adapt_then_combine", objective, step, mechanism, work, after="peers")
