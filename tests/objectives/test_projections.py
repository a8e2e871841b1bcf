from __future__ import annotations

import math
from typing import Any

import cvxpy
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit.errors import ConfigError
from tacit.objectives import PROJECTIONS, Ball, Box, Simplex

quick = settings(max_examples=30, deadline=None, derandomize=True)
SETS = {
    "ball": Ball(1.5),
    "small ball": Ball(1e-3),
    "box": Box(-0.5, 2.0),
    "orthant": Box(0.0, math.inf),
    "simplex": Simplex(),
    "large simplex": Simplex(40.0),
}


def feasible_point(kind: Any, dim: int, rng: np.random.Generator) -> np.ndarray:
    if isinstance(kind, Ball):
        point = rng.normal(size=dim)
        return point / np.linalg.norm(point) * kind.radius * rng.uniform() ** (1 / dim)
    if isinstance(kind, Box):
        return rng.uniform(kind.low, min(kind.high, 50.0), size=dim)
    return kind.total * rng.dirichlet(np.full(dim, 0.3))


def violation(kind: Any, x: np.ndarray) -> float:
    if isinstance(kind, Ball):
        return max(np.linalg.norm(x) - kind.radius, 0) / kind.radius
    if isinstance(kind, Box):
        return max(kind.low - x.min(), x.max() - kind.high, 0)
    return max(abs(x.sum() - kind.total) / kind.total, -x.min())


@pytest.mark.parametrize("name", SETS)
@quick
@given(
    seed=st.integers(0, 2**32 - 1),
    dim=st.sampled_from([1, 2, 5, 60]),
    spread=st.sampled_from([1e-3, 1.0, 1e3, 1e6]),
)
def test_projection_is_feasible_idempotent_and_optimal(name: str, seed: int, dim: int, spread: float) -> None:
    kind, rng = SETS[name], np.random.default_rng(seed)
    point = (spread * (rng.normal(size=dim) + rng.normal())).astype(np.float32)
    project = jax.jit(kind)
    projected = np.asarray(project(point), np.float64)
    assert violation(kind, projected) <= 1e-5
    again = np.asarray(project(projected.astype(np.float32)))
    np.testing.assert_allclose(again, projected, rtol=1e-5, atol=1e-5 * np.abs(projected).max() + 1e-12)
    # x is the projection of p if and only if <p - x, z - x> <= 0 for every feasible z.
    for _ in range(5):
        z = feasible_point(kind, dim, rng)
        away, inward = point - projected, z - projected
        size = np.linalg.norm(away) * (np.linalg.norm(z) + np.linalg.norm(projected))
        assert away @ inward <= 2e-5 * size


@pytest.mark.parametrize("name", SETS)
def test_points_inside_stay_where_they_are(name: str) -> None:
    kind, rng = SETS[name], np.random.default_rng(2)
    for _ in range(20):
        inside = feasible_point(kind, 6, rng) * (0.999 if isinstance(kind, Ball) else 1)
        np.testing.assert_allclose(
            kind(jnp.asarray(inside, jnp.float32)), inside, rtol=1e-6, atol=1e-6 * np.abs(inside).max()
        )


@pytest.mark.parametrize("name", ["ball", "box", "simplex", "large simplex"])
def test_projection_is_that_of_a_solver(name: str) -> None:
    kind, rng = SETS[name], np.random.default_rng(3)
    for _ in range(4):
        point = 3 * rng.normal(size=8)
        x = cvxpy.Variable(8)
        if isinstance(kind, Ball):
            constraints = [cvxpy.norm(x, 2) <= kind.radius]
        elif isinstance(kind, Box):
            constraints = [x >= kind.low, x <= kind.high]
        else:
            constraints = [x >= 0, cvxpy.sum(x) == kind.total]
        cvxpy.Problem(cvxpy.Minimize(cvxpy.sum_squares(x - point)), constraints).solve(solver="CLARABEL")
        tolerance = 3e-5 * (1 + np.abs(x.value).max())
        np.testing.assert_allclose(kind(jnp.asarray(point, jnp.float32)), x.value, atol=tolerance)


@pytest.mark.parametrize("name", SETS)
def test_a_pytree_is_one_vector_and_vmap_equals_a_loop(name: str) -> None:
    kind = SETS[name]
    vector = jnp.asarray(np.random.default_rng(4).normal(size=(3, 7)), jnp.float32)
    stacked = jax.jit(jax.vmap(kind))(vector)
    for row, projected in zip(vector, stacked, strict=True):
        np.testing.assert_allclose(projected, kind(row), rtol=1e-6, atol=1e-7)
        tree = kind({"a": row[:4].reshape(2, 2), "b": row[4:]})
        assert tree["a"].shape == (2, 2)
        np.testing.assert_allclose(np.concatenate([tree["a"].ravel(), tree["b"]]), projected, rtol=1e-6, atol=1e-7)


def test_ball_survives_values_whose_squares_overflow_or_vanish() -> None:
    far = Ball(2.0)(jnp.array([3e30, -4e30], jnp.float32))
    np.testing.assert_allclose(far, [1.2, -1.6], rtol=1e-6)
    np.testing.assert_array_equal(Ball(2.0)(jnp.zeros(3)), np.zeros(3))
    np.testing.assert_array_equal(Ball(2.0)(jnp.full(3, 1e-30)), np.full(3, 1e-30, np.float32))


def test_registered_names_make_them() -> None:
    assert PROJECTIONS["ball"](radius=2) == Ball(2.0)
    assert set(PROJECTIONS) == {"ball", "box", "simplex"}


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Ball(0), "radius = 0: expected a finite number > 0"),
        (lambda: Ball(math.inf), "radius = inf.*leave the projection out"),
        (lambda: Box(1, 1), "low = 1.0 to high = 1.0: expected low < high"),
        (lambda: Box(math.nan, 1), "low = nan"),
        (lambda: Simplex(-1), "total = -1: expected"),
    ],
)
def test_bad_settings_are_refused_by_name(make: Any, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        make()
