"""What is drawn has the law that it says, by itself and together."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy import stats

from tacit.core.contract import Distribution
from tacit.privacy.noise.sampling import release_on_grid
from tests.privacy.draws import ALPHA, CONTINUOUS, DRAWS, LAWS, draws, seeded


def misfit(sample: np.ndarray, law: Any) -> float:
    """p-value of Pearson's test over 64 bins of equal probability and the tails beyond 1e-5."""
    inner = np.linspace(0, 1, 65)[1:-1]
    edges = law.ppf(np.concatenate([[1e-5], inner, [1 - 1e-5]]))
    observed = np.bincount(np.searchsorted(edges, sample), minlength=len(edges) + 1)
    expected = np.diff(np.concatenate([[0], law.cdf(edges), [1]])) * len(sample)
    return float(stats.chisquare(observed, expected).pvalue)


@pytest.mark.parametrize("distribution", CONTINUOUS)
@pytest.mark.parametrize("value", [0.0, -1234.56789])
def test_goodness_of_fit(distribution: Distribution, value: float) -> None:
    """Passes, and an error of 1 % in the scale would not."""
    scale = 0.37
    sample = (draws(distribution, DRAWS, scale, value, seed=11) - value) / scale
    law = LAWS[distribution]
    assert misfit(sample, law) > ALPHA
    assert misfit(sample * 1.01, law) < ALPHA
    assert misfit(sample / 1.01, law) < ALPHA
    assert stats.kstest(sample, law.cdf).pvalue > ALPHA
    # Moments: each mean is normal, with the standard deviation that its own power has.
    for power in (1, 2, 3, 4):
        powers = sample**power
        wanted = law.expect(lambda v, k=power: v**k)
        deviation = abs(powers.mean() - wanted) / (powers.std() / math.sqrt(len(sample)))
        assert deviation < stats.norm.isf(ALPHA / 2)


@pytest.mark.parametrize("distribution", CONTINUOUS)
def test_far_tails(distribution: Distribution) -> None:
    """The number of draws beyond a quantile is binomial, on either side."""
    sample = draws(distribution, DRAWS, seed=12)
    for chance in (1e-3, 1e-4, 1e-5):
        for beyond in (sample > LAWS[distribution].isf(chance), sample < LAWS[distribution].ppf(chance)):
            assert stats.binomtest(int(beyond.sum()), DRAWS, chance).pvalue > ALPHA


@pytest.mark.parametrize("distribution", CONTINUOUS)
def test_draws_of_one_call_do_not_depend_on_each_other(distribution: Distribution) -> None:
    """Neighbours, and the two draws that share a radius and an angle; also in size and in sign."""
    sample = draws(distribution, 2**15, seed=13)
    for lag in (1, 2**14):
        for f in (np.sign, np.abs, np.square):
            first, second = f(sample[:-lag]), f(sample[lag:])
            r = np.corrcoef(first, second)[0, 1]
            assert abs(r) * math.sqrt(len(first)) < stats.norm.isf(ALPHA / 2)
    assert len(np.unique(np.abs(sample))) > 0.95 * len(sample)


@pytest.mark.parametrize("distribution", CONTINUOUS)
def test_same_law_as_opendp(distribution: Distribution) -> None:
    import opendp.prelude as dp

    dp.enable_features("contrib")
    space = dp.vector_domain(dp.atom_domain(T=float, nan=False))
    make, metric = (
        (dp.m.make_laplace, dp.l1_distance(T=float))
        if distribution == "laplace"
        else (dp.m.make_gaussian, dp.l2_distance(T=float))
    )
    theirs = np.asarray(make(space, metric, scale=0.5)([0.25] * 20_000))
    ours = draws(distribution, 20_000, 0.5, 0.25, seed=14)
    assert stats.ks_2samp(theirs, ours).pvalue > ALPHA
    assert stats.ks_2samp(theirs * 1.3, ours).pvalue < ALPHA


def test_bounded_laplace() -> None:
    bound, scale = 1.5, 0.5
    sample = release_on_grid(np.zeros(DRAWS), "bounded_laplace", scale, seeded(), bound=bound, simulation=True)
    assert np.abs(sample).max() <= bound
    replaced = stats.binomtest(int(np.sum(sample == bound / 2)), DRAWS, math.exp(-bound / scale))
    assert replaced.pvalue > ALPHA
    inside = sample[sample != bound / 2] / scale
    assert (
        stats.kstest(inside, lambda v: (stats.laplace.cdf(v) - stats.laplace.cdf(-3)) / (1 - math.exp(-3))).pvalue
        > ALPHA
    )
