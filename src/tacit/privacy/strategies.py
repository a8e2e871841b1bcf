"""Strategies of correlated noise: the C of C^-1 Z, fitted to a workload, and how far one record moves C G.

A model is a prefix sum of an agent's releases, and its error that of A C^-1 Z, A being the lower-triangular matrix of
ones. A strategy is fitted to the mean square of that error over a block, in units of what a record costs. On a graph an
agent's own model is a prefix sum that fades with W: there the error is taken over the eigenvalues of W.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacit.core.checks import one_of
from tacit.core.correlation import coefficients
from tacit.core.errors import ConfigError

Floats = NDArray[np.float64]
Strategy = Literal["blt", "banded", "toeplitz", "independent", "graph"]
BUFFERS = 3
"""Most vectors that a buffered strategy keeps; one more beyond 2,000 rounds. More would not make the error 1 % less."""
SLACK = 1e-3
"""Of the error: the fewest vectors are kept that come so near to what the most can do."""
BANDS = 16
"""Of a banded strategy, the last draws that it keeps (less where records come again sooner)."""
LONGEST_FIT = 8192
"""A longer block is fitted at this length; its norm is taken at its own."""
LONGEST = 10_000_000
"""Rounds of a block: a longer one is no better than a new one after so many."""
WIDEST = 100_000
"""Vectors that a strategy with the memory of a whole block may keep."""
ROUNDING = 1e-9
"""By which norms are raised, more than sums of so many numbers round."""


class Fitted(NamedTuple):
    """A strategy's C, as `tacit.core.contract.Correlation` has it."""

    weights: tuple[float, ...]
    decays: tuple[float, ...]


def record_norm(column: ArrayLike, reads: int, apart: int) -> float:
    """Return the largest l2 norm of C x over x with at most `reads` entries from [-1, 1], `apart` rows from each other.

    For a C whose first column falls and is not negative the worst x has its ones as early and as close as it may
    (Kalinin and Lampert 2024, Theorem 2); with one read it is the first column, whatever its signs. The norm of vectors
    in the rows of x is no larger, since the columns of C have no negative products.

    Args:
      column: First column of C, one entry per release of a block.
      reads: From 1 on.
      apart: From 1 on.

    Returns:
      The norm, rounded up.

    Example:
      >>> round(record_norm([1.0, 0.5], reads=2, apart=1), 6)  # of rows 1 and 1.5
      1.802776
    """
    first = np.asarray(column, np.float64)
    count = min(reads, 1 + (first.size - 1) // apart)
    if count > 1 and (np.any(first < 0) or np.any(np.diff(first) > 0)):
        raise ConfigError(
            "a first column of C that rises or is negative: how far a record moves the releases is known only where it "
            "falls, or where a record is read once"
        )
    if count == 1:
        return float(np.linalg.norm(first)) * (1 + ROUNDING)
    # Sums over the rows of a table with a line per read: (... + c[t - 2 apart] + c[t - apart] + c[t]).
    table = np.pad(first, (0, -first.size % apart)).reshape(-1, apart)
    sums = np.cumsum(table, axis=0)
    sums[count:] -= sums[:-count].copy()
    total = sums.reshape(-1)[: first.size]
    return float(np.linalg.norm(total)) * (1 + ROUNDING)


def fitted(strategy: Strategy, rounds: int, reads: int, apart: int, eigenvalues: tuple[complex, ...] = (1,)) -> Fitted:
    """Find the C of a strategy.

    Args:
      strategy: "blt", "banded", "toeplitz", "independent" or "graph", as `tacit.privacy.correlated` explains.
      rounds: Releases of a block.
      reads: Of a record in a block.
      apart: Releases between two reads at least.
      eigenvalues: Of W, for "graph".
    """
    if rounds > (WIDEST if strategy == "toeplitz" else LONGEST):
        most = WIDEST if strategy == "toeplitz" else LONGEST
        raise ConfigError(f"rounds = {rounds:,}: expected at most {most:,}, after which a new block begins")
    if strategy == "independent" or rounds == 1:
        return Fitted((), ())
    if strategy == "toeplitz":
        k = np.arange(1, rounds)
        return Fitted(tuple(np.cumprod((2 * k - 1) / (2 * k)).tolist()), ())
    shape = min(rounds, LONGEST_FIT), reads, apart
    if strategy == "banded":
        bands = max(1, min(BANDS, rounds, apart if reads > 1 else BANDS))
        return _fit_bands(bands - 1, *shape)
    return _fit_buffers(*shape, eigenvalues if strategy == "graph" else (1,))


def error(column: ArrayLike, reads: int, apart: int, eigenvalues: tuple[complex, ...] = (1,)) -> float:
    """Return the root mean square noise in a model, if a record costs rho = 1/2 and moves a release by 1.

    Args:
      column: First column of C.
      reads: Of a record.
      apart: Releases between two reads.
      eigenvalues: Of W; (1,): of the mean over the network.

    Example:
      >>> round(error([1.0] + [0.0] * 99, 1, 1), 3)  # independent noise: sqrt((T + 1) / 2)
      7.106
    """
    first = np.asarray(column, np.float64)
    return math.sqrt(_square_error(first, np.asarray(eigenvalues))) * record_norm(first, reads, apart)


def _square_error(column: Floats, eigenvalues: NDArray[np.complex128]) -> float:
    """Return the mean square noise over the models of a block and the modes of W, for unit draws."""
    rounds = column.size
    response = inverse(column)
    powers = np.power(eigenvalues[:, None], np.arange(rounds))
    sums = np.cumsum(response)[None] if np.all(eigenvalues == 1) else _product(powers, response)
    return float(np.mean(np.square(np.abs(sums)) @ (rounds - np.arange(rounds))) / rounds)


def inverse(column: Floats) -> Floats:
    """Return the first column of C^-1, by Newton's steps on power series."""
    found = np.ones(1)
    while found.size < column.size:
        size = min(2 * found.size, column.size)
        known = np.pad(found, (0, size - found.size))
        found = 2 * known - _product(_product(known, column[:size]).real, known).real
    return found


def _product(a: NDArray[np.complex128] | Floats, b: Floats) -> NDArray[np.complex128]:
    """Return the first entries of the product of power series."""
    size = 2 * b.size
    return np.asarray(np.fft.ifft(np.fft.fft(a, size) * np.fft.fft(b, size))[..., : b.size])


@functools.lru_cache(maxsize=64)
def _fit_buffers(rounds: int, reads: int, apart: int, eigenvalues: tuple[complex, ...]) -> Fitted:
    def fit(buffers: int) -> tuple[float, Fitted]:
        def parts(free: Floats) -> Fitted:
            # Shares of a sum below 1 keep the column falling; slowness from 1 to the block's length spreads the decays.
            shares = np.exp(free[buffers:-1] - np.max(free[buffers:-1]))
            weights = shares / np.sum(shares) / (1 + np.exp(-free[-1]))
            return Fitted(tuple(weights.tolist()), tuple((1 / (1 + np.exp(-free[:buffers]))).tolist()))

        start = np.concatenate([np.linspace(0.5, math.log(rounds + 1.0), buffers), np.linspace(1, -1, buffers), [0.0]])
        found = _best(parts, start, rounds, reads, apart, eigenvalues)
        return error(coefficients(*found, rounds), reads, apart, eigenvalues), found

    most = min(BUFFERS + (rounds > 2000), rounds - 1)
    least, best = fit(most)
    fewer = (fit(buffers) for buffers in range(1, most))
    return next((found for reached, found in fewer if reached <= (1 + SLACK) * least), best)


@functools.lru_cache(maxsize=64)
def _fit_bands(bands: int, rounds: int, reads: int, apart: int) -> Fitted:
    if bands == 0:
        return Fitted((), ())
    start = np.log(2 * np.arange(1, bands + 1) - 1.0 + 1e-9)  # the square root of A
    parts = lambda free: Fitted(tuple(np.cumprod(1 / (1 + np.exp(-free))).tolist()), ())  # noqa: E731
    return _best(parts, start, rounds, reads, apart, (1,))


def _best(
    parts: Callable[[Floats], Fitted],
    start: Floats,
    rounds: int,
    reads: int,
    apart: int,
    eigenvalues: tuple[complex, ...],
) -> Fitted:
    from scipy.optimize import minimize

    def log_error(free: Floats) -> float:
        return math.log(error(coefficients(*parts(free), rounds), reads, apart, eigenvalues))

    return parts(minimize(log_error, start, method="L-BFGS-B", bounds=[(-20, 20)] * start.size).x)


def check_strategy(strategy: str) -> Strategy:
    """Return a strategy that is known."""
    one_of("strategy", strategy, get_args(Strategy))
    return strategy  # type: ignore[return-value]
