"""Data, objectives and exact solutions of Gauthier (2023), sec. 3.4, against the text's own formulas and CVXPY."""

from __future__ import annotations

import cvxpy
import jax
import numpy as np
import pytest

from tacit import graphs
from tacit.core.errors import ConfigError
from tacit.streams import Batch
from tacit_reproduction.nonsmooth import problems
from tacit_reproduction.nonsmooth.network import connected
from tacit_reproduction.nonsmooth.problems import PROBLEMS, clip_for, data, excess, gradient_norms, optimum

SEED = 3


def as_printed(name: str, w: cvxpy.Variable) -> cvxpy.Expression:
    """The text's objective: losses over D_k = 50, the regulariser over K = 50."""
    drawn = data(SEED)
    x, y = drawn.x.astype(float).reshape(-1, 8), drawn.y.astype(float).reshape(-1)
    if name == "lad":
        return cvxpy.norm1(x @ w - y) / 50
    regulariser = cvxpy.sum_squares(w)
    if name == "elastic-net":
        regulariser += 0.001 * np.abs(x.T @ y).max() * cvxpy.norm1(w)
    # The K shares of R / K add up to R.
    return cvxpy.sum_squares(x @ w - y) / 50 + regulariser


@pytest.mark.parametrize("name", PROBLEMS)
def test_the_optimum_is_that_of_cvxpy_for_the_printed_objective(name):
    w = cvxpy.Variable(8)
    problem = cvxpy.Problem(cvxpy.Minimize(as_printed(name, w)))
    problem.solve(solver=cvxpy.CLARABEL, tol_gap_abs=1e-10, tol_gap_rel=1e-10, tol_feas=1e-10)
    best = optimum(PROBLEMS[name], data(SEED))
    assert np.linalg.norm(best - w.value) <= 1e-6 * np.linalg.norm(best)
    w.value = best
    assert problem.objective.value <= problem.value * (1 + 1e-9)


@pytest.mark.parametrize("name", PROBLEMS)
def test_what_is_learnt_is_what_is_solved_for(name):
    """The objective that runs get, on all records at once, against `excess`; and no direction leads below w_c."""
    problem, drawn = PROBLEMS[name], data(SEED)
    best = optimum(problem, drawn)
    models = best + 0.01 * np.random.default_rng(0).normal(size=(20, 8))
    found = excess(problem, drawn, models, best)
    assert np.all(found > 0)
    assert excess(problem, drawn, best[None], best)[0] == 0
    batch = Batch(drawn.x.reshape(-1, 8).astype(float), drawn.y.reshape(-1).astype(float))
    with jax.enable_x64(True):
        value = [float(problem.objective.loss(jax.numpy.asarray(w), batch)) for w in (models[0], best)]
        single = Batch(drawn.x[0, :1].astype(float), drawn.y[0, :1].astype(float))
        data_part = jax.grad(problem.objective.loss.data)(jax.numpy.asarray(models[0]), single)
    assert value[0] - value[1] == pytest.approx(found[0], rel=1e-9)
    assert gradient_norms(problem, drawn, models[0])[0] == pytest.approx(float(np.linalg.norm(data_part)), rel=1e-9)


def test_units_make_the_text_s_penalty_one_number():
    drawn = data(SEED)
    x, y = drawn.x.astype(float).reshape(-1, 8), drawn.y.astype(float).reshape(-1)
    assert np.abs(x.T @ y).max() == pytest.approx(2500, rel=1e-6)
    residual = y - x @ drawn.w_star
    assert abs(np.mean(residual)) < 0.05
    assert np.mean(x**2) == pytest.approx(1, abs=0.05)


def test_the_clip_is_the_quantile_at_the_optimum():
    problem = PROBLEMS["ridge"]
    norms = [gradient_norms(problem, data(seed), optimum(problem, data(seed))) for seed in (7, 8)]
    clip = clip_for(problem, range(7, 9))
    assert np.mean(np.concatenate(norms) <= clip) == pytest.approx(problems.CLIP_QUANTILE, abs=1e-3)


def test_networks_are_connected_and_of_the_mean_degree():
    for seed in range(5):
        graph = connected(50, 3, seed)
        assert len(graph.senders) == 150
        assert graphs.is_symmetric(graph)
        assert graphs.is_strongly_connected(graph)
        assert not np.any(graph.senders == graph.receivers)
    first, again, other = connected(50, 3, 1), connected(50, 3, 1), connected(50, 3, 2)
    assert np.array_equal(first.senders, again.senders)
    assert not np.array_equal(first.senders, other.senders)
    assert len(np.unique(np.bincount(first.senders))) > 2  # degrees differ
    assert len(connected(5, 4, 0).senders) == 20  # complete
    for agents, degree in ((50, 1.5), (5, 5), (1, 0)):
        with pytest.raises(ConfigError, match="links; expected at least"):
            connected(agents, degree, 0)
