"""The table [privacy] of a peer.toml, and the budget that it gives."""

from __future__ import annotations

from tacit.config.sections import Section
from tacit.core.contract import Algorithm
from tacit.core.errors import ConfigError
from tacit.peer.node.assignment import NOTHING_BOOKED
from tacit.privacy.accounting import Budget
from tacit.privacy.noise import hides


class PrivacyTable(Section):
    """[privacy]: what may be spent on the records of this peer."""

    epsilon: float | None = None
    rho: float | None = None
    delta: float | None = None
    reserve: float = 0.0
    witness: str | None = None
    unprotected: bool = False


def budget_of(table: PrivacyTable, algorithm: Algorithm) -> tuple[bool, Budget]:
    """Return whether releases are booked, and the budget; refuse one that the job's noise cannot keep."""
    given = table.epsilon is not None or table.rho is not None
    for phase in algorithm.phases:
        if phase.mechanism.distribution is not None and not algorithm.privacy.private:
            raise ConfigError(
                f"mechanism {phase.mechanism.name!r} of {algorithm.name!r} promises nothing (no clip bounds what a "
                "record can change), so that nothing would be booked and its noise drawn from the job's seed, which "
                "every member knows; give the mechanism a clip, or rehearse with `tacit swarm`"
            )
    if all(hides(phase.mechanism) for phase in algorithm.phases):
        if given or table.delta is not None or table.reserve or table.unprotected:
            raise ConfigError(
                f"a budget, or unprotected = true, but {algorithm.name!r} masks its messages in this job: masks are "
                "not charged, and nothing leaves without them; leave the table empty"
            )
        return False, NOTHING_BOOKED
    if not algorithm.privacy.private:
        if given or table.delta is not None or table.reserve:
            raise ConfigError(
                f"a budget, but {algorithm.name!r} has no mechanism in this job and protects nothing; add "
                "[algorithm.mechanism] to the job, or remove the budget and say unprotected = true"
            )
        if not table.unprotected:
            raise ConfigError(
                f"{algorithm.name!r} has no mechanism in this job, so that values leave as they are computed; say "
                "unprotected = true if that is meant, or add [algorithm.mechanism] to the job"
            )
        return False, NOTHING_BOOKED
    if table.unprotected:
        raise ConfigError(
            "unprotected = true, but the job has a mechanism, whose releases are booked; remove it and give a budget"
        )
    if not given:
        raise ConfigError(
            "no budget: give epsilon, or rho, or epsilon and delta (`tacit privacy plan` helps to choose)"
        )
    budget = Budget(table.epsilon, table.rho, table.delta, table.reserve)
    kinds = {phase.mechanism.distribution for phase in algorithm.phases}
    if "gaussian" in kinds and budget.rho is None and budget.delta is None:
        raise ConfigError(
            f"epsilon = {budget.epsilon!r} alone, but the job's noise is Gaussian, of which no release fits a pure "
            "epsilon; add delta, or give rho instead"
        )
    if "bounded_laplace" in kinds and not budget.reserve:
        raise ConfigError(
            "no reserve, but the job's noise is of bounded support, of which each release costs some delta; give "
            "epsilon, delta and reserve, the part of delta that is set aside for it"
        )
    return True, budget
