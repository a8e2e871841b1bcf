"""Batches: one agent's samples of one round."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

from numpy.typing import NDArray

from tacit.core.contract import Array

Task = Literal["binary", "multiclass", "regression"]
"""Kind of the labels."""
TASKS: tuple[Task, ...] = ("binary", "multiclass", "regression")


class Batch(NamedTuple):
    """One agent's samples of one round; the streams here give these, a stream of yours any pytree.

    Example:
      >>> import tacit
      >>> tacit.streams.logistic_drift(agents=8, dim=5, batch=3).batch_spec().x.shape
      (3, 5)
    """

    x: Array | NDArray[Any]
    """(d,) where a round brings one sample, (b, d) where it brings b; d may be any shape, as for images."""
    y: Array | NDArray[Any]
    """() or (b,)."""
    weight: Array | NDArray[Any] | None = None
    """() or (b,): 0 where there is no sample in this round (x and y are then zeros), below 0 where there is one that
    cannot be used; None: all are there."""
