from __future__ import annotations

from typing import Any

import cvxpy
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import sklearn.linear_model

import tacit.metrics.comparator as module
from tacit.core.errors import ConfigError, DataError
from tacit.metrics import Comparator, best_fixed, best_fixed_prefixes, blocks
from tacit.objectives import absolute, from_loss, hinge, l2, logistic, regularised, softmax, squared
from tacit.streams import Batch
from tests.metrics.problems import spec_of


def make_data(rounds: int, agents: int, dim: int, kind: str, seed: int = 0) -> Batch:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(rounds, agents, dim)).astype(np.float32)
    z = x @ rng.normal(size=dim) + rng.normal(size=(rounds, agents))
    return Batch(x, (np.sign(z) if kind == "classes" else z).astype(np.float32))


def cut(data: Batch, length: int) -> list[Batch]:
    rounds = data.x.shape[0]
    return [jax.tree.map(lambda leaf, s=start: leaf[s : s + length], data) for start in range(0, rounds, length)]


def solver_optimum(loss: str, data: Batch, l1: float, l2: float) -> float:
    """Minimum of the average loss by an interior-point solver."""
    x, y = (np.asarray(part, np.float64) for part in (data.x.reshape(-1, data.x.shape[-1]), data.y.ravel()))
    w = cvxpy.Variable(x.shape[1])
    prediction = x @ w
    fit = {
        "logistic": lambda: cvxpy.sum(cvxpy.logistic(-cvxpy.multiply(y, prediction))),
        "hinge": lambda: cvxpy.sum(cvxpy.pos(1 - cvxpy.multiply(y, prediction))),
        "absolute": lambda: cvxpy.norm1(prediction - y),
        "squared": lambda: cvxpy.sum_squares(prediction - y) / 2,
    }[loss]() / len(y)
    problem = cvxpy.Problem(cvxpy.Minimize(fit + l1 * cvxpy.norm1(w) + l2 / 2 * cvxpy.sum_squares(w)))
    problem.solve(solver="CLARABEL")
    return float(problem.value)


OTHER_LOSSES = pytest.mark.covered_by("losses of its kind: smooth or not, with l1 or l2")


@pytest.mark.parametrize(
    ("objective", "l1", "l2", "tolerance"),
    [
        (logistic(l2=1e-2), 0, 1e-2, 1e-8),
        pytest.param(hinge(l2=1e-2), 0, 1e-2, 1e-6, marks=OTHER_LOSSES),
        (hinge(l1=1e-2), 1e-2, 0, 1e-6),
        pytest.param(absolute(), 0, 0, 1e-6, marks=OTHER_LOSSES),
        (absolute(l1=1e-2, l2=1.0), 1e-2, 1.0, 1e-6),
        pytest.param(squared(l1=0.1), 0.1, 0, 1e-6, marks=OTHER_LOSSES),
    ],
    ids=["logistic l2", "hinge l2", "hinge l1", "absolute", "absolute elastic net", "lasso"],
)
def test_comparator_is_the_optimum_of_a_solver(objective: Any, l1: float, l2: float, tolerance: float) -> None:
    kind = "classes" if objective.name in ("logistic", "hinge") else "numbers"
    data = make_data(30, 10, 6, kind)
    best = best_fixed(objective, lambda: cut(data, 11), spec_of(data))
    average = best.total_loss / data.y.size
    optimum = solver_optimum(objective.name, data, l1, l2)
    # The solver's own optimum is good to about 1e-8.
    assert optimum - 2e-8 <= average <= optimum + tolerance
    if best.gap is not None:
        assert average - best.gap <= optimum + 2e-8
        assert best.gap <= 1e-4
    assert best.rounds == 30
    assert best.iterations > 0


@pytest.mark.parametrize(
    "objective", [logistic(l2=1e-2), pytest.param(hinge(l2=1e-2), marks=OTHER_LOSSES), hinge(l1=1e-2)]
)
def test_certified_gap_holds_even_if_the_solver_stops_early(objective: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    data = make_data(30, 10, 6, "classes")
    data = data._replace(x=data.x * np.geomspace(0.1, 10, 6, dtype=np.float32))
    penalty = objective.loss.regulariser
    optimum = solver_optimum(objective.name, data, penalty.l1, penalty.l2)
    monkeypatch.setattr(module, "ITERATIONS", 1)
    monkeypatch.setattr(module, "FRESH_STARTS", 1)
    best = best_fixed(objective, lambda: [data], spec_of(data))
    assert 1e-5 < best.total_loss / data.y.size - optimum <= best.gap
    assert not best.converged


def test_certified_gap_is_exact_where_strong_convexity_is_all_there_is() -> None:
    data = make_data(30, 10, 6, "classes")._replace(weight=np.zeros((30, 10), np.float32))
    start = np.arange(6.0)
    stopped = best_fixed(logistic(l2=1e-2), lambda: [data], spec_of(data), tolerance=1e3, start=start)
    np.testing.assert_array_equal(stopped.params, start)
    assert stopped.total_loss == pytest.approx(300 * 5e-3 * start @ start)
    assert stopped.gap == pytest.approx(5e-3 * start @ start)  # the optimum is 0


def test_certified_gap_counts_what_smoothing_hides() -> None:
    data = make_data(30, 10, 6, "classes")
    true = hinge(l2=1e-2)
    smooth = true._replace(loss=true.smoothed(1.0), smoothed=None)
    start = best_fixed(smooth, lambda: [data], spec_of(data)).params
    # The start is the optimum for mu = 1, the last mu at this tolerance: smoothing alone sets it wrong.
    stopped = best_fixed(true, lambda: [data], spec_of(data), tolerance=2.0, start=start)
    above = stopped.total_loss / 300 - solver_optimum("hinge", data, 0, 1e-2)
    assert stopped.gradient_norm < 1e-5
    assert 1e-3 < above <= stopped.gap <= 1


def test_squared_comparator_is_the_least_squares_solution() -> None:
    data = make_data(50, 4, 5, "numbers")
    best = best_fixed(squared(), lambda: [data], spec_of(data))
    exact = np.linalg.lstsq(data.x.reshape(-1, 5).astype(float), data.y.ravel().astype(float))[0]
    np.testing.assert_allclose(best.params, exact, atol=1e-6)
    assert best.params.dtype == np.float64
    assert best.converged
    assert best.gap is None
    assert best.gradient_norm < 1e-6


def test_softmax_comparator_agrees_with_scikit_learn() -> None:
    rng = np.random.default_rng(1)
    x = rng.normal(size=(40, 5, 4)).astype(np.float32)
    y = np.argmax(x @ rng.normal(size=(4, 3)) + rng.gumbel(size=(40, 5, 3)), axis=-1).astype(np.int32)
    data = Batch(x, y)
    best = best_fixed(softmax(3, l2=0.05), lambda: [data], spec_of(data))
    assert best.converged
    assert best.gap <= 1e-9
    model = sklearn.linear_model.LogisticRegression(C=1 / (0.05 * 200), fit_intercept=False, tol=1e-10)
    model.fit(x.reshape(-1, 4).astype(float), y.ravel())
    np.testing.assert_allclose(best.params, model.coef_, atol=1e-4)


def test_absent_samples_and_batches_count_as_in_the_loss() -> None:
    rng = np.random.default_rng(2)
    data = make_data(20, 3, 4, "classes")
    weight = (rng.uniform(size=(20, 3)) < 0.6).astype(np.float32)
    objective = logistic(l2=0.1)
    best = best_fixed(objective, lambda: [data._replace(weight=weight)], spec_of(data._replace(weight=weight)))
    # An absent sample leaves its regulariser: the present ones alone need l2 * losses / samples.
    kept = weight.ravel() > 0
    alone = Batch(data.x.reshape(-1, 1, 4)[kept], data.y.reshape(-1, 1)[kept])
    same = best_fixed(logistic(l2=0.1 * 60 / kept.sum()), lambda: [alone], spec_of(alone))
    np.testing.assert_allclose(best.params, same.params, atol=1e-4)
    assert best.total_loss == pytest.approx(same.total_loss, abs=1e-6)


def test_no_other_model_is_better() -> None:
    data = make_data(30, 10, 6, "classes")
    for objective in (logistic(l2=1e-2), hinge(l2=1e-2)):
        best = best_fixed(objective, lambda: [data], spec_of(data))
        rng = np.random.default_rng(3)
        scales = 10.0 ** rng.uniform(-4, 0, size=(200, 1))
        others = best.params + scales * rng.normal(size=(200, 6))
        margins = data.y.ravel() * (others @ data.x.reshape(-1, 6).T.astype(float))
        fit = np.logaddexp(0, -margins) if objective.name == "logistic" else np.maximum(0, 1 - margins)
        losses = fit.mean(axis=1) + 5e-3 * np.sum(others**2, axis=1)
        assert np.all(losses >= best.total_loss / data.y.size - (best.gap or 0))
        assert best.gap <= 2e-6


def test_prefixes_are_the_comparators_of_the_prefixes() -> None:
    data = make_data(30, 10, 6, "classes")
    objective = logistic(l2=1e-2)
    rounds = [1, 13, 30]
    found = best_fixed_prefixes(objective, lambda: cut(data, 10), spec_of(data), rounds)
    for last, best in zip(rounds, found, strict=True):
        alone = best_fixed(objective, lambda last=last: cut(data, last)[:1], spec_of(data))
        assert best.rounds == last
        assert best.converged
        assert best.total_loss == pytest.approx(alone.total_loss, abs=1e-8 * last * 10)
        np.testing.assert_allclose(best.params, alone.params, atol=1e-3)


def test_data_too_large_to_hold_give_the_same_result(monkeypatch: pytest.MonkeyPatch) -> None:
    data = make_data(30, 10, 6, "classes")
    objective = logistic(l2=1e-2)
    reads = 0

    def chunks() -> list[Batch]:
        nonlocal reads
        reads += 1
        return cut(data, 10)

    held = best_fixed_prefixes(objective, chunks, spec_of(data), [12, 30])
    assert reads == 1
    monkeypatch.setattr(blocks, "HOLD_BYTES", 100)
    streamed = best_fixed_prefixes(objective, chunks, spec_of(data), [12, 30])
    assert reads > 2
    for a, b in zip(held, streamed, strict=True):
        assert a.total_loss == pytest.approx(b.total_loss, rel=1e-9)
    monkeypatch.undo()
    monkeypatch.setattr(blocks, "BLOCK_BYTES", 4 * 10 * 7 * 4)  # blocks of 4 rounds, the last one padded
    blocked = best_fixed_prefixes(objective, chunks, spec_of(data), [12, 30])
    for a, b in zip(held, blocked, strict=True):
        assert a.total_loss == pytest.approx(b.total_loss, rel=1e-9)


def test_a_users_loss_over_a_pytree_and_a_start() -> None:
    def loss(params: Any, batch: Batch) -> Any:
        return (jnp.sum(batch.x * params["w"]) + params["b"] - batch.y) ** 2

    data = make_data(30, 3, 4, "numbers")
    data = data._replace(y=data.y + 3)
    custom = from_loss(loss, {"w": jnp.zeros(4), "b": jnp.zeros(())})
    best = best_fixed(custom, lambda: [data], spec_of(data))
    design = np.concatenate([data.x.reshape(-1, 4), np.ones((90, 1))], axis=1).astype(float)
    exact = np.linalg.lstsq(design, data.y.ravel().astype(float))[0]
    np.testing.assert_allclose(best.params["w"], exact[:4], atol=1e-5)
    assert best.params["b"] == pytest.approx(exact[4], abs=1e-5)
    again = best_fixed(custom, lambda: [data], spec_of(data), start=best.params)
    assert again.iterations <= 1
    # A user's loss need not be convex, so that a regulariser certifies nothing.
    assert best_fixed(regularised(custom, l2(0.1)), lambda: [data], spec_of(data)).gap is None


def test_default_precision_is_left_alone() -> None:
    data = make_data(30, 10, 6, "classes")
    best_fixed(logistic(l2=1e-2), lambda: [data], spec_of(data))
    assert jnp.zeros(2).dtype == jnp.float32
    assert not jax.config.jax_enable_x64


def test_forty_thousand_samples_need_few_iterations() -> None:
    data = make_data(2000, 20, 18, "classes")
    best: Comparator = best_fixed(logistic(l2=1e-4), lambda: cut(data, 500), spec_of(data))
    assert best.converged
    assert best.gap <= 1e-9
    assert best.iterations <= 40
    # And the total is right, at a size where the CPU compiler needs watching.
    margins = data.y.ravel() * (data.x.reshape(-1, 18).astype(float) @ best.params)
    total = np.logaddexp(0, -margins).sum() + 40_000 * 5e-5 * best.params @ best.params
    assert best.total_loss == pytest.approx(total, rel=1e-12)


def test_bad_arguments_are_refused_by_name() -> None:
    data = make_data(5, 2, 3, "classes")
    objective = logistic()
    with pytest.raises(ConfigError, match=r"tolerance = 0: expected"):
        best_fixed(objective, lambda: [data], spec_of(data), tolerance=0)
    with pytest.raises(ConfigError, match="prefix of 6 rounds: expected 1 to 5"):
        best_fixed_prefixes(objective, lambda: [data], spec_of(data), [6])
    with pytest.raises(DataError, match="no rounds in the data"):
        best_fixed(objective, lambda: [], spec_of(data))
    with pytest.raises(DataError, match="expected leading axes"):
        best_fixed(objective, lambda: [Batch(np.ones(3), np.ones(()))], spec_of(data))
