"""Privacy statements of methods, made from their mechanisms."""

from __future__ import annotations

import math
from typing import Literal

from tacit.core.contract import Mechanism, PrivacyStatement
from tacit.privacy.accounting import NEIGHBOURS

Composition = Literal["parallel", "sequential"]
_MASKED = (
    "not differentially private towards a receiver, which learns the exact weighed sum of its senders' values and "
    "nothing else of them unless it pools with all partners of one; whoever sees single messages (a wire-tapper, "
    "another neighbour) sees each number under at least one Laplace mask of standard deviation {std:g}, in the unit of "
    "the weighed values, that only the sender and a partner know: what is small beside that is hidden, what is large "
    "is not"
)


def statement(
    mechanism: Mechanism,
    text_claims: str = "no guarantee is claimed",
    composition: Composition = "parallel",
    assumptions: tuple[str, ...] = (),
) -> PrivacyStatement:
    """State the privacy of a method that releases everything through one mechanism.

    Args:
      mechanism: The method's mechanism; without noise, or without a clip, the statement promises nothing.
      text_claims: The source's claim, which may be more than what holds.
      composition: "parallel": a record enters the run only through the releases of the rounds that read it, all states
        being made of released values, which the runtimes check by following the data through the round; "sequential":
        every release may depend on every record.
      assumptions: Further conditions, in words.

    Returns:
      The `PrivacyStatement` of an `Algorithm`.

    Example:
      >>> from tacit.privacy import laplace, statement, unprotected
      >>> statement(laplace(epsilon=1.0, clip=1.0)).unit, statement(unprotected).private
      ('record', False)
    """
    if mechanism.spread == "masked" and mechanism.mask_scale > 0:
        words = _MASKED.format(std=math.sqrt(2) * mechanism.mask_scale)
        return PrivacyStatement.none(text_claims)._replace(holds=words)
    if mechanism.distribution is None:
        return PrivacyStatement.none(text_claims)
    clip = mechanism.clip
    if clip is None:
        noise = f"not private per record: {mechanism.name} noise is on every message, but no clip bounds what a record"
        return PrivacyStatement.none(text_claims)._replace(holds=f"{noise} can change; give the mechanism a clip")
    what = (
        "each record's gradient" if clip.of == "record" else "what all of an agent's records give in a round, as one,"
    )
    bounded = (f"{what} is clipped to {clip.norm} norm {clip.bound:g} (enforced)",)
    how = (
        "each release is charged to the records of its round alone, because all states are made of released values"
        if composition == "parallel" and mechanism.adjacency != "dataset"
        else "every release is charged to every record"
    )
    pattern = mechanism.correlation
    if pattern is not None:
        reads = "once" if pattern.reads == 1 else f"up to {pattern.reads} times, {pattern.apart} releases apart"
        how += f"; {pattern.rounds:,} releases share their noise, and a record that is read {reads} is charged for all"
    return PrivacyStatement(
        private=True,
        unit=NEIGHBOURS[mechanism.adjacency][0],
        adjacency=NEIGHBOURS[mechanism.adjacency][1],
        composition=composition,
        assumptions=(*bounded, *assumptions),
        text_claims=text_claims,
        holds=f"{mechanism.name} noise on the {mechanism.perturbs} before it leaves; {how}",
    )
