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
holds. Their proofs neglect mu^2 terms, bound norms, and take B_e of (4.21) for a matrix without negative entries:

- Not sufficient: one client with unit-variance Gaussian features is plain LMS, stable in mean square below 2 / (d + 2).
- Not sufficient at any step: where updates of several delays reach the same coordinate in one iteration and their
  alpha_l add up to more than 1, the server overshoots. Cures: alpha_l = 0.2^l; only the newest update of a coordinate
  (manuscript; the predictions are for the sum (4.14)); a window of m < d coordinates that moves on.
- Not necessary: averaging over clients damps a rough one.

`mean_square_radius` decides for networks small enough for it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacit.core.errors import ConfigError, DataError, RequirementError
from tacit_reproduction.analysis.mean_square_forms import Network, Step, kept_steps, text_steps

Form = Literal["kept", "text"]
Array = NDArray[np.float64]


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
        raise ConfigError(f"fourth of shape {moments.shape}: expected {(clients, d, d, d, d)}")
    if not 1 <= share <= d:
        raise ConfigError(f"share = {share}: expected 1..{d}, coordinates of the model; choose how many are sent")
    if not 0 < step < math.inf:
        raise ConfigError(f"step = {step}: expected a number > 0")
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
        raise DataError(f"correlations of shape {r.shape}: expected finite (K, d, d)")
    if not np.allclose(r, np.swapaxes(r, 1, 2)):
        raise DataError("correlations are not symmetric: expected E[z z^T]")
    return r


def _per_client(name: str, value: ArrayLike, clients: int, most: float) -> Array:
    numbers = np.asarray(value, np.float64)
    if numbers.shape not in ((), (clients,)) or not np.all((numbers >= 0) & (numbers <= most)):
        raise ConfigError(f"{name} = {value!r}: expected one number or {clients}, each in 0..{most:g}; give them so")
    return np.broadcast_to(numbers, (clients,))


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
    steps, size, d = _steps(network, form), network.blocks * network.d, network.d
    operator = _operator(steps, size)
    source = _period(steps, np.zeros((size, size)), True)[-1].ravel()
    identity_less = _linear(lambda v: v - operator(v), size)
    solution, left = gmres(identity_less, source, rtol=1e-10, atol=0.0, restart=60, maxiter=200)
    if left:
        raise RequirementError(
            f"the steady state was not found to 1e-10 in {left} sweeps; expected a radius well below 1, not {radius}"
        )
    period = _period(steps, solution.reshape(size, size), True)
    return np.asarray(np.mean([covariance[:d, :d] for covariance in period], axis=0))


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
