"""Clusters of clients that tell two classes of images apart: runs of `pgfl-mnist` and `pgfl-organ`.

There is no constant feature, as (5.37) has none. Images are scaled to one norm s, which takes the place of two settings
that the text leaves open: with clip C and penalty rho, images of norm s learn what images of norm 1 learn with clip
C / s and penalty rho / s^2 (put s w for w). Gradients are shorter than s, so that s <= C means that nothing is clipped;
a larger s means longer steps. One run tries several s side by side, as further repeats.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Literal, NamedTuple

import jax
import numpy as np
from numpy.typing import NDArray

from tacit import algorithms, graphs, objectives
from tacit.core.contract import Array, Mechanism, Tree
from tacit.core.errors import DataError
from tacit.privacy import decaying_gaussian, unprotected
from tacit.privacy.spending import RunPrivacy
from tacit.streams import Stream, from_function
from tacit.streams.dataset import Dataset
from tacit_reproduction.datasets.tasks import TwoClasses, binary_task, cluster_tasks
from tacit_reproduction.finished import finished_run

Floats = NDArray[np.float64]
Noise = Literal["none", "published", "affordable"]

SERVERS, DEGREE, CLUSTERS = 10, 3, 3
PHI0, ZETA = 0.001, 0.99
"""The text's noise (section 5.4.1): phi_1, and the factor on the variance from round to round."""
PENALTY, L2 = 1.0, 0.01
"""rho and the regulariser, which the text does not give; see above for what the images' norm makes of them."""
LOSS = objectives.logistic(l2=L2)
TEST_ROWS = 500
"""Of each cluster's test set, drawn once from the data's test part: a tenth to a quarter of it."""
LOST = 2.0
"""Points of accuracy that noise may cost where it counts as affordable."""


class Setting(NamedTuple):
    """Clusters, tasks and numbers of images."""

    name: str
    tasks: tuple[TwoClasses, ...]
    clients: int
    """Of each server."""
    sizes: tuple[int, int]
    """Range of D_k, the images that a client has."""
    cohort: int | None
    """Clients that a server calls in a round; None: all."""

    @property
    def classes(self) -> set[int]:
        """All classes of its tasks."""
        return {label for task in self.tasks for side in task for label in side}


class Mixing(NamedTuple):
    """tau_t = tau decay^t."""

    tau: float
    decay: float = 1.0

    @property
    def words(self) -> str:
        """Name in tables and figures."""
        if self.tau == 0:
            return "tau = 0"
        return f"tau = {self.tau:g}" if self.decay == 1 else f"tau = {self.tau:g} x {self.decay:g}^t"


ALONE = Mixing(0.0)


class Cell(NamedTuple):
    """One run."""

    setting: Setting
    mixing: Mixing
    total: float
    """zCDP rho of a client called in every round; inf: no noise."""
    clip: float
    """C; of no meaning without noise."""


class Extent(NamedTuple):
    """Numbers of rounds, seeds and records."""

    rounds: int
    seeds: range
    every: int
    """Rounds between records."""


class Outcome(NamedTuple):
    """Test accuracies in per cent, means over the clients, each on its own cluster's test set."""

    accuracy: Floats
    """(seeds, recorded rounds)."""
    by_cluster: Floats
    """(seeds, clusters) at the end."""
    residual: float
    """Largest distance to an exact local minimiser, as a share of the minimiser's sensitivity."""
    privacy: RunPrivacy

    @property
    def final(self) -> Floats:
        """(seeds,) after the last round."""
        return np.asarray(self.accuracy[:, -1])


def published(rounds: int) -> float:
    """Return the zCDP rho that so many rounds of the text's noise cost: the sum of phi_n, which grow as zeta^-n."""
    return PHI0 * _growth(rounds)


def _growth(rounds: int) -> float:
    return math.fsum(ZETA**-n for n in range(rounds))


def mechanism(total: float, clip: float, rounds: int) -> Mechanism:
    """Return noise of the text's shape that costs a client called in all rounds `total`."""
    if math.isinf(total):
        return unprotected
    first = total / _growth(rounds)
    return decaying_gaussian(math.sqrt(1 / (2 * first)), ZETA, clip)


def images(data: Dataset, classes: Iterable[int]) -> Dataset:
    """Return the rows of some classes, each scaled to norm 1, in the same parts."""
    kept = np.isin(data.y, list(classes))
    x = data.x[kept]
    size = np.linalg.norm(x, axis=1, keepdims=True)
    if not np.all(size > 0):
        raise DataError(f"{data.name}: row {int(np.flatnonzero(kept)[np.argmin(size)])} is black; expected an image")
    before = np.concatenate([[0], np.cumsum(kept)])
    parts = {name: slice(int(before[part.start]), int(before[part.stop])) for name, part in data.parts.items()}
    description = f"{data.description}; {len(x):,} are of the classes that are used"
    return replace(data, x=x / size, y=data.y[kept], parts=parts, description=description)


def members(setting: Setting, seed: int) -> NDArray[np.int64]:
    """Return each client's cluster: equally many in all, at random."""
    count = SERVERS * setting.clients
    return np.random.default_rng([seed, count]).permutation(np.arange(count) % CLUSTERS)


def sizes(setting: Setting, seed: int) -> NDArray[np.int64]:
    """Return each client's number of images; one has the most, so that batches of all seeds are alike."""
    low, high = setting.sizes
    found = np.random.default_rng([seed, low, high]).integers(low, high + 1, SERVERS * setting.clients)
    found[0] = high
    return found


def scaled(stream: Stream, norm: float) -> Stream:
    """Return a stream of `tacit.streams.whole` with features times `norm`."""
    batch = stream.chunk(0, 1)
    batch = batch._replace(x=(norm * batch.x).astype(batch.x.dtype))

    def chunk(start: int, stop: int) -> Tree:
        return jax.tree.map(lambda leaf: np.broadcast_to(leaf[0], (stop - start, *leaf.shape[1:])), batch)

    size, name, description = stream.data_size, stream.name, stream.description
    return from_function(chunk, agents=stream.agents, period=1, data_size=size, name=name, description=description)


def run_cell(cell: Cell, norms: Sequence[float], extent: Extent, data: Dataset) -> list[Outcome]:
    """Run one setting, all norms and seeds at once, and judge the clients' own models; an outcome per norm."""
    setting, tau, decay = cell.setting, *cell.mixing
    drawn = {seed: (members(setting, seed), sizes(setting, seed)) for seed in extent.seeds}
    repeats = [(norm, seed) for norm in norms for seed in extent.seeds]

    def fading(t: Array) -> Array:
        return tau * decay**t

    def graph(number: int) -> graphs.Topology:
        _, seed = repeats[number - extent.seeds.start]
        return graphs.federation(graphs.k_regular(SERVERS, DEGREE, seed), setting.clients, drawn[seed][0])

    def stream(number: int) -> Stream:
        norm, seed = repeats[number - extent.seeds.start]
        return scaled(cluster_tasks(data, setting.tasks, *drawn[seed], seed), norm)

    run = finished_run(
        algorithms.personalised_graph_federated(
            LOSS,
            mechanism(cell.total, cell.clip, extent.rounds),
            clusters=CLUSTERS,
            penalty=PENALTY,
            tau=tau if decay == 1 else fading,
            cohort=setting.cohort,
        ),
        graph,
        stream,
        rounds=extent.rounds,
        repeats=len(repeats),
        seed=extent.seeds.start,
        evaluate="everyone" if setting.cohort is None else "cohort",
        record={"models": lambda models: models},
        record_every=extent.every,
    )
    labels = [drawn[seed][0] for _, seed in repeats]
    right = accuracies(np.asarray(run.recorded["models"]), labels, setting, data)
    bound = np.array([norm if math.isinf(cell.total) else min(norm, cell.clip) for norm, _ in repeats])
    counts = np.stack([drawn[seed][1] for _, seed in repeats])
    residual = by_sensitivity(np.asarray(run.recorded["residual"], np.float64), bound, counts)
    count = len(extent.seeds)
    places = [slice(k * count, (k + 1) * count) for k in range(len(norms))]
    return [
        Outcome(right[place].mean(axis=2), right[place, -1], float(residual[place].max()), run.privacy)
        for place in places
    ]


def by_sensitivity(residual: Floats, bound: Floats, counts: NDArray[np.int64]) -> Floats:
    """Return each repeat's largest residual (repeats, records, clients) as a share of its client's sensitivity.

    That is 2 bound / (D_k (rho + l2)), (5.31) with the regulariser; `bound` (repeats,) is on gradients, `counts`
    (repeats, clients) are D_k.
    """
    sensitivity = 2 * bound[:, None] / (counts * (PENALTY + L2))
    return np.asarray((residual.max(axis=1) / sensitivity).max(axis=1))


def accuracies(
    models: NDArray[np.float32], labels: Sequence[NDArray[np.int64]], setting: Setting, data: Dataset
) -> Floats:
    """Return per cent that models (seeds, records, clients, d) get right on their clusters' test sets.

    (seeds, records, clusters): means over a cluster's clients.
    """
    tests = [binary_task(data, *task, part="test", most=TEST_ROWS) for task in setting.tasks]
    found = np.empty((*models.shape[:2], len(tests)))
    for own, of_seed, result in zip(labels, models, found, strict=True):
        for q, test in enumerate(tests):
            chosen = of_seed[:, own == q]
            said = chosen.reshape(-1, chosen.shape[-1]) @ test.x.T > 0
            result[:, q] = 100 * (said == (test.y > 0)).mean(axis=1).reshape(chosen.shape[:2]).mean(axis=1)
    return found


def likeness(setting: Setting, data: Dataset, rows: int = 4000, l2: float = 1.0) -> Floats:
    """Return per cent (task, other task) that a model of the first, from many images, gets right on the other's test.

    The model is a ridge regression on the labels; below 50 % a task's model misleads another.
    """
    fitted = []
    for task in setting.tasks:
        x, y = binary_task(data, *task, most=rows)
        fitted.append(np.linalg.solve(x.T @ x + l2 * np.eye(x.shape[1], dtype=x.dtype), x.T @ y))
    tests = [binary_task(data, *task, part="test", most=TEST_ROWS) for task in setting.tasks]
    return np.array([[100 * np.mean((test.x @ w > 0) == (test.y > 0)) for test in tests] for w in fitted])
