"""Predicted error of PAO-Fed (Gauthier 2023, (4.15) to (4.34), Theorems 4.1 and 4.2).

The setting is that of the analysis: y = w*^T z + noise at every client with one w*, samples z independent over time
and clients. What is followed is the covariance P of the extended error (4.15), [w, w_1..w_K, and what each client had
to send 0, ..., l_max - 1 iterations ago], as an operator P -> F(P) + Q on an N x N matrix, N = d (1 + K + K l_max);
the N^2 x N^2 matrix F of (4.26) is never formed.

Two forms:

`kept` (default) keeps what can be kept at this size: the windows as they move (so the error is periodic, and a steady
state is its mean over one period), the mu^2 terms, and that a client which sends is one that has received in the same
iteration. What it leaves out: that a message arrives only once (arrivals of different delays are drawn independently,
as in the text), so it is exact for independent samples without delays.

`text` is (4.26) to (4.29): selections drawn anew for each client and iteration (one for all when coordinated) as a
window at a uniform place, receiving independent of sending, and no mu^2 in F.

Against PAO-Fed itself (4 Gaussian clients, d = 4, m = 1, half of them available, delays 0, 1, 2 with chances 0.6, 0.3,
0.1, mu = 0.1; 40 runs) `kept` is off by 0.0 to 0.4 dB in the variants C0..U2 and `text` by -0.8 to -1.6 dB; at mu = 0.2
by 0.3 and -5 dB: most of it is the mu^2 terms. With m = d `text` is 4 dB too high: there a message is mostly what was
just received. For Fourier features pass their `fourth` moments: at half of `alone` the Gaussian ones are 1.5 dB too
high, the true ones 0.2 dB at most, for inputs that are correlated over time (0.9) as well. `kept` is too low as well,
by 3 dB and more, where updates of several delays meet on a coordinate so often that the server nearly overshoots
(uncoordinated, everyone available, most messages late, decay 1; see `step_bounds`).

Errata. (4.15) holds two copies of the newest client models; after the local step the second is w_k^(n), which (4.13)
adds for a delay of 1, so B_1 stands beside it; (4.21) shows a zero there and every delay one iteration too old.
E[M (x) M] is not fixed by the density m/d alone (Appendix A gives the diagonal): a window at a uniform place is used.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacit.core.errors import ConfigError, DataError, RequirementError
from tacit_reproduction.analysis.mean_square_forms import Network, Step, kept_steps, text_steps

Form = Literal["kept", "text"]
Array = NDArray[np.float64]


class StepBounds(NamedTuple):
    """Step sizes to compare a run's with; see `step_bounds` for what they are worth."""

    mean: float
    """2 / max lambda, Theorem 4.1."""
    mean_square: float
    """1 / max lambda, Theorem 4.2."""
    alone: float
    """Below it every client's own step (4.11) lessens E||w_k - w*||^2, whatever the error's direction."""


@dataclass(frozen=True)
class ServerError:
    """The second moment of the error w - w* of the server's model."""

    covariance: Array
    """(..., d, d) E[(w - w*)(w - w*)^T]."""

    @property
    def deviation(self) -> Array:
        """(...) E||w - w*||^2, the mean-square deviation."""
        return np.asarray(np.trace(self.covariance, axis1=-2, axis2=-1))

    def test_error(self, correlation: ArrayLike, noise: float) -> Array:
        """Return (...) the expected square error on fresh samples with this (d, d) correlation and noise variance."""
        return np.asarray(noise + np.sum(self.covariance * np.asarray(correlation, np.float64), axis=(-2, -1)))


def feature_correlations(features: ArrayLike, weights: ArrayLike | None = None) -> Array:
    """Return the sample correlations R_k (K, d, d) of features (K, n, d); weights (K, n) are 0 for "no sample"."""
    z, w = _samples(features, weights)
    return np.asarray(np.einsum("kn,kni,knj->kij", w, z, z, optimize=True))


def feature_energies(features: ArrayLike, weights: ArrayLike | None = None) -> Array:
    """Return E[||z||^2 z z^T] (K, d, d) of features (K, n, d), what limits the step of a client on its own."""
    z, w = _samples(features, weights)
    return np.asarray(np.einsum("kn,kni,knj->kij", w * np.sum(z**2, axis=-1), z, z, optimize=True))


def fourth_moments(features: ArrayLike, weights: ArrayLike | None = None) -> Array:
    """Return E[z_a z_b z_c z_d] (K, d, d, d, d) of features (K, n, d), for samples that are not Gaussian."""
    z, w = _samples(features, weights)
    clients, _, d = z.shape
    pairs = np.einsum("kni,knj->knij", z, z).reshape(clients, -1, d * d)
    fourth = np.einsum("kn,kna,knb->kab", w, pairs, pairs, optimize=True)
    return np.asarray(fourth.reshape(clients, d, d, d, d))


def _samples(features: ArrayLike, weights: ArrayLike | None) -> tuple[Array, Array]:
    z = np.asarray(features, np.float64)
    if z.ndim != 3:
        raise DataError(f"features of shape {z.shape}: expected (clients, samples, d); stack the samples by client")
    w = np.ones(z.shape[:2]) if weights is None else np.asarray(weights, np.float64)
    if w.shape != z.shape[:2] or np.any(w < 0):
        raise DataError(f"weights of shape {w.shape}: expected {z.shape[:2]}, numbers >= 0; give one for each sample")
    empty = np.flatnonzero(w.sum(axis=1) == 0)
    if empty.size:
        raise DataError(f"client {empty[0]} has no sample of weight > 0: expected at least one; leave the client out")
    return z, w / w.sum(axis=1, keepdims=True)


def step_bounds(correlations: ArrayLike, energies: ArrayLike | None = None) -> StepBounds:
    """Return the bounds of Theorems 4.1 and 4.2 for the correlations R_k (K, d, d), and one for clients alone.

    The theorems say "if and only if"; neither direction holds. Their proofs neglect mu^2 terms and bound norms, and
    take B_e of (4.21) for a matrix without negative entries. Checked by running PAO-Fed:

    - Not sufficient: one client with unit-variance Gaussian features is plain LMS, stable in mean square below
      2 / (d + 2) and not below 1. This is what `alone` gives: 2 / max eigenvalue of R_k^-1 E[||z||^2 z z^T], from
      `energies` (K, d, d), see `feature_energies`; without them 2 / (trace R_k + 2 max lambda), for Gaussian features.
    - Not sufficient at any step: where updates of several delays reach the same coordinate in one iteration and their
      alpha_l add up to more than 1, the server overshoots. With all coordinates shared, delays 0, 1, 2 equally likely,
      everyone available and alpha_l = 1 the error grows without bound at mu = 0.02, and by its radius at 0.001. Cures:
      alpha_l = 0.2^l; only the newest update of a coordinate (manuscript; the predictions are for the sum (4.14)); a
      window of m < d coordinates, which keeps updates of delays below d / m apart as it moves on (all of them when
      it is coordinated, those of one client when it is not).
    - Not necessary: averaging over clients damps a rough one. With eight clients, everything shared, and one whose
      features have eight times the others' variance, the limit is 1.10 where Theorem 4.2 says 0.25.

    So a step above `mean_square` is suspect, one above `alone` as well, and `mean_square_radius` decides for networks
    small enough for it.
    """
    r = _correlations(correlations)
    values, vectors = np.linalg.eigh(r)
    largest = float(values[:, -1].max())
    if largest <= 0:
        raise DataError("correlations are all zero: expected a client whose features vary; look at the data")
    if energies is None:
        worst = float(np.max(np.trace(r, axis1=1, axis2=2) + 2 * values[:, -1]))
    else:
        energy = _correlations(energies)
        if energy.shape != r.shape:
            raise DataError(f"energies of shape {energy.shape}: expected {r.shape}; see `feature_energies`")
        seen = values > 1e-10 * largest  # elsewhere no sample has a component, and nothing moves
        whiten = vectors * np.where(seen, np.where(seen, values, 1.0) ** -0.5, 0.0)[:, None, :]
        worst = float(np.linalg.eigvalsh(np.swapaxes(whiten, 1, 2) @ energy @ whiten).max())
    return StepBounds(2 / largest, 1 / largest, 2 / worst)


def asynchronous_network(
    correlations: ArrayLike,
    noise: ArrayLike,
    *,
    step: float,
    share: int,
    availability: ArrayLike = 1.0,
    delays: ArrayLike = (1.0,),
    decay: float = 1.0,
    coordinated: bool = True,
    same_window: bool = False,
    full_download: bool = False,
    autonomous: bool = True,
    data: ArrayLike = 1.0,
    fourth: ArrayLike | None = None,
) -> Network:
    """Return the setting that the predictions are for.

    `correlations` (K, d, d) and `noise` variances (K,) or one; `share` m of the d coordinates in a message;
    `availability` (K,) or one: the chance that a client with data is available; `data`: the chance of data in an
    iteration; `delays` P(delay = 0), P(delay = 1), ... (what is missing to 1 is lost); alpha_l = decay^l;
    `fourth` moments (K, d, d, d, d), without which samples are taken as Gaussian.
    """
    r = _correlations(correlations)
    clients, d = r.shape[:2]
    moments = None if fourth is None else np.asarray(fourth, np.float64)
    if moments is not None and moments.shape != (clients, d, d, d, d):
        raise ConfigError(f"fourth of shape {moments.shape}: expected {(clients, d, d, d, d)}; see `fourth_moments`")
    if not 1 <= share <= d:
        raise ConfigError(f"share = {share}: expected 1..{d}, coordinates of the model; choose how many are sent")
    if not 0 < step < math.inf:
        raise ConfigError(f"step = {step}: expected a number > 0; see `step_bounds`")
    if not 0 <= decay <= 1:
        raise ConfigError(f"decay = {decay}: expected 0..1, alpha_l = decay^l; 1 weighs all delays alike")
    late = np.atleast_1d(np.asarray(delays, np.float64))
    if late.ndim != 1 or late.size == 0 or np.any(late < 0) or late.sum() > 1 + 1e-9:
        raise ConfigError(f"delays = {delays!r}: expected the chances of delays 0, 1, ..., numbers >= 0 with sum <= 1")
    variances = _per_client("noise", noise, clients, math.inf)
    chances = _per_client("availability", availability, clients, 1.0), _per_client("data", data, clients, 1.0)
    return Network(
        r, moments, variances, step, share, *chances, late, decay, coordinated, same_window, full_download, autonomous
    )


def _correlations(correlations: ArrayLike) -> Array:
    r = np.asarray(correlations, np.float64)
    if r.ndim != 3 or r.shape[1] != r.shape[2] or r.size == 0 or not np.all(np.isfinite(r)):
        raise DataError(f"correlations of shape {r.shape}: expected finite (K, d, d); see `feature_correlations`")
    if not np.allclose(r, np.swapaxes(r, 1, 2)):
        raise DataError("correlations are not symmetric: expected E[z z^T]; see `feature_correlations`")
    return r


def _per_client(name: str, value: ArrayLike, clients: int, most: float) -> Array:
    numbers = np.asarray(value, np.float64)
    if numbers.shape not in ((), (clients,)) or not np.all((numbers >= 0) & (numbers <= most)):
        raise ConfigError(f"{name} = {value!r}: expected one number or {clients}, each in 0..{most:g}; give them so")
    return np.broadcast_to(numbers, (clients,))


def transient(network: Network, start: ArrayLike, rounds: int, *, form: Form = "kept") -> ServerError:
    """Return the server's error before each of the iterations 1..rounds and after the last (4.33).

    `start` (d,) is w* - w^1; all clients begin at the server's model, and what arrives from before the start is that.
    """
    error = np.asarray(start, np.float64)
    if error.shape != (network.d,):
        raise DataError(
            f"start of shape {error.shape}: expected ({network.d},), the error of the first model; give it so"
        )
    if rounds < 0:
        raise ConfigError(f"rounds = {rounds}: expected >= 0; say how many iterations to follow")
    steps = _steps(network, form)
    everyone = np.tile(error, network.blocks)
    covariance, d = np.outer(everyone, everyone), network.d
    path = [covariance[:d, :d]]
    for n in range(1, rounds + 1):
        covariance = steps[n % len(steps)](covariance, True)
        path.append(covariance[:d, :d])
    return ServerError(np.stack(path))


def steady_state(network: Network, *, form: Form = "kept") -> ServerError:
    """Return the server's error as n -> infinity (4.34), the mean over one period of the windows.

    Refused if the error grows without bound (`mean_square_radius` >= 1).
    """
    from scipy.sparse.linalg import gmres

    radius = mean_square_radius(network, form=form)
    if radius >= 1:
        raise RequirementError(
            f"step = {network.step}: the mean-square error grows by {radius:.4f} an iteration, so it has no steady "
            f"state; expected a smaller step (Theorem 4.2: below {step_bounds(network.correlations).mean_square:.4g})"
        )
    steps, size, d = _steps(network, form), network.blocks * network.d, network.d
    operator = _operator(steps, size)
    source = _period(steps, np.zeros((size, size)), True)[-1].ravel()
    identity_less = _linear(lambda v: v - operator(v), size)
    solution, left = gmres(identity_less, source, rtol=1e-10, atol=0.0, restart=60, maxiter=200)
    if left:
        raise RequirementError(
            f"the steady state was not found to 1e-10 in {left} sweeps; expected a radius well below 1, not {radius}; "
            "follow `transient` for long instead"
        )
    period = _period(steps, solution.reshape(size, size), True)
    return ServerError(np.mean([covariance[:d, :d] for covariance in period], axis=0))


def mean_square_radius(network: Network, *, form: Form = "kept") -> float:
    """Return the factor by which the covariance of the error shrinks (< 1) or grows in an iteration, in the long run.

    The spectral radius of F: what Theorem 4.2 bounds, for this setting.
    """
    from scipy.sparse.linalg import eigs

    steps, size = _steps(network, form), network.blocks * network.d
    largest = eigs(_linear(_operator(steps, size), size), k=1, v0=np.eye(size).ravel(), tol=1e-6)[0]
    return float(np.abs(largest[0]) ** (1 / len(steps)))


def _steps(network: Network, form: str) -> list[Step]:
    if form not in ("kept", "text"):
        raise ConfigError(f"form = {form!r}: expected 'kept' or 'text'; see the module's first lines")
    return kept_steps(network) if form == "kept" else text_steps(network)


def _period(steps: list[Step], covariance: Array, noisy: bool) -> list[Array]:
    """Return the covariances after each iteration of one period."""
    path = []
    for step in steps:
        covariance = step(covariance, noisy)
        path.append(covariance)
    return path


def _operator(steps: list[Step], size: int) -> Callable[[Array], Array]:
    """Return the noiseless map of one period on the covariance as a vector."""
    return lambda vector: _period(steps, vector.reshape(size, size), False)[-1].ravel()


def _linear(function: Callable[[Array], Array], size: int) -> Any:
    from scipy.sparse.linalg import LinearOperator

    return LinearOperator((size**2, size**2), matvec=function, dtype=np.float64)
