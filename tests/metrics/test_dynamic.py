from __future__ import annotations

from typing import Any

import cvxpy
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tacit.metrics.dynamic as module
from tacit.core.errors import ConfigError, DataError
from tacit.metrics import dynamic_comparator
from tacit.objectives import Ball, ConvexSet, Simplex, from_loss, hinge, logistic
from tacit.streams import Batch
from tests.metrics.problems import spec_of

AGENTS, DIM = 4, 5


def squared_distance(params: Any, batch: Batch) -> Any:
    return 0.5 * jnp.sum(jnp.square(params - batch.x))


def inner(params: Any, batch: Batch) -> Any:
    return params["first"] * batch.x[0] + jnp.sum(params["others"] * batch.x[1:])


DISTANCE = from_loss(squared_distance, jnp.zeros(DIM))
LINEAR = from_loss(inner, {"first": jnp.zeros(()), "others": jnp.zeros(DIM - 1)})


def make_data(rounds: int, seed: int = 0) -> Batch:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(rounds, AGENTS, DIM))
    y = np.sign(x @ rng.normal(size=DIM) + rng.normal(size=(rounds, AGENTS)))
    return Batch(x.astype(np.float32), y.astype(np.float32))


@pytest.mark.parametrize("within", [Ball(0.4), Simplex()])
def test_the_best_for_squared_distances_is_the_projected_mean(within: ConvexSet) -> None:
    data = make_data(30)
    found = dynamic_comparator(DISTANCE, lambda: [data], spec_of(data), within=within)
    means = data.x.astype(np.float64).mean(axis=1)
    means = np.array([np.asarray(within(mean.astype(np.float32)), np.float64) for mean in means])
    np.testing.assert_allclose(found.params, means, atol=1e-6)
    losses = 0.5 * np.sum((found.params[:, None] - data.x.astype(np.float64)) ** 2, axis=(1, 2))
    np.testing.assert_allclose(found.loss, losses, rtol=1e-12)
    assert found.converged
    assert found.gap is not None
    assert found.gap.max() <= 1e-7


def test_the_best_for_a_linear_loss_is_a_corner() -> None:
    data = make_data(30)
    found = dynamic_comparator(LINEAR, lambda: [data], spec_of(data), within=Simplex(2.0))
    sums = data.x.astype(np.float64).sum(axis=1)
    np.testing.assert_allclose(found.loss, 2 * sums.min(axis=1), atol=1e-6)
    corners = 2 * np.eye(DIM)[sums.argmin(axis=1)]
    np.testing.assert_allclose(found.params["first"], corners[:, 0], atol=1e-4)
    np.testing.assert_allclose(found.params["others"], corners[:, 1:], atol=1e-4)
    assert jnp.zeros(2).dtype == jnp.float32  # precision is left alone


def solver_optimum(data: Batch, t: int, radius: float, l2: float, kinks: bool) -> float:
    """Minimum over the ball of the loss of one round, averaged over the agents, by an interior-point solver."""
    w = cvxpy.Variable(DIM)
    margins = cvxpy.multiply(data.y[t].astype(float), data.x[t].astype(float) @ w)
    fit = cvxpy.pos(1 - margins) if kinks else cvxpy.logistic(-margins)
    problem = cvxpy.Problem(
        cvxpy.Minimize(cvxpy.sum(fit) / AGENTS + l2 / 2 * cvxpy.sum_squares(w)), [cvxpy.norm(w) <= radius]
    )
    problem.solve(solver="CLARABEL")
    return float(problem.value)


@pytest.mark.parametrize(
    ("objective", "l2", "worst"),
    [(logistic(l2=0.1), 0.1, 1e-7), (logistic(), 0.0, 1e-7), (hinge(l2=0.1), 0.1, 1e-1)],
    ids=["logistic l2", "logistic", "hinge"],
)
def test_each_round_has_the_optimum_of_a_solver(objective: Any, l2: float, worst: float) -> None:
    data = make_data(30)
    kinks = objective.name == "hinge"
    found = dynamic_comparator(
        objective, lambda: [data], spec_of(data), within=Ball(1.5), tolerance=1e-1 if kinks else 1e-7
    )
    assert found.converged
    assert found.gap is not None
    assert found.gap.max() <= worst
    margins = data.y * np.einsum("tid,td->ti", data.x.astype(np.float64), found.params)
    fit = np.maximum(0, 1 - margins) if kinks else np.logaddexp(0, -margins)
    true = fit.sum(axis=1) + AGENTS * l2 / 2 * np.sum(found.params**2, axis=1)
    np.testing.assert_allclose(found.loss, true, rtol=1e-9)  # not that of the smooth stand-in
    for t in (0, 7, 29):
        best = solver_optimum(data, t, 1.5, l2, kinks)
        assert best - 3e-8 <= found.loss[t] / AGENTS <= best + found.gap[t] + 3e-8


def test_the_certificate_holds_even_if_the_solver_stops_early(monkeypatch: pytest.MonkeyPatch) -> None:
    data = make_data(30)
    monkeypatch.setattr(module, "FIRST_STEPS", 2)
    monkeypatch.setattr(module, "MOST_STEPS", 1)
    found = dynamic_comparator(logistic(), lambda: [data], spec_of(data), within=Ball(1.5))
    assert not found.converged
    assert found.gap is not None
    for t in (0, 7, 29):
        above = found.loss[t] / AGENTS - solver_optimum(data, t, 1.5, 0.0, kinks=False)
        assert 1e-4 < above <= found.gap[t] + 3e-8


def test_path_length_is_how_far_the_optima_move() -> None:
    """The targets go round a circle of radius 0.3 in steps of a sixth of it, each as long as the radius."""
    angle = np.arange(30) * np.pi / 3
    centre = 0.3 * np.stack([np.cos(angle), np.sin(angle), 0 * angle, 0 * angle, 0 * angle], axis=-1)
    spread = np.array([1.0, -1.0, 2.0, -2.0])[:, None] * np.ones(DIM)  # agents differ, their mean is the centre
    x = (centre[:, None] + spread).astype(np.float32)
    data = Batch(x, np.zeros(x.shape[:2], np.float32))
    found = dynamic_comparator(DISTANCE, lambda: [data], spec_of(data), within=Ball(0.4))
    np.testing.assert_allclose(found.moves, [0, *[0.3] * 29], atol=1e-6)
    assert found.path_length == pytest.approx(8.7, abs=1e-5)


def newton_optima(data: Batch, l2: float) -> np.ndarray:
    """Each round's minimiser of the mean logistic loss plus (l2/2) ||w||^2, by Newton's method to the last digit."""
    found = []
    for x, y in zip(data.x.astype(np.float64), data.y.astype(np.float64), strict=True):
        w = np.zeros(DIM)
        for _ in range(30):
            share = 1 / (1 + np.exp(y * (x @ w)))
            slope = -(y * share) @ x / AGENTS + l2 * w
            curvature = (x.T * (share * (1 - share))) @ x / AGENTS + l2 * np.eye(DIM)
            w = w - np.linalg.solve(curvature, slope)
        assert np.linalg.norm(slope) < 1e-13
        found.append(w)
    return np.array(found)


def test_the_path_length_is_certified_where_the_loss_is_strongly_convex() -> None:
    data, l2 = make_data(30), 0.02
    optima = newton_optima(data, l2)
    found = dynamic_comparator(logistic(l2=l2), lambda: [data], spec_of(data), within=Ball(100.0))
    assert found.off is not None
    assert found.move_errors is not None
    assert np.all(np.linalg.norm(found.params - optima, axis=1) <= found.off)
    assert found.off.max() <= 1.3e-5  # what is solved for, and what rounding may hide
    moves = np.linalg.norm(np.diff(optima, axis=0, prepend=optima[:1]), axis=1)
    assert np.all(np.abs(found.moves - moves) <= found.move_errors)
    assert abs(found.path_length - moves.sum()) <= 1e-4
    assert found.move_errors.sum() <= 30 * 2 * 1.3e-5


def test_no_path_length_is_certified_where_optima_may_lie_anywhere() -> None:
    data = make_data(3)
    flat = dynamic_comparator(logistic(), lambda: [data], spec_of(data), within=Ball(1.5))
    assert flat.off is flat.move_errors is None
    kinks = dynamic_comparator(hinge(l2=0.1), lambda: [data], spec_of(data), within=Ball(1.5), tolerance=1e-1)
    assert kinks.off is not None
    assert kinks.gap is not None
    np.testing.assert_allclose(kinks.off, np.sqrt(2 * kinks.gap / 0.1), rtol=1e-6)


def test_pieces_and_groups_of_rounds_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    data = make_data(30)
    whole = dynamic_comparator(logistic(l2=0.1), lambda: [data], spec_of(data), within=Ball(1.5))
    for name, value in (("PIECE", 10), ("FEW", 10), ("FIRST_STEPS", 5)):
        monkeypatch.setattr(module, name, value)
    parts = [jax.tree.map(lambda leaf, s=start: leaf[s : s + 20], data) for start in (0, 20)]
    pieces = dynamic_comparator(logistic(l2=0.1), lambda: parts, spec_of(data), within=Ball(1.5))
    assert pieces.converged
    # Strong convexity: two points with gaps of 1e-7 are no farther apart than this.
    np.testing.assert_allclose(pieces.params, whole.params, atol=2 * np.sqrt(2 * 1e-7 / 0.1))
    np.testing.assert_allclose(pieces.loss, whole.loss, atol=1e-7 * AGENTS)


def test_bad_arguments_are_refused_by_name() -> None:
    data = make_data(3)
    with pytest.raises(ConfigError, match="tolerance = -1"):
        dynamic_comparator(DISTANCE, lambda: [data], spec_of(data), within=None, tolerance=-1)
    with pytest.raises(DataError, match="no rounds in the data"):
        dynamic_comparator(DISTANCE, lambda: [], spec_of(data), within=None)
