"""Several settings in one program: side by side as repeats, or one after the other as stretches of rounds.

A run that has settled under one setting settles under the next from there, so that a sweep is one compiled program;
what is judged is the second half of each stretch.
"""

import math
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from tacit.core.contract import Array, Mechanism
from tacit_reproduction.table import Floats
from tacit_reproduction.verdict import Claim, Pair, Rule, judged

PER_TEXT_STEP = 2
"""Our squared loss is half of the text's: its step mu counts twice, and its gradients are twice ours."""


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


def stretches(
    rounds: NDArray[np.int64], values: Floats, lengths: Sequence[int]
) -> list[tuple[NDArray[np.int64], Floats]]:
    """Cut values (seeds, points) that were recorded at these rounds: per stretch its own rounds, from 1, and values."""
    found = []
    for length, end in zip(lengths, np.cumsum(lengths), strict=True):
        inside = (rounds > end - length) & (rounds <= end)
        found.append((rounds[inside] - (end - length), values[:, inside]))
    return found


def deviations(models: Any, best: Floats) -> tuple[Floats, Floats]:
    """Return (seeds, points) squared distances of the mean model and, on average, of each from w^o (seeds, columns).

    Models are (seeds, points, agents, columns).
    """
    apart = np.asarray(models, np.float64) - best[:, None, None]
    centroid = np.square(apart.mean(axis=2)).sum(axis=-1)
    return centroid, np.square(apart).sum(axis=-1).mean(axis=-1)


def climb(name: str, of: Callable[[float], Floats], levels: Sequence[float]) -> list[Pair]:
    return [Pair(f"{name} {high:g} over {low:g}", of(high), of(low)) for low, high in pairwise(levels)]


def in_decibels(claim: str, pairs: Sequence[Pair] | Pair, rule: Rule, text: str = "", seen_in: str = "") -> Claim:
    return judged(claim, pairs, rule, unit=" dB", text=text, seen_in=seen_in)
