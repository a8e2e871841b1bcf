"""Runs of `pgfl-discovery`: one model for all, clusters told from what was released, then a model for each.

One run with a single model over all rounds serves twice: its first rounds are the warm-up, and its end is what learning
one model comes to. The runs with true and with found clusters go side by side; the latter is read as many rounds
earlier as the warm-up took, so that all three have released equally often, at the same noise.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from tacit.algorithms import find_clusters
from tacit.graphs import federation
from tacit.metrics import agreement, normalised_deviation
from tacit.privacy.spending import RunPrivacy
from tacit.results import Run
from tacit_reproduction.personalised.regression_runs import (
    CLUSTERS,
    EVERY,
    PENALTY,
    ROUNDS,
    Floats,
    Noise,
    Problem,
    Setting,
    World,
    simulated,
    world_of,
)

CLIP = 1.0
TAU = 0.0
"""Clusters are not mixed, so that what is gained comes of the clusters alone."""


class Cell(NamedTuple):
    """Data, and what may be spent on them."""

    records: tuple[int, int]
    """Fewest and most of a client."""
    spread: float
    total: float | None
    """rho of all rounds together; None: no noise."""


class Task(NamedTuple):
    """Simulations of several spreads at once."""

    records: tuple[int, int]
    spreads: tuple[float, ...]
    total: float | None
    warmups: tuple[int, ...]
    """Rounds after which clusters are looked for; the first is used."""
    seeds: int
    first_seed: int


class Outcome(NamedTuple):
    """Results of a cell."""

    right: Mapping[int, Floats]
    """Rounds of warm-up -> (seeds,) share of clients in the right cluster."""
    chance: Floats
    """(seeds,) that share if clusters of the true sizes are dealt out at random."""
    ceiling: Floats
    """(seeds,) that share if every client could choose among the true models by its own records."""
    deviation: Mapping[str, Floats]
    """"true", "found", "one" -> (seeds,) NMSD after equally many rounds in all, the warm-up included."""
    privacy: RunPrivacy

    @property
    def warmup(self) -> int:
        """The rounds of warm-up that were used."""
        return next(iter(self.right))


def noise_of(total: float | None) -> Noise | None:
    """Return noise that is the same in all rounds and costs so much together."""
    return None if total is None else Noise(total / ROUNDS, 1.0)


def problem_of(cell: Cell) -> Problem:
    """Return the data's problem: the clip is ours, and the penalty that of the other experiment."""
    return Problem(spread=cell.spread, penalty=PENALTY, clip=CLIP)


def duals_after(outcome: Run, rounds: int) -> Floats:
    """Return (repeats, clients, d) the multipliers, averaged over the later half of so many rounds.

    With noise a multiplier is the gradient less that round's noise times rho: an average has less of it.
    """
    at = (outcome.recorded_rounds > rounds // 2) & (outcome.recorded_rounds <= rounds)
    return np.asarray(np.mean(outcome.recorded["dual"][:, at], axis=1), np.float64)


def run(task: Task) -> dict[Cell, Outcome]:
    """Learn one model, look for clusters, and learn a model for each."""
    cells = [Cell(task.records, spread, task.total) for spread in task.spreads]
    seeds = range(task.first_seed, task.first_seed + task.seeds)
    worlds = [world_of(problem_of(cell), seed, task.records) for cell in cells for seed in seeds]
    noise = noise_of(task.total)
    one = simulated(Setting("GFL", noise=noise), worlds, task.first_seed, ROUNDS, EVERY)
    found = {w: [_labels(d, world) for d, world in zip(duals_after(one, w), worlds, strict=True)] for w in task.warmups}
    warmup = task.warmups[0]
    guessed = [_with_clusters(world, labels) for world, labels in zip(worlds, found[warmup], strict=True)]
    several = simulated(Setting("PGFL", TAU, noise=noise), [*worlds, *guessed], task.first_seed, ROUNDS, EVERY)
    count = len(worlds)
    models = {
        "true": _models(several, ROUNDS)[:count],
        "found": _models(several, ROUNDS - warmup)[count:],
        "one": _models(one, ROUNDS),
    }
    targets = np.stack([world.targets for world in worlds])
    deviation = {name: normalised_deviation(each, targets).mean(axis=1) for name, each in models.items()}
    right = {w: _right(labels, worlds) for w, labels in found.items()}
    chance, ceiling = (np.array([measure(world) for world in worlds]) for measure in (_chance, _ceiling))
    return {
        cell: Outcome(
            {w: values[part] for w, values in right.items()},
            chance[part],
            ceiling[part],
            {name: values[part] for name, values in deviation.items()},
            several.privacy,
        )
        for cell, part in ((cell, slice(k * task.seeds, (k + 1) * task.seeds)) for k, cell in enumerate(cells))
    }


def _labels(duals: Floats, world: World) -> list[int]:
    found: list[int] = find_clusters(duals, CLUSTERS, seed=0, weight=world.stream.data_size).labels.tolist()
    return found


def _with_clusters(world: World, labels: list[int]) -> World:
    servers = world.topology.links["servers"]
    clients = world.topology.roles["client"] // world.topology.roles["server"]
    return world._replace(topology=federation(servers, clients, clusters=labels))


def _models(outcome: Run, rounds: int) -> Floats:
    return np.asarray(outcome.recorded["models"][:, int(np.searchsorted(outcome.recorded_rounds, rounds))])


def _right(labels: list[list[int]], worlds: list[World]) -> Floats:
    return np.array([agreement(own, world.clusters) for own, world in zip(labels, worlds, strict=True)])


def _chance(world: World) -> float:
    return agreement(np.random.default_rng(0).permutation(world.clusters), world.clusters)


def _ceiling(world: World) -> float:
    batch = world.stream.chunk(0, 1)
    x, y = (np.asarray(leaf[0], np.float64) for leaf in (batch.x, batch.y))
    models = np.stack([world.targets[np.argmax(world.clusters == q)] for q in range(CLUSTERS)])
    # Places without a record are zeros, and add none to any model's error.
    errors = np.sum((np.einsum("kia,qa->qki", x, models) - y) ** 2, axis=2)
    return float(np.mean(np.argmin(errors, axis=0) == world.clusters))
