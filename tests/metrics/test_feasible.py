from __future__ import annotations

import re
from typing import Any

import cvxpy
import jax.numpy as jnp
import numpy as np
import pytest

import tacit.metrics.feasible as module
from tacit.core.contract import Objective
from tacit.core.errors import ConfigError, DataError
from tacit.metrics import FeasibleComparator, best_fixed_within, check_feasible
from tacit.objectives import Ball, Box, ConvexSet, Simplex, from_loss, hinge, logistic, size_limit, spending_limit
from tacit.streams import Batch
from tests.metrics.problems import spec_of

ROUNDS, AGENTS, DIM = 40, 3, 5
LIMIT = 0.52
SOLVER = 3e-8
"""How well the reference solver knows its own optimum."""


def reward(params: Any, batch: Batch) -> Any:
    """x are what things cost, y what they bring."""
    return -jnp.sum(params * batch.y)


def curved(params: Any, batch: Any) -> Any:
    return jnp.sum(jnp.square(params - 0.4 * batch.x)) - 1.3


def kinked(params: Any, batch: Any) -> Any:
    return jnp.maximum(jnp.max(params) - 0.45, -10.0) + 0 * jnp.sum(batch.x)


ALLOCATION = from_loss(reward, jnp.zeros(DIM))
LOGISTIC = logistic(l2=1e-3)
SPENDING = spending_limit(LIMIT)
L1 = size_limit(1.5)


@pytest.fixture(scope="module")
def market() -> Batch:
    rng = np.random.default_rng(0)
    price = rng.uniform(0.3, 1.0, size=(ROUNDS, AGENTS, DIM)) * np.linspace(0.4, 1.2, DIM)
    gain = 2 * price.mean(axis=(0, 1)) + 0.5 * rng.normal(size=(ROUNDS, AGENTS, DIM))
    return Batch(price.astype(np.float32), gain.astype(np.float32))


@pytest.fixture(scope="module")
def classes() -> Batch:
    rng = np.random.default_rng(1)
    x = rng.normal(size=(ROUNDS, AGENTS, DIM))
    y = np.sign(x @ np.linspace(2, -1, DIM) + 0.5 * rng.normal(size=(ROUNDS, AGENTS)))
    return Batch(x.astype(np.float32), y.astype(np.float32))


def windows(rounds: int, length: int) -> list[tuple[int, slice]]:
    return [(i, slice(s, s + length)) for i in range(AGENTS) for s in range(rounds - length + 1)]


def keep(within: ConvexSet | None, w: Any) -> list[Any]:
    match within:
        case Ball(radius):
            return [cvxpy.norm(w) <= radius]
        case Box(low, high):
            return [w >= low, w <= high]
        case Simplex(total):
            return [w >= 0, cvxpy.sum(w) == total]
    return []


def optimum(average: Any, limits: list[Any]) -> float:
    problem = cvxpy.Problem(cvxpy.Minimize(average), limits)
    problem.solve(solver="CLARABEL", tol_gap_abs=1e-9, tol_gap_rel=1e-9, tol_feas=1e-9)
    return float(problem.value)


def market_optimum(market: Batch, rounds: int, length: int | None) -> float:
    w = cvxpy.Variable(DIM)
    gain, price = (np.asarray(part[:rounds], np.float64) for part in (market.y, market.x))
    limits = keep(Simplex(), w)
    if length:
        limits += [price[of, i].sum(axis=0) @ w <= length * LIMIT for i, of in windows(rounds, length)]
    return optimum(-gain.mean(axis=(0, 1)) @ w, limits)


def logistic_optimum(data: Batch, within: ConvexSet | None, limits: Any = lambda w: [], l2: float = 1e-3) -> float:
    w = cvxpy.Variable(DIM)
    margins = cvxpy.multiply(data.y.ravel().astype(float), data.x.reshape(-1, DIM).astype(float) @ w)
    average = cvxpy.sum(cvxpy.logistic(-margins)) / data.y.size + l2 / 2 * cvxpy.sum_squares(w)
    return optimum(average, keep(within, w) + limits(w))


def check(found: FeasibleComparator, best: float, within: ConvexSet | None, tolerance: float = 1e-7) -> None:
    average = found.total_loss / (found.rounds * AGENTS)
    assert found.converged
    assert found.gap is not None
    assert best - SOLVER - tolerance <= average <= best + found.gap + SOLVER
    assert found.gap <= tolerance
    assert found.violation <= tolerance
    assert within is None or within.fault(found.params) is None


@pytest.mark.parametrize("length", [None, 1, 5, ROUNDS])
def test_a_linear_loss_on_the_simplex_under_a_spending_limit(market: Batch, length: int | None) -> None:
    spec = spec_of(market)
    rounds = [1, 17, ROUNDS]
    found = best_fixed_within(
        ALLOCATION, lambda: [market], spec, rounds, within=Simplex(), constraints=[SPENDING], window=length
    )
    for each, last in zip(found, rounds, strict=True):
        reference = market_optimum(market, last, length if length and length <= last else None)
        assert each.rounds == last
        check(each, reference, Simplex())
    if length:  # it binds: without the limit more could be had
        assert found[-1].windows > 0
        assert market_optimum(market, ROUNDS, None) < market_optimum(market, ROUNDS, length) - 1e-3


@pytest.mark.parametrize("within", [Ball(1.2), Ball(50.0), Box(-0.4, 0.6), Box(-0.3, np.inf), Simplex(2.0), None])
def test_a_logistic_loss_in_a_set(classes: Batch, within: ConvexSet | None) -> None:
    (found,) = best_fixed_within(LOGISTIC, lambda: [classes], spec_of(classes), [ROUNDS], within=within)
    check(found, logistic_optimum(classes, within), within)
    assert found.windows == 0


def curved_sums(data: Batch, w: Any, length: int) -> list[Any]:
    x = 0.4 * data.x.astype(np.float64)
    return [
        length * cvxpy.sum_squares(w) - 2 * x[of, i].sum(axis=0) @ w + np.sum(x[of, i] ** 2) - 1.3 * length
        for i, of in windows(ROUNDS, length)
    ]


@pytest.mark.parametrize("length", [5, ROUNDS])
def test_a_logistic_loss_on_a_ball_with_an_l1_limit_and_a_curved_one(classes: Batch, length: int) -> None:
    def limits(w: Any) -> list[Any]:
        return [cvxpy.norm1(w) <= 1.5, *(each <= 0 for each in curved_sums(classes, w, length))]

    constraints = {"l1": L1.value, "curved": curved}
    where: Any = {"within": Ball(1.2), "constraints": constraints, "window": length}
    (found,) = best_fixed_within(LOGISTIC, lambda: [classes], spec_of(classes), [ROUNDS], **where)
    check(found, logistic_optimum(classes, Ball(1.2), limits), Ball(1.2))


def test_the_least_infeasible_point_is_that_of_a_solver(classes: Batch) -> None:
    """Single rounds have x that lie too far from each other for any one point."""
    where: Any = {"within": Ball(1.2), "constraints": {"l1": L1.value, "curved": curved}, "window": 1}
    with pytest.raises(DataError, match="constraint 'curved' cannot be kept") as refused:
        check_feasible(LOGISTIC, lambda: [classes], spec_of(classes), **where)
    w = cvxpy.Variable(DIM)
    sums = [*curved_sums(classes, w, 1), cvxpy.norm1(w) - 1.5]
    least = optimum(cvxpy.maximum(*sums), keep(Ball(1.2), w))
    named = re.search(r"agent (\d+), rounds (\d+) to (\d+): their sum is (\S+) at", str(refused.value))
    assert named is not None
    agent, first, last = (int(number) for number in named.groups()[:3])
    assert first == last
    assert float(named[4]) == pytest.approx(least, rel=1e-4)
    # What is named is one of those that are worst there.
    assert curved_sums(classes, w.value, 1)[agent * ROUNDS + first - 1].value == pytest.approx(least, rel=1e-4)


def test_a_limit_that_looks_like_a_plane_at_first_is_found_out(classes: Batch) -> None:
    """max(params) is the same coordinate at both points that are looked at, and another one at the solution."""
    objective = LOGISTIC._replace(initial=lambda batch: jnp.zeros(DIM).at[2].set(5.0))
    where = {"within": Box(-3.0, 6.0), "constraints": {"kinked": kinked}, "window": 2}
    (found,) = best_fixed_within(objective, lambda: [classes], spec_of(classes), [ROUNDS], **where)
    assert check_feasible(objective, lambda: [classes], spec_of(classes), **where) <= 0
    check(found, logistic_optimum(classes, Box(-3.0, 6.0), lambda w: [cvxpy.max(w) <= 0.45]), Box(-3.0, 6.0))


@pytest.mark.parametrize("kinks", [False, True])
def test_the_certificate_holds_even_if_the_solver_stops_early_or_rounds_kinks_off(
    classes: Batch, kinks: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    objective: Objective = hinge(l2=1e-3) if kinks else LOGISTIC
    tolerance = 2.0 if kinks else 1e-7
    if not kinks:
        monkeypatch.setattr(module, "ITERATIONS", 1)
    where: Any = {"within": Ball(1.2), "constraints": [L1], "window": 5, "tolerance": tolerance}
    (found,) = best_fixed_within(objective, lambda: [classes], spec_of(classes), [ROUNDS], **where)
    average = found.total_loss / (ROUNDS * AGENTS)
    w = cvxpy.Variable(DIM)
    margins = cvxpy.multiply(classes.y.ravel().astype(float), classes.x.reshape(-1, DIM).astype(float) @ w)
    fit = cvxpy.pos(1 - margins) if kinks else cvxpy.logistic(-margins)
    best = optimum(
        cvxpy.sum(fit) / classes.y.size + 5e-4 * cvxpy.sum_squares(w), [cvxpy.norm(w) <= 1.2, cvxpy.norm1(w) <= 1.5]
    )
    assert found.gap is not None
    assert 1e-5 < average - best <= found.gap
    assert found.converged == kinks


def test_windows_that_nothing_keeps_are_named(market: Batch) -> None:
    price = market.x.copy()
    price[10:14, 1] = 2.0  # dear everywhere, in four rounds of one agent
    dear = market._replace(x=price)
    where: Any = {"within": Simplex(), "constraints": [SPENDING]}
    message = (
        r"constraint 'spending at most 0.52' cannot be kept: agent 1, rounds 11 to 14: their sum is 5.92 at the least "
        r"infeasible point; expected at most 0; use a longer window, or a looser limit"
    )
    with pytest.raises(DataError, match=message):
        check_feasible(ALLOCATION, lambda: [dear], spec_of(dear), window=4, **where)
    with pytest.raises(DataError, match="agent 1, rounds 11 to 14"):
        best_fixed_within(ALLOCATION, lambda: [dear], spec_of(dear), [ROUNDS], window=4, **where)
    # Before those rounds, and over longer windows, it can be done; one that is kept is kept with room to spare.
    best_fixed_within(ALLOCATION, lambda: [dear], spec_of(dear), [10], window=4, **where)
    assert check_feasible(ALLOCATION, lambda: [dear], spec_of(dear), window=ROUNDS, **where) < 0


def test_windows_that_exclude_each_other_are_reported_as_a_conflict() -> None:
    price = np.zeros((2, 2, 2), np.float32)
    price[0, 0], price[1, 1] = [1, 0], [0, 1]  # agent 0 in round 1 wants the second thing, agent 1 in round 2 the first
    data = Batch(price, price)
    objective = from_loss(reward, jnp.zeros(2))
    where: Any = {"within": Simplex(), "constraints": [spending_limit(0.4)], "window": 1}
    with pytest.raises(DataError, match=r"(agent 0, rounds 1 to 1|agent 1, rounds 2 to 2): .*0.1 at .*1 other"):
        check_feasible(objective, lambda: [data], spec_of(data), **where)
    where["constraints"] = [spending_limit(0.5)]  # now just one point keeps both
    (found,) = best_fixed_within(objective, lambda: [data], spec_of(data), [2], **where)
    np.testing.assert_allclose(found.params, [0.5, 0.5], atol=1e-6)
    assert found.violation <= 1e-7


def test_without_bounds_or_regulariser_there_is_no_certificate(classes: Batch) -> None:
    (found,) = best_fixed_within(
        logistic(), lambda: [classes], spec_of(classes), [ROUNDS], within=None, constraints=[L1], window=3
    )
    assert found.gap is None
    assert found.converged
    best = logistic_optimum(classes, None, lambda w: [cvxpy.norm1(w) <= 1.5], l2=0.0)
    assert found.total_loss / (ROUNDS * AGENTS) == pytest.approx(best, abs=1e-6)


def test_default_precision_is_left_alone(classes: Batch) -> None:
    best_fixed_within(LOGISTIC, lambda: [classes], spec_of(classes), [ROUNDS], within=Ball(1.2))
    assert jnp.zeros(2).dtype == jnp.float32


def test_bad_arguments_are_refused_by_name(classes: Batch) -> None:
    def solve(**changes: Any) -> None:
        given: Any = {"within": Ball(1.0), **changes}
        rounds = given.pop("rounds", [ROUNDS])
        objective = given.pop("objective", LOGISTIC)
        best_fixed_within(objective, lambda: [classes], spec_of(classes), rounds, **given)

    for tolerance in (0, -1.0, np.nan):
        with pytest.raises(ConfigError, match="tolerance ="):
            solve(tolerance=tolerance)
    for window in (0, 1.5, True):
        with pytest.raises(ConfigError, match="window = .*: expected a whole number"):
            solve(window=window, constraints=[L1])
    with pytest.raises(ConfigError, match="window = 41 with data of 40 rounds"):
        solve(window=ROUNDS + 1, constraints=[L1])
    with pytest.raises(ConfigError, match="window = 3 without constraints"):
        solve(window=3)
    with pytest.raises(ConfigError, match="prefix of 41 rounds: expected 1 to 40"):
        solve(rounds=[ROUNDS + 1])
    with pytest.raises(ConfigError, match="Ball, Box, Simplex"):
        solve(within=lambda params: params)
    with pytest.raises(ConfigError, match="objective 'logistic' is not convex"):
        solve(objective=LOGISTIC._replace(loss=lambda w, batch: -jnp.sum(jnp.square(w - batch.x))))
    with pytest.raises(DataError, match="rounds 1 to 40 is nan"):
        solve(objective=LOGISTIC._replace(loss=lambda w, batch: jnp.sum(jnp.sqrt(w - 5))))
    with pytest.raises(DataError, match="'root' of agent 0 is NaN"):
        solve(window=3, constraints={"root": lambda w, batch: jnp.sum(jnp.sqrt(w - 5))})
    with pytest.raises(ConfigError, match="1001 parameters: expected at most 1000"):
        solve(objective=LOGISTIC._replace(initial=lambda batch: jnp.zeros(1001)))
