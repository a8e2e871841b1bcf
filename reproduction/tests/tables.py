"""Made-up tables of outcomes, of which the verdicts are known beforehand."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from tacit_reproduction.study import Judgement
from tacit_reproduction.table import Floats, Row

SEEDS = 12
WOBBLE = np.random.default_rng(5).normal(0, 0.02, (50, SEEDS))


def sample(level: float, k: int = 0) -> Floats:
    """A sample about a level, different for each k."""
    return level + WOBBLE[k % 50]


def row(factors: Mapping[str, Any], k: int = 0, curve: str = "", places: str = "rounds", **levels: float) -> Row:
    """One cell, whose samples are apart from those of other k; a curve is there to be drawn alone."""
    measures = {name: sample(level, k) for name, level in levels.items()}
    if curve:
        measures |= {places: np.arange(1, 5), curve: np.ones((SEEDS, 4))}
    return Row(factors, measures)


def missed(judgement: Judgement) -> list[int]:
    """Return the places of the claims that do not hold."""
    return [place for place, claim in enumerate(judgement.claims) if not claim.holds]


def verdicts(judgement: Judgement) -> list[str]:
    """Return the headlines' verdicts in order."""
    return [each.verdict for each in judgement.headlines]
