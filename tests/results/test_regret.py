from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import minimize_scalar

from tacit.core.contract import Objective
from tacit.core.errors import ConfigError
from tacit.objectives import Ball, Box, from_loss, squared
from tacit.results.regret import dynamic_regret, prefixes, regret_curve
from tacit.streams import Batch, Stream, from_function

AGENTS, ROUNDS = 3, 30


def stream_of(targets: np.ndarray) -> Stream:
    """A stream in which agent i must predict targets[t, i] from the feature 1."""

    def rounds(start: int, stop: int) -> Batch:
        y = targets[start:stop].astype(np.float32)
        return Batch(np.ones((*y.shape, 1), np.float32), y)

    return from_function(rounds, agents=targets.shape[1], rounds=len(targets))


@pytest.fixture
def targets() -> np.ndarray:
    return np.random.default_rng(0).normal(1.0, 2.0, (2, ROUNDS, AGENTS))


def test_regret_is_the_loss_minus_that_of_the_mean_for_least_squares(targets: np.ndarray) -> None:
    loss = np.random.default_rng(1).random((2, ROUNDS))
    curve = regret_curve(squared(), [stream_of(t) for t in targets], loss, None, points=6)
    assert curve.rounds[-1] == ROUNDS
    for repeat in range(2):
        for k, t in enumerate(curve.rounds):
            seen = targets[repeat, :t].astype(np.float32)
            best = 0.5 * np.sum((seen - seen.mean(dtype=np.float64)) ** 2)  # the mean is the best fixed prediction
            expected = AGENTS * loss[repeat, :t].sum() - best
            assert curve.total[repeat, k] == pytest.approx(expected, abs=1e-5)
            assert curve.per_agent_round[repeat, k] == pytest.approx(expected / (AGENTS * t), abs=1e-6)
    assert curve.node_total is None
    assert curve.gap is None  # nothing certifies least squares without a regulariser


def test_one_stream_for_all_repeats_is_solved_for_once(targets: np.ndarray, monkeypatch: pytest.MonkeyPatch) -> None:
    from tacit.results import regret

    solved = []
    original = regret.best_fixed_prefixes
    monkeypatch.setattr(
        regret,
        "best_fixed_prefixes",
        lambda *args, **kwargs: solved.append(args) or original(*args, **kwargs),
    )
    stream, objective = stream_of(targets[0]), squared(l2=0.1)
    loss = np.random.default_rng(1).random((4, ROUNDS))
    first = regret_curve(objective, [stream], loss, None, points=3)
    second = regret_curve(objective, [stream], loss + 1, None, points=3)
    assert len(solved) == 1
    np.testing.assert_allclose(second.per_agent_round - first.per_agent_round, 1, atol=1e-9)
    assert first.total.shape == (4, 3)


def test_a_regularised_loss_comes_with_a_certificate(targets: np.ndarray) -> None:
    l2 = 0.1
    stream = stream_of(targets[0])
    curve = regret_curve(squared(l2=l2), [stream], np.zeros((1, ROUNDS)), None, points=1)
    y = targets[0].astype(np.float32).astype(np.float64)
    found = minimize_scalar(lambda w: 0.5 * np.mean((w - y) ** 2) + 0.5 * l2 * w**2, tol=1e-12)
    assert curve.converged
    assert curve.gap is not None
    assert curve.gap < 1e-8
    assert -curve.per_agent_round[0, -1] == pytest.approx(found.fun, abs=1e-7)


def test_one_nodes_regret_uses_its_own_loss(targets: np.ndarray) -> None:
    loss = np.full((2, ROUNDS), 3.0)
    curve = regret_curve(squared(), [stream_of(t) for t in targets], loss, loss + 0.5, points=4)
    assert curve.node_per_agent_round is not None
    np.testing.assert_allclose(curve.node_per_agent_round - curve.per_agent_round, 0.5, atol=1e-9)


def test_data_in_many_pieces_give_the_same_regret(targets: np.ndarray, monkeypatch: pytest.MonkeyPatch) -> None:
    from tacit.results import regret

    loss = np.ones((1, ROUNDS))
    whole = regret_curve(squared(l2=0.2), [stream_of(targets[0])], loss, None, points=4)
    monkeypatch.setattr(regret, "CHUNK_BYTES", 7 * AGENTS * 8)
    pieces = regret_curve(squared(l2=0.2), [stream_of(targets[0])], loss, None, points=4)
    np.testing.assert_allclose(pieces.total, whole.total, atol=1e-5)


def test_learning_with_a_constant_model_has_the_regret_of_that_model(targets: np.ndarray) -> None:
    """The curve of the best fixed model itself ends at 0 and is above 0 nowhere earlier than allowed."""
    y = targets[0].astype(np.float32).astype(np.float64)
    best = y.mean()
    loss = 0.5 * np.mean((y - best) ** 2, axis=1)[None]
    curve = regret_curve(squared(), [stream_of(targets[0])], loss, None, points=5)
    assert curve.total[0, -1] == pytest.approx(0, abs=1e-5)
    assert np.all(curve.total >= -1e-5)  # on a prefix another model is best


@pytest.mark.parametrize(("rounds", "points"), [(1, 8), (5, 8), (1000, 8), (1000, 1), (99, 3)])
def test_prefixes_rise_and_end_with_the_last_round(rounds: int, points: int) -> None:
    found = prefixes(rounds, points)
    assert found[-1] == rounds
    assert found[0] >= 1
    assert np.all(np.diff(found) > 0)
    assert len(found) <= points


@pytest.mark.parametrize("points", [0, -1, 2.5, True])
def test_a_curve_needs_a_whole_number_of_points(points: object) -> None:
    with pytest.raises(ConfigError, match="points"):
        prefixes(10, points)  # type: ignore[arg-type]


def test_an_objective_of_ones_own_can_be_compared() -> None:
    objective = Objective("mine", lambda w, batch: jnp.mean((w - batch.y) ** 4), lambda batch: jnp.zeros(()))
    y = np.random.default_rng(2).normal(size=(8, 2))
    curve = regret_curve(objective, [stream_of(y)], np.zeros((1, 8)), None, points=1)
    found = minimize_scalar(lambda w: np.mean((w - y.astype(np.float32)) ** 4), tol=1e-10)
    assert -curve.per_agent_round[0, 0] == pytest.approx(found.fun, abs=1e-6)


def squared_distance(params: jnp.ndarray, batch: Batch) -> jnp.ndarray:
    return 0.5 * jnp.sum(jnp.square(params - batch.y))


def surplus(params: jnp.ndarray, batch: Batch) -> jnp.ndarray:
    return jnp.sum(params) - 0.5 * batch.y


DISTANCE = from_loss(squared_distance, jnp.zeros(1))


def test_in_a_set_the_comparator_is_the_best_of_the_set(targets: np.ndarray) -> None:
    loss = np.zeros((2, ROUNDS))
    curve = regret_curve(DISTANCE, [stream_of(t) for t in targets], loss, None, points=3, within=Box(-0.5, 0.5))
    for repeat in range(2):
        for k, t in enumerate(curve.rounds):
            seen = targets[repeat, :t].astype(np.float32).astype(np.float64)
            best = np.clip(seen.mean(), -0.5, 0.5)
            assert -curve.total[repeat, k] == pytest.approx(0.5 * np.sum((seen - best) ** 2), abs=1e-5)
    assert np.abs(targets.mean()) > 0.5  # the set binds
    assert curve.gap is not None
    assert curve.gap <= 1e-7
    assert curve.window is None


def test_under_constraints_the_comparator_keeps_every_window(targets: np.ndarray) -> None:
    """The constraint asks x <= half the mean target of every agent's every 10 rounds in a row: so the least one."""
    stream, loss, constraints = stream_of(targets[0]), np.zeros((1, ROUNDS)), {"surplus": surplus}
    where = {"within": Box(-9, 9), "constraints": constraints}
    curve = regret_curve(DISTANCE, [stream], loss, None, points=3, window=10, **where)
    y = targets[0].astype(np.float32).astype(np.float64)
    for k, t in enumerate(curve.rounds):
        means = [y[s : s + 10, i].mean() for s in range(t - 9) for i in range(AGENTS)]
        best = min([y[:t].mean(), *(0.5 * mean for mean in means)])
        assert -curve.total[0, k] == pytest.approx(0.5 * np.sum((y[:t] - best) ** 2), abs=1e-4)
    assert curve.window == 10
    assert curve.converged
    # Without a window the constraints do not bind, and another window is another comparator.
    free = regret_curve(DISTANCE, [stream], loss, None, points=3, **where)
    tight = regret_curve(DISTANCE, [stream], loss, None, points=3, window=3, **where)
    assert free.total[0, -1] > curve.total[0, -1] + 1e-3
    assert curve.total[0, -1] > tight.total[0, -1] + 1e-3


def test_the_best_of_all_large_models_is_the_sets_best_where_the_set_holds_it() -> None:
    """One record with 1,001 features, of which the first is 1: the best model has length |y| / (1 + l2)."""
    batch = Batch(np.eye(1, 1001, dtype=np.float32)[None], np.full((1, 1), 3, np.float32))
    stream = from_function(lambda start, stop: batch, agents=1, rounds=1)
    curve = regret_curve(squared(l2=0.5), [stream], np.zeros((1, 1)), None, points=1, within=Ball(2.1))
    assert -curve.total[0, 0] == pytest.approx(0.5 * 1**2 + 0.25 * 2**2, abs=1e-6)
    with pytest.raises(ConfigError, match="1001 parameters"):
        regret_curve(squared(l2=0.5), [stream], np.zeros((1, 1)), None, points=1, within=Ball(1.9))


def test_dynamic_regret_is_against_the_best_of_every_round(targets: np.ndarray) -> None:
    loss = np.random.default_rng(1).random((2, ROUNDS))
    found = dynamic_regret(DISTANCE, [stream_of(t) for t in targets], loss, within=Box(-1, 2))
    y = targets.astype(np.float32).astype(np.float64)
    best = np.clip(y.mean(axis=2), -1, 2)
    least = 0.5 * np.sum((y - best[..., None]) ** 2, axis=2)
    np.testing.assert_allclose(found.total, np.cumsum(AGENTS * loss - least, axis=1), atol=1e-5)
    steps = np.abs(np.diff(best, axis=1, prepend=best[:, :1]))
    np.testing.assert_allclose(found.path_length, np.cumsum(steps, axis=1), atol=1e-4)
    np.testing.assert_array_equal(found.rounds, np.arange(1, ROUNDS + 1))
    assert found.converged
    assert found.gap is not None
    assert found.gap <= 1e-7


def test_one_stream_for_all_repeats_gives_all_the_same_path(targets: np.ndarray) -> None:
    loss = np.random.default_rng(1).random((4, ROUNDS))
    found = dynamic_regret(DISTANCE, [stream_of(targets[0])], loss, within=None)
    assert found.total.shape == found.path_length.shape == (4, ROUNDS)
    assert np.ptp(found.path_length, axis=0).max() == 0
    assert found.gap is found.path_error is None
    sharp = dynamic_regret(squared(l2=0.5), [stream_of(targets[0])], loss, within=None)
    best = targets[0].astype(np.float32).astype(np.float64).mean(axis=1) / 1.5
    length = np.cumsum(np.abs(np.diff(best, prepend=best[:1])))
    assert sharp.path_error is not None
    assert np.all(np.abs(sharp.path_length - length) <= sharp.path_error)
    assert sharp.path_error.shape == (4, ROUNDS)
    assert sharp.path_error[0, -1] <= ROUNDS * 2 * 1.3e-5
