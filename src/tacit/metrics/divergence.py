"""Divergence: a loss that rises far beyond that of a model that has learnt nothing, and the round where it began."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import jax
import numpy as np
from numpy.typing import NDArray

from tacit.core.contract import Objective
from tacit.metrics.blocks import Data
from tacit.streams import Stream

FACTOR = 10.0
"""A loss of more than this times that of the first parameters is no learning."""
LOOKED_AT = 2**24
"""Bytes of data on which both are compared, at the end of a run."""


class Divergence(NamedTuple):
    """Where a run went wrong. Make it with `divergence`."""

    round: int
    """The first one with such a loss."""
    repeats: int
    """In how many of them it is so."""
    loss: float | None
    """At the end of the run, the worst of the repeats; None: it is not finite."""
    untrained: float | None
    """Of the first parameters on the same data; None: it is not finite."""


def divergence(objective: Objective, streams: Sequence[Stream], loss: NDArray[np.floating]) -> Divergence | None:
    """Return where losses rose beyond ten times that of the first parameters and stayed there; None: nowhere.

    Losses that are not finite are such. Data are read only where the loss at the end is twice that of round 1.

    Args:
      objective: Loss, of which the first parameters are taken too.
      streams: One, or one per repeat.
      loss: (repeats, rounds) averaged over agents, at prediction time.

    Example:
      >>> import numpy as np, tacit
      >>> stream = tacit.streams.logistic_drift(agents=3, dim=2)
      >>> rising = np.array([[0.7, 0.7, 50.0, 9e3, 1e5, 2e5, 3e5, 2e5]])
      >>> divergence(tacit.objectives.logistic(), [stream], rising).round
      3
      >>> divergence(tacit.objectives.logistic(), [stream], np.full((1, 8), 0.7)) is None
      True
    """
    values = np.asarray(loss, np.float64)
    rounds = values.shape[1]
    length = _length(streams[0], rounds)
    with np.errstate(over="ignore", invalid="ignore"):  # losses near the largest number
        final = values[:, -length:].mean(axis=1)
    ended = np.asarray(np.isfinite(values).all(axis=1))
    suspect = ~ended | (final > 2 * values[:, 0])
    if not suspect.any():
        return None
    known: dict[int, float] = {}
    began: list[int] = []
    worst: list[tuple[float, float]] = []
    for repeat in np.flatnonzero(suspect).tolist():
        at = repeat if len(streams) > 1 else 0
        if at not in known:
            known[at] = _untrained(objective, streams[at], rounds - length, rounds)
        limit = FACTOR * known[at]
        if ended[repeat] and not final[repeat] > limit:
            continue
        high = ~np.isfinite(values[repeat]) | (values[repeat] > limit)
        began.append(1 + int(np.argmax(high)))
        worst.append((final[repeat] if ended[repeat] else np.inf, known[at]))
    if not began:
        return None
    ending, untrained = max(worst)
    return Divergence(min(began), len(began), _finite(ending), _finite(untrained))


def _length(stream: Stream, rounds: int) -> int:
    leaves = jax.tree.leaves(stream.batch_spec())
    per_round = int(stream.agents) * sum(int(np.prod(leaf.shape)) * int(leaf.dtype.itemsize) for leaf in leaves)
    return max(1, min(rounds // 4, LOOKED_AT // max(1, per_round)))


def _untrained(objective: Objective, stream: Stream, start: int, stop: int) -> float:
    data = Data(lambda: [stream.chunk(start, stop)])
    with jax.enable_x64(True):
        return data.mean(objective.loss, objective.initial(stream.batch_spec()), data.rounds)[0]


def _finite(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None
