"""Verdicts of claims by position, once it is sure that no two have the same words and that each has its figure."""

from __future__ import annotations

from collections.abc import Sequence

from tacit_reproduction.experiment import Claim


def verdicts(claims: Sequence[Claim]) -> list[bool]:
    """Whether each claim holds, in their order."""
    assert len({claim.claim for claim in claims}) == len(claims), "two claims have the same words"
    assert all(claim.figure for claim in claims), "a claim has no figure"
    return [bool(claim.holds) for claim in claims]


def failing(claims: Sequence[Claim]) -> list[int]:
    """Positions, from 0, of the claims that do not hold."""
    return [position for position, holds in enumerate(verdicts(claims)) if not holds]
