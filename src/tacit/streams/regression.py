"""Linear regression with data of different kinds at the agents, as in the regression experiments of Rizk (2023)."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tacit.core import limits
from tacit.core.checks import nonnegative, positive, whole_number
from tacit.core.errors import ConfigError, DataError
from tacit.streams.arrays import whole
from tacit.streams.stream import Stream

Range = tuple[float, float]
# What a random stream is for: a sweep over one setting leaves all other draws as they are.
TRUTH, COVARIANCE, FEATURES, LEVEL, NOISE, OFFSET = range(6)


class LinearRegression(NamedTuple):
    """Samples d_k(n) = <u_k(n), w_k> + v_k(n) of all agents. Make it with `linear_regression`."""

    x: NDArray[np.float32]
    """(agents, samples, dim) u."""
    y: NDArray[np.float32]
    """(agents, samples) d."""
    w_star: NDArray[np.float64]
    """(dim,) the generating parameter, without the agents' offsets."""

    def __repr__(self) -> str:
        agents, samples, dim = self.x.shape
        return f"LinearRegression({agents} agents, {samples} samples each, {dim} dimensions)"

    def stream(self, sizes: Any = None, name: str = "linear_regression") -> Stream:
        """Stream in which every round brings an agent its whole data set (`tacit.streams.whole`).

        Args:
          sizes: (agents,) number of samples that each agent keeps, its first ones; None: all.
          name: Short name for legends and files.
        """
        counts = self._counts(sizes)
        agents, samples, dim = self.x.shape
        own = [agent * samples + np.arange(count) for agent, count in enumerate(counts.tolist())]
        words = f"linear regression in {dim} dimensions, {counts.sum():,} samples of {agents} agents"
        return whole(self.x.reshape(-1, dim), self.y.reshape(-1), own, task="regression", name=name, description=words)

    def optima(self, ridge: float, sizes: Any = None) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Optima w^o (dim,) of all agents together and w_k^o (agents, dim) of each, of risk + ridge ||w||^2.

        Agents count alike, whatever their sizes. `objectives.squared(l2=ridge)`, half of that risk, has the same
        optima; Rizk's step mu is a step of 2 mu there. The largest ||w_k^o - w^o|| is the text's xi (Rizk 2023, eq.
        (2.71) and (2.74)).

        Args:
          ridge: Coefficient of ||w||^2, above 0.
          sizes: (agents,) number of samples that each agent keeps; None: all.
        """
        positive("ridge", ridge, "it makes every optimum unique")
        counts = self._counts(sizes)
        _, samples, dim = self.x.shape
        share = (np.arange(samples) < counts[:, None]) / counts[:, None]
        x = self.x.astype(np.float64)
        curvature = np.einsum("kn,kni,knj->kij", share, x, x) + ridge * np.eye(dim)
        slope = np.einsum("kn,kni,kn->ki", share, x, self.y)
        local = np.linalg.solve(curvature, slope[..., None])[..., 0]
        return np.linalg.solve(curvature.mean(axis=0), slope.mean(axis=0)), local

    def _counts(self, sizes: Any) -> NDArray[np.int64]:
        agents, samples, _ = self.x.shape
        counts = np.asarray(samples if sizes is None else sizes)
        if counts.shape not in ((), (agents,)) or counts.dtype.kind not in "iu":
            raise DataError(f"sizes of type {counts.dtype} and shape {counts.shape}; expected {agents} whole numbers")
        if counts.min() < 1 or counts.max() > samples:
            raise DataError(
                f"sizes from {counts.min()} to {counts.max()}; expected from 1 to {samples}, as there are {samples} "
                "samples per agent: make more of them"
            )
        return np.broadcast_to(counts.astype(np.int64), (agents,))


def linear_regression(
    agents: int,
    samples: int,
    dim: int,
    seed: int = 0,
    *,
    feature_variance: Range = (0.5, 1.5),
    common_features: bool = False,
    noise_variance: Range = (0.01, 0.1),
    heterogeneity: float = 0.0,
) -> LinearRegression:
    """Linear regression d_k(n) = <u_k(n), w* + heterogeneity o_k> + v_k(n), w* and the offsets o_k standard normal.

    u_k(n) is normal with covariance R_k, whose directions are uniform; v_k(n) is normal. The text does not give its
    ranges. Two ways lead to local optima that are further apart: larger noise on few samples, as Rizk (2023), sec.
    2.6.3, has it, or `heterogeneity`, which remains with many samples.

    Args:
      agents: Number of agents, at least 1.
      samples: Samples per agent, at least 1.
      dim: Dimension of u, at least 1.
      seed: Seed of all draws, 0 or more.
      feature_variance: Range on which the eigenvalues of R_k are uniform.
      common_features: Whether all agents have one R_k; otherwise each has its own.
      noise_variance: Range on which the agents' variances of v_k are uniform.
      heterogeneity: Length of the agents' offsets, 0 or more.

    Example:
      >>> import tacit
      >>> data = tacit.streams.linear_regression(agents=5, samples=20, dim=2)
      >>> data.stream()
      Stream(linear_regression, 5 agents, 2 features, endless)

    References:
      Rizk (2023), sec. 2.6.
    """
    for setting, count in (("agents", agents), ("samples", samples), ("dim", dim)):
        whole_number(setting, count)
    whole_number("seed", seed, least=0)
    for setting, (low, high) in (("feature_variance", feature_variance), ("noise_variance", noise_variance)):
        if not 0 <= low <= high < math.inf:
            raise ConfigError(f"{setting}={(low, high)!r}: expected a range of variances, 0 <= lowest <= highest")
    nonnegative("heterogeneity", heterogeneity)

    wanted = 24 * (agents * samples * dim + (1 if common_features else agents) * dim**2)
    limits.refuse_beyond(wanted, f"{agents:,} agents x {samples:,} samples x dim {dim:,}")

    def rng(purpose: int) -> np.random.Generator:
        return np.random.default_rng([seed, purpose])

    w_star = rng(TRUTH).standard_normal(dim)
    covariance = rng(COVARIANCE)
    kinds = 1 if common_features else agents
    # Directions are those of a normal matrix by QR. Signs do not matter: what they scale is symmetric.
    directions = np.linalg.qr(covariance.standard_normal((kinds, dim, dim)))[0]
    root = directions * np.sqrt(covariance.uniform(*feature_variance, (kinds, 1, dim)))
    x = rng(FEATURES).standard_normal((agents, samples, dim)) @ root.swapaxes(1, 2)
    x = x.astype(np.float32).astype(np.float64)  # y must belong to the features that are given out
    deviation = np.sqrt(rng(LEVEL).uniform(*noise_variance, (agents, 1)))
    w = w_star + heterogeneity * rng(OFFSET).standard_normal((agents, dim))
    y = np.einsum("kni,ki->kn", x, w) + deviation * rng(NOISE).standard_normal((agents, samples))
    return LinearRegression(x.astype(np.float32), y.astype(np.float32), w_star)
