"""Images of `pgfl-mnist` and `pgfl-organ`, and how clients share them (Gauthier 2023, sec. 5.4.2-3)."""

import functools
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tacit.streams.dataset import Dataset
from tacit_reproduction.datasets.mnist import mnist
from tacit_reproduction.datasets.organamnist import ORGANS, organamnist
from tacit_reproduction.datasets.tasks import TwoClasses, held_out
from tacit_reproduction.gauthier.pgfl import CLUSTERS, SERVERS
from tacit_reproduction.table import Floats

TEST_ROWS = 500  # of each cluster's test set, drawn once


class Group(NamedTuple):  # tasks of the clusters, and numbers of clients and images
    tasks: tuple[TwoClasses, ...]
    clients: int = 15  # of each server
    sizes: tuple[int, int] = (2, 4)  # range of D_k
    cohort: int | None = 3  # clients that a server calls in a round; None: all

    @property
    def classes(self) -> tuple[int, ...]:
        """All classes of its tasks."""
        return tuple(sorted({label for task in self.tasks for side in task for label in side}))


def _organs(*sides: tuple[str, str]) -> Group:
    tasks = (TwoClasses(*((ORGANS.index(organ),) for organ in side)) for side in sides)
    return Group(tuple(tasks), 3, (2, 2), None)


LUNG = "left lung"
ONE_EIGHT, ONE_NINE = TwoClasses((1,), (8,)), TwoClasses((1,), (9,))
THREES = tuple(TwoClasses((1, 2, 3), other) for other in ((6, 7, 8), (7, 8, 9), (6, 8, 9)))
GROUPS = {
    "pairs": Group((ONE_EIGHT, ONE_NINE, TwoClasses((7,), (8,)))),
    "pairs, 7 beside 9": Group((ONE_EIGHT, ONE_NINE, TwoClasses((8,), (7,)))),
    "triplets": Group(THREES, sizes=(6, 12)),
    "similar": _organs(("right lung", LUNG), ("liver", LUNG), ("right kidney", LUNG)),
    "dissimilar": _organs(("spleen", LUNG), ("left kidney", "bladder"), ("right kidney", "right lung")),
}


@functools.cache
def loaded(source: str) -> Dataset:
    return {"mnist": mnist, "organamnist": organamnist}[source]()


@functools.cache
def images(source: str, classes: tuple[int, ...]) -> Dataset:
    """Return the images of some classes, each scaled to norm 1, in the same parts."""
    data = loaded(source)
    kept = np.isin(data.y, classes)
    x, before = data.x[kept], np.concatenate([[0], np.cumsum(kept)])
    parts = {name: slice(int(before[part.start]), int(before[part.stop])) for name, part in data.parts.items()}
    return replace(data, x=x / np.linalg.norm(x, axis=1, keepdims=True), y=data.y[kept], parts=parts)


def clients(group: Group, seed: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return each client's cluster, equally many in all, and number of images; one has the most, whatever the seed."""
    count, (low, high) = SERVERS * group.clients, group.sizes
    clusters = np.random.default_rng([seed, count]).permutation(np.arange(count) % CLUSTERS)
    sizes = np.random.default_rng([seed, low, high]).integers(low, high + 1, count)
    sizes[0] = high
    return clusters, sizes


def accuracies(models: Floats, labels: Sequence[NDArray[np.int64]], group: Group, data: Dataset) -> Floats:
    """Return (seeds, records) per cent that models (seeds, records, clients, d) get right on their clusters' tests."""
    tests = [held_out(data, task, TEST_ROWS) for task in group.tasks]
    found = np.empty((*models.shape[:2], len(tests)))
    for own, of_seed, result in zip(labels, models, found, strict=True):
        for q, test in enumerate(tests):
            said = of_seed[:, own == q] @ test.x.T > 0
            result[:, q] = 100 * (said == (test.y > 0)).mean(axis=(1, 2))
    return np.asarray(found.mean(axis=2))
