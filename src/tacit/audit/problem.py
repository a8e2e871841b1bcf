"""The learning problem of an audit: the one on which a record changes most.

The loss is linear, so that a record's gradient is the record, whatever the state, and larger than the clip: the clip
is what must bound it. In one data set the victim's record pulls one way, in its neighbour the opposite way, which moves
the released value by the whole declared sensitivity. How a record spreads over the coordinates matters: an l2 clip lets
the l1 norm be largest when all coordinates are equal, and an l1 clip should make that spread no worse than a single
one. With several coordinates both are tried.
"""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np

from tacit.audit.watch import Worlds
from tacit.contract import Adjacency, Mechanism, Objective
from tacit.objectives import MeanLoss, PenalisedLoss, Regulariser
from tacit.objectives import linear as inner_product
from tacit.objectives.losses import linear_loss
from tacit.streams import Batch, Stream, from_function

_BEYOND_CLIP = 8.0
"""Length of a record's gradient in units of the clip."""


def linear() -> Objective:
    """Return the objective y <x, params>, mean over the records: every record's gradient is what it is anywhere."""
    loss = PenalisedLoss(MeanLoss(inner_product, linear_loss), Regulariser())
    return Objective("linear", loss, initial=lambda batch: jnp.zeros(batch.x.shape[-1:]))


def neighbouring(mechanism: Mechanism, coordinates: int, records: int, rounds: int, agents: int) -> Stream:
    """Return a stream of `Worlds` in which agent 0's data differ, by one record or, where that is the unit, by all."""
    bound = 1.0 if mechanism.clip is None else mechanism.clip.bound
    patterns = _patterns(coordinates, mechanism.adjacency)
    x = np.repeat(patterns[:, None], records, axis=1) * (_BEYOND_CLIP * bound)
    # The other records cancel, so that the victim's turns the whole batch: a clip of the mean would not bound it.
    given = np.tile(np.where(np.arange(records) % 2, 1, -1).astype(np.float32), (len(patterns), 1))
    given[:, : records if mechanism.adjacency == "dataset" else 1] = 1
    other = given.copy()
    other[:, : records if mechanism.adjacency == "dataset" else 1] = -1

    def chunk(start: int, stop: int) -> Worlds:
        def everyone(victim: np.ndarray, neighbour: np.ndarray) -> np.ndarray:
            row = np.stack([victim, *[neighbour] * (agents - 1)])
            return np.broadcast_to(row, (stop - start, *row.shape))

        same = Batch(everyone(x, x), everyone(given, given))
        return Worlds(same, Batch(same.x, everyone(other, given)))

    return from_function(chunk, agents=agents, rounds=rounds, name="neighbouring data sets")


def _patterns(coordinates: int, adjacency: Adjacency) -> np.ndarray:
    """How a record is spread over the coordinates: (patterns, coordinates)."""
    single = np.zeros(coordinates, np.float32)
    single[0] = 1
    # Signs differ so that noise which is the same in two coordinates shows.
    spread = np.where(np.arange(coordinates) % 2, -1, 1).astype(np.float32)
    return single[None] if coordinates == 1 or adjacency == "component" else np.stack([spread, single])
