from __future__ import annotations

import numpy as np
import pytest

from tacit.core.errors import DataError
from tacit_reproduction.analysis.mean_square import (
    asynchronous_network,
    feature_correlations,
    feature_energies,
    fourth_moments,
    mean_square_radius,
    step_bounds,
)


def test_bounds_of_the_theorems_and_of_a_client_alone() -> None:
    bounds = step_bounds(np.stack([np.diag([1.0, 4.0]), np.eye(2)]))
    assert bounds == pytest.approx((0.5, 0.25, 2 / (5 + 8)))
    # A client that shares everything is alone with its step: the third bound is then the true limit if R = I.
    for step, stable in ((0.49, True), (0.51, False)):  # 2 / (2 + 2), half of what Theorem 4.2 allows
        net = asynchronous_network(np.eye(2)[None], 0.1, step=step, share=2)
        assert (mean_square_radius(net) < 1) is stable
    # On a circle the energies are the correlations, and nothing is lost to fourth moments.
    circle = np.array([[[np.cos(t), np.sin(t)] for t in np.linspace(0, 2 * np.pi, 12, endpoint=False)]])
    bounds = step_bounds(feature_correlations(circle), feature_energies(circle))
    assert bounds == pytest.approx((4.0, 2.0, 2.0))
    flat = circle * [1.0, 0.0]  # a direction without any sample does not count
    expected = 2 / (np.mean(flat[..., 0] ** 4) / np.mean(flat[..., 0] ** 2))
    assert step_bounds(feature_correlations(flat), feature_energies(flat)).alone == pytest.approx(expected)


def test_weights_leave_out_what_is_not_a_sample() -> None:
    features, weights = np.ones((1, 3, 2)), [[1.0, 1.0, 0.0]]
    features[0, 2] = 50.0
    for moments in (feature_correlations, feature_energies, fourth_moments):
        np.testing.assert_allclose(moments(features, weights), moments(features[:, :2]))


def test_data_that_cannot_be() -> None:
    with pytest.raises(DataError, match=r"\(clients, samples, d\)"):
        feature_correlations(np.ones((3, 2)))
    with pytest.raises(DataError, match="client 1 has no sample"):
        feature_correlations(np.ones((2, 1, 2)), [[1.0], [0.0]])
    with pytest.raises(DataError, match="weights of shape"):
        feature_correlations(np.ones((2, 1, 2)), [1.0])
    with pytest.raises(DataError, match="correlations of shape"):
        step_bounds(np.eye(2))
    with pytest.raises(DataError, match="not symmetric"):
        step_bounds([[[1.0, 1.0], [0.0, 1.0]]])
    with pytest.raises(DataError, match="all zero"):
        step_bounds(np.zeros((1, 2, 2)))
    with pytest.raises(DataError, match="energies of shape"):
        step_bounds(np.eye(2)[None], np.eye(3)[None])
