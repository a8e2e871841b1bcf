"""Rows of ijcnn1 for the experiments of Rizk (2023), in place of its click-through data."""

from __future__ import annotations

import functools
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tacit.streams.dataset import with_bias
from tacit_reproduction.datasets.ijcnn1 import ijcnn1


class Samples(NamedTuple):
    """Rows with columns of mean 0 and deviation 1, and a constant."""

    x: NDArray[np.float32]
    y: NDArray[np.float32]
    test_x: NDArray[np.float32]
    test_y: NDArray[np.float32]
    description: str


@functools.cache
def load() -> Samples:
    """Load ijcnn1; where it cannot be had the error says where it was looked for."""
    data = ijcnn1()
    train, test = data.parts["train"], data.parts["test"]
    mean, deviation = (of(data.x[train], axis=0) for of in (np.mean, np.std))
    x = with_bias(((data.x - mean) / deviation).astype(np.float32))
    return Samples(x[train], data.y[train], x[test], data.y[test], data.description)
