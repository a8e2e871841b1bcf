"""Weights of classes: in the loss, before the clip."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tacit
from tacit.core.contract import Clip
from tacit.core.errors import ConfigError
from tacit.metrics.constant import constant_figures
from tacit.models.objective_names import arguments_of, made
from tacit.objectives import balanced, hinge, logistic, softmax
from tacit.privacy.clipping import clipped_gradient
from tacit.streams import Batch

X = jnp.array([[1.0, 2.0], [0.5, -1.0], [-1.0, 1.0]])
SIGNS = jnp.array([1.0, -1.0, -1.0])
W = jnp.array([0.3, -0.2])


def test_each_record_counts_by_its_class() -> None:
    for make in (logistic, hinge):
        each = [float(make().loss(W, Batch(X[k : k + 1], SIGNS[k : k + 1]))) for k in range(3)]
        weighed = make(class_weight=(0.5, 4.0)).loss(W, Batch(X, SIGNS))
        assert float(weighed) == pytest.approx((4 * each[0] + 0.5 * each[1] + 0.5 * each[2]) / 3)
    classes = jnp.array([0, 2, 1])
    params = jnp.arange(6.0).reshape(3, 2)
    each = [float(softmax(3).loss(params, Batch(X[k : k + 1], classes[k : k + 1]))) for k in range(3)]
    weighed = softmax(3, class_weight={"2": 7.0}).loss(params, Batch(X, classes))
    assert float(weighed) == pytest.approx((each[0] + 7 * each[1] + each[2]) / 3)


def test_the_score_and_absent_records_are_as_before() -> None:
    batch = Batch(X, SIGNS, jnp.array([1.0, 1.0, 0.0]))
    one, other = logistic(), logistic(class_weight={"1": 9.0, "-1": 1.0})
    assert float(one.score(W, batch)) == float(other.score(W, batch))
    two = Batch(X[:2], SIGNS[:2])
    assert float(other.loss(W, batch)) == pytest.approx(float(other.loss(W, two)))


def test_weights_do_not_move_a_release_beyond_the_clip() -> None:
    """Whatever a weight, a record's gradient is clipped after it: replacing one moves the mean by 2 clip / n at most."""
    rng = np.random.default_rng(0)
    gradient = jax.jit(clipped_gradient(logistic(class_weight=(1.0, 1e6)), Clip(0.5)))
    x, y = jnp.asarray(rng.normal(size=(8, 3)) * 10, jnp.float32), jnp.asarray(rng.choice([-1.0, 1.0], 8), jnp.float32)
    w = jnp.zeros(3)
    before = gradient(w, Batch(x, y))
    moved = []
    for k in range(8):
        other = Batch(x.at[k].set(-100 * x[k]), y)
        moved.append(float(jnp.linalg.norm(gradient(w, other) - before)))
    assert max(moved) <= 2 * 0.5 / 8 * (1 + 1e-5)
    assert max(moved) > 1.99 * 0.5 / 8  # and the bound is used
    alone = gradient(w, Batch(x[:1], y[:1]))
    assert float(jnp.linalg.norm(alone)) <= 0.5 * (1 + 1e-6)


def test_a_private_run_with_weights_spends_what_one_without_does() -> None:
    stream = tacit.streams.logistic_drift(4, 3, rounds=10)
    spent = []
    for weights in (None, (1.0, 5.0)):
        noise = tacit.privacy.laplace(epsilon=1.0, clip=1.0)
        method = tacit.algorithms.online_push_sum(logistic(class_weight=weights), mechanism=noise)
        spent.append(tacit.simulate(method, tacit.graphs.complete(4), stream, rounds=10).privacy.guarantee)
    assert spent[0] == spent[1]


def test_losses_with_equal_weights_are_equal_values() -> None:
    assert logistic(class_weight=(1, 2)).loss == logistic(class_weight={"-1": 1.0, "1": 2.0}).loss
    assert hinge(class_weight=(1, 2)).loss == hinge(class_weight=(1.0, 2.0)).loss
    assert logistic(class_weight={"0": 3.0, "1": 2.0}).loss == logistic(class_weight=(3.0, 2.0)).loss
    smooth = hinge(class_weight=(1.0, 4.0)).smoothed
    assert smooth is not None
    exact, below = (float(f(W, Batch(X, SIGNS))) for f in (hinge(class_weight=(1.0, 4.0)).loss, smooth(0.1)))
    assert exact - 0.1 <= below <= exact


def test_balanced_weights_by_hand() -> None:
    assert balanced([0, 0, 0, 1]) == pytest.approx((4 / 6, 2.0))
    assert balanced([0, 1, 1, 2], classes=4) == pytest.approx((1.0, 0.5, 1.0, 1.0))


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ("balanced", "balanced"),
        ((1.0,), "2 numbers"),
        ({"yes": 2.0}, "'yes'"),
        ((1.0, -1.0), "-1.0"),
        ((1.0, float("nan")), "nan"),
    ],
)
def test_faults_are_named(given, named: str) -> None:
    with pytest.raises(ConfigError, match=named):
        logistic(class_weight=given)


def test_the_constant_pays_the_weighted_loss() -> None:
    """One agent, labels + - +: it has seen (0, 0), (0, 1), (1, 1) of (-, +); weights 1 and 3."""
    y = np.array([1.0, -1.0, 1.0])
    stream = tacit.streams.from_arrays(np.ones((3, 1)), y, [[0, 1, 2]], shuffle_seed=None)
    found = constant_figures(logistic(class_weight=(1.0, 3.0)), stream, 3)
    assert found is not None
    expected = [3 * np.log(2), -np.log(0.5 / 4), -3 * np.log(3.5 / 5)]
    np.testing.assert_allclose(found["loss"], expected)
    np.testing.assert_array_equal(found["accuracy"], [0, 0, 0])  # of a tie nobody is right


@pytest.mark.parametrize(
    ("objective", "params"),
    [
        (logistic(l2=0.1, class_weight=(1.0, 5.0)), jnp.zeros(3)),
        (hinge(class_weight={"1": 2.0}), jnp.zeros(3)),
        (softmax(3, class_weight=(1.0, 2.0, 4.0)), jnp.zeros((3, 2))),
    ],
)
def test_a_model_knows_its_objective_with_weights(objective, params) -> None:
    arguments = arguments_of(objective, params)
    assert arguments is not None
    assert made(objective.name, arguments).loss == objective.loss
