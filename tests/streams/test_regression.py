from __future__ import annotations

import numpy as np
import pytest

from tacit.core.errors import ConfigError, DataError
from tacit.streams import linear_regression


def test_samples_follow_the_model() -> None:
    """Variances and parameters from 40,000 samples per agent.

    Each bound is 6 standard errors or more, on about 60 figures: a false alarm is rarer than 1 in 1e6.
    """
    made = linear_regression(4, 40_000, 3, 1, feature_variance=(0.5, 2.0), noise_variance=(0.1, 0.9))
    assert made.x.dtype == made.y.dtype == np.float32
    spectra, levels, products = [], [], []
    for x, y in zip(made.x.astype(np.float64), made.y.astype(np.float64), strict=True):
        assert np.abs(x.mean(axis=0)).max() < 6 * np.sqrt(2 / 40_000)
        spectra.append(np.linalg.eigvalsh(x.T @ x / len(x)))
        products.extend((x.T @ x / len(x))[np.triu_indices(3, 1)])
        found = np.linalg.lstsq(x, y, rcond=None)[0]
        np.testing.assert_allclose(found, made.w_star, atol=6 * np.sqrt(0.9 / 0.5 / 40_000))
        levels.append((y - x @ made.w_star).var())
    slack = 1 + 6 * np.sqrt(2 / 40_000)
    assert np.min(spectra) > 0.5 / slack
    assert np.max(spectra) < 2.0 * slack
    assert min(levels) > 0.1 / slack
    assert max(levels) < 0.9 * slack
    assert np.abs(products).max() > 0.1  # directions are no axes: columns are correlated
    for drawn in (*np.transpose(spectra), levels):  # agents differ, by much more than chance
        assert np.ptp(drawn) > 0.1


def test_features_may_be_of_one_kind() -> None:
    def covariances(common: bool) -> np.ndarray:
        x = linear_regression(3, 40_000, 2, common_features=common).x
        return np.einsum("kni,knj->kij", x, x) / x.shape[1]

    # Entries have a standard error of at most 1.5 sqrt(2 / 40,000) = 0.011: 6 of them of a difference are 0.1.
    assert np.ptp(covariances(True), axis=0).max() < 0.1
    assert np.ptp(covariances(False), axis=0).max() > 0.2


def test_more_heterogeneity_or_noise_moves_local_optima_apart() -> None:
    def xi(**settings) -> float:
        common, local = linear_regression(30, 100, 2, 3, **settings).optima(ridge=0.001)
        return float(np.linalg.norm(local - common, axis=1).max())

    noises = [xi(noise_variance=(0.1 * s, s)) for s in (0.01, 1.0, 100.0)]
    np.testing.assert_allclose(np.divide(noises[1:], noises[:-1]), 10, rtol=0.2)  # sqrt(100): same draws, scaled
    drifts = [xi(heterogeneity=h, noise_variance=(0, 0)) for h in (0.0, 1.0, 2.0)]
    assert drifts[0] < 0.01
    np.testing.assert_allclose(drifts[2] / drifts[1], 2, rtol=0.02)
    assert 1 < drifts[1] < 6  # the largest of 30 lengths of normal vectors in the plane, less their mean


def test_optima_are_those_of_the_ridge_risks() -> None:
    made = linear_regression(3, 20, 2, heterogeneity=1.0)
    sizes = [20, 5, 9]
    common, local = made.optima(0.1, sizes)

    def slope(agent: int, w: np.ndarray) -> np.ndarray:
        x, y = made.x[agent, : sizes[agent]].astype(np.float64), made.y[agent, : sizes[agent]]
        return 2 * x.T @ (x @ w - y) / sizes[agent] + 2 * 0.1 * w

    for agent in range(3):
        np.testing.assert_allclose(slope(agent, local[agent]), 0, atol=1e-10)
    np.testing.assert_allclose(sum(slope(agent, common) for agent in range(3)), 0, atol=1e-10)


def test_the_stream_brings_the_first_samples_of_each_agent() -> None:
    made = linear_regression(3, 6, 2)
    full = made.stream()
    np.testing.assert_array_equal(full.chunk(0, 1).x[0], made.x)
    np.testing.assert_array_equal(full.chunk(0, 1).y[0], made.y)
    assert full.chunk(0, 1).weight is None
    part = made.stream([4, 1, 2], name="few")
    np.testing.assert_array_equal(part.data_size, [4, 1, 2])
    assert part.name == "few"
    assert "7 samples of 3 agents" in part.description
    for agent, size in enumerate([4, 1, 2]):
        np.testing.assert_array_equal(part.chunk(5, 6).x[0, agent, :size], made.x[agent, :size])
        np.testing.assert_array_equal(part.chunk(5, 6).y[0, agent, :size], made.y[agent, :size])


def test_a_seed_decides_all_and_a_setting_only_its_own_draws() -> None:
    one, again, other = (linear_regression(3, 5, 2, seed) for seed in (1, 1, 2))
    for a, b, c in zip(one, again, other, strict=True):
        np.testing.assert_array_equal(a, b)
        assert not np.isclose(a, c).any()
    noisy = linear_regression(3, 5, 2, 1, noise_variance=(4, 5), heterogeneity=1.0)
    np.testing.assert_array_equal(noisy.x, one.x)
    np.testing.assert_array_equal(noisy.w_star, one.w_star)
    assert not np.isclose(noisy.y, one.y).any()


def test_draws_for_different_purposes_are_independent() -> None:
    """In one dimension, where the same numbers twice would show; 6 / sqrt(1000) = 0.19."""
    made = linear_regression(1, 1000, 1, feature_variance=(1, 1), noise_variance=(1, 1))
    residual = made.y[0] - made.x[0, :, 0] * made.w_star
    assert abs(np.corrcoef(residual, made.x[0, :, 0])[0, 1]) < 0.19
    moved = linear_regression(1, 1000, 1, noise_variance=(0, 0), heterogeneity=1.0)
    offset = np.median(moved.y[0] / moved.x[0, :, 0]) - moved.w_star
    assert not np.isclose(offset, moved.w_star)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"samples": 0}, "samples = 0"),
        ({"seed": -1}, "seed = -1"),
        ({"noise_variance": (2.0, 1.0)}, r"noise_variance=\(2\.0, 1\.0\): expected a range"),
        ({"feature_variance": (-1.0, 1.0)}, r"feature_variance=\(-1\.0, 1\.0\)"),
        ({"heterogeneity": np.nan}, "heterogeneity = nan"),
    ],
)
def test_settings_that_cannot_be_used_are_refused(settings, message) -> None:
    with pytest.raises(ConfigError, match=message):
        linear_regression(**{"agents": 2, "samples": 3, "dim": 2, **settings})


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ([1, 9], "from 1 to 9; expected from 1 to 3"),
        ([0, 1], "from 0 to 1"),
        ([1], r"shape \(1,\)"),
        ([0.5, 1], "float"),
    ],
)
def test_sizes_that_cannot_be_had_are_refused(sizes, message) -> None:
    made = linear_regression(2, 3, 2)
    with pytest.raises(DataError, match=message):
        made.stream(sizes)
    with pytest.raises(ConfigError, match="ridge = 0"):
        made.optima(0)
