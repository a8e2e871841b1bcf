"""Runs of `isfedavg-ijcnn1`, and their test errors."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from tacit import objectives
from tacit.algorithms import Shares, importance_fedavg, optimal_shares
from tacit.streams import Batch, partition, whole
from tacit_reproduction.datasets.ijcnn1 import ijcnn1
from tacit_reproduction.federated.importance_runs import Floats, Setting, separate_stars, work_of
from tacit_reproduction.finished import finished_run

Rule = Literal["uniform", "optimal", "sampled"]
Kind = Literal["error", "balanced", "loss"]
KINDS: dict[Kind, str] = {
    "error": "test error",
    "balanced": "test error with both classes counting alike",
    "loss": "test loss",
}
RULES: tuple[Rule, ...] = ("uniform", "optimal", "sampled")
CLIENTS, COHORT, STEP, RIDGE = 100, 10, 0.25, 1e-4
SMALLEST, LARGEST, ALPHA = 79, 688, 1.0
"""The text's sizes; how unlike the mixes of classes are it does not say."""
OBJECTIVE = objectives.logistic(l2=2 * RIDGE)
"""l2 / 2 ||w||^2 is the text's rho ||w||^2."""


class Design(NamedTuple):
    """The extent of the experiment."""

    seeds: int
    rounds: int
    every: int
    settled: int
    """Errors are means over the rounds after this one."""


FULL = Design(seeds=20, rounds=3000, every=50, settled=2000)
QUICK = Design(seeds=4, rounds=600, every=50, settled=300)


class Split(NamedTuple):
    """Training rows of all repeats by client, and the test rows."""

    data: Batch
    """(repeats, clients, places, ...)."""
    sizes: NDArray[np.int64]
    """(repeats, clients)."""
    test_x: NDArray[np.float32]
    test_y: NDArray[np.float32]


class Outcome(NamedTuple):
    """Test errors of one rule."""

    rounds: NDArray[np.int64]
    found: Mapping[Kind, Floats]
    """(seeds, len(rounds)) each."""
    settled_after: int

    def settled(self, kind: Kind) -> Floats:
        """(seeds,) mean over the last rounds."""
        return np.asarray(self.found[kind][:, self.rounds > self.settled_after].mean(axis=1))


Evidence = Mapping[Rule, Outcome]


class Reference(NamedTuple):
    """References that need no run."""

    majority: float
    """Error of saying -1 always."""
    best: Mapping[Kind, Floats]
    """(seeds,) of each repeat's w^o."""


every_row = functools.cache(ijcnn1)
"""Once per process: reading takes seconds."""


def shared_out(seeds: range) -> Split:
    """Share the training rows of ijcnn1 out, once per seed."""
    table = every_row()
    train, test = table.parts["train"], table.parts["test"]
    x, y = table.x[train], table.y[train]
    parts = []
    for seed in seeds:
        own = partition.unequal(y, CLIENTS, SMALLEST, LARGEST, ALPHA, seed)
        parts.append(whole(x, y, own))
    batches = [jax.tree.map(lambda leaf: leaf[0], part.chunk(0, 1)) for part in parts]
    places = max(batch.y.shape[1] for batch in batches)
    padded = [_padded(batch, places) for batch in batches]
    stacked = jax.tree.map(lambda *leaves: np.stack(leaves), *padded)
    return Split(stacked, np.array([part.data_size for part in parts]), table.x[test], table.y[test])


def _padded(batch: Batch, places: int) -> Batch:
    def wider(leaf: Any) -> NDArray[np.float32]:
        missing = [(0, 0), (0, places - leaf.shape[1]), *[(0, 0)] * (leaf.ndim - 2)]
        return np.pad(np.asarray(leaf, np.float32), missing)

    weight = np.ones_like(batch.y) if batch.weight is None else batch.weight
    return Batch(wider(batch.x), wider(batch.y), wider(weight))


def optimum(data: Batch, sizes: NDArray[np.int64]) -> Floats:
    """Return w^o of one repeat, where clients count alike: Newton's method."""
    share = (np.asarray(data.weight, np.float64) / sizes[:, None] / len(sizes)).ravel()
    x, y = np.asarray(data.x, np.float64).reshape(-1, data.x.shape[-1]), np.asarray(data.y, np.float64).ravel()
    w = np.zeros(x.shape[1])
    for _ in range(25):
        wrong = 1 / (1 + np.exp(y * (x @ w)))
        slope = 2 * RIDGE * w - x.T @ (share * y * wrong)
        w = w - np.linalg.solve(2 * RIDGE * np.eye(len(w)) + (x.T * (share * wrong * (1 - wrong))) @ x, slope)
    return w


def tested(models: Floats, split: Split) -> dict[Kind, Floats]:
    """Return errors and mean loss of models (n, d) on the test rows."""
    margin = split.test_y[:, None] * (split.test_x @ np.asarray(models, np.float32).T)
    wrong = np.where(margin == 0, split.test_y[:, None] > 0, margin < 0)  # who cannot tell says -1
    positive = split.test_y > 0
    balanced = (wrong[positive].mean(axis=0) + wrong[~positive].mean(axis=0)) / 2
    return {"error": wrong.mean(axis=0), "balanced": balanced, "loss": np.logaddexp(0, -margin).mean(axis=0)}


def run(task: tuple[Rule, Design, int]) -> Outcome:
    """Run one rule for all seeds at once, each around a server of its own."""
    rule, design, first = task
    seeds = range(first, first + design.seeds)
    split = shared_out(seeds)
    work = [work_of(Setting("uniform"), CLIENTS, seed) for seed in seeds]
    steps, batches = (np.concatenate(parts).tolist() for parts in zip(*work, strict=True))
    flat = jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), split.data)
    places = flat.y.shape[1]
    probabilities = _optimal(split, work) if rule == "optimal" else rule
    sizes = split.sizes.ravel()
    rows = [client * places + np.arange(size) for client, size in enumerate(sizes)]
    stream = whole(flat.x.reshape(-1, flat.x.shape[-1]), np.where(flat.y.ravel() > 0, 1, -1), rows, name="ijcnn1")
    outcome = finished_run(
        importance_fedavg(
            OBJECTIVE, STEP, probabilities, cohort=COHORT, local_steps=steps, batch_size=batches, records=places
        ),
        separate_stars(design.seeds, CLIENTS),
        stream,
        rounds=design.rounds,
        seed=first,
        evaluate="cohort",
        record={kind: functools.partial(_one_kind, kind, split) for kind in KINDS},
        record_every=design.every,
    )
    return Outcome(outcome.recorded_rounds, {kind: outcome.recorded[kind][0].T for kind in KINDS}, design.settled)


def _one_kind(kind: Kind, split: Split, models: Floats) -> Floats:
    return tested(np.asarray(models)[::CLIENTS], split)[kind]


def _optimal(split: Split, work: list[tuple[NDArray[np.int64], NDArray[np.int64]]]) -> Shares:
    found = []
    for k, (steps, batches) in enumerate(work):
        data = jax.tree.map(lambda leaf, k=k: leaf[k], split.data)
        best = jnp.asarray(optimum(data, split.sizes[k]), jnp.float32)
        found.append(optimal_shares(OBJECTIVE, data, split.sizes[k], best, steps.tolist(), batches.tolist()))
    return Shares(np.concatenate([f.clients for f in found]), np.concatenate([f.records for f in found]))


def reference(task: tuple[Design, int]) -> Reference:
    """Return the errors that rounds are measured by."""
    design, first = task
    split = shared_out(range(first, first + design.seeds))
    parts = [jax.tree.map(lambda leaf, k=k: leaf[k], split.data) for k in range(design.seeds)]
    best = np.array([optimum(part, sizes) for part, sizes in zip(parts, split.sizes, strict=True)])
    return Reference(float((split.test_y > 0).mean()), tested(best, split))
