"""Control data of `pao-calcofi`: the same bottles at the same times, dealt to clients at random."""

from __future__ import annotations

import numpy as np

from tacit.streams import Batch
from tacit.streams.arrivals import ArrivalStream
from tacit_reproduction.datasets.calcofi import ARRIVALS, CalcofiStream

DEALT = 7
"""Stream of the random numbers that deal bottles out; other uses of a seed have other numbers."""


class DealtStream(ArrivalStream):
    """A CalCOFI stream whose clients are alike: each holds bottles of all places and times."""

    def __init__(self, by_place: CalcofiStream, seed: int) -> None:
        rounds = by_place.rounds
        assert rounds is not None
        held = by_place.chunk(0, rounds)
        theirs = np.swapaxes(held.weight, 0, 1) > 0
        x, y = np.swapaxes(held.x, 0, 1)[theirs], np.swapaxes(held.y, 0, 1)[theirs]
        order = np.random.default_rng([seed, DEALT]).permutation(len(y))
        sizes = np.asarray(by_place.data_size, np.int64)
        super().__init__(
            x[order],
            y[order],
            sizes,
            rounds,
            np.random.default_rng([seed, ARRIVALS]),  # so that data come when they come to clients by place
            name="calcofi-dealt",
            description=f"{by_place.description}, dealt by chance",
        )
        self._by_place = by_place

    def test(self, count: int, seed: int = 0) -> Batch:
        """Return `count` bottles that no client holds."""
        return self._by_place.test(count, seed)
