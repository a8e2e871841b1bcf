"""Plans: the loss of a schedule by every rule, the noise for a target, and the settings of a whole private run."""

from __future__ import annotations

from tacit.privacy.planning.bounds import PrivateBounds, private_bounds
from tacit.privacy.planning.plans import Plan, plan, planned_batch
from tacit.privacy.planning.schedules import Epsilons, epsilon_of, noise_for, noises_for, total_rho

__all__ = [
    "Epsilons",
    "Plan",
    "PrivateBounds",
    "epsilon_of",
    "noise_for",
    "noises_for",
    "plan",
    "planned_batch",
    "private_bounds",
    "total_rho",
]
