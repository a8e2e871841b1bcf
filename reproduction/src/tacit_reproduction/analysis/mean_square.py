"""Predicted error of PAO-Fed (Gauthier 2023, (4.15) to (4.34), Theorems 4.1 and 4.2).

The setting is that of the analysis: y = w*^T z + noise at every client with one w*, samples z independent over time
and clients. What is followed is the covariance P of the extended error (4.15), [w, w_1..w_K, and what each client had
to send 0, ..., l_max - 1 iterations ago], as an operator P -> F(P) + Q on an N x N matrix, N = d (1 + K + K l_max);
the N^2 x N^2 matrix F of (4.26) is never formed.

Two forms:

`kept` (default) keeps what can be kept at this size: the windows as they move (so the error is periodic, and a steady
state is its mean over one period), the mu^2 terms, and that a client which sends is one that has received in the same
iteration. What it leaves out: that a message arrives only once (arrivals of different delays are drawn independently,
as in the text), so it is exact for independent samples without delays. It is too low, by 3 dB and more, where updates
of several delays meet on a coordinate so often that the server nearly overshoots.

`text` is (4.26) to (4.29): selections drawn anew for each client and iteration (one for all when coordinated) as a
window at a uniform place, receiving independent of sending, and no mu^2 in F. `pao-theory` compares both with PAO-Fed.

Errata. (4.15) holds two copies of the newest client models; after the local step the second is w_k^(n), which (4.13)
adds for a delay of 1, so B_1 stands beside it; (4.21) shows a zero there and every delay one iteration too old.
E[M (x) M] is not fixed by the density m/d alone (Appendix A gives the diagonal): a window at a uniform place is used.
Theorems 4.1 and 4.2 bound mu by 2 and 1 over the largest eigenvalue of any R_k, "if and only if"; neither direction
holds (`pao-theory` says why). `mean_square_radius` decides for networks small enough for it.

In the code: blocks of d coordinates, [w, w_1..w_K, h_1, ..., h_L] with h_l (K blocks) what the clients had to send l
iterations before the present one's end, L the longest delay. Random factors are written as mean plus fluctuation: the
mean map acts from both sides, the fluctuations add their covariances times those of what they multiply.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tacit.core.errors import RequirementError

Form = Literal["kept", "text"]
Array = NDArray[np.float64]
Step = Callable[[Array, bool], Array]  # (covariance (N, N), with noise) -> the covariance one iteration later


@dataclass(frozen=True)
class Network:
    """Clients, data and channel of a network: the setting that the predictions are for."""

    correlations: Array  # (K, d, d) R_k
    noise: Array  # (K,) variances
    step: float
    share: int  # m of the d coordinates in a message
    availability: Array  # (K,) chance that a client with data is available
    data: Array  # (K,) chance of a new sample in an iteration
    delays: Array  # (L + 1,) chance of each delay; what is missing to 1 is lost
    decay: float = 1.0  # alpha_l = decay^l
    coordinated: bool = True
    same_window: bool = False
    full_download: bool = False
    fourth: Array | None = None  # (K, d, d, d, d) E[z z z z], or None for Gaussian samples

    clients = property(lambda self: self.noise.size)  # K
    d = property(lambda self: self.correlations.shape[-1])  # coordinates of the model
    longest = property(lambda self: self.delays.size - 1)  # the longest delay L
    blocks = property(lambda self: 1 + self.clients * (1 + self.longest))  # models in the extended error
    takes_part = property(lambda self: self.data * self.availability)  # (K,) chance that a client has data and is there

    @cached_property
    def weights(self) -> tuple[Array, Array, Array]:
        """Moments of c_kl = alpha_l b_kl / |C_l| of (4.21).

        The means (L + 1, K), the covariances within one delay (L + 1, K, K), and (K, K) the D with
        Cov(c_k0, x_j) = D[k, j] (1 - E x_j), x_j either of "client j has data" and "client j takes part".
        """
        arrival = self.delays[:, None] * self.takes_part
        means, covariances = np.zeros_like(arrival), np.zeros((*arrival.shape, self.clients))
        dependence = np.zeros((self.clients, self.clients))
        for delay, chance in enumerate(arrival):
            for k in range(self.clients):
                for j in range(k + 1):
                    others = _count_distribution(np.delete(chance, [k, j]))
                    alone = 1.0 + np.arange(others.size)
                    both = chance[k] * chance[j]
                    if j == k:
                        means[delay, k] = chance[k] * others @ (1 / alone)
                        second, shift = chance[k] * others @ alone**-2, means[delay, k]
                    else:
                        second, shift = both * others @ (1 + alone) ** -2, both * others @ (1 / (1 + alone) - 1 / alone)
                    covariances[delay, k, j] = covariances[delay, j, k] = second
                    if delay == 0:
                        dependence[k, j] = dependence[j, k] = shift
            covariances[delay] -= np.outer(means[delay], means[delay])
        fading = self.decay ** np.arange(self.longest + 1)
        return means * fading[:, None], covariances * fading[:, None, None] ** 2, dependence

    def window(self, n: int) -> Array:
        """Return the coordinates (K, d) of M_k^n as 0 and 1; the circular shift of (4.5)."""
        shift = np.zeros(self.clients) if self.coordinated else np.arange(self.clients)
        first = self.share * (n + shift)[:, None]
        return np.asarray((np.arange(self.d) - first) % self.d < self.share, np.float64)


def _count_distribution(chances: Array) -> Array:
    """Return P(count = 0, 1, ...) of independent events with these chances."""
    distribution = np.ones(1)
    for chance in chances:
        distribution = np.convolve(distribution, [1 - chance, chance])
    return distribution


def _place(rows: int, blocks: int, d: int) -> Array:
    """Return a zero map onto `rows` models from `blocks` models, as (rows, d, blocks, d)."""
    return np.zeros((rows, d, blocks, d))


def _flat(blocked: Array) -> Array:
    """Return (rows, d, columns, d) as a matrix."""
    rows, d, columns, _ = blocked.shape
    return blocked.reshape(rows * d, columns * d)


def steady_state(network: Network, *, form: Form = "kept") -> Array:
    """Return (d, d) E[(w - w*)(w - w*)^T] of the server as n -> infinity (4.34), the mean over a period of the windows.

    Refused if the error grows without bound (`mean_square_radius` >= 1).
    """
    from scipy.sparse.linalg import gmres

    radius = mean_square_radius(network, form=form)
    if radius >= 1:
        raise RequirementError(
            f"step = {network.step}: the mean-square error grows by {radius:.4f} an iteration, so it has no steady "
            "state; expected a smaller step"
        )
    steps, size, d = FORMS[form](network), network.blocks * network.d, network.d
    source = _period(steps, np.zeros((size, size)), True)[-1].ravel()
    solution, left = gmres(_linear(steps, size, less=True), source, rtol=1e-10, atol=0.0, restart=60, maxiter=200)
    if left:
        raise RequirementError(
            f"no steady state to 1e-10 in {left} sweeps; expected a radius well below 1, not {radius}"
        )
    period = _period(steps, solution.reshape(size, size), True)
    return np.asarray(np.mean([covariance[:d, :d] for covariance in period], axis=0))


def mean_square_radius(network: Network, *, form: Form = "kept") -> float:
    """Return the factor by which the covariance of the error shrinks (< 1) or grows in an iteration, in the long run.

    The spectral radius of F: what Theorem 4.2 bounds, for this setting.
    """
    from scipy.sparse.linalg import eigs

    steps, size = FORMS[form](network), network.blocks * network.d
    largest = eigs(_linear(steps, size), k=1, v0=np.eye(size).ravel(), tol=1e-6)[0]
    return float(np.abs(largest[0]) ** (1 / len(steps)))


def _period(steps: list[Step], covariance: Array, noisy: bool) -> list[Array]:
    """Return the covariances after each iteration of one period."""
    path = [covariance]
    for step in steps:
        path.append(step(path[-1], noisy))
    return path[1:]


def _linear(steps: list[Step], size: int, less: bool = False) -> Any:
    """Return the noiseless map of one period on the covariance as a vector, or the identity less it."""
    from scipy.sparse.linalg import LinearOperator

    def mapped(vector: Array) -> Array:
        after = _period(steps, vector.reshape(size, size), False)[-1].ravel()
        return vector - after if less else after

    return LinearOperator((size**2, size**2), matvec=mapped, dtype=np.float64)


def kept_steps(net: Network) -> list[Step]:
    """Return the maps of the iterations 0, 1, ... of one period, with the terms that the text drops."""
    return [_kept_step(net, n) for n in range(net.d // math.gcd(net.share, net.d))]


class _Maps(NamedTuple):
    """The mean maps of one iteration, as matrices; see `_kept_maps` for the models between local step and end."""

    enter: Array  # old models -> what the local steps begin from: for x_k, then for y_k
    local: Array  # old models -> models between
    finish: Array  # models between -> new models
    spread: Array
    """Models between -> what random factors multiply: S (arriving - w) by delay and client, x_k - y_k, y_k - w_k."""


def _kept_maps(net: Network, n: int) -> _Maps:
    # Between: w, the old w_k, x_k (a step from what was received, 4.9), y_k (a step from its own, 4.11), h_1..h_L.
    # A client ends with one of the three; what it sends, if it sends, is x_k.
    clients, d, longest = net.clients, net.d, net.longest
    every, kept, eye = np.arange(clients), clients * longest, np.eye(d)
    w, old, x, y, h = 0, 1 + every, 1 + clients + every, 1 + 2 * clients + every, 1 + 3 * clients
    between = h + kept
    take = (np.ones((clients, d)) if net.full_download else net.window(n))[:, :, None] * eye
    enter = _place(2 * clients, net.blocks, d)
    enter[every, :, w], enter[every, :, old] = take, eye - take
    enter[clients + every, :, old] = eye

    contraction = eye - net.step * net.correlations
    local = _place(between, net.blocks, d)
    local[w, :, w] = eye
    local[old, :, old] = eye
    local[h + np.arange(kept), :, 1 + clients + np.arange(kept)] = eye
    local[x] = np.einsum("kij,kjcl->kicl", contraction, enter[:clients])
    local[y] = np.einsum("kij,kjcl->kicl", contraction, enter[clients:])

    message = np.concatenate([x, h + np.arange(kept)])  # by delay and client
    window = np.concatenate([net.window(n - age + (not net.same_window)) for age in range(longest + 1)])
    arrive = _place(message.size, between, d)
    arrive[np.arange(message.size), :, message] = window[:, :, None] * eye
    arrive[:, :, w] = -window[:, :, None] * eye
    own = _place(2 * clients, between, d)
    own[every, :, x], own[every, :, y] = eye, -eye
    own[clients + every, :, y], own[clients + every, :, old] = eye, -eye

    finish = _place(net.blocks, between, d)
    finish[w, :, w] = eye
    finish[w] += np.tensordot(net.weights[0].ravel(), arrive, 1)
    finish[old] = np.tensordot(np.diag(net.takes_part), own[:clients], 1)
    finish[old] += np.tensordot(np.diag(net.data), own[clients:], 1)
    finish[old, :, old] += eye
    finish[1 + clients + np.arange(kept), :, message[:kept]] = eye
    return _Maps(_flat(enter), _flat(local), _flat(finish), _flat(np.concatenate([arrive, own])))


def _kept_step(net: Network, n: int) -> Step:
    maps, (_, covariances, dependence) = _kept_maps(net, n), net.weights
    clients, d, longest, mu2 = net.clients, net.d, net.longest, net.step**2
    first = (1 + clients, 1 + 2 * clients)  # where x, y lie between
    # Of "takes part", which multiplies x - y, and "has data", which multiplies y - w_k: the first implies the second.
    chances = np.stack([net.takes_part, net.data])
    fates = np.minimum(chances[:, None], chances) - chances[:, None] * chances
    links = (1 - chances)[:, None] * dependence  # (2, K, K): Cov(c_j0, fate of k)

    def step(covariance: Array, noisy: bool) -> Array:
        between = (maps.local @ covariance @ maps.local.T).reshape(-1, d, maps.local.shape[0] // d, d)
        begin = (maps.enter @ covariance @ maps.enter.T).reshape(2, clients, d, 2, clients, d)
        for k in range(clients):
            noise = noisy * net.noise[k] * net.correlations[k]
            for i, row in enumerate(first):
                for j, column in enumerate(first):
                    between[row + k, :, column + k] += mu2 * (_fluctuation(net, k, begin[i, k, :, j, k]) + noise)
        flat = _flat(between)
        after = (maps.finish @ flat @ maps.finish.T).reshape(net.blocks, d, net.blocks, d)
        parts = (maps.spread @ flat @ maps.spread.T).reshape(longest + 3, clients, d, longest + 3, clients, d)
        for age in range(longest + 1):
            after[0, :, 0] += np.einsum("kj,kajb->ab", covariances[age], parts[age, :, :, age])
        own = longest + 1
        for k in range(clients):
            after[1 + k, :, 1 + k] += np.einsum("st,satb->ab", fates[..., k], parts[own:, k, :, own:, k])
            link = np.einsum("sj,jasb->ab", links[..., k], parts[0, :, :, own:, k])
            after[0, :, 1 + k] += link
            after[1 + k, :, 0] += link.T
        return _flat(after)

    return step


def _fluctuation(net: Network, k: int, begin: Array) -> Array:
    """Return E[z z^T T z z^T] - R T R for samples of client k and T = `begin`."""
    r, fourth = net.correlations[k], net.fourth
    gaussian = r @ begin.T @ r + r * np.sum(r * begin)
    return np.asarray(gaussian if fourth is None else np.einsum("abcd,bc->ad", fourth[k], begin) - r @ begin @ r)


def text_steps(net: Network) -> list[Step]:
    """Return the map of (4.26) to (4.29): it is the same in every iteration."""
    clients, d, longest, mu = net.clients, net.d, net.longest, net.step
    every, everything, eye, density = np.arange(clients), np.arange(net.blocks), np.eye(d), net.share / net.d
    one_window = _window_pairs(net)
    received, received_pairs = (1.0, np.ones((d, d))) if net.full_download else (density, one_window)
    shared = np.ones((clients, clients)) if net.coordinated else np.eye(clients)

    gap = _place(clients, net.blocks, d)  # w - w_k, which a_k M_k multiplies
    gap[:, :, 0] = eye
    gap[every, :, 1 + every] = -eye
    enter = _place(net.blocks, net.blocks, d)
    enter[everything, :, everything] = eye
    enter[1 + every] += np.tensordot(np.diag(net.takes_part * received), gap, 1)
    alone = np.outer(net.takes_part, net.takes_part)
    together = np.where(np.eye(clients) > 0, net.takes_part, alone)
    receipts = _covariance(together, alone, shared, received_pairs, received)

    drift = _place(net.blocks, net.blocks, d)  # R_e: no step without a sample
    drift[1 + every, :, 1 + every] = net.data[:, None, None] * net.correlations

    means, covariances, _ = net.weights
    arrive = _place(net.blocks - 1, net.blocks, d)  # what arrives - w
    arrive[everything[:-1], :, everything[1:]] = eye
    arrive[:, :, 0] = -eye
    finish = _place(net.blocks, net.blocks, d)
    finish[0, :, 0] = eye
    finish[0] += density * np.tensordot(means.ravel(), arrive, 1)
    finish[1 + every, :, 1 + every] = eye
    finish[everything[1 + clients :], :, everything[1:-clients]] = eye
    products = means[:, :, None] * means[:, None, :]
    arrivals = _covariance(covariances + products, products, shared, one_window, density)
    maps = [_flat(enter), _flat(gap), _flat(drift), _flat(finish), _flat(arrive)]

    def step(covariance: Array, noisy: bool) -> Array:
        begin = (maps[0] @ covariance @ maps[0].T).reshape(net.blocks, d, net.blocks, d)
        gaps = (maps[1] @ covariance @ maps[1].T).reshape(clients, d, clients, d)
        begin[1 : 1 + clients, :, 1 : 1 + clients] += np.swapaxes(receipts, 1, 2) * gaps
        flat = _flat(begin)
        flat = flat - mu * (maps[2] @ flat + flat @ maps[2].T)  # no mu^2: Assumption 5
        if noisy:
            own = flat.reshape(net.blocks, d, net.blocks, d)
            own[1 + every, :, 1 + every] += mu**2 * (net.noise * net.data)[:, None, None] * net.correlations
        after = maps[3] @ flat @ maps[3].T
        parts = (maps[4] @ flat @ maps[4].T).reshape(longest + 1, clients, d, longest + 1, clients, d)
        for age in range(longest + 1):
            after[:d, :d] += np.einsum("kjab,kajb->ab", arrivals[age], parts[age, :, :, age])
        return np.asarray(after)

    return [step]


def _window_pairs(net: Network) -> Array:
    """Return (d, d) the chance that a window at a uniform place holds both of two coordinates."""
    apart = (np.arange(net.d)[:, None] - np.arange(net.d)) % net.d
    ahead, behind = net.share - apart, net.share - (net.d - apart)
    return np.asarray((np.maximum(ahead, 0) + np.where(apart > 0, np.maximum(behind, 0), 0)) / net.d)


def _covariance(together: Array, alone: Array, shared: Array, pairs: Array, density: float) -> Array:
    """Return (..., K, K, d, d) the covariance of two clients' factors, each a scalar times a selection.

    `together` (..., K, K) is the mean product of the scalars, `alone` that of their means; `pairs` (d, d) are the
    second moments of one selection, which clients marked in `shared` (K, K) have in common.
    """
    selections = shared[..., None, None] * pairs + (1 - shared[..., None, None]) * density**2
    return np.asarray(together[..., None, None] * selections - alone[..., None, None] * density**2)


FORMS: dict[Form, Callable[[Network], list[Step]]] = {"kept": kept_steps, "text": text_steps}
