"""Local problems solved to the end, against conditions of optimality and against other solvers."""

from __future__ import annotations

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from tacit import objectives
from tacit.algorithms._parts.contraction import SLACK
from tacit.algorithms._parts.proximal import Solution, proximal_step
from tacit.core.contract import Clip, Extent, Links, View, unprotected
from tacit.core.errors import ConfigError
from tacit.privacy import gaussian, laplace
from tacit.streams import Batch

PLACES, DIM, L2 = 7, 4, 0.02
OBJECTIVES = {"squared": objectives.squared(l2=L2), "logistic": objectives.logistic(l2=L2)}
PATIENT = settings(derandomize=True, deadline=None, max_examples=25)


def step(loss, clip=None, newton_steps=8, perturbs="model", noise=True):
    if clip is None:
        mechanism = unprotected
    elif not noise:
        mechanism = unprotected._replace(clip=Clip(clip))
    else:
        mechanism = gaussian(1.0, clip=clip, perturbs=perturbs)
    return proximal_step(OBJECTIVES[loss], mechanism, lambda view: jnp.asarray(1.5), "a method", newton_steps)


def view_of(size):
    links = Links(jnp.zeros(1, jnp.int32), jnp.ones(1, bool), jnp.ones(1))
    return View(jnp.array(0), jnp.array(1), jnp.array(True), jnp.asarray(size), links, links)


@cache
def compiled(loss, clip, newton_steps=8, noise=True):
    local = step(loss, clip, newton_steps, noise=noise)

    def solution(v, mu, x, y, weight):
        return local.solve(mu * v, mu, local.prepare(Batch(x, y, weight)), view_of(jnp.sum(weight > 0)))

    return jax.jit(solution)


def solved(problem, loss, clip=None, newton_steps=8, noise=True):
    with jax.enable_x64(True):
        found = compiled(loss, clip, newton_steps, noise)(*problem)
        return np.asarray(found.w), float(found.residual)


def slopes(loss, z, y):
    return z - y if loss == "squared" else -y / (1 + np.exp(y * z))


def gradient(w, problem, loss, clip=None, norm=2):
    """Of the local problem at w; with a clip every record's gradient is scaled down to it."""
    v, mu, x, y, weight = problem
    there = weight > 0
    records = slopes(loss, x @ w, y)[:, None] * x
    if clip is not None:
        size = np.linalg.norm(records, ord=norm, axis=1, keepdims=True)
        records = records * np.minimum(1, clip / np.where(size > 0, size, 1))
    return records[there].mean(axis=0) + L2 * w + mu * (w - v)


numbers = st.floats(-3, 3, allow_subnormal=False)


@st.composite
def problems(draw, loss):
    """From 1 to 7 records in up to 4 dimensions that matter; what stands in places of weight 0 must not."""
    x = draw(arrays(float, (PLACES, DIM), elements=numbers))
    x[:, draw(st.integers(1, DIM)) :] = 0
    labels = numbers if loss == "squared" else st.sampled_from([-1.0, 1.0])
    y = draw(arrays(float, PLACES, elements=labels))
    weight = np.array(draw(st.permutations([1.0] * (n := draw(st.integers(1, PLACES))) + [0.0] * (PLACES - n))))
    v = draw(arrays(float, DIM, elements=numbers))
    return v, draw(st.sampled_from([0.05, 1.0, 30.0])), x, y, weight


CASES = [("squared", None), ("squared", 0.3), ("logistic", None), ("logistic", 0.3)]


@pytest.mark.parametrize(("loss", "clip"), CASES)
def test_the_slope_is_zero_where_it_ends(loss, clip):
    @PATIENT
    @given(problems(loss))
    def check(problem):
        w, residual = solved(problem, loss, clip)
        m = problem[1] + L2
        off = np.linalg.norm(gradient(w, problem, loss, clip)) / m
        scale = 1 + np.abs(w).max()
        assert off <= residual + 1e-8 * scale  # strongly convex: at most so far from the minimiser
        allowed = 1e-6 * scale if clip is None else SLACK * 2 * clip / (problem[4].sum() * m)
        assert residual <= allowed

    check()


def test_places_without_a_record_do_not_count():
    rng = np.random.default_rng(3)
    x, y, v = rng.standard_normal((PLACES, DIM)), rng.choice([-1.0, 1.0], PLACES), rng.standard_normal(DIM)
    weight = np.array([1, 0, 1, 1, 0, 0, 1.0])
    padded = np.where(weight[:, None] > 0, x, np.nan)  # as no stream gives it, but nothing may come of it
    for loss, clip in CASES:
        first, again = (solved((v, 1.0, given, y, weight), loss, clip)[0] for given in (x, padded))
        assert np.isfinite(again).all()
        np.testing.assert_array_equal(first, again)


def test_squares_are_ridge_regression_and_records_may_weigh_differently():
    rng = np.random.default_rng(4)
    x, y, v = rng.standard_normal((PLACES, DIM)), rng.standard_normal(PLACES), rng.standard_normal(DIM)
    weight = np.array([1.0, 0.5, 2, 0, 1, 1, 3])
    share = weight / weight.sum()
    best = np.linalg.solve((x.T * share) @ x + (0.7 + L2) * np.eye(DIM), (x.T * share) @ y + 0.7 * v)
    np.testing.assert_allclose(solved((v, 0.7, x, y, weight), "squared")[0], best, rtol=1e-10)


def test_another_solver_finds_the_same_minimum_of_the_clipped_losses():
    """The clipped gradient of squares is that of Huber's function, which is flat beyond a limit per record."""
    from scipy.optimize import minimize

    rng = np.random.default_rng(6)
    x, y, v = rng.standard_normal((PLACES, DIM)) * 2, rng.standard_normal(PLACES) * 3, rng.standard_normal(DIM)
    clip, mu = 0.3, 0.05
    limit = clip / np.linalg.norm(x, axis=1)

    def value(w):
        off = np.abs(x @ w - y)
        huber = np.where(off <= limit, off**2 / 2, limit * (off - limit / 2))
        return huber.mean() + L2 / 2 * w @ w + mu / 2 * (w - v) @ (w - v)

    best = minimize(value, v, method="BFGS", options={"gtol": 1e-9}).x
    found, _ = solved((v, mu, x, y, np.ones(PLACES)), "squared", clip)
    np.testing.assert_allclose(found, best, atol=1e-5)
    assert np.any(np.abs(x @ found - y) > limit)  # a clip was at work, and not for all
    assert np.any(np.abs(x @ found - y) < limit)


@pytest.mark.parametrize(
    "loss", [pytest.param("squared", marks=pytest.mark.covered_by("the logistic loss")), "logistic"]
)
def test_after_too_few_steps_the_residual_still_bounds_the_distance(loss):
    """Without noise, clipped: then steps are as many as asked for."""
    rng = np.random.default_rng(8)
    loose = 0
    for _ in range(60):
        x = rng.standard_normal((PLACES, DIM)) * (1 if loss == "squared" else 3)
        y = rng.choice([-1.0, 1.0], PLACES) * (5 if loss == "squared" else 1)
        problem = (rng.standard_normal(DIM) * 3, 0.05, x, y, np.ones(PLACES))
        exact, left = solved(problem, loss, 0.3, newton_steps=40, noise=False)
        assert left < 1e-9
        rough, residual = solved(problem, loss, 0.3, newton_steps=1, noise=False)
        distance = np.linalg.norm(rough - exact)
        assert distance <= residual + 1e-9
        loose += distance > 1e-3
    assert loose > 10  # so that there was a distance to bound


def test_clipped_squares_of_large_features_are_solved_too():
    """Where the curvature of the data outweighs mu, full steps overshoot from clip to clip."""
    rng = np.random.default_rng(8)
    for _ in range(60):
        x, v = 3 * rng.standard_normal((PLACES, DIM)), 3 * rng.standard_normal(DIM)
        problem = (v, 0.05, x, 5 * rng.choice([-1.0, 1.0], PLACES), np.ones(PLACES))
        booked = 2 * 0.3 / (PLACES * (0.05 + L2))
        assert solved(problem, "squared", 0.3)[1] <= SLACK * booked


def test_one_record_without_a_batch_axis_will_do():
    x, v = np.array([1.0, -2.0, 0.5, 0.0]), np.array([0.3, 0.1, -0.2, 1.0])
    local = step("logistic")
    with jax.enable_x64(True):
        w = jax.jit(
            lambda: local.solve(2.0 * v, jnp.asarray(2.0), local.prepare(Batch(x, jnp.ones(()))), view_of(1)).w
        )()
    off = gradient(np.asarray(w), (v, 2.0, x[None], np.ones(1), np.ones(1)), "logistic")
    np.testing.assert_allclose(off, 0, atol=1e-9)


# -- sensitivity -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("loss", ["squared", "logistic"])
def test_replacing_a_record_moves_the_minimiser_by_no_more_than_booked(loss):
    clip = 0.3

    @PATIENT
    @given(problems(loss), problems(loss))
    def check(problem, other):
        v, mu, x, y, weight = problem
        k = int(np.flatnonzero(weight)[0])
        swapped_x, swapped_y = x.copy(), y.copy()
        swapped_x[k], swapped_y[k] = other[2][0], other[3][0]
        here, there = (solved(one, loss, clip)[0] for one in (problem, (v, mu, swapped_x, swapped_y, weight)))
        booked = 2 * clip / (weight.sum() * (mu + L2)) * (1 + SLACK)
        assert np.linalg.norm(here - there) <= booked

    check()


def test_the_bound_is_met_by_two_records_that_pull_opposite_ways():
    v, x, one = np.zeros(DIM), np.zeros((PLACES, DIM)), np.eye(PLACES)[0]
    x[0, 0] = 1.0
    up, down = (solved((v, 1.0, x, label * 50.0 * one, one), "squared", 0.3)[0] for label in (1, -1))
    assert np.linalg.norm(up - down) == pytest.approx(2 * 0.3 / (1.0 + L2), rel=1e-9)


@pytest.mark.parametrize(
    ("perturbs", "expected"),
    [("model", 2 * 0.3 / 5 / (1.5 + L2)), ("update", 2 * 0.3 / 5 / (1.5 + L2)), ("gradient", 2 * 0.3 / 5)],
)
def test_what_is_declared_and_released(perturbs, expected):
    local = step("squared", 0.3, perturbs=perturbs)
    assert booked(local, 5) == pytest.approx(expected * (1 + SLACK), rel=1e-9)
    v, g, mu = jnp.arange(4.0), jnp.array([0.1, -0.2, 0.0, 0.05]), jnp.asarray(1.5)
    start, m = 1.5 / (1.5 + L2) * v, 1.5 + L2
    solution = Solution(g, start - g / m, jnp.zeros(()))
    released = local.value(mu, solution)
    of = {"model": solution.w, "update": g / m, "gradient": g}[perturbs]
    np.testing.assert_allclose(released, of, rtol=1e-6)
    np.testing.assert_allclose(local.moved(mu * v, mu, released), solution.w, rtol=1e-6)


def booked(local, size, x64=True):
    with jax.enable_x64(x64):
        return float(local.mechanism.sensitivity(view_of(size), Extent(DIM, PLACES)))


def test_where_the_number_of_records_is_unknown_the_batch_counts():
    assert booked(step("squared", 0.3), 0) == pytest.approx(2 * 0.3 / PLACES / (1.5 + L2) * (1 + SLACK), rel=1e-9)


def test_single_precision_costs_more_noise_the_more_records_there_are():
    local = step("squared", 0.3)
    more = [booked(local, size, x64=False) / booked(local, size) - 1 for size in (1, PLACES)]
    assert 0 < more[0] < more[1] < 1e-2


# -- refusals ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("objective", "words"),
    [
        (objectives.softmax(3), "linear model"),
        (objectives.from_loss(lambda w, batch: jnp.sum(w**2), initial=lambda batch: jnp.zeros(2)), "linear model"),
        (objectives.squared(l1=0.1), r"l1 = 0\.1"),
        (objectives.hinge(), "not smooth"),
        (objectives.absolute(), "not smooth"),
    ],
)
def test_losses_that_it_cannot_solve_are_refused(objective, words):
    with pytest.raises(ConfigError, match=words):
        proximal_step(objective, unprotected, lambda view: jnp.ones(()), "a method")


def test_no_clip_but_l2_bounds_a_minimiser():
    """Gradients that differ by 1 in the l1 norm lead to minimisers that differ by more than 1 / m in it."""
    direction = np.array([2.0, 1, 1, 1, 1]) / np.sqrt(8)
    curvature = 1e6 * (np.eye(5) - np.outer(direction, direction)) + np.eye(5)
    moved = np.linalg.solve(curvature, np.eye(5)[0])
    assert np.abs(moved).sum() > 1.4
    assert np.linalg.norm(moved) <= 1
    for norm in ("l1", "linf"):
        with pytest.raises(ConfigError, match=f"{norm} norm.*clip in l2"):
            proximal_step(
                OBJECTIVES["squared"], laplace(1.0, clip=1.0, norm=norm), lambda view: jnp.ones(()), "a method"
            )


def test_no_steps_are_refused():
    for steps in (0, True, 2.0):
        with pytest.raises(ConfigError, match="newton_steps"):
            proximal_step(OBJECTIVES["squared"], unprotected, lambda view: jnp.ones(()), "a method", steps)
