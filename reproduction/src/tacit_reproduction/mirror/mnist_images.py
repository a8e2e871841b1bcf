"""MNIST shared out to clients: 30 shards of about one digit each, three to a client (Dissertation, sec. 5.5)."""

from __future__ import annotations

import functools
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tacit.streams import Batch, Stream, from_function
from tacit.streams.partition import label_shards
from tacit_reproduction.datasets.mnist import mnist

SHARDS = 3
VALIDATION = 0.1
"""Share of a client's images that are kept for validation; nothing here is chosen by them."""


class Images(NamedTuple):
    """Training and test images as rows of grey values from 0 to 255."""

    x: NDArray[np.uint8]
    y: NDArray[np.int32]
    test_x: NDArray[np.uint8]
    test_y: NDArray[np.int32]
    description: str


@functools.cache
def load() -> Images:
    """Load MNIST; where it cannot be had the error says where it was looked for."""
    data = mnist()
    grey = np.rint(255 * data.x).astype(np.uint8)  # as published: a quarter of the memory on the device
    train, test = data.parts["train"], data.parts["test"]
    return Images(grey[train], data.y[train], grey[test], data.y[test], data.description)


def shared_out(images: Images, clients: int, seed: int) -> list[NDArray[np.int64]]:
    """Return each client's training rows: three shards of images sorted by digit, less a tenth for validation."""
    rng = np.random.default_rng([seed, clients])
    held = label_shards(images.y, clients, SHARDS, seed)
    return [np.sort(rng.permutation(rows)[round(VALIDATION * len(rows)) :]) for rows in held]


def client_stream(images: Images, clients: int, batch: int, seed: int) -> Stream:
    """Return the stream of one seed: its own shards, and its own order in which each client reads its images.

    A pass is a whole number of batches, so that data repeat after one and can be kept on the device: of a client's
    5,400 images, 24 are left out where batches are of 128.
    """
    rng = np.random.default_rng([seed, clients, batch])
    held = [rng.permutation(rows) for rows in shared_out(images, clients, seed)]
    passes = min(len(rows) for rows in held) // batch
    # (rounds, clients, batch): who reads which images when.
    order = np.stack([rows[: passes * batch].reshape(passes, batch) for rows in held], axis=1)

    def chunk(start: int, stop: int) -> Batch:
        now = order[np.arange(start, stop) % passes]
        return Batch(images.x[now], images.y[now])

    size = passes * batch
    description = images.description
    return from_function(chunk, agents=clients, period=passes, data_size=size, name="mnist", description=description)


class Spread(NamedTuple):
    """Heterogeneity of the clients' images."""

    digits: float
    """Different digits that a client has, on average."""
    main: float
    """Share of a client's images that are of its three most frequent digits, on average."""


def spread(images: Images, clients: int, seeds: range) -> Spread:
    """Return how many digits clients have: real classes differ in size, so that a shard may hold two."""
    held = [rows for seed in seeds for rows in shared_out(images, clients, seed)]
    counts = np.array([np.bincount(images.y[rows], minlength=10) for rows in held])
    largest = np.sort(counts, axis=1)[:, -SHARDS:]
    return Spread(float((counts > 0).sum(axis=1).mean()), float((largest.sum(axis=1) / counts.sum(axis=1)).mean()))
