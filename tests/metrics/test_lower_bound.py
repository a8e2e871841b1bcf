from __future__ import annotations

import jax
import numpy as np
import pytest

from tacit.metrics.blocks import Vectors
from tacit.metrics.lower_bound import LowerBound
from tacit.objectives import Ball, Box, ConvexSet

X, SLOPE = np.array([0.3, -0.2]), np.array([2.0, -1.0])


def least(within: ConvexSet | None, l2: float, slope: np.ndarray = SLOPE) -> float:
    with jax.enable_x64(True):
        return float(LowerBound(Vectors.of(X), within, l2).least(X, slope))


def test_without_bounds_strong_convexity_is_all_there_is() -> None:
    assert least(None, 0.5) == pytest.approx(-(SLOPE @ SLOPE) / (2 * 0.5))
    assert least(None, 0.0) == -np.inf


def test_in_a_ball_the_least_is_against_the_slope() -> None:
    assert least(Ball(3.0), 0.0) == pytest.approx(-3 * np.linalg.norm(SLOPE) - SLOPE @ X)


def test_in_a_box_each_coordinate_has_its_own_least() -> None:
    # (l2/2) (v - x)^2 + s (v - x) is least at x - s / l2, which is -3.7 and 1.8; then at the nearest end.
    ends = np.array([-1.0, 1.0]) - X
    assert least(Box(-1.0, 1.0), 0.5) == pytest.approx(SLOPE @ ends + 0.25 * ends @ ends)
    assert least(Box(-1.0, 1.0), 0.0) == pytest.approx(SLOPE @ ends)
    assert least(Box(-1.0, np.inf), 0.0) == -np.inf
    assert least(Box(-1.0, np.inf), 0.0, np.array([2.0, 0.0])) == pytest.approx(2 * (-1.0 - 0.3))
