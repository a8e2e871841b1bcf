"""Made-up samples, so that verdicts are known beforehand."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tacit_reproduction.rizk.ijcnn1 import Samples
from tacit_reproduction.study import Judgement
from tacit_reproduction.table import Factor, Floats, Row

SEEDS = 12
WOBBLE = np.random.default_rng(5).normal(0, 0.02, (50, SEEDS))


def sample(level: float, k: int = 0) -> Floats:
    """A sample about a level, different for each k."""
    return level + WOBBLE[k % 50]


def row(factors: Mapping[str, Factor], k: int, curve: str = "", **levels: float) -> Row:
    """One cell, whose samples are apart from those of other k."""
    measures = {name: sample(level, k) for name, level in levels.items()}
    if curve:
        measures |= {"rounds": np.arange(1, 5), curve: np.ones((SEEDS, 4))}
    return Row(factors, measures)


def failing(judgement: Judgement) -> set[str]:
    """Return the first words of all claims that do not hold."""
    return {" ".join(claim.claim.split()[:4]) for claim in judgement.claims if not claim.holds}


def verdicts(judgement: Judgement) -> list[str]:
    """Return the headlines' verdicts in order."""
    return [each.verdict for each in judgement.headlines]


def blobs() -> Samples:
    """Two blobs in place of ijcnn1, of which one is rare."""
    rng = np.random.default_rng(0)
    y = np.where(np.arange(1500) % 10 == 0, 1, -1).astype(np.float32)
    x = np.concatenate([rng.normal(size=(1500, 3)) + 1.5 * y[:, None], np.ones((1500, 1))], axis=1).astype(np.float32)
    return Samples(x[:1000], y[:1000], x[1000:], y[1000:], "two blobs")
