"""Exact mean and covariance of federated averaging on quadratic risks, from data, graph and noise.

With the loss (d - <u, w>)^2 + rho ||w||^2 of Rizk (2023) every local step is an affine map of the model, so that with
z = (w, 1) a round is a random matrix times z. Batches and cohorts are drawn anew in every round, hence E[z z^T] of the
next round is a linear function of that of this one. Nothing is taken to be small: neither steps nor noise. Where the
recursion grows without end, the mean-square deviation does.

Noise enters a round as a sum that nothing else depends on, so that it adds a part of its own, in proportion to its
variance: `deviations` gives the plain run's and that of noise of variance 1 apart.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tacit.streams import LinearRegression

Floats = NDArray[np.float64]
Counts = NDArray[np.int64]


class Round(NamedTuple):
    """A server's round with its own clients, as a random matrix M on z."""

    mean: Floats
    """(n, n) E[M]."""
    square: Floats
    """(n^2, n^2) E[M (x) M]."""


class Deviations(NamedTuple):
    """Expected deviations from w^o after each round, (rounds,) each."""

    centroid: Floats
    individual: Floats


class Clients(NamedTuple):
    """Data and settings of one server's clients."""

    data: LinearRegression
    sizes: Counts
    local_steps: Counts
    batch_sizes: Counts


def one_round(clients: Clients, cohort: int, step: float, ridge: float) -> Round:
    """Return the round of a server that calls `cohort` of these clients, with the text's step mu."""
    means, squares = [], []
    for k, (size, local, batch) in enumerate(zip(*map(np.ndarray.tolist, clients[1:]), strict=True)):
        u, d = (part[k, :size].astype(np.float64) for part in (clients.data.x, clients.data.y))
        each = _steps(u, d, 2 * step / local, ridge)
        chosen = _mean_of(each, _twice(each), batch)
        means.append(np.linalg.matrix_power(each.mean(axis=0), local))
        squares.append(np.linalg.matrix_power(chosen, local))
    return Round(np.mean(means, axis=0), _mean_of(np.stack(means), np.mean(squares, axis=0), cohort))


def _steps(u: Floats, d: Floats, rate: float, ridge: float) -> Floats:
    """(samples, n, n) a local step on each sample: gradients are 2 u (<u, w> - d) + 2 ridge w, the 2 is in the rate."""
    samples, dim = u.shape
    found = np.zeros((samples, dim + 1, dim + 1))
    found[:, :dim, :dim] = np.eye(dim) * (1 - rate * ridge) - rate * u[:, :, None] * u[:, None, :]
    found[:, :dim, dim] = rate * u * d[:, None]
    found[:, dim, dim] = 1
    return found


def _twice(each: Floats) -> Floats:
    """Return the mean of M (x) M."""
    count, n, _ = each.shape
    rows = each.reshape(count, n * n)
    found = (rows.T @ rows / count).reshape(n, n, n, n)  # places i, j of one and l, m of the other
    return np.asarray(found.transpose(0, 2, 1, 3).reshape(n * n, n * n))


def _mean_of(means: Floats, alone: Floats, chosen: int) -> Floats:
    """Return E[M (x) M] of the mean of `chosen` of them, drawn without replacement; of one alone it is given."""
    count = len(means)
    if chosen == 1:
        return alone
    middle = means.mean(axis=0)
    pairs = (count * np.kron(middle, middle) - _twice(means)) / (count - 1)
    return np.asarray((alone + (chosen - 1) * pairs) / chosen)


def deviations(servers: list[Round], mix: Floats, added: Floats | None, best: Floats, rounds: int) -> Deviations:
    """Return expected deviations of a run from 0 without noise, or the part of noise of covariance `added`.

    `added` (servers, servers) is what noise of variance 1 adds to each coordinate of the servers' models in a round.
    """
    count, dim = len(mix), len(best)
    mean, square = (np.stack([getattr(server, name) for server in servers]) for name in Round._fields)
    start = np.zeros(dim + 1)
    start[-1] = 1.0 if added is None else 0.0
    moments = np.broadcast_to(np.outer(start, start), (count, count, dim + 1, dim + 1)).copy()
    noise = np.zeros_like(moments)
    if added is not None:
        noise[..., range(dim), range(dim)] = added[..., None]
    towards = np.hstack([np.eye(dim), -best[:, None]])
    found = np.empty((2, rounds))
    own = np.arange(count)
    with np.errstate(over="ignore", invalid="ignore"):
        for t in range(rounds):
            alone = np.einsum("pij,pj->pi", square, moments[own, own].reshape(count, -1))
            moments = mean[:, None] @ moments @ mean[None].swapaxes(-1, -2)
            moments[own, own] = alone.reshape(count, dim + 1, dim + 1)
            moments = np.einsum("pa,abij,qb->pqij", mix, moments, mix, optimize=True) + noise
            apart = np.einsum("ki,pqij,kj->pq", towards, moments, towards, optimize=True)
            found[:, t] = apart.mean(), np.trace(apart) / count
    return Deviations(*found)


def growth(servers: list[Round]) -> float:
    """Return the largest factor by which E ||w - w^o||^2 of a server by itself changes in a round: 1 or more diverges.

    Mixing with other servers only lowers what is far from their mean.
    """
    radius = 0.0
    for server in servers:
        n = len(server.mean)
        moving = [i * n + j for i in range(n - 1) for j in range(n - 1)]
        radius = max(radius, float(np.abs(np.linalg.eigvals(server.square[np.ix_(moving, moving)])).max()))
    return radius
