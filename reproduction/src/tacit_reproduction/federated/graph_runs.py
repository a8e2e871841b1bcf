"""Runs of `gfl-regression`: settings, results, and the predicted moments."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

import numpy as np

from tacit import algorithms, graphs, objectives
from tacit.core.contract import Algorithm, Mechanism
from tacit.privacy import graph_homomorphic, per_edge, unprotected
from tacit.results import Run
from tacit.streams import LinearRegression, linear_regression
from tacit_reproduction.federated.graph_moments import Clients, Counts, Floats, deviations, growth, one_round
from tacit_reproduction.federated.private_segments import noise_by_round, piecewise, second_half, stretches
from tacit_reproduction.finished import finished_run

Noise = Literal["none", "random", "homomorphic"]
WORDS: Mapping[Noise, str] = {"none": "no noise", "random": "random", "homomorphic": "graph-homomorphic"}
SERVERS, CLIENTS, COHORT, SAMPLES, DIMENSIONS = 10, 100, 11, 100, 2
RIDGE, TEXT_STEP, TEXT_VARIANCE = 0.1, 0.7, 0.1
LOCAL_STEPS, BATCH_SIZES = (1, 10), (5, 10)
FEATURE_VARIANCE = (0.2, 0.5)
"""The text's covariances are "randomly generated". With these all of its steps converge, mu = 5 too."""
LONGER = (0.5, 1.5)
NEIGHBOURS, REWIRED = 4, 0.3
"""The text does not give its graph; here each seed has a small world of its own, with Metropolis weights."""
LOSS = objectives.squared(l2=RIDGE)
PER_TEXT_STEP = 2
"""Our squared loss is half of (3.60): the text's step counts twice."""
RECORD_EVERY = 2


class Cell(NamedTuple):
    """One setting."""

    noise: Noise
    step: float
    variance: float
    """sigma_g^2 between servers; without noise that of the cells which meet the same cohorts and batches."""

    @property
    def rounds(self) -> int:
        """Number of rounds: at small steps, until well after the error has settled."""
        return max(200, round(30 / self.step))


class Design(NamedTuple):
    """The extent of the experiment."""

    seeds: int
    steps: tuple[float, ...]
    """Rising."""
    variances: tuple[float, ...]
    """Rising."""


FULL = Design(20, (0.02, 0.1, 0.5, 0.7, 1.0, 5.0), (0.001, 0.01, 0.1, 1.0, 2.0, 10.0))
QUICK = Design(5, (0.1, 0.7, 5.0), (0.001, 0.1, 10.0))


class Outcome(NamedTuple):
    """Mean-square deviations of a cell from w^o of (3.61)."""

    rounds: Counts
    """(points,)."""
    centroid: Floats
    """(seeds, points) (3.64)."""
    individual: Floats
    """(seeds, points) (3.65)."""

    @property
    def settled(self) -> Floats:
        """(seeds,) of the centroid, averaged over the second half."""
        return second_half(self.centroid)

    @property
    def settled_individual(self) -> Floats:
        """(seeds,) of the servers' own models, averaged over the second half."""
        return second_half(self.individual)


class Theory(NamedTuple):
    """Predicted settled errors at one step, (seeds, 2): of the centroid, of the servers' models."""

    plain: Floats
    random: Floats
    """Addition by noise of variance 1."""
    homomorphic: Floats
    growth: Floats
    """(seeds,) factor on a server's deviation per round, by itself."""

    def settled(self, cell: Cell, individual: bool = False) -> Floats:
        """Return (seeds,) where a cell settles."""
        found = self.plain
        if cell.noise != "none":
            found = found + cell.variance * (self.random if cell.noise == "random" else self.homomorphic)
        return np.asarray(found[:, int(individual)])


class Same(NamedTuple):
    """Graph federated learning with one server beside federated averaging."""

    same: bool
    """Whether all models of all rounds are the same, bit by bit."""
    numbers: int
    """Count of compared numbers."""


class Evidence(NamedTuple):
    """All that the claims rest on."""

    cells: Mapping[Cell, Outcome]
    theory: Mapping[float, Theory]
    """By step."""
    one_server: Same
    longer: float
    """The growth at the largest step of a server whose clients' covariances are in `LONGER`."""


def cells(design: Design, noise: Noise) -> list[Cell]:
    """Return all settings of one scheme, the text's first and the largest step last.

    All schemes go through the same steps, so that in each round they call the same clients, who take the same samples.
    """
    found = [Cell(noise, TEXT_STEP, TEXT_VARIANCE)]
    found += [Cell(noise, TEXT_STEP, v) for v in design.variances if v != TEXT_VARIANCE]
    return found + [Cell(noise, step, TEXT_VARIANCE) for step in design.steps if step != TEXT_STEP]


def data(seed: int) -> LinearRegression:
    """Draw the data of one seed: every client has its own covariance and noise."""
    return linear_regression(SERVERS * CLIENTS, SAMPLES, DIMENSIONS, seed, feature_variance=FEATURE_VARIANCE)


def own_numbers() -> tuple[Counts, Counts]:
    """Return how many steps and samples a client takes, the same for all seeds."""
    rng = np.random.default_rng(SERVERS * CLIENTS)
    local, batch = (rng.integers(low, high + 1, SERVERS * CLIENTS) for low, high in (LOCAL_STEPS, BATCH_SIZES))
    return local, batch


def servers(seed: int) -> graphs.Graph:
    """Return the servers' graph of one seed."""
    return graphs.small_world(SERVERS, NEIGHBOURS, REWIRED, seed).with_weights("metropolis")


def run_noise(task: tuple[Design, Noise, int]) -> dict[Cell, Outcome]:
    """Run all settings of one scheme, one after the other, with seeds from the first one on."""
    design, noise, first = task
    wanted = cells(design, noise)
    lengths = [cell.rounds for cell in wanted]
    run = _run(wanted, _mechanism(wanted), design.seeds, first)
    models = np.asarray(run.recorded["servers"], np.float64)
    best = np.stack([data(seed).optima(RIDGE)[0] for seed in range(first, first + design.seeds)])[:, None, None]
    centroid = np.square(models.mean(axis=2, keepdims=True) - best).sum(axis=-1)[..., 0]
    individual = np.square(models - best).sum(axis=-1).mean(axis=-1)
    both = (stretches(run.recorded_rounds, values, lengths) for values in (centroid, individual))
    return {cell: Outcome(rounds, one, other) for cell, (rounds, one), (_, other) in zip(wanted, *both, strict=True)}


def run_theory(task: tuple[float, int, int]) -> Theory:
    """Follow the moments of a step until they have settled."""
    step, seeds, first = task
    found = [_expected(step, seed) for seed in range(first, first + seeds)]
    parts = [np.array([each[kind] for each, _ in found]) for kind in range(3)]
    return Theory(parts[0], parts[1], parts[2], np.array([grown for _, grown in found]))


def run_one_server(task: tuple[int, int]) -> Same:
    """Run one server, with its own clients alone, both ways."""
    rounds, first = task
    local, batch = (values[:CLIENTS].tolist() for values in own_numbers())
    kept = data(first)
    own = LinearRegression(kept.x[:CLIENTS], kept.y[:CLIENTS], kept.w_star).stream()
    settings = {"cohort": COHORT, "local_steps": local, "batch_size": batch}
    both: tuple[tuple[Algorithm, graphs.Topology], ...] = (
        (
            algorithms.graph_federated(LOSS, PER_TEXT_STEP * TEXT_STEP, **settings),
            graphs.federation(graphs.complete(1).with_weights("metropolis"), CLIENTS),
        ),
        (algorithms.fedavg(LOSS, PER_TEXT_STEP * TEXT_STEP, **settings), graphs.star_roles(CLIENTS)),
    )
    models = []
    for algorithm, topology in both:
        run = finished_run(
            algorithm,
            topology,
            own,
            rounds=rounds,
            seed=first,
            evaluate="cohort",
            record={"server": lambda models: models[0]},
            record_every=1,
        )
        models.append(run.recorded["server"])
    return Same(models[0].tobytes() == models[1].tobytes(), int(models[0].size))


def growth_of_longer(first: int, design: Design) -> float:
    """Return by what factor a squared deviation changes per round at the largest step with longer features."""
    drawn = linear_regression(CLIENTS, SAMPLES, DIMENSIONS, first, feature_variance=LONGER)
    local, batch = (values[:CLIENTS] for values in own_numbers())
    held = Clients(drawn, np.full(CLIENTS, SAMPLES), local, batch)
    return growth([one_round(held, COHORT, design.steps[-1], RIDGE)])


def _mechanism(wanted: Sequence[Cell]) -> Mechanism:
    noise = wanted[0].noise
    if noise == "none":
        return unprotected
    sizes = [math.sqrt(cell.variance) for cell in wanted]
    made = per_edge(sizes[0]) if noise == "random" else graph_homomorphic(sizes[0])
    return noise_by_round(made, sizes, [cell.rounds for cell in wanted])


def _run(wanted: Sequence[Cell], noise: Mechanism, seeds: int, first: int) -> Run:
    lengths = [cell.rounds for cell in wanted]
    local, batch = own_numbers()
    return finished_run(
        algorithms.graph_federated(
            LOSS,
            piecewise([PER_TEXT_STEP * cell.step for cell in wanted], lengths),
            server_mechanism=noise,
            cohort=COHORT,
            local_steps=local.tolist(),
            batch_size=batch.tolist(),
        ),
        lambda seed: graphs.federation(servers(seed), CLIENTS),
        lambda seed: data(seed).stream(),
        rounds=sum(lengths),
        repeats=seeds,
        seed=first,
        evaluate="cohort",
        record={"servers": lambda models: models[::CLIENTS]},  # a server's model speaks for its clients
        record_every=RECORD_EVERY,
    )


def _expected(step: float, seed: int) -> tuple[list[tuple[float, float]], float]:
    """Return deviations (centroid, individual) of no noise and of both schemes' noise of variance 1; and the growth.

    Per round and coordinate random noise adds sum_m W[p, m]^2 to server p, independently of others (its own copy is
    noisy too); graph-homomorphic noise adds (W - I) g with one draw per server.
    """
    drawn, (local, batch) = data(seed), own_numbers()
    found = []
    for p in range(SERVERS):
        mine = slice(p * CLIENTS, (p + 1) * CLIENTS)
        own = LinearRegression(drawn.x[mine], drawn.y[mine], drawn.w_star)
        held = Clients(own, np.full(CLIENTS, SAMPLES), local[mine], batch[mine])
        found.append(one_round(held, COHORT, step, RIDGE))
    best, _ = drawn.optima(RIDGE)
    mix = np.asarray(servers(seed).matrix().todense(), np.float64)
    apart = mix - np.eye(SERVERS)
    rounds = Cell("none", step, TEXT_VARIANCE).rounds // 2
    kinds = (None, np.diag(np.square(mix).sum(axis=1)), apart @ apart.T)
    curves = [deviations(found, mix, added, best, rounds) for added in kinds]
    return [(float(c.centroid[-1]), float(c.individual[-1])) for c in curves], growth(found)
