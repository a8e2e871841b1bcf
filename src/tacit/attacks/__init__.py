"""Attacks of lying agents, for `tacit.simulate(..., liars={3: tacit.attacks.sign_flip()})`.

A liar follows the method with its own data, and what it keeps is honest; only what it sends to others is not (but for
`label_flip`, which learns from false labels and sends what comes of it).
"""

from __future__ import annotations

from tacit.attacks.kinds import (
    ATTACKS,
    Attack,
    Scene,
    a_little_is_enough,
    dissensus,
    inner_product,
    label_flip,
    large_values,
    sign_flip,
    stale_replay,
)

__all__ = [
    "ATTACKS",
    "Attack",
    "Scene",
    "a_little_is_enough",
    "dissensus",
    "inner_product",
    "label_flip",
    "large_values",
    "sign_flip",
    "stale_replay",
]
