"""The mechanism whose noise is correlated over an agent's own releases."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from tacit.core.checks import positive, whole_number
from tacit.core.contract import Correlation, Mechanism
from tacit.core.correlation import coefficients
from tacit.core.errors import ConfigError
from tacit.privacy.conversions import rho_within
from tacit.privacy.mechanisms import Norm, Perturbs, check_classic, gaussian
from tacit.privacy.strategies import Strategy, check_strategy, fitted, record_norm

DELTA = 1e-6
"""Where an epsilon is given and no delta."""


def correlated(
    rounds: int,
    clip: float = 1.0,
    rho: float | None = None,
    epsilon: float | None = None,
    delta: float = DELTA,
    participation: tuple[int, int] = (1, 1),
    strategy: Strategy = "blt",
    norm: Norm = "l2",
    perturbs: Perturbs = "update",
    weights: Any = None,
) -> Mechanism:
    """Gaussian noise correlated over an agent's own releases, so that it cancels in models, which are sums of them.

    Each round an agent releases its clipped mean plus scale x (C^-1 Z)_t. Part of what earlier draws left in its model
    is taken back: a model after T rounds carries noise of about 1 + ln(T) / pi releases, where independent noise has
    sqrt(T). A record is booked once for a whole block of `rounds` releases, at `rho`. After `rounds` releases a new
    block begins with an empty memory: records that come there are charged again, new ones for the first time. A run
    that ends earlier costs the same. Any method may use it whose records enter the releases of their own rounds alone.

    Args:
      rounds: Releases T of a block, from 1 on: the rounds of the run.
      clip: Largest norm of one record's gradient, above 0; larger gradients are scaled down to it, and the noise grows
        in proportion. Runs take 2^-30 to 2^30.
      rho: What a record costs in zero-concentrated privacy (zCDP), above 0 and finite. Give rho or epsilon.
      epsilon: The same at `delta`, above 0 and finite.
      delta: Of epsilon, above 0 and below 1.
      participation: In how many releases of a block one record takes part at most, and how many releases lie between
        two of them at least: (1, 1) for streams that never repeat, (k, b) for k passes over b batches. What a run does
        is checked; more often or sooner is refused.
      strategy: "blt" (a buffered linear Toeplitz matrix: a few vectors of memory, near the best), "banded" (the last
        draws), "toeplitz" (the square root of the matrix of ones: as many vectors as rounds), "graph" (as blt, for the
        error of each agent's own model on the graph of `weights`) or "independent" (C = 1).
      norm: Norm of the clip: with "l2" or "l1" the l2 sensitivity is the clip's, with "linf" sqrt(d) times that.
      perturbs: What the noise is put on: the update (the step made of a gradient), the gradient, or the whole model,
        which peers do not release.
      weights: For "graph": the matrix W with which agents weigh what they hear; say
        `graph.with_weights("metropolis").matrix().toarray()`.

    Returns:
      A mechanism for the constructor of a method.

    Example:
      >>> from tacit.privacy import correlated
      >>> correlated(rounds=1000, rho=0.5, clip=1.0)
      correlated(rho=0.5, rounds=1000, strategy=blt, clip=1 l2, on update)
      >>> round(correlated(rounds=1000, rho=0.5).gain, 2)  # noise of a release, in units of independent noise
      1.74

    References: Denisov, McMahan, Rush, Smith and Thakurta (2022); Dvijotham, McMahan, Pillutla, Steinke and Thakurta
      (2024); Choquette-Choo, Ganesh, McKenna, McMahan, Rush, Thakurta and Xu (2023).
    """
    for name, value in (("rounds", rounds), *zip(("participation[0]", "participation[1]"), participation, strict=True)):
        whole_number(name, value)
    if (rho is None) == (epsilon is None):
        raise ConfigError(f"rho = {rho!r} and epsilon = {epsilon!r}: give one of them, the loss of a record")
    if rho is None:
        assert epsilon is not None
        check_classic(epsilon, delta)
        rho = rho_within(epsilon, delta)
    spent = positive("rho", rho, "a larger one means less noise")
    reads, apart = participation
    chosen = check_strategy(strategy)
    if (chosen == "graph") != (weights is not None):
        raise ConfigError(
            "strategy = 'graph' goes with weights = W, the matrix with which agents weigh what they hear, and no other "
            "strategy does"
        )
    modes: tuple[complex, ...] = (1,) if weights is None else _modes(weights)
    matrix = fitted(chosen, rounds, reads, apart, modes)
    largest = record_norm(coefficients(*matrix, rounds), reads, apart)
    correlation = Correlation(chosen, rounds, reads, apart, largest, *matrix)
    independent = gaussian(1 / math.sqrt(2 * spent), clip, norm, perturbs)
    asked = None if epsilon is None else float(delta)
    return independent._replace(name="correlated", correlation=correlation, delta=asked)


def _modes(weights: ArrayLike) -> tuple[complex, ...]:
    """Return the eigenvalues of W: of an agent's noise, after k rounds each mode is left with the k-th power of one."""
    matrix = np.asarray(weights, np.float64)
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or not np.all(np.isfinite(matrix)):
        raise ConfigError(f"weights of shape {matrix.shape}: expected a square matrix of finite numbers")
    values = np.linalg.eigvals(matrix)
    if np.max(np.abs(values)) > 1 + 1e-6:
        raise ConfigError(f"weights with an eigenvalue of size {np.max(np.abs(values)):.3g}: expected none above 1")
    return tuple(values.tolist())
