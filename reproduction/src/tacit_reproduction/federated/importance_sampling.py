"""Two checks of the sampler: inclusion frequencies, and unbiased steps."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacit.algorithms._parts.sampling import capped, systematic_cohort, uniform_cohort
from tacit.graphs import star_roles
from tacit_reproduction.experiment import Claim
from tacit_reproduction.federated.importance_runs import (
    DIM,
    OBJECTIVE,
    RIDGE,
    STEP,
    Floats,
    Problem,
    RuleName,
    Setting,
    algorithm_of,
    data_of,
    given_shares,
    work_of,
)
from tacit_reproduction.finished import finished_run

DRAWS, FALSE_ALARM = 100_000, 1e-6
FEW_CLIENTS = 30


class Fit(NamedTuple):
    """A chi-square statistic."""

    statistic: float
    freedom: int
    p: float

    def __str__(self) -> str:
        return f"chi-square {self.statistic:.1f} with {self.freedom} degrees of freedom, p = {self.p:.3g}"


class Checks(NamedTuple):
    """Checks of the sampler, by rule."""

    inclusion: Mapping[str, Fit]
    unbiased: Mapping[str, Fit]


def deviation(samples: ArrayLike, expected: ArrayLike) -> Fit:
    """Compare means of independent vectors (n, d) with what they should be, whatever their covariance.

    Sums of coordinates that never vary (a cohort has a fixed size) are left out, after a look that they are right.
    """
    from scipy.special import chdtrc

    values = np.asarray(samples, np.float64)
    off = values.mean(axis=0) - np.asarray(expected, np.float64)
    variance, direction = np.linalg.eigh(np.cov(values.T) / len(values))
    along = off @ direction
    varies = variance > 1e-9 * variance.max()
    if np.abs(along[~varies]).max(initial=0) > 1e-5:
        return Fit(np.inf, int(varies.sum()), 0.0)
    statistic = float(np.sum(along[varies] ** 2 / variance[varies]))
    return Fit(statistic, int(varies.sum()), float(chdtrc(varies.sum(), statistic)))


def inclusion(rule: RuleName, weight: Floats, cohort: int, seed: int) -> Fit:
    """Draw 1e5 cohorts and compare how often each client is in one with the probability it should have."""
    keys = jax.random.split(jax.random.key(seed), DRAWS)
    count = len(weight)
    share = capped(jnp.asarray(weight, jnp.float32), cohort)
    if rule == "uniform":
        chosen = jax.jit(jax.vmap(lambda key: uniform_cohort(key, count, cohort)))(keys)
        share = jnp.full(count, 1 / count)
    else:
        chosen = jax.jit(jax.vmap(lambda key: systematic_cohort(key, share, cohort).chosen))(keys)
    present: NDArray[np.float32] = np.zeros((DRAWS, count), np.float32)
    np.put_along_axis(present, np.asarray(chosen), 1, axis=1)
    return deviation(present, cohort * np.asarray(share, np.float64))


def unbiasedness(rule: RuleName, samples: int, rounds: int, seed: int) -> Fit:
    """Compare the first step of a run, taken again and again from w = 0, with the gradient of all the data."""
    setting = Setting(rule, most_steps=1)
    data = data_of(Problem(), FEW_CLIENTS, samples, seed)
    steps, batches = (part.tolist() for part in work_of(setting, FEW_CLIENTS, seed))
    shares = given_shares(data, data.optima(RIDGE)[0], steps, batches)
    method = algorithm_of(setting, samples, steps, batches, [shares])
    outcome = finished_run(method, star_roles(FEW_CLIENTS), data.stream(), rounds=1, repeats=rounds, seed=seed)
    gradient = -np.asarray(outcome.models, np.float64)[:, 0] / (2 * STEP)
    whole = jax.vmap(jax.grad(OBJECTIVE.loss), in_axes=(None, 0))(
        jnp.zeros(DIM), jax.tree.map(lambda leaf: jnp.asarray(leaf[0]), data.stream().chunk(0, 1))
    )
    return deviation(gradient, np.asarray(whole, np.float64).mean(axis=0))


def judge_sampler(checks: Checks) -> list[Claim]:
    """Return the claims on the sampler, with verdicts."""

    def of(found: Mapping[str, Fit]) -> tuple[bool, str]:
        return all(f.p > FALSE_ALARM for f in found.values()), "; ".join(f"{name}: {f}" for name, f in found.items())

    return [
        Claim(
            f"Clients are drawn with the probabilities they should have ({DRAWS:,} cohorts)",
            *of(checks.inclusion),
            "(2.55): the scheme of progressive totals includes a client with probability L p_k",
        ),
        Claim(
            "A round's step is an unbiased estimate of the gradient",
            *of(checks.unbiased),
            "section 2.2: the factors 1 / (K p_k) and 1 / (N_k p_b) keep it unbiased",
        ),
    ]
