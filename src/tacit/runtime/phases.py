"""Phases of a method: the links that it uses, who answers whom, and the rounds that it is made for."""

from __future__ import annotations

import warnings
from collections.abc import Mapping

from tacit.core.contract import Algorithm
from tacit.core.errors import ContractError, TacitWarning


def link_ends(algorithm: Algorithm) -> Mapping[str, tuple[str, str]]:
    """Return source and target role of each link set that the algorithm uses."""
    ends: dict[str, tuple[str, str]] = {}
    for phase in algorithm.phases:
        pair = (phase.source, phase.target)
        if phase.answers is not None and ends.get(phase.answers, ("", ""))[1] != phase.source:
            raise ContractError(
                f"algorithm {algorithm.name!r}: {phase.source!r} answers {phase.answers!r} on {phase.links!r}, but no "
                f"earlier phase leads to {phase.source!r} on {phase.answers!r}; name links of an earlier phase"
            )
        if ends.setdefault(phase.links, pair) != pair:
            raise ContractError(
                f"algorithm {algorithm.name!r} uses links {phase.links!r} from {ends[phase.links][0]!r} to "
                f"{ends[phase.links][1]!r} and from {pair[0]!r} to {pair[1]!r}; give each direction its own name"
            )
    return ends


def is_answered(algorithm: Algorithm, index: int) -> bool:
    """Whether agents of another role which a phase does not reach are left alone in it."""
    phase = algorithm.phases[index]
    return phase.source != phase.target and any(p.answers == phase.links for p in algorithm.phases[index + 1 :])


def check_horizon(algorithm: Algorithm, rounds: int) -> None:
    """Warn of a run that is shorter or longer than what the method's settings were made for."""
    if algorithm.horizon not in (None, rounds):
        warnings.warn(
            f"{algorithm.name} was made for rounds = {algorithm.horizon:,} and is run for {rounds:,}: its steps are "
            "those of the former, and what is known of its regret does not hold; make it for the rounds that it is run",
            TacitWarning,
            stacklevel=2,
        )
