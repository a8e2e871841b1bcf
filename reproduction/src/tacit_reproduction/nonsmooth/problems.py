"""The three problems of Gauthier (2023), sec. 3.4: data, objectives, exact solutions, and a clip.

The text's objective is sum_k (l(X_k, y_k; w) / D_k + R(w) / K). Of squares ours is half of it: the loss of a record is
half its squared residual, and R / (2 K) is every agent's share of the regulariser.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tacit import objectives
from tacit.core.contract import Objective
from tacit.core.errors import DataError
from tacit.streams import LinearRegression, linear_regression

Floats = NDArray[np.float64]
Name = Literal["elastic-net", "lad", "ridge"]
AGENTS, SAMPLES, DIMENSIONS, MEAN_DEGREE = 50, 50, 8, 3
NOISE_VARIANCE = (0.01, 0.1)
"""Of the observations, each agent's own from this range, where every entry of the unknown w has variance 1."""
CLIP_QUANTILE = 0.95
SWEEPS = 10_000
"""Of coordinate descent, far more than it needs."""


class Problem(NamedTuple):
    """A loss of residuals and an agent's share of a regulariser."""

    name: Name
    title: str
    figure: str
    """Of the text."""
    absolute: bool
    l1: float = 0.0
    l2: float = 0.0

    @property
    def objective(self) -> Objective:
        """The objective of an agent."""
        return (objectives.absolute if self.absolute else objectives.squared)(l2=self.l2, l1=self.l1)


PROBLEMS: Mapping[Name, Problem] = {
    problem.name: problem
    for problem in (
        # lambda_1 = 0.001 ||X'y||_inf is 0.001 K D_k in the units of `data`, and lambda_2 = 1.
        Problem("elastic-net", "elastic net", "figure 3.1", False, l1=0.001 * SAMPLES / 2, l2=1 / AGENTS),
        Problem("lad", "least absolute deviation", "figure 3.2", True),
        Problem("ridge", "ridge regression", "figure 3.3", False, l2=1 / AGENTS),
    )
}


def data(seed: int) -> LinearRegression:
    """Draw y = <x, w> + noise, x standard normal, in units of y in which ||X'y||_inf is the number of records.

    The units change no relative error and make the text's lambda_1 the same number for all seeds.
    """
    drawn = linear_regression(
        AGENTS,
        SAMPLES,
        DIMENSIONS,
        seed,
        feature_variance=(1.0, 1.0),
        common_features=True,
        noise_variance=NOISE_VARIANCE,
    )
    unit = np.abs(np.einsum("kni,kn->i", drawn.x, drawn.y, dtype=np.float64)).max() / (AGENTS * SAMPLES)
    return drawn._replace(y=(drawn.y / unit).astype(np.float32), w_star=drawn.w_star / unit)


def optimum(problem: Problem, drawn: LinearRegression) -> Floats:
    """Return w_c, the minimiser over all data, to rounding."""
    x, y = _records(drawn)
    if problem.absolute:
        return _least_deviations(x, y)
    return _elastic_net(x.T @ x / len(y), x.T @ y / len(y), problem.l1, problem.l2)


def excess(problem: Problem, drawn: LinearRegression, models: Floats, best: Floats) -> Floats:
    """Return how far the objective of all data at models (n, d) lies above its value at the optimum."""
    x, y = _records(drawn)

    def value(w: Floats) -> Floats:
        residual = w @ x.T - y
        loss = np.abs(residual) if problem.absolute else np.square(residual) / 2
        penalty = problem.l1 * np.abs(w).sum(axis=1) + problem.l2 / 2 * np.square(w).sum(axis=1)
        return np.asarray(loss.mean(axis=1) + penalty)

    return value(models) - value(best[None])


def gradient_norms(problem: Problem, drawn: LinearRegression, w: Floats) -> Floats:
    """Return the l2 norm of every record's gradient at w."""
    x, y = _records(drawn)
    slope = np.ones(len(y)) if problem.absolute else np.abs(x @ w - y)
    return np.asarray(slope * np.linalg.norm(x, axis=1))


def clip_for(problem: Problem, seeds: range) -> float:
    """Return the quantile of the norms of records' gradients at the optimum; data of other seeds than those judged."""
    drawn = [data(seed) for seed in seeds]
    norms = [gradient_norms(problem, each, optimum(problem, each)) for each in drawn]
    return float(np.quantile(np.concatenate(norms), CLIP_QUANTILE))


def _records(drawn: LinearRegression) -> tuple[Floats, Floats]:
    return drawn.x.reshape(-1, drawn.x.shape[-1]).astype(np.float64), drawn.y.reshape(-1).astype(np.float64)


def _elastic_net(gram: Floats, moment: Floats, l1: float, l2: float) -> Floats:
    """Minimise w' gram w / 2 - <moment, w> + l1 ||w||_1 + l2 ||w||^2 / 2 coordinate by coordinate."""
    curvature = np.diag(gram) + l2
    w = np.zeros(len(moment))
    for _ in range(SWEEPS):
        before = w.copy()
        for j in range(len(w)):
            pull = moment[j] - gram[j] @ w + gram[j, j] * w[j]
            w[j] = np.sign(pull) * max(abs(pull) - l1, 0.0) / curvature[j]
        if np.array_equal(before, w):
            break
    return w


def _least_deviations(x: Floats, y: Floats) -> Floats:
    """Minimise sum |<x_i, w> - y_i|: w are the multipliers of max <y, a> with X'a = 0 and |a_i| <= 1."""
    from scipy.optimize import linprog

    found = linprog(-y, A_eq=x.T, b_eq=np.zeros(x.shape[1]), bounds=(-1, 1), method="highs")
    if found.status != 0:
        raise DataError(f"the linear programme of {len(y)} records ended with {found.message!r}: are some not finite?")
    return np.asarray(-found.eqlin.marginals, np.float64)
