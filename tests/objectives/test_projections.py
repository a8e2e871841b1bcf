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

from tacit.core.errors import ConfigError
from tacit.objectives import PROJECTIONS, Ball, Box, Simplex

quick = settings(max_examples=30, deadline=None, derandomize=True)
quicker = settings(quick, max_examples=10)
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


@pytest.mark.parametrize("name", [n for n in SETS if n != "orthant"])
@quicker
@given(seed=st.integers(0, 2**32 - 1), dim=st.sampled_from([1, 7]))
def test_the_lowest_point_is_in_the_set_and_none_is_lower(name: str, seed: int, dim: int) -> None:
    kind, rng = SETS[name], np.random.default_rng(seed)
    direction = rng.normal(size=dim).astype(np.float32)
    found = kind.lowest({"a": jnp.asarray(direction[:1]), "b": jnp.asarray(direction[1:])})
    assert kind.fault(found) is None
    lowest = np.concatenate([found["a"], found["b"]]).astype(np.float64)
    for _ in range(10):
        point = feasible_point(kind, dim, rng)
        assert direction @ point >= direction @ lowest - 1e-5 * np.linalg.norm(direction) * np.linalg.norm(lowest)


def test_the_lowest_point_of_a_box_is_finite_where_it_is_bounded_that_way() -> None:
    direction = jnp.array([2.0, 0.0])
    np.testing.assert_array_equal(Box(0.0, math.inf).lowest(direction), [0.0, 0.0])
    np.testing.assert_array_equal(Box(0.5, math.inf).lowest(direction), [0.5, 0.5])
    np.testing.assert_array_equal(Box(-math.inf, -1.0).lowest(-direction), [-1.0, -1.0])


def test_the_lowest_point_of_a_ball_survives_directions_of_any_size() -> None:
    for size in (1e-30, 1e30):
        np.testing.assert_allclose(Ball(2.0).lowest(jnp.array([3 * size, -4 * size])), [-1.2, 1.6], rtol=1e-6)
    np.testing.assert_array_equal(Ball(2.0).lowest(jnp.zeros(2)), np.zeros(2))


@pytest.mark.parametrize("name", SETS)
@quicker
@given(seed=st.integers(0, 2**32 - 1), dim=st.sampled_from([7, 5000]), spread=st.sampled_from([1e-3, 1.0, 1e3]))
def test_what_a_projection_returns_counts_as_inside(name: str, seed: int, dim: int, spread: float) -> None:
    """Also in single precision and many coordinates, so that a run may go on from where one has ended."""
    kind, rng = SETS[name], np.random.default_rng(seed)
    assert kind.fault(kind(jnp.asarray(spread * rng.normal(size=dim), jnp.float32))) is None


@pytest.mark.parametrize(
    ("kind", "params", "words"),
    [
        (Ball(1.0), [0.8, -0.7], "their l2 norm is 1.06301, expected at most 1"),
        (Ball(1.0), [math.nan, 0.0], "their l2 norm is nan"),
        (Box(-1.0, 2.0), [0.0, 2.1], "coordinate 1 is 2.1, expected -1 to 2"),
        (Box(-1.0, 2.0), [math.nan, 0.0], "coordinate 0 is nan"),
        (Box(0.0, math.inf), [1e30, -1e-3], "coordinate 1 is -0.001, expected 0 to inf"),
        (Simplex(), [0.5, -1e-6], "coordinate 1 is -1e-06, expected no coordinate below 0"),
        (Simplex(), [0.5, 0.4], "they sum to 0.9, expected 1"),
        (Simplex(), [math.nan, 0.4], "coordinate 0 is nan"),
        (Simplex(), [math.inf, 0.4], "they sum to inf, expected 1"),
    ],
)
def test_what_keeps_a_point_outside_is_said(kind: Any, params: list[float], words: str) -> None:
    assert words in (kind.fault(np.array(params, np.float32)) or "")


def test_registered_names_make_them() -> None:
    assert PROJECTIONS["ball"](radius=2) == Ball(2.0)
    assert set(PROJECTIONS) == {"ball", "box", "simplex"}


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Ball(0), "radius = 0: expected a finite number above 0"),
        (lambda: Ball(math.inf), "radius = inf.*leave the projection out"),
        (lambda: Box(1, 1), "low = 1.0 to high = 1.0: expected low < high"),
        (lambda: Box(math.nan, 1), "low = nan"),
        (lambda: Simplex(-1), "total = -1: expected"),
    ],
)
def test_bad_settings_are_refused_by_name(make: Any, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        make()
