"""Runs of `isfedavg-regression`: least squares at 300 clients of one server (Rizk 2023, secs. 2.6.1 and 2.6.3).

Repeats and problems of one setting run side by side, each around a server of its own: servers that have no links to
each other are repeats, and each may have its own given probabilities.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from tacit import objectives
from tacit.algorithms import Shares, importance_fedavg, optimal_shares
from tacit.core.contract import Algorithm
from tacit.graphs import Topology, federation, ring
from tacit.streams import Batch, LinearRegression, from_function, linear_regression
from tacit_reproduction.finished import finished_run

RuleName = Literal["uniform", "optimal", "current", "sampled"]
RULES: tuple[RuleName, ...] = ("uniform", "optimal", "current", "sampled")
DIM, RIDGE, STEP = 2, 1e-3, 0.01
MOST_BATCH = 10
FEATURES, NOISE = (0.5, 1.5), (0.01, 0.1)
"""Ranges of variances, which the text does not give: those of `tacit.streams.linear_regression`."""
NOISY_SHARE = 0.05
"""Of the clients, where a few are noisier than the rest."""
BEYOND_MEASURE = 1e6
"""A model has diverged once its MSD is so many times the first one's; in single precision most end as no number."""
OBJECTIVE = objectives.squared(l2=RIDGE)
"""Half of the text's loss: its step mu is a step of 2 mu here."""
Floats = NDArray[np.float64]


class Problem(NamedTuple):
    """Differences of the data from those of sec. 2.6.1."""

    noise: float = 1.0
    """Factor on all noise v_k, the text's way to a larger xi."""
    features: float = 1.0
    """Factor on the variance of all features."""
    contrast: float = 1.0
    """Factor on the noise of one client in twenty."""


class Setting(NamedTuple):
    """One compiled run."""

    rule: RuleName
    cohort: int = 6
    most_steps: int = 5


class Extent(NamedTuple):
    """The size of a problem, and how often and how long it is run."""

    clients: int
    samples: int
    seeds: int
    rounds: int
    every: int
    """Rounds between two records."""
    steady: int
    """The steady state begins after so many rounds."""


class Task(NamedTuple):
    """One simulation: a setting on several problems."""

    setting: Setting
    problems: tuple[Problem, ...]
    extent: Extent
    first_seed: int


class Curves(NamedTuple):
    """MSD of one setting on one problem."""

    rounds: NDArray[np.int64]
    msd: Floats
    """(seeds, len(rounds)); infinite once it has grown beyond all numbers."""
    start: Floats
    """(seeds,) that of the first model."""
    steady_after: int

    @property
    def steady(self) -> Floats:
        """(seeds,) mean over the steady state."""
        return np.asarray(self.msd[:, self.rounds > self.steady_after].mean(axis=1))

    @property
    def decibels(self) -> Floats:
        """(seeds,) of the steady state."""
        return np.asarray(10 * np.log10(self.steady))

    def diverged(self, by: int | None = None) -> NDArray[np.bool_]:
        """(seeds,) whether a model is beyond all measure further away than the first one, by a round or in the end."""
        last = -1 if by is None else int(np.searchsorted(self.rounds, by))
        return np.asarray(~(self.msd[:, last] < BEYOND_MEASURE * self.start))


Evidence = Mapping[tuple[Setting, Problem], Curves]


def data_of(problem: Problem, clients: int, samples: int, seed: int) -> LinearRegression:
    """Draw the samples of one repeat; all that a problem does not change is the same for all problems."""

    def drawn(factor: float) -> LinearRegression:
        low, high = (variance * factor**2 for variance in NOISE)
        kinds = (FEATURES[0] * problem.features, FEATURES[1] * problem.features)
        return linear_regression(clients, samples, DIM, seed, feature_variance=kinds, noise_variance=(low, high))

    plain = drawn(problem.noise)
    if problem.contrast == 1:
        return plain
    noisy = round(NOISY_SHARE * clients)
    loud = drawn(problem.noise * problem.contrast)
    return plain._replace(y=np.concatenate([loud.y[:noisy], plain.y[noisy:]]))


def work_of(setting: Setting, clients: int, seed: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Draw every client's E_k and B_k."""
    steps, batches = (np.random.default_rng([seed, 71, k]) for k in range(2))
    return steps.integers(1, setting.most_steps + 1, clients), batches.integers(1, MOST_BATCH + 1, clients)


def given_shares(data: LinearRegression, optimum: Floats, steps: Sequence[int], batches: Sequence[int]) -> Shares:
    """Return the optimal probabilities (2.46), (2.48) of one repeat."""
    batch = Batch(data.x, data.y)
    return optimal_shares(OBJECTIVE, batch, data.x.shape[1], jnp.asarray(optimum, jnp.float32), steps, batches)


def algorithm_of(
    setting: Setting, samples: int, steps: Sequence[int], batches: Sequence[int], shares: Sequence[Shares]
) -> Algorithm:
    """Return the method for all servers together."""
    together = Shares(np.concatenate([s.clients for s in shares]), np.concatenate([s.records for s in shares]))
    return importance_fedavg(
        OBJECTIVE,
        2 * STEP,
        together if setting.rule == "optimal" else setting.rule,
        cohort=setting.cohort,
        local_steps=steps,
        batch_size=batches,
        records=samples,
    )


def separate_stars(servers: int, clients: int) -> Topology:
    """Return servers with so many clients each; the links between servers are not used."""
    return federation(ring(servers), clients)


def run(task: Task) -> dict[tuple[Setting, Problem], Curves]:
    """Run one setting on all its problems and seeds at once."""
    extent, seeds = task.extent, range(task.first_seed, task.first_seed + task.extent.seeds)
    stars = [(problem, seed) for problem in task.problems for seed in seeds]
    data = [data_of(problem, extent.clients, extent.samples, seed) for problem, seed in stars]
    work = [work_of(task.setting, extent.clients, seed) for _, seed in stars]
    optima = np.array([part.optima(RIDGE)[0] for part in data])
    shares = (
        [given_shares(d, o, s.tolist(), b.tolist()) for d, o, (s, b) in zip(data, optima, work, strict=True)]
        if task.setting.rule == "optimal"
        else [Shares(np.ones(extent.clients), np.ones((extent.clients, extent.samples)))] * len(stars)
    )
    steps, batches = (np.concatenate(parts).tolist() for parts in zip(*work, strict=True))
    batch = Batch(np.concatenate([d.x for d in data])[None], np.concatenate([d.y for d in data])[None])

    def msd(models: jax.Array) -> Floats:
        with np.errstate(over="ignore", invalid="ignore"):
            distance = np.asarray(models, np.float64)[:: extent.clients] - optima
            square = np.sum(distance**2, axis=1)
        return np.where(np.isnan(square), np.inf, square)

    outcome = finished_run(
        algorithm_of(task.setting, extent.samples, steps, batches, shares),
        separate_stars(len(stars), extent.clients),
        from_function(lambda a, b: batch, agents=batch.y.shape[1], period=1, data_size=extent.samples),
        rounds=extent.rounds,
        seed=task.first_seed,
        evaluate="everyone" if task.setting.rule == "current" else "cohort",
        record={"msd": msd},
        record_every=extent.every,
    )
    curves = outcome.recorded["msd"][0].T.reshape(len(task.problems), extent.seeds, -1)
    start = np.sum(optima**2, axis=1).reshape(len(task.problems), extent.seeds)
    return {
        (task.setting, problem): Curves(outcome.recorded_rounds, curves[k], start[k], extent.steady)
        for k, problem in enumerate(task.problems)
    }


def by_round(rounds: NDArray[np.int64], values: Floats) -> Floats:
    """Return values (seeds, len(rounds)) for every round up to the last, joined by lines."""
    every = np.arange(1, rounds[-1] + 1)
    return np.stack([np.interp(every, rounds, row) for row in values])


def drift(problem: Problem, extent: Extent, first_seed: int) -> Floats:
    """Return (seeds,) the text's xi: the largest distance of a client's own optimum from the common one."""
    found = []
    for seed in range(first_seed, first_seed + extent.seeds):
        common, local = data_of(problem, extent.clients, extent.samples, seed).optima(RIDGE)
        found.append(np.linalg.norm(local - common, axis=1).max())
    return np.array(found)
