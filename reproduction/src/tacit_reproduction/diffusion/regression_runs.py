"""Runs of `diffusion-regression`: settings, results, and the theory's predictions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tacit import objectives
from tacit.privacy.spending import RunPrivacy
from tacit.results import Run
from tacit.streams import LinearRegression, Stream, linear_regression
from tacit_reproduction.diffusion.protocol import METHODS, Draws, Floats, Method, Noise, mechanism, network
from tacit_reproduction.finished import finished_run

AGENTS, SAMPLES, DIMENSIONS = 30, 100, 2
RIDGE = 0.01
NOISE_SIZE = 0.1
"""sigma_g: the text's variance is 0.01."""
TEXT_STEP = 0.4
SHORTEST = 1000
"""Rounds; the text's. Small steps get more, 60 / mu, so that what is judged is where a run settles."""
PER_INVERSE_STEP = 60
POINTS = 200
"""Rounds of a run whose models are recorded."""
FEATURE_VARIANCE = (0.2, 0.5)
"""The text's R_u is "randomly set". With eigenvalues around 1 consensus diverges at the text's step."""
DATA_NOISE = (0.01, 0.1)
"""Range of the agents' noise variances, which the text does not give."""
LOSS = objectives.squared(l2=RIDGE)
PER_TEXT_STEP = 2
"""Our squared loss is half of (4.62): the text's step counts twice."""
PRINTED_CLIP = 1.0
"""Of the privacy table only: bounds a record's gradient, of our half of the loss."""


class Cell(NamedTuple):
    """One setting."""

    method: Method
    noise: Noise
    step: float
    level: float = 1.0
    """Factor on the variance of the data's own noise."""
    whole: bool = False
    """Gradients of an agent's whole data set instead of one sample."""

    @property
    def rounds(self) -> int:
        """Number of rounds: in one, errors shrink by the step times the curvature, which is 0.4 or more."""
        return max(SHORTEST, round(PER_INVERSE_STEP / self.step))


class Design(NamedTuple):
    """The extent of the experiment."""

    seeds: int
    steps: tuple[float, ...]
    """Falling, the text's first."""
    swept: tuple[Method, ...]
    """The methods that are run at all steps; the others at the first one only."""
    levels: tuple[float, ...]
    """Further factors on the data's noise, for ATC at the last step."""
    masked: tuple[Method, ...]
    """The methods whose masked runs are compared bit by bit; ATC must be among them."""
    whole: bool
    """Gradients of whole data sets too, for ATC at the text's step."""


FULL = Design(20, (TEXT_STEP, 0.1, 0.025, 0.00625, 0.003125), tuple(METHODS), (0.1, 10.0), tuple(METHODS), True)
QUICK = Design(10, (TEXT_STEP, 0.1, 0.05, 0.025), ("ATC",), (), ("ATC",), False)


class Outcome(NamedTuple):
    """Mean-square deviations of a cell from w^o of (4.63)."""

    rounds: NDArray[np.int64]
    """(points,)."""
    centroid: Floats
    """(seeds, points) (4.64)."""
    individual: Floats
    """(seeds, points) (4.65)."""
    kept: float = 0.0
    """Noise that recorded models carry and the text's w do not: its expected square, at each agent independently."""

    @property
    def settled(self) -> Floats:
        """(seeds,) of the centroid, averaged over the second half, less what was kept."""
        return _second_half(self.centroid) - self.kept / AGENTS

    @property
    def settled_individual(self) -> Floats:
        """(seeds,) of the agents' own models, averaged over the second half, less what was kept."""
        return _second_half(self.individual) - self.kept


class Masked(NamedTuple):
    """A masked run beside the same run without masks."""

    local: Outcome
    grid: Outcome
    same: bool
    """Whether all models of all rounds are the same, bit by bit."""
    numbers: int
    """Count of compared numbers."""


class Theory(NamedTuple):
    """Limits of small steps, (seeds,) each; deviations are in units of the step or of its inverse."""

    sampling: Floats
    """Centroid MSD of the plain run, per step."""
    random: Floats
    """Addition by random noise, times the step."""
    homomorphic: Floats
    """Addition by graph-homomorphic noise, per step: gradients are taken at models that differ."""
    apart_random: Floats
    """Mean squared distance of models from their centroid, random noise."""
    apart_homomorphic: Floats


class Evidence(NamedTuple):
    """All that the claims rest on."""

    cells: Mapping[Cell, Outcome]
    masked: Mapping[Method, Masked]
    theory: Mapping[float, Theory]
    """By level of the data's noise."""
    privacy: Mapping[Noise, RunPrivacy]
    """ATC at the text's step with a clip."""
    moved: float
    """Largest move of w^o where one agent's data are replaced by another's, for the text's own claim."""

    @property
    def outcomes(self) -> dict[Cell, Outcome]:
        """All of them, those of masked runs too."""
        found = dict(self.cells)
        for method, masked in self.masked.items():
            found[Cell(method, "local", TEXT_STEP)] = masked.local
            found[Cell(method, "grid", TEXT_STEP)] = masked.grid
        return found


def cells(design: Design) -> list[Cell]:
    """Return all settings but the masked ones, long ones first."""
    noises: tuple[Noise, ...] = ("none", "random", "homomorphic")
    steps = {m: design.steps if m in design.swept else design.steps[:1] for m in METHODS}
    found = [Cell(method, noise, step) for method in METHODS for step in steps[method] for noise in noises]
    found += [Cell("ATC", noise, design.steps[-1], level) for level in design.levels for noise in noises]
    found += [Cell("ATC", noise, TEXT_STEP, whole=True) for noise in noises if design.whole]
    return sorted(found, key=lambda cell: -cell.rounds)


def data(level: float, seed: int) -> LinearRegression:
    """Draw the data of (4.62): one covariance for all agents, noise of each agent's own variance."""
    low, high = DATA_NOISE
    return linear_regression(
        AGENTS,
        SAMPLES,
        DIMENSIONS,
        seed,
        feature_variance=FEATURE_VARIANCE,
        common_features=True,
        noise_variance=(level * low, level * high),
    )


def run_cell(task: tuple[Cell, int, int]) -> Outcome:
    """Run one setting with so many seeds from the first one on."""
    cell, seeds, first = task
    return _outcome(_run(cell, seeds, first, _every(cell)), cell)


def run_masked(task: tuple[Method, int, int]) -> Masked:
    """Run local graph-homomorphic noise and the bare grid at the text's step, and compare every round."""
    method, seeds, first = task
    wanted = Cell(method, "local", TEXT_STEP), Cell(method, "grid", TEXT_STEP)
    local, grid = (_run(cell, seeds, first, every=1) for cell in wanted)
    same = local.recorded["models"].tobytes() == grid.recorded["models"].tobytes()
    masked, plain = (_thinned(_outcome(run, cell), cell) for run, cell in zip((local, grid), wanted, strict=True))
    return Masked(masked, plain, same, local.recorded["models"].size)


def run_private(task: tuple[Noise, int]) -> RunPrivacy:
    """Return what ATC at the text's step promises per record with a clip."""
    noise, first = task
    return _run(Cell("ATC", noise, TEXT_STEP), 1, first, every=SHORTEST, clip=PRINTED_CLIP).privacy


def largest_move(seed: int) -> float:
    """Return how far w^o moves at most where one agent has the data of the next one instead of its own."""
    drawn = data(1.0, seed)
    best, _ = drawn.optima(RIDGE)
    moves = []
    for agent in range(AGENTS):
        source = np.arange(AGENTS)
        source[agent] = (agent + 1) % AGENTS
        other, _ = drawn._replace(x=drawn.x[source], y=drawn.y[source]).optima(RIDGE)
        moves.append(float(np.linalg.norm(other - best)))
    return max(moves)


def _run(cell: Cell, seeds: int, first: int, every: int, clip: float | None = None) -> Run:
    noise = mechanism(cell.noise, NOISE_SIZE, clip)
    return finished_run(
        METHODS[cell.method](LOSS, PER_TEXT_STEP * cell.step, noise),
        lambda seed: network(AGENTS, seed),
        lambda seed: _stream(cell, seed),
        rounds=cell.rounds,
        repeats=seeds,
        seed=first,
        record={"models": lambda models: models},
        record_every=every,
    )


def _stream(cell: Cell, seed: int) -> Stream:
    drawn = data(cell.level, seed)
    if cell.whole:
        return drawn.stream()
    own = np.split(np.arange(AGENTS * SAMPLES), AGENTS)
    return Draws(drawn.x.reshape(-1, DIMENSIONS), drawn.y.reshape(-1), own, cell.rounds, seed, "regression")


def _outcome(run: Run, cell: Cell) -> Outcome:
    models = np.asarray(run.recorded["models"], np.float64)
    seeds = range(run.seed, run.seed + run.repeats)
    best = np.stack([data(cell.level, seed).optima(RIDGE)[0] for seed in seeds])[:, None, None]
    centroid = np.square(models.mean(axis=2, keepdims=True) - best).sum(axis=-1)[..., 0]
    individual = np.square(models - best).sum(axis=-1).mean(axis=-1)
    # CTA sends w itself. Under random noise an agent goes on with a noisy copy of its own, which is what it then has.
    kept = DIMENSIONS * NOISE_SIZE**2 if (cell.method, cell.noise) == ("CTA", "random") else 0.0
    return Outcome(run.recorded_rounds, centroid, individual, kept)


def _every(cell: Cell) -> int:
    return max(1, cell.rounds // POINTS)


def _thinned(outcome: Outcome, cell: Cell) -> Outcome:
    """Keep the rounds that other runs record: averages over different rounds are not the same."""
    every = _every(cell)
    kept = slice(every - 1, None, every)
    return outcome._replace(
        rounds=outcome.rounds[kept], centroid=outcome.centroid[:, kept], individual=outcome.individual[:, kept]
    )


def _second_half(values: Floats) -> Floats:
    return np.asarray(values[:, values.shape[1] // 2 :].mean(axis=1))


def predicted(task: tuple[float, int, int]) -> Theory:
    """Solve for what small steps lead to, seed by seed, from the data and the network alone."""
    level, seeds, first = task
    found = [_predicted(level, seed) for seed in range(first, first + seeds)]
    return Theory(*(np.array(column) for column in zip(*found, strict=True)))


def _predicted(level: float, seed: int) -> tuple[float, ...]:
    """The centroid's error e follows e <- (I - step H) e + what is added in a round, of covariance C.

    Where it settles, E ||e||^2 is tr(H^-1 C) / (2 step) for small steps. Per round, random noise adds
    sum_pm W[p, m] g_pm / P; sampling adds step / P times the sum of the agents' gradient noises, and under
    graph-homomorphic noise these have a further part, (h - H) times the distance of a model from the centroid, where h
    is the curvature of one sample.
    """
    drawn = data(level, seed)
    best, _ = drawn.optima(RIDGE)
    x = drawn.x.astype(np.float64)
    residual = x @ best - drawn.y
    curvature = 2 * np.einsum("pni,pnj->ij", x, x) / (AGENTS * SAMPLES) + 2 * RIDGE * np.eye(DIMENSIONS)
    gradient = 2 * x * residual[..., None] + 2 * RIDGE * best
    spread = gradient - gradient.mean(axis=1, keepdims=True)
    of_samples = np.einsum("pni,pnj->ij", spread, spread) / (AGENTS * SAMPLES)
    single = 2 * x[..., :, None] * x[..., None, :] + 2 * RIDGE * np.eye(DIMENSIONS) - curvature

    mix = np.asarray(network(AGENTS, seed).matrix().todense(), np.float64)
    values, vectors = np.linalg.eigh(mix)
    values, vectors = values[:-1], vectors[:, :-1]  # the last one is the centroid itself
    # Every round adds (W - I) g to the models: an eigenvector of W gets (1 - v)^2 of it and keeps v^2.
    own = NOISE_SIZE**2 * np.square(vectors) @ ((1 - values) / (1 + values))
    at_random = np.einsum("pk,p,pl->kl", vectors, np.square(mix).sum(axis=1), vectors)
    apart = NOISE_SIZE**2 * np.sum(np.diag(at_random) / (1 - np.square(values))) / AGENTS
    of_distance = np.einsum("p,pnij,pnkj->ik", own, single, single) / (AGENTS * SAMPLES)

    inverse = np.linalg.inv(curvature)
    settled = [float(np.trace(inverse @ each)) / (2 * AGENTS) for each in (of_samples, np.eye(2), of_distance)]
    noise = NOISE_SIZE**2 * np.square(mix).sum() / AGENTS
    return settled[0], settled[1] * noise, settled[2], DIMENSIONS * apart, DIMENSIONS * float(own.mean())
