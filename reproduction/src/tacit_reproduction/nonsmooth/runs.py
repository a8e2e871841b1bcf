"""Runs on Gauthier (2023), sec. 3.4: settings, and noise of one total (epsilon, delta) for all methods."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tacit import algorithms
from tacit.core.contract import Algorithm, Clip, Mechanism
from tacit.graphs import Graph, Periodic, given
from tacit.privacy import classic_gaussian, decaying_gaussian, unprotected
from tacit.privacy.planning import noise_for
from tacit.privacy.spending import DELTA, RunPrivacy
from tacit.results import Run
from tacit_reproduction.analysis.classic import classic_share
from tacit_reproduction.finished import finished_run
from tacit_reproduction.nonsmooth.network import connected
from tacit_reproduction.nonsmooth.problems import (
    AGENTS,
    MEAN_DEGREE,
    PROBLEMS,
    Floats,
    Name,
    data,
    excess,
    optimum,
)

Counts = NDArray[np.int64]
Method = Literal["zCDP-NFL", "DP-NFL", "zCDP-grad-NFL", "zCDP-grad-NFL, constant", "P-ADMM"]
ROUNDS, DECAY = 200, 0.99
"""The text's rounds of its trade-off; zeta, which it gives in its ch. 5 only."""
INITIAL = 20
"""Rounds after which initial speeds are compared."""
LIMIT_ROUNDS = 1600
NEWTON_STEPS = 3
"""Of P-ADMM; with them its residuals are those of rounding, which the outcome keeps."""
AVERAGED = np.unique(np.geomspace(5, ROUNDS, 24).astype(np.int64))
"""Rounds at which the averaged iterates are judged."""
LOOKS = 5
"""Rounds between two looks at the long runs, whose averages are of the iterates looked at."""
AVERAGED_LONG = LOOKS * np.unique(np.geomspace(5, LIMIT_ROUNDS // LOOKS, 24).astype(np.int64))


class Setting(NamedTuple):
    """Tuned settings."""

    step: float
    """s of eta_n = s / sqrt(n), or the constant step; P-ADMM has none."""
    penalty: float
    """rho; the subgradient method has none."""


class Cell(NamedTuple):
    """One run with all its seeds."""

    problem: Name
    method: Method
    setting: Setting
    total: float | None
    """The total epsilon at delta = 1e-5; None: no noise."""
    clip: float | None
    """Of a record's gradient; None only without noise."""


class Outcome(NamedTuple):
    """Results of a cell."""

    rounds: Counts
    """(points,)."""
    error: Floats
    """(seeds, points) sum_k ||w_k - w_c||^2 / ||w_c||^2."""
    apart: Floats
    """(seeds,) sum_k ||w_k - mean||^2 / ||w_c||^2 at the end: how much of the error is disagreement."""
    excess: Floats | None
    """(seeds, averaged rounds) objective of all data at the agents' averaged iterates, above the optimum's."""
    privacy: RunPrivacy
    residual: float
    """The largest of P-ADMM's local problems at the recorded rounds; 0 where nothing is solved to the end."""

    @property
    def final(self) -> Floats:
        """(seeds,) the error at the end."""
        return np.asarray(self.error[:, -1])

    @property
    def early(self) -> float:
        """The mean over seeds of the logarithm of the error after `INITIAL` rounds, which are recorded."""
        return float(np.mean(np.log(self.error[:, int(np.flatnonzero(self.rounds == INITIAL)[0])])))


def mechanism(cell: Cell) -> Mechanism:
    """Return the noise by which 200 rounds spend the total: by sums of zCDP, or by the classic rules."""
    if cell.clip is None:
        return unprotected
    if cell.total is None:
        return unprotected._replace(clip=Clip(cell.clip, "l2"))
    if cell.method == "DP-NFL":
        share = classic_share(cell.total, DELTA, ROUNDS, DECAY)
        return classic_gaussian(share.epsilon, share.delta, cell.clip, DECAY)
    return decaying_gaussian(noise_for("gaussian", cell.total, DELTA, ROUNDS, DECAY), DECAY, cell.clip)


def algorithm(cell: Cell) -> Algorithm:
    """Return the method with its setting and its noise."""
    objective, noise = PROBLEMS[cell.problem].objective, mechanism(cell)
    step, penalty = cell.setting
    if cell.method == "P-ADMM":
        return algorithms.private_admm(objective, noise, penalty, NEWTON_STEPS)
    if cell.method == "zCDP-grad-NFL, constant":
        return algorithms.zcdp_subgradient(objective, step, noise)
    vanishing = algorithms.inverse_sqrt(step)
    if cell.method == "zCDP-grad-NFL":
        return algorithms.zcdp_subgradient(objective, vanishing, noise)
    return (algorithms.dp_admm if cell.method == "DP-NFL" else algorithms.zcdp_admm)(
        objective, vanishing, noise, penalty
    )


def run_cell(task: tuple[Cell, int, int]) -> Outcome:
    """Run a cell with so many seeds from the first one on, and look at every round."""
    cell, seeds, first = task
    return _outcome(_run(algorithm(cell), seeds, first, ROUNDS, every=1), cell.problem, AVERAGED)


def run_mixed(task: tuple[Cell, Setting, int, int]) -> Outcome:
    """Run the subgradient method with one thing changed: it mixes as zCDP-NFL with the setting given does.

    In round n that method gives a neighbour's value the weight rho / (1 / eta_n + 2 rho |N_k|).
    """
    cell, mixing, seeds, first = task

    def network(seed: int) -> Graph:
        graph = connected(AGENTS, MEAN_DEGREE, seed)
        degree = np.bincount(graph.receivers, minlength=AGENTS)
        near = np.sqrt(np.arange(1, ROUNDS + 1))[:, None] / mixing.step
        weight = mixing.penalty / (near + 2 * mixing.penalty * degree)
        always = Periodic(np.ones((ROUNDS, graph.edges), bool))
        return graph.with_dynamics(always).with_weights(given(weight[:, graph.receivers], 1 - weight * degree))

    return _outcome(_run(algorithm(cell), seeds, first, ROUNDS, INITIAL, network=network), cell.problem)


def tuning_run(cell: Cell, seeds: int, first: int) -> Outcome:
    """Run a cell and look at few rounds, `INITIAL` and the last among them."""
    return _outcome(_run(algorithm(cell), seeds, first, ROUNDS, every=INITIAL), cell.problem)


def run_limit(task: tuple[Name, Method, float | None, int, int]) -> Outcome:
    """Run a method without noise for long, in double precision, with or without a clip, and a step like 1 / n."""
    problem, method, clip, seeds, first = task
    objective = PROBLEMS[problem].objective
    plain = mechanism(Cell(problem, method, LIMIT, None, clip))
    made = (
        algorithms.private_admm(objective, plain, LIMIT.penalty)
        if method == "P-ADMM"
        else algorithms.zcdp_admm(objective, algorithms.inverse(LIMIT.step), plain, LIMIT.penalty)
    )
    return _outcome(_run(made, seeds, first, LIMIT_ROUNDS, LOOKS, dtype="float64"), problem, AVERAGED_LONG)


LIMIT = Setting(8.0, 1.6)
"""Of the limit: eta_n = 8 / n and rho; any will do that are neither far too small nor far too large."""


def _run(
    made: Algorithm,
    seeds: int,
    first: int,
    rounds: int,
    every: int,
    dtype: str = "float32",
    network: Callable[[int], Graph] = lambda seed: connected(AGENTS, MEAN_DEGREE, seed),
) -> Run:
    return finished_run(
        made,
        network,
        lambda seed: data(seed).stream(),
        rounds=rounds,
        repeats=seeds,
        seed=first,
        dtype=dtype,
        record={"models": lambda models: models},
        record_every=every,
    )


def _outcome(run: Run, name: Name, averaged: Counts | None = None) -> Outcome:
    """Compare recorded models with the optimum, and at `averaged` rounds the means of all models recorded so far."""
    problem = PROBLEMS[name]
    errors, apart, above = [], [], []
    for seed, models in zip(range(run.seed, run.seed + run.repeats), run.recorded["models"], strict=True):
        drawn, w = data(seed), np.asarray(models, np.float64)
        best = optimum(problem, drawn)
        size = float(best @ best)
        errors.append(np.square(w - best).sum(axis=(1, 2)) / size)
        apart.append(np.square(w[-1] - w[-1].mean(axis=0)).sum() / size)
        if averaged is not None:
            looks = np.searchsorted(run.recorded_rounds, averaged) + 1
            means = np.cumsum(w, axis=0)[looks - 1] / looks[:, None, None]
            gap = excess(problem, drawn, means.reshape(-1, means.shape[-1]), best)
            above.append(gap.reshape(len(looks), -1).mean(axis=1))
    return Outcome(
        run.recorded_rounds,
        np.stack(errors),
        np.array(apart),
        np.stack(above) if above else None,
        run.privacy,
        float(np.max(run.recorded.get("residual", 0.0))),
    )


def loss_of(outcome: Outcome) -> float:
    """Return what tuning makes small: the mean over seeds of the logarithm of the error at the end."""
    return float(np.mean(np.log(outcome.final)))


def speed_gap(target: float) -> Callable[[Outcome], float]:
    """Return what matching initial speeds makes small: how far the logarithms of errors are apart early on."""
    return lambda outcome: abs(outcome.early - target)
