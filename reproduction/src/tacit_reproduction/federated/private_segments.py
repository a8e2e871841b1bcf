"""Many settings in one run: steps and sizes of noise that change from one stretch of rounds to the next.

A run that has settled under one setting settles under the next from there, so that a sweep is one compiled program.
What is judged is the second half of each stretch.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import jax.numpy as jnp
import numpy as np

from tacit.core.contract import Array, Mechanism
from tacit_reproduction.federated.graph_moments import Counts, Floats


def piecewise(values: Sequence[float], lengths: Sequence[int]) -> Callable[[Array], Array]:
    """Return the function of the round that has each value for so many rounds; the last one also after them."""
    last = np.cumsum(lengths)[:-1]

    def at(t: Array) -> Array:
        place = jnp.sum(t > jnp.asarray(last, jnp.int32)) if len(last) else jnp.zeros((), jnp.int32)
        return jnp.asarray(values, jnp.result_type(float))[place]

    return at


def noise_by_round(mechanism: Mechanism, sizes: Sequence[float], lengths: Sequence[int]) -> Mechanism:
    """Return Laplace noise whose standard deviation has each size for so many rounds."""
    scale = piecewise([size / math.sqrt(2) for size in sizes], lengths)
    return mechanism._replace(scale=lambda view, sensitivity: scale(view.round), ratio=None)


def stretches(rounds: Counts, values: Floats, lengths: Sequence[int]) -> list[tuple[Counts, Floats]]:
    """Cut values (seeds, points) that were recorded at these rounds: per stretch its own rounds, from 1, and values."""
    found = []
    ends = np.cumsum(lengths)
    for length, end in zip(lengths, ends, strict=True):
        inside = (rounds > end - length) & (rounds <= end)
        found.append((rounds[inside] - (end - length), values[:, inside]))
    return found


def second_half(values: Floats) -> Floats:
    """Return (seeds,) the average over the second half of the points."""
    return np.asarray(values[:, values.shape[1] // 2 :].mean(axis=1))


def thinned(rounds: Counts, values: Floats, points: int = 24) -> tuple[Counts, Floats]:
    """Return about so many of the points of a learning curve, evenly spaced for the eye on a logarithmic scale."""
    wanted = np.geomspace(rounds[0], rounds[-1], points)
    kept = np.unique(np.searchsorted(rounds, wanted).clip(max=len(rounds) - 1))
    return rounds[kept], values[:, kept]
