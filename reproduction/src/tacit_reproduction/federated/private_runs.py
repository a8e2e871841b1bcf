"""Runs of `fedavg-private`: settings, results, and the predicted moments."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

import numpy as np

from tacit import algorithms, graphs, objectives
from tacit.core.contract import Mechanism
from tacit.privacy import gaussian, laplace_of_size, unprotected
from tacit.privacy.planning import noise_for
from tacit.privacy.spending import DELTA, RunPrivacy
from tacit.results import Run
from tacit.streams import LinearRegression, linear_regression
from tacit_reproduction.analysis.trajectory import TrajectoryClaim, bounds_for, trajectory_claim
from tacit_reproduction.federated.graph_moments import Clients, Counts, Floats, deviations, growth, one_round
from tacit_reproduction.federated.private_segments import noise_by_round, piecewise, second_half, stretches
from tacit_reproduction.finished import finished_run

Share = Literal["none", "models", "updates"]
Clipped = Literal["models", "updates", "gaussian"]
"""The text's noise on models or on updates, or Gaussian noise on updates planned for an epsilon."""
WORDS: Mapping[Share, str] = {"none": "no noise", "models": "noise on models", "updates": "noise on updates"}
CLIENTS, COHORT, DIMENSIONS = 1000, 30, 2
RIDGE, TEXT_STEP, TEXT_VARIANCE = 0.007, 0.2, 0.02
LOCAL_STEPS, BATCH_SIZES = (1, 10), (1, 10)
"""Ranges of E_k, the text's, and of B_k, which it gives for its first experiment only."""
SIZES = (50, 150)
"""Range of N_k, which the text does not give."""
LOSS = objectives.squared(l2=RIDGE)
PER_TEXT_STEP = 2
"""Our squared loss is half of (2.72): the text's step counts twice, and its gradients are twice ours."""
CLIP, TARGET_EPSILON, CALLS = 1.0, 10.0, 25
"""Of the privacy table: bounds the gradient of a record's half loss; what Gaussian noise is planned for, over so
many calls of one client."""
RECORD_EVERY = 3
CERTAIN = 0.95
"""The probability of (2.64) for which B and B' are chosen."""


class Cell(NamedTuple):
    """One setting."""

    share: Share
    step: float
    variance: float
    """sigma_g^2; 0 without noise."""

    @property
    def rounds(self) -> int:
        """Number of rounds: at small steps, until well after the error has settled."""
        return max(300, round(24 / self.step))


class Design(NamedTuple):
    """The extent of the experiment."""

    seeds: int
    steps: tuple[float, ...]
    """Rising."""
    variances: tuple[float, ...]
    """Rising."""
    clipped: tuple[Clipped, ...]
    """Schemes that are run with a clip."""


FULL = Design(20, (0.02, 0.05, 0.1, 0.2, 0.5, 1.0), (0.01, 0.02, 0.05, 0.1, 0.5), ("models", "updates", "gaussian"))
QUICK = Design(6, (0.05, 0.2, 0.5, 1.0), (0.02, 0.5), ("updates",))


class Outcome(NamedTuple):
    """Mean-square deviations of a cell from w^o of (2.74)."""

    rounds: Counts
    """(points,)."""
    deviation: Floats
    """(seeds, points) (2.73)."""

    @property
    def settled(self) -> Floats:
        """(seeds,) averaged over the second half."""
        return second_half(self.deviation)


class Theory(NamedTuple):
    """Predicted errors at one step, (seeds,) each."""

    plain: Floats
    """Deviation without noise, where it settles."""
    per_variance: Floats
    """Addition by noise of variance 1 on the server's model in every round."""
    growth: Floats
    """Factor on the deviation per round."""

    def settled(self, cell: Cell) -> Floats:
        """Return where a cell settles: the mean of the cohort's noise reaches the model as in (2.56) or (2.60)."""
        reaches = {"none": 0.0, "models": 1.0, "updates": cell.step**2}[cell.share]
        return np.asarray(self.plain + reaches * cell.variance / COHORT * self.per_variance)


class Promise(NamedTuple):
    """Guarantee of a run with a clip, and its cost."""

    privacy: RunPrivacy
    settled: Floats


class Evidence(NamedTuple):
    """All that the claims rest on."""

    cells: Mapping[Cell, Outcome]
    theory: Mapping[float, Theory]
    """By step."""
    clipped: Mapping[Clipped, Promise]
    claim: TrajectoryClaim
    """The text's, for noise on updates as in `TEXT_STEP` and `TEXT_VARIANCE`."""


def cells(design: Design, share: Share) -> list[Cell]:
    """Return all settings of one kind of noise, the text's first."""
    if share == "none":
        found = [Cell(share, step, 0.0) for step in design.steps]
    else:
        found = [Cell(share, step, TEXT_VARIANCE) for step in design.steps]
        found += [Cell(share, TEXT_STEP, v) for v in design.variances if v != TEXT_VARIANCE]
    return sorted(
        found, key=lambda cell: (cell.step, cell.variance) not in ((TEXT_STEP, 0.0), (TEXT_STEP, TEXT_VARIANCE))
    )


def clients(seed: int) -> Clients:
    """Draw the data of one seed; how many samples clients have and take, and their steps, are the same for all."""
    own = np.random.default_rng(CLIENTS)
    sizes, local, batch = (own.integers(low, high + 1, CLIENTS) for low, high in (SIZES, LOCAL_STEPS, BATCH_SIZES))
    return Clients(linear_regression(CLIENTS, SIZES[1], DIMENSIONS, seed), sizes, local, batch)


def mechanism(share: Share, clip: float | None = None) -> Mechanism:
    """Return the text's noise; on updates it is on our gradients, which are half as large."""
    if share == "none":
        return unprotected
    if share == "models":
        return laplace_of_size(math.sqrt(TEXT_VARIANCE), clip, perturbs="model")
    return laplace_of_size(math.sqrt(TEXT_VARIANCE) / PER_TEXT_STEP, clip, perturbs="gradient")


def run_share(task: tuple[Design, Share, int]) -> dict[Cell, Outcome]:
    """Run all settings of one kind of noise, one after the other, with seeds from the first one on."""
    design, share, first = task
    wanted = cells(design, share)
    lengths = [cell.rounds for cell in wanted]
    noise = mechanism(share)
    if share != "none":
        ours = 1 if share == "models" else PER_TEXT_STEP
        noise = noise_by_round(noise, [math.sqrt(cell.variance) / ours for cell in wanted], lengths)
    run = _run(wanted, noise, design.seeds, first)
    parts = stretches(run.recorded_rounds, _deviation(run), lengths)
    return {cell: Outcome(*part) for cell, part in zip(wanted, parts, strict=True)}


def run_clipped(task: tuple[Clipped, int, int]) -> Promise:
    """Run the text's setting with a clip."""
    kind, seeds, first = task
    if kind == "gaussian":
        noise = gaussian(noise_for("gaussian", TARGET_EPSILON, DELTA, CALLS), CLIP, perturbs="gradient")
    else:
        noise = mechanism(kind, CLIP)
    run = _run([Cell("updates", TEXT_STEP, TEXT_VARIANCE)], noise, seeds, first)
    return Promise(run.privacy, second_half(_deviation(run)))


def run_theory(task: tuple[float, int, int]) -> Theory:
    """Follow the moments of a step until they have settled."""
    step, seeds, first = task
    found = []
    for seed in range(first, first + seeds):
        drawn = clients(seed)
        best, _ = drawn.data.optima(RIDGE, drawn.sizes)
        server = [one_round(drawn, COHORT, step, RIDGE)]
        parts = [
            deviations(server, np.eye(1), added, best, Cell("none", step, 0).rounds) for added in (None, np.eye(1))
        ]
        found.append((parts[0].centroid[-1], parts[1].centroid[-1], growth(server)))
    return Theory(*(np.array(column) for column in zip(*found, strict=True)))


def text_claim(evidence: Mapping[Cell, Outcome], first: int) -> TrajectoryClaim:
    """Return what the text says of updates with its own step and noise, from the errors that were measured."""
    cell = Cell("updates", TEXT_STEP, TEXT_VARIANCE)
    error = float(evidence[cell].deviation.mean(axis=0).max())
    drawn = clients(first)
    gap = largest_gap(drawn.data, drawn.sizes)
    return trajectory_claim(
        math.sqrt(TEXT_VARIANCE),
        cell.rounds,
        bounds_for((error, error), CERTAIN),
        gap,
        (error, error),
        coordinates=DIMENSIONS,
    )


def largest_gap(data: LinearRegression, sizes: Counts) -> float:
    """Return how far w^o moves at most if a client's data are replaced by the next one's."""
    x, y = data.x.astype(np.float64), data.y.astype(np.float64)
    share = (np.arange(x.shape[1]) < sizes[:, None]) / sizes[:, None]
    curvature = np.einsum("kn,kni,knj->kij", share, x, x) + RIDGE * np.eye(x.shape[2])
    slope = np.einsum("kn,kni,kn->ki", share, x, y)
    best, _ = data.optima(RIDGE, sizes)
    others = [part.mean(axis=0) + (np.roll(part, 1, axis=0) - part) / len(part) for part in (curvature, slope)]
    moved = np.linalg.solve(others[0], others[1][..., None])[..., 0]
    return float(np.linalg.norm(moved - best, axis=1).max())


def _run(wanted: Sequence[Cell], noise: Mechanism, seeds: int, first: int) -> Run:
    drawn = {seed: clients(seed) for seed in range(first, first + seeds)}
    own = drawn[first]
    lengths = [cell.rounds for cell in wanted]
    return finished_run(
        algorithms.fedavg(
            LOSS,
            piecewise([PER_TEXT_STEP * cell.step for cell in wanted], lengths),
            noise,
            cohort=COHORT,
            local_steps=own.local_steps.tolist(),
            batch_size=own.batch_sizes.tolist(),
        ),
        graphs.star_roles(CLIENTS),
        lambda seed: drawn[seed].data.stream(drawn[seed].sizes),
        rounds=sum(lengths),
        repeats=seeds,
        seed=first,
        evaluate="cohort",
        record={"server": lambda models: models[0]},  # the server's model speaks for all of its clients
        record_every=RECORD_EVERY,
    )


def _deviation(run: Run) -> Floats:
    models = np.asarray(run.recorded["server"], np.float64)
    drawn = [clients(seed) for seed in range(run.seed, run.seed + run.repeats)]
    best = np.stack([each.data.optima(RIDGE, each.sizes)[0] for each in drawn])
    return np.asarray(np.square(models - best[:, None]).sum(axis=-1))
