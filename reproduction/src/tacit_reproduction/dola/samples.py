"""Synthetic data: labelled points of the unit ball in ten dimensions (Li et al., sec. 6)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tacit.streams import Stream, from_arrays

DIMENSIONS = 10
FLIPPED = 0.05
"""Share of labels that are wrong: the text does not say how it drew them, and without any the problem is too easy."""


class Samples(NamedTuple):
    """Rows of length 1 at most with labels -1 and +1."""

    x: NDArray[np.float32]
    y: NDArray[np.float32]


def unit_ball(examples: int, seed: int) -> Samples:
    """Draw points uniformly from the ball; the label tells the side of a random plane through 0, some are flipped."""
    rng = np.random.default_rng([seed, examples])
    normal = rng.standard_normal(DIMENSIONS)
    x = rng.standard_normal((examples, DIMENSIONS))
    # Rounding to single precision must not lift a length above 1.
    x *= rng.random((examples, 1)) ** (1 / DIMENSIONS) * (1 - 1e-6) / np.linalg.norm(x, axis=1, keepdims=True)
    y = np.where(x @ normal >= 0, 1, -1)
    y[rng.random(examples) < FLIPPED] *= -1
    return Samples(x.astype(np.float32), y.astype(np.float32))


def dealt(samples: Samples, nodes: int, batch: int, seed: int, name: str) -> Stream:
    """Deal samples out evenly at random; each is read in one round by one node. What makes no whole round is left."""
    order = np.random.default_rng([seed, nodes]).permutation(len(samples.y))
    holder = np.empty(len(order), np.int32)
    holder[order] = np.arange(len(order)) % nodes
    return from_arrays(
        samples.x, samples.y, holder, batch=batch, exhausted="stop", shuffle_seed=seed, name=name, description=name
    )
