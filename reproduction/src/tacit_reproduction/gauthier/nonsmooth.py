"""Problems, networks, methods and runs of Gauthier (2023), sec. 3.4.

The text's objective is sum_k (l(X_k, y_k; w) / D_k + R(w) / K). Of squares ours is half of it: the loss of a record is
half its squared residual, and R / (2 K) is every agent's share of the regulariser.
"""

import math
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tacit import algorithms, objectives
from tacit.core.contract import Algorithm, Clip, Mechanism, Objective
from tacit.core.errors import ConfigError, DataError
from tacit.graphs import Graph, from_edges
from tacit.privacy import classic_gaussian, decaying_gaussian, unprotected
from tacit.privacy.conversions import tight
from tacit.privacy.planning import total_rho
from tacit.privacy.spending import DELTA
from tacit.streams import LinearRegression, linear_regression
from tacit_reproduction.before_noise import before_noise
from tacit_reproduction.study import finished_run
from tacit_reproduction.table import Floats, decibels

Counts = NDArray[np.int64]
Name = Literal["elastic-net", "lad", "ridge"]
Method = str
OURS, MATCHED, HALF = "zCDP-NFL", "zCDP-grad-NFL, matched", "zCDP-grad-NFL, half the step"
VANISHING = "zCDP-grad-NFL, s / sqrt(n)"
AGENTS, SAMPLES, DIMENSIONS, MEAN_DEGREE = 50, 50, 8, 3
NOISE_VARIANCE = (0.01, 0.1)
"""Of the observations, each agent's own from this range, where every entry of the unknown w has variance 1."""
ROUNDS, DECAY = 200, 0.99  # the text's rounds of its trade-off; zeta, which it gives in its ch. 5 only
INITIAL = 20  # rounds after which initial speeds are compared
CLIP_QUANTILE = 0.95
SWEEPS = 10_000  # of coordinate descent, far more than it needs
NEWTON_STEPS = 3  # of P-ADMM's local problems without noise


class Problem(NamedTuple):  # a loss of residuals and an agent's share of a regulariser
    title: str
    place: str
    words: str
    absolute: bool
    l1: float = 0.0
    l2: float = 0.0

    def objective(self) -> Objective:
        """Return the objective of an agent."""
        return (objectives.absolute if self.absolute else objectives.squared)(l2=self.l2, l1=self.l1)


SQUARES = "||X w - y||^2 with"
PROBLEMS: Mapping[Name, Problem] = {
    # lambda_1 = 0.001 ||X'y||_inf is 0.001 K D_k in the units of `data`, and lambda_2 = 1.
    "elastic-net": Problem("elastic net", "figure 3.1", f"{SQUARES} 0.001 ||X'y||_inf ||w||_1 + ||w||^2", False,
                           l1=0.001 * SAMPLES / 2, l2=1 / AGENTS),
    "lad": Problem("least absolute deviation", "figure 3.2", "||X w - y||_1 without a regulariser", True),
    "ridge": Problem("ridge regression", "figure 3.3", f"{SQUARES} ||w||^2", False, l2=1 / AGENTS)}  # fmt: skip


class Cell(NamedTuple):  # one run with all its seeds; its fields are the table's factors
    problem: Name
    method: Method
    total: float  # the run's rho of zCDP; infinite: no noise
    step: float  # s of eta_n = s / sqrt(n), or the constant step of the matched subgradient method; 0: it has none
    penalty: float  # rho of the methods with multipliers


def connected(agents: int, mean_degree: float, seed: int) -> Graph:
    """Return a symmetric graph of that mean degree: a random tree, and links between random pairs on top of it."""
    links = round(agents * mean_degree / 2)
    if agents < 2 or not agents - 1 <= links <= agents * (agents - 1) // 2:
        raise ConfigError(f"connected({agents}, {mean_degree}): {links} links; expected a tree's to all pairs'")
    rng = np.random.default_rng([seed, agents, links])
    order = rng.permutation(agents)
    taken = np.zeros((agents, agents), bool)
    for place in range(1, agents):
        ends = order[place], order[rng.integers(place)]
        taken[min(ends), max(ends)] = True
    free = np.argwhere(np.triu(~taken, 1))
    more = free[rng.choice(len(free), links - (agents - 1), replace=False)]
    taken[more[:, 0], more[:, 1]] = True
    first, second = np.nonzero(taken)
    name = f"connected({agents}, {mean_degree:g})"
    return from_edges(agents, np.concatenate([first, second]), np.concatenate([second, first]), name=name)


def data(seed: int) -> LinearRegression:
    """Draw y = <x, w> + noise, x standard normal, in units of y in which ||X'y||_inf is the number of records.

    The units change no relative error and make the text's lambda_1 the same number for all seeds.
    """
    sizes: dict[str, Any] = {"feature_variance": (1.0, 1.0), "noise_variance": NOISE_VARIANCE}
    drawn = linear_regression(AGENTS, SAMPLES, DIMENSIONS, seed, common_features=True, **sizes)
    unit = np.abs(np.einsum("kni,kn->i", drawn.x, drawn.y, dtype=np.float64)).max() / (AGENTS * SAMPLES)
    return drawn._replace(y=(drawn.y / unit).astype(np.float32), w_star=drawn.w_star / unit)


def optimum(problem: Problem, drawn: LinearRegression) -> Floats:
    """Return w_c, the minimiser over all data, to rounding."""
    x, y = _records(drawn)
    if problem.absolute:
        return _least_deviations(x, y)
    gram, moment = x.T @ x / len(y), x.T @ y / len(y)
    w = np.zeros(len(moment))
    for _ in range(SWEEPS):  # coordinate descent
        before = w.copy()
        for j in range(len(w)):
            pull = moment[j] - gram[j] @ w + gram[j, j] * w[j]
            w[j] = np.sign(pull) * max(abs(pull) - problem.l1, 0.0) / (gram[j, j] + problem.l2)
        if np.array_equal(before, w):
            break
    return w


def excess(problem: Problem, drawn: LinearRegression, models: Floats, best: Floats) -> Floats:
    """Return how far the objective of all data at models (n, d) lies above its value at the optimum."""
    x, y = _records(drawn)

    def value(w: Floats) -> Floats:
        residual = w @ x.T - y
        loss = np.abs(residual) if problem.absolute else np.square(residual) / 2
        penalty = problem.l1 * np.abs(w).sum(axis=1) + problem.l2 / 2 * np.square(w).sum(axis=1)
        return np.asarray(loss.mean(axis=1) + penalty)

    return value(models) - value(best[None])


def clip_for(problem: Problem, seeds: range) -> float:
    """Return the quantile of the norms of records' gradients at the optimum; data of other seeds than those judged."""
    norms = []
    for seed in seeds:
        drawn = data(seed)
        x, y = _records(drawn)
        slope = np.ones(len(y)) if problem.absolute else np.abs(x @ optimum(problem, drawn) - y)
        norms.append(slope * np.linalg.norm(x, axis=1))
    return float(np.quantile(np.concatenate(norms), CLIP_QUANTILE))


def _records(drawn: LinearRegression) -> tuple[Floats, Floats]:
    return drawn.x.reshape(-1, drawn.x.shape[-1]).astype(np.float64), drawn.y.reshape(-1).astype(np.float64)


def _least_deviations(x: Floats, y: Floats) -> Floats:
    """Minimise sum |<x_i, w> - y_i|: w are the multipliers of max <y, a> with X'a = 0 and |a_i| <= 1."""
    from scipy.optimize import linprog

    found = linprog(-y, A_eq=x.T, b_eq=np.zeros(x.shape[1]), bounds=(-1, 1), method="highs")
    if found.status != 0:
        raise DataError(f"the linear programme of {len(y)} records ended with {found.message!r}: are some not finite?")
    return np.asarray(-found.eqlin.marginals, np.float64)


def mechanism(cell: Cell, clip: float | None) -> Mechanism:
    """Return the noise by which all rounds spend the total: by sums of zCDP, or by the classic rules."""
    if clip is None:
        return unprotected
    if np.isinf(cell.total):
        return unprotected._replace(clip=Clip(clip, "l2"))
    if cell.method == "DP-NFL":
        # Epsilons, which grow as the noise shrinks, and deltas add up (Dwork and Roth 2014, Theorem 3.16).
        rounds = math.fsum(DECAY ** (-n / 2) for n in range(ROUNDS))
        return classic_gaussian(tight(cell.total, DELTA) / rounds, DELTA / ROUNDS, clip, DECAY)
    return decaying_gaussian(float(np.sqrt(total_rho(0.5, ROUNDS, DECAY) / cell.total)), DECAY, clip)


def algorithm(cell: Cell, clip: float | None) -> Algorithm:
    objective, noise = PROBLEMS[cell.problem].objective(), mechanism(cell, clip)
    if cell.method == "P-ADMM":
        return algorithms.private_admm(objective, noise, cell.penalty, NEWTON_STEPS)
    vanishing = algorithms.inverse_sqrt(cell.step)
    if cell.method in (MATCHED, HALF, VANISHING):
        return algorithms.zcdp_subgradient(objective, vanishing if cell.method == VANISHING else cell.step, noise)
    linearised = algorithms.dp_admm if cell.method == "DP-NFL" else algorithms.zcdp_admm
    return linearised(objective, vanishing, noise, cell.penalty)


def outcome(
    method: Algorithm, problem: Problem, seeds: tuple[int, int], rounds: int, every: int,
    averaged: Counts | None = None, dtype: str = "float32",
) -> dict[str, Any]:  # fmt: skip
    """Run a method for seeds (first, number) and return sum_k ||w_k - w_c||^2 / ||w_c||^2, in the end in dB.

    What is judged is w_k of (3.8), not the released w_k + noise of (3.9). At `averaged` rounds the means of all models
    recorded so far are judged by the objective of all data.
    """
    (phase,) = method.phases
    exact = before_noise(method, lambda key, state, value, batch, view: method.model(phase.emit(state, value, view)[0]))
    run = finished_run(
        exact, lambda seed: connected(AGENTS, MEAN_DEGREE, seed),
        lambda seed: data(seed).stream(), rounds=rounds, repeats=seeds[1], seed=seeds[0], dtype=dtype,
        record={"models": lambda models: models}, record_every=every)  # fmt: skip
    errors, above = [], []
    for seed, models in zip(range(seeds[0], sum(seeds)), run.recorded["models"], strict=True):
        drawn, w, best = data(seed), np.asarray(models, np.float64), optimum(problem, data(seed))
        errors.append(np.square(w - best).sum(axis=(1, 2)) / float(best @ best))
        if averaged is not None:
            looks = np.searchsorted(run.recorded_rounds, averaged) + 1
            means = np.cumsum(w, axis=0)[looks - 1] / looks[:, None, None]
            gap = excess(problem, drawn, means.reshape(-1, means.shape[-1]), best)
            above.append(gap.reshape(len(looks), -1).mean(axis=1))
    error = np.stack(errors)
    found = {"rounds": run.recorded_rounds, "error": error, "final": decibels(error[:, -1])}
    return found if averaged is None else {**found, "averaged": averaged, "excess": np.stack(above)}
