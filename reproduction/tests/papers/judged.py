"""What claims came to, once it is sure that no two have the same words and that each has its figure."""

from __future__ import annotations

from collections.abc import Sequence

from tacit_reproduction.experiment import Claim


def verdicts(claims: Sequence[Claim]) -> dict[str, bool]:
    """Whether each claim holds, by its words."""
    found = {claim.claim: claim.holds for claim in claims}
    assert len(found) == len(claims), "two claims have the same words"
    assert all(claim.figure for claim in claims), "a claim has no figure"
    return found


def failing(claims: Sequence[Claim]) -> list[str]:
    """The words of those that do not hold, in their order."""
    return [words for words, holds in verdicts(claims).items() if not holds]


def told(found: dict[str, bool], words: str) -> bool:
    """Whether the one claim holds that has these words in it."""
    (name,) = (claim for claim in found if words in claim)
    return found[name]
