"""Cohorts: every number is drawn as often as it is said to be, and shares are capped without losing their order."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chi2

from tacit.algorithms._parts.sampling import (
    capped,
    progressive_totals,
    systematic_cohort,
    systematic_draw,
    uniform_cohort,
)

DRAWS, FALSE_ALARM = 100_000, 1e-6
COUNT, SIZE = 12, 4
WEIGHTS = {
    "unequal": np.arange(1, COUNT + 1, dtype=np.float32),
    # With cohorts of four, numbers 0 and 7 are drawn in any case.
    "heavy": np.array([30, 1, 2, 3, 9, 4, 1, 20, 2, 6, 0.5, 5], np.float32),
}


@jax.jit
def _uniform(keys, taken):
    return jax.vmap(lambda key: uniform_cohort(key, COUNT, SIZE, taken))(keys)


@jax.jit
def _systematic(keys, weight, taken):
    share = capped(weight, taken)
    sample = jax.vmap(lambda key: systematic_cohort(key, share, SIZE, taken))(keys)
    return share, sample, jax.vmap(jax.random.uniform)(keys)


@functools.cache
def drawn(kind: str, taken: int = SIZE) -> tuple[np.ndarray, np.ndarray]:
    """Return (draws, SIZE) numbers and the inclusion probabilities that they should have."""
    keys = jax.random.split(jax.random.key(1), DRAWS)
    if kind == "uniform":
        return np.asarray(_uniform(keys, taken)), np.full(COUNT, taken / COUNT)
    share, sample, d = (jax.tree.map(np.asarray, part) for part in _systematic(keys, WEIGHTS[kind], taken))
    np.testing.assert_allclose(sample.share, np.where(sample.chosen >= 0, share[sample.chosen], 1), rtol=1e-5)
    total = np.cumsum(share, dtype=np.float64) * taken
    by_hand = np.searchsorted(total, d[:, None] + np.arange(taken), side="right")  # (2.55)
    assert np.mean(sample.chosen[:, :taken] != np.minimum(by_hand, COUNT - 1)) < 1e-5  # but for roundings
    return sample.chosen, taken * share.astype(np.float64)


CASES = [("uniform", 4), ("uniform", 3), ("unequal", 4), ("unequal", 2), ("heavy", 4), ("heavy", 3)]


@pytest.mark.parametrize(("kind", "taken"), CASES)
def test_inclusion_probabilities(kind, taken):
    """Chi-square with the covariance of the draws themselves, false alarms 1 in 1e6 for each case."""
    chosen, expected = drawn(kind, taken)
    taken_in = np.zeros((DRAWS, COUNT + 1))
    np.put_along_axis(taken_in, chosen, 1, axis=1)  # -1 falls on the last place
    counted = taken_in[:, :COUNT]
    sure = expected > 1 - 1e-6
    assert counted[:, sure].all()
    free = counted[:, ~sure]
    off = free.mean(axis=0) - expected[~sure]
    # Sizes are fixed, and of systematic cohorts there are few: some sums of counts never vary, and must be right.
    variance, direction = np.linalg.eigh(np.cov(free.T) / DRAWS)
    along = off @ direction
    varies = variance > 1e-9 * variance.max()
    np.testing.assert_allclose(along[~varies], 0, atol=1e-6)
    assert np.sum(along[varies] ** 2 / variance[varies]) < chi2.ppf(1 - FALSE_ALARM, varies.sum())


@pytest.mark.parametrize(("kind", "taken"), CASES)
def test_nobody_is_drawn_twice_and_so_many_are_drawn(kind, taken):
    chosen, _ = drawn(kind, taken)
    ordered = np.sort(chosen, axis=1)
    assert np.all((chosen >= 0).sum(axis=1) == taken)
    assert np.all((ordered[:, 1:] != ordered[:, :-1]) | (ordered[:, 1:] == -1))
    assert chosen.max() < COUNT


def test_every_pair_is_as_likely_in_a_uniform_cohort():
    """Chi-square over all sets of four of twelve, 495 of them; false alarms 1 in 1e6."""
    chosen, _ = drawn("uniform")
    _, counts = np.unique(np.sort(chosen, axis=1), axis=0, return_counts=True)
    expected = DRAWS / 495
    assert len(counts) == 495
    assert np.sum((counts - expected) ** 2) / expected < chi2.ppf(1 - FALSE_ALARM, 494)


def test_the_example_of_the_text():
    """Rizk (2023), after (2.55): with d = 0.57 the second and the fourth of six are taken (the text prints "first")."""
    total = np.array([0.15, 0.96, 1.22, 1.64, 1.84, 2])
    np.testing.assert_allclose(progressive_totals(np.array([15, 81, 26, 42, 20, 16], np.float32) / 200, 2), total, 1e-6)
    assert np.searchsorted(total, [0.57, 1.57], side="right").tolist() == [1, 3]


def test_probabilities_are_those_of_the_totals_whatever_rounding_does():
    """In single precision the totals of 100,000 clients are coarse: a share is off by a percent, its estimate not."""
    rng = np.random.default_rng(0)
    share = jnp.asarray(rng.dirichlet(np.ones(100_000)), jnp.float32)
    total = np.asarray(progressive_totals(share, 50), np.float64)
    sample = systematic_draw(jax.random.key(3), jnp.asarray(total, jnp.float32), 50)
    width = np.diff(total, prepend=0)[np.asarray(sample.chosen)]
    np.testing.assert_allclose(sample.share, width / 50, rtol=1e-6)
    assert np.all(width > 0)


@settings(derandomize=True, deadline=None, max_examples=60)
@given(
    st.lists(st.floats(2.0**-10, 2.0**10, width=32), min_size=8, max_size=8),
    st.sampled_from([1, 2, 5, 8]),
)
def test_caps(weights, size):
    weight = np.asarray(weights, np.float32)
    share = np.asarray(_capped(weight, size), np.float64)
    assert abs(share.sum() - 1) < 1e-5
    assert np.all(share <= (1 + 1e-6) / size)
    assert np.all(np.diff(share[np.argsort(weight, kind="stable")]) >= -1e-7)
    below = share < (1 - 1e-4) / size
    ratio = share[below] / weight[below]
    assert below.sum() == 0 or np.ptp(ratio) <= 1e-4 * ratio.max()
    if below.any():  # who is at the cap would be above it with what the others get for their weight
        assert np.all(weight[~below] * ratio.mean() >= (1 - 1e-3) / size)


_capped = jax.jit(capped)


def test_where_few_have_a_weight_the_others_fill_up():
    share = np.asarray(_capped(np.array([5, 0, 3, 0, 0], np.float32), 3))
    np.testing.assert_allclose(share, [1 / 3, 1 / 9, 1 / 3, 1 / 9, 1 / 9], rtol=1e-6)
