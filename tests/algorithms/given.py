"""Data that a reference computes with as well."""

from __future__ import annotations

import numpy as np

import tacit


def two_classes(seed: int, shape: tuple[int, ...], dim: int) -> tuple[np.ndarray, np.ndarray]:
    """Normal features (*shape, dim) and classes at random, whatever the features are."""
    rng = np.random.default_rng(seed)
    return rng.standard_normal((*shape, dim)), rng.choice([-1.0, 1.0], shape)


def stream_of(x: np.ndarray, y: np.ndarray) -> tacit.streams.Stream:
    """The stream that plays these: (rounds, agents, ...) each."""
    return tacit.streams.from_function(
        lambda start, stop: tacit.streams.Batch(x[start:stop], y[start:stop]), agents=x.shape[1], rounds=x.shape[0]
    )
