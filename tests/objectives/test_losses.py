from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit.core.errors import ConfigError
from tacit.objectives import (
    OBJECTIVES,
    Regulariser,
    absolute,
    from_loss,
    hinge,
    l1,
    l2,
    logistic,
    regularised,
    softmax,
    squared,
)

quick = settings(max_examples=20, deadline=None, derandomize=True)


class Batch(NamedTuple):
    x: Any
    y: Any
    weight: Any = None


REFERENCE = {
    "logistic": lambda p, y: np.logaddexp(0, -y * p),
    "hinge": lambda p, y: np.maximum(0, 1 - y * p),
    "squared": lambda p, y: (p - y) ** 2 / 2,
    "absolute": lambda p, y: np.abs(p - y),
}
SLOPE = {
    "logistic": lambda p, y: -y / (1 + np.exp(np.clip(y * p, -700, 700))),
    "hinge": lambda p, y: np.where(y * p < 1, -y, 0),
    "squared": lambda p, y: p - y,
    "absolute": lambda p, y: np.sign(p - y),
}
LINEAR = sorted(REFERENCE)


def make_batch(seed: int, samples: int = 7, dim: int = 5, weight: Any = None) -> Batch:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(samples, dim)).astype(np.float32)
    y = rng.choice([-1.0, 1.0], size=samples).astype(np.float32)
    return Batch(x, y, weight)


def reference_loss(name: str, w: Any, batch: Batch, l1: float, l2: float) -> float:
    x, y, w = (np.asarray(part, np.float64) for part in (batch.x, batch.y, w))
    values = REFERENCE[name](np.atleast_1d(x @ w), np.atleast_1d(y))
    weight = np.ones_like(values) if batch.weight is None else np.atleast_1d(batch.weight)
    mean = np.sum(weight * values) / np.sum(weight) if np.sum(weight) else 0.0
    return float(mean + l1 * np.abs(w).sum() + l2 / 2 * (w @ w))


@pytest.mark.parametrize("name", LINEAR)
@pytest.mark.parametrize("weight", [None, [1, 0, 1, 1, 0, 0, 1], [0.5, 2, 1, 0, 0, 3, 1], [0] * 7])
def test_value_and_gradient_are_those_of_the_formulas(name: str, weight: Any) -> None:
    batch = make_batch(3, weight=None if weight is None else np.asarray(weight, np.float32))
    w = np.random.default_rng(4).normal(size=5).astype(np.float32)
    objective = OBJECTIVES[name](l1=0.3, l2=0.7)
    value, gradient = jax.jit(jax.value_and_grad(objective.loss))(w, batch)
    assert value == pytest.approx(reference_loss(name, w, batch, 0.3, 0.7), rel=2e-6)

    share = np.ones(7) if weight is None else np.asarray(weight, float)
    share = share / max(share.sum(), 1e-300)
    slope = SLOPE[name](batch.x.astype(float) @ w.astype(float), batch.y.astype(float))
    expected = (share * slope) @ batch.x.astype(float) + 0.3 * np.sign(w) + 0.7 * w
    np.testing.assert_allclose(gradient, expected, rtol=3e-6, atol=3e-7)


@pytest.mark.parametrize("name", [*LINEAR, "softmax"])
def test_gradient_is_that_of_finite_differences(name: str) -> None:
    objective = softmax(3, l2=0.4) if name == "softmax" else OBJECTIVES[name](l2=0.4)
    with jax.enable_x64(True):
        batch = jax.tree.map(lambda leaf: np.asarray(leaf, np.float64), make_batch(5))
        if name == "softmax":
            batch = batch._replace(y=np.arange(7) % 3)
        rng = np.random.default_rng(6)
        shape = objective.initial(batch).shape
        w, direction = rng.normal(size=shape), rng.normal(size=shape)
        step = 1e-6
        ends = [float(jax.jit(objective.loss)(w + s * step * direction, batch)) for s in (1, -1)]
        along = float(np.sum(jax.jit(jax.grad(objective.loss))(w, batch) * direction))
    assert along == pytest.approx((ends[0] - ends[1]) / (2 * step), rel=1e-7, abs=1e-8)


@pytest.mark.parametrize("name", LINEAR)
@pytest.mark.parametrize("margin", [-1e4, -80.0, 0.0, 80.0, 1e4])
def test_extreme_margins_stay_finite_and_right(name: str, margin: float) -> None:
    batch = Batch(jnp.array([margin, 0.0]), jnp.array(1.0))
    value, gradient = jax.jit(jax.value_and_grad(OBJECTIVES[name]().loss))(jnp.array([1.0, 1.0]), batch)
    assert value == pytest.approx(float(REFERENCE[name](margin, 1.0)), rel=1e-6, abs=1e-30)
    expected = float(SLOPE[name](margin, 1.0)) * margin
    np.testing.assert_allclose(gradient, [expected, 0.0], rtol=1e-5, atol=1e-30)


def test_logistic_gradient_at_the_zero_model_is_half() -> None:
    # The naive stable formula gives 1 here, and every run starts here.
    gradient = jax.grad(logistic().loss)(jnp.zeros(1), Batch(jnp.ones(1), jnp.array(1.0)))
    assert float(gradient[0]) == -0.5


def test_softmax_is_the_negative_log_likelihood_and_extends_logistic() -> None:
    batch = make_batch(8)._replace(y=np.array([0, 1, 2, 0, 1, 2, 2]))
    w = np.random.default_rng(9).normal(size=(3, 5))
    logits = batch.x.astype(float) @ w.T
    shares = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    expected = -np.log(shares[np.arange(7), batch.y]).mean()
    assert jax.jit(softmax(3).loss)(jnp.asarray(w, jnp.float32), batch) == pytest.approx(expected, rel=1e-6)

    two = make_batch(10)
    v = jnp.asarray(np.random.default_rng(11).normal(size=5), jnp.float32)
    as_classes = two._replace(y=(two.y > 0).astype(np.int32))
    both = jax.jit(softmax(2).loss)(jnp.stack([jnp.zeros(5), v]), as_classes)
    assert both == pytest.approx(float(logistic().loss(v, two)), rel=1e-6)


def test_softmax_survives_extreme_margins_and_shows_labels_out_of_range() -> None:
    w = jnp.array([[1e4], [-1e4], [0.0]])
    value, gradient = jax.jit(jax.value_and_grad(softmax(3).loss))(w, Batch(jnp.ones(1), jnp.array(1)))
    assert value == pytest.approx(2e4)
    np.testing.assert_allclose(gradient, [[1.0], [-1.0], [0.0]])
    assert np.isnan(softmax(3).loss(w, Batch(jnp.ones(1), jnp.array(3))))


@pytest.mark.parametrize("name", [*LINEAR, "softmax"])
def test_absent_samples_are_invisible_even_as_nan(name: str) -> None:
    objective = softmax(2, l2=0.1) if name == "softmax" else OBJECTIVES[name](l2=0.1)
    whole = make_batch(12)
    if name == "softmax":
        whole = whole._replace(y=(whole.y > 0).astype(np.int32))
    part = Batch(whole.x[:4], whole.y[:4])
    x = whole.x.copy()
    x[4:] = np.nan
    masked = Batch(x, whole.y, np.array([1, 1, 1, 1, 0, 0, 0], np.float32))
    w = objective.initial(whole) + 0.3
    for function in (objective.loss, objective.score, jax.grad(objective.loss)):
        program = jax.jit(function)
        np.testing.assert_allclose(program(w, masked), program(w, part), rtol=1e-6, atol=1e-7)
    nobody = masked._replace(x=np.full_like(x, np.nan), weight=np.zeros(7, np.float32))
    value, gradient = jax.jit(jax.value_and_grad(objective.loss))(w, nobody)
    assert value == pytest.approx(0.05 * float(jnp.sum(w**2)), rel=1e-6)
    np.testing.assert_allclose(gradient, 0.1 * w, rtol=1e-6)


def test_one_sample_a_round_equals_a_batch_of_one_and_vmap_equals_a_loop() -> None:
    batch = make_batch(13, weight=np.array([1, 1, 0, 1, 0, 1, 1], np.float32))
    objective = logistic(l2=0.2)
    loss = jax.jit(objective.loss)
    ws = jnp.asarray(np.random.default_rng(14).normal(size=(7, 5)), jnp.float32)
    singly = [loss(ws[i], Batch(batch.x[i], batch.y[i], batch.weight[i])) for i in range(7)]
    as_batches = [loss(ws[i], Batch(*(part[i : i + 1] for part in batch))) for i in range(7)]
    np.testing.assert_allclose(singly, as_batches, rtol=1e-6)
    np.testing.assert_allclose(jax.vmap(objective.loss)(ws, Batch(*map(jnp.asarray, batch))), singly, rtol=1e-6)


def test_scores() -> None:
    batch = Batch(jnp.array([[1.0], [-1.0], [0.0], [2.0]]), jnp.array([1.0, 1.0, 1.0, -1.0]))
    assert logistic().score(jnp.ones(1), batch) == 0.25
    assert hinge().score(jnp.zeros(1), batch) == 0  # ties are wrong
    assert logistic().score(jnp.ones(1), batch._replace(weight=jnp.array([1.0, 1.0, 0, 0]))) == 0.5
    assert squared().score(jnp.ones(1), batch) == pytest.approx((0 + 4 + 1 + 9) / 4)
    assert (squared().score_name, absolute().score_name, hinge().score_name) == ("mse", "mse", "accuracy")
    classes = Batch(jnp.array([[1.0], [1.0], [-1.0]]), jnp.array([2, 0, 0]))
    w = jnp.array([[0.0], [0.0], [1.0]])
    assert softmax(3).score(w, classes) == pytest.approx(1 / 3)  # right, wrong, a tie of 0 and 1
    assert softmax(3).score(jnp.zeros((3, 1)), classes) == 0


@pytest.mark.parametrize(("name", "shape"), [("logistic", (4,)), ("absolute", (4,)), ("softmax", (3, 4))])
def test_initial_parameters_are_zeros_from_a_spec_or_a_batch(name: str, shape: tuple[int, ...]) -> None:
    objective = softmax(3) if name == "softmax" else OBJECTIVES[name]()
    for x in (
        jax.ShapeDtypeStruct((2, 4), jnp.float32),
        jnp.ones((2, 4)),
        np.ones((2, 4)),
        jax.ShapeDtypeStruct((4,), jnp.int32),
    ):
        first = objective.initial(Batch(x, None))
        assert first.shape == shape
        assert first.dtype == jnp.float32
        assert not first.any()


def test_losses_are_values() -> None:
    assert logistic(l2=0.1).loss == logistic(l2=0.1).loss
    assert logistic(l2=0.1).loss != logistic(l2=0.2).loss
    assert hash(hinge(l1=1).smoothed(0.1)) == hash(hinge(l1=1).smoothed(0.1))
    assert hinge(l1=1).smoothed(0.1) != hinge(l1=1).smoothed(0.2)


NONSMOOTH = {
    "hinge": hinge(l2=0.1),
    "absolute": absolute(),
    "logistic l1": logistic(l1=0.5),
    "squared elastic net": squared(l1=0.2, l2=0.1),
    "hinge l1": hinge(l1=2.0),
    "softmax l1": softmax(2, l1=0.3),
    "custom l1": regularised(from_loss(lambda w, b: jnp.sum(w**4), jnp.zeros(4)), l1(0.4)),
    "twice": regularised(absolute(l1=0.1), Regulariser(0.2, 0.3)),
}


@pytest.mark.parametrize("name", NONSMOOTH)
@pytest.mark.parametrize("mu", [1.0, 1e-3, 1e-6])
def test_smoothed_loss_is_convex_and_below_by_at_most_mu(name: str, mu: float) -> None:
    objective, smooth = NONSMOOTH[name], NONSMOOTH[name].smoothed(mu)
    rng = np.random.default_rng(15)
    cases = 300
    x, y = rng.normal(size=(cases, 3, 4)), rng.choice([-1.0, 1.0], size=(cases, 3))
    batches = Batch(x, (y > 0).astype(np.int32) if name == "softmax l1" else y)
    shape = objective.initial(Batch(x[0], None)).shape
    # Points at all distances from the kinks at 0, some of them exactly there.
    spread = np.reshape(10.0 ** rng.uniform(-8, 2, size=cases), (cases, *(1 for _ in shape)))
    u, v = (spread * rng.normal(size=(cases, *shape)) * (rng.uniform(size=(cases, *shape)) < 0.8) for _ in "uv")

    def measure(point: Any, batch: Batch) -> Any:
        value, gradient = jax.value_and_grad(smooth)(point, batch)
        return objective.loss(point, batch), value, gradient

    with jax.enable_x64(True):
        program = jax.jit(jax.vmap(measure))
        (true, value, at_u), (_, _, at_v) = (map(np.asarray, program(point, batches)) for point in (u, v))
    rounding = 1e-14 * (1 + np.abs(true))
    assert np.all(true - value >= -rounding)
    assert np.all(true - value <= mu + rounding)
    axes = tuple(range(1, u.ndim))
    size = np.sum(np.abs(u - v) * (np.abs(at_u) + np.abs(at_v)), axis=axes)
    assert np.all(np.sum((at_u - at_v) * (u - v), axis=axes) >= -1e-13 * size)


def test_many_models_on_many_samples() -> None:
    # More than 32,768 predictions in one program: see the note on the compiler in tacit.metrics.comparator.
    rng = np.random.default_rng(16)
    w, x = rng.normal(size=(200, 6)), rng.normal(size=(300, 6))
    y = rng.choice([-1.0, 1.0], size=300)
    batch = Batch(*(jnp.asarray(part, jnp.float32) for part in (x, y)))
    for name in LINEAR:
        losses = jax.jit(jax.vmap(OBJECTIVES[name]().loss, (0, None)))(jnp.asarray(w, jnp.float32), batch)
        np.testing.assert_allclose(losses, REFERENCE[name](w @ x.T, y).mean(axis=1), rtol=1e-5)


def test_smoothed_gradient_is_continuous_where_the_true_one_jumps() -> None:
    batch = Batch(jnp.ones(1), jnp.array(1.0))
    kink, mu = 1.0, 0.05
    starts = jnp.linspace(kink - 3 * mu, kink + mu, 41)[:, None]
    slope = jax.vmap(jax.grad(hinge().smoothed(mu)), (0, None))
    near = slope(starts + 1e-4, batch) - slope(starts - 1e-4, batch)
    assert np.all(np.abs(near) <= 2e-4 / (2 * mu) + 1e-4)
    jump = [float(jax.grad(hinge().loss)(jnp.array([kink + s]), batch)[0]) for s in (-1e-4, 1e-4)]
    assert jump == [-1.0, 0.0]


def test_smooth_objectives_have_no_smoothed() -> None:
    assert all(o.smoothed is None for o in (logistic(l2=1), squared(), softmax(2, l2=0.1)))
    assert regularised(logistic(), l2(0.1)).smoothed is None
    assert regularised(logistic(), l1(0.1)).smoothed is not None


@quick
@given(seed=st.integers(0, 2**32 - 1))
def test_regularisers_add_over_a_pytree_as_over_one_vector(seed: int) -> None:
    rng = np.random.default_rng(seed)
    tree = {
        "a": jnp.asarray(rng.normal(size=(2, 3)), jnp.float32),
        "b": jnp.asarray(rng.normal(), jnp.float32),
    }
    flat = np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(tree)]).astype(float)
    expected = 0.3 * np.abs(flat).sum() + 0.35 * flat @ flat
    assert Regulariser(0.3, 0.7)(tree) == pytest.approx(expected, rel=1e-5)
    assert l1(0.3)(tree) + l2(0.7)(tree) == pytest.approx(expected, rel=1e-5)
    assert Regulariser()(tree) == 0


def test_regularised_equals_the_keyword_form() -> None:
    assert regularised(hinge(l1=0.1), Regulariser(0.2, 0.3)).loss == hinge(l1=0.1 + 0.2, l2=0.3).loss


def test_from_loss_takes_any_pytree_and_either_kind_of_start() -> None:
    def loss(params: Any, batch: Batch) -> Any:
        return jnp.mean((batch.x @ params["w"] + params["b"] - batch.y) ** 2)

    batch = make_batch(20)
    start = {"w": np.zeros(5, np.float32), "b": 1.0}
    fixed = from_loss(loss, start)
    made = from_loss(loss, lambda spec: {"w": jnp.zeros(spec.x.shape[-1]), "b": jnp.ones(())}, name="affine")
    assert (fixed.name, made.name, fixed.score, fixed.smoothed) == ("custom", "affine", None, None)
    for objective in (fixed, made):
        assert objective.loss(objective.initial(batch), batch) == pytest.approx(np.mean((1 - batch.y) ** 2))
    stronger = regularised(fixed, l2(2.0))
    assert stronger.loss(stronger.initial(batch), batch) == pytest.approx(np.mean((1 - batch.y) ** 2) + 1)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: logistic(l2=-1), "l2 = -1: expected a finite number from 0 on"),
        (lambda: hinge(l1=float("nan")), "l1 = nan: expected a finite number from 0 on"),
        (lambda: l1(float("inf")), "l1 = inf"),
        (lambda: Regulariser("much", 1), "l1 = 'much': expected"),
        (lambda: softmax(1), "classes = 1: expected a whole number of at least 2"),
        (lambda: softmax(2.0), "classes = 2.0"),
        (lambda: hinge().smoothed(0), "mu = 0: expected a finite number above 0"),
        (lambda: from_loss("mse", jnp.zeros(2)), "loss = 'mse': expected a function"),
        (lambda: from_loss(lambda w, b: 0, ()), r"initial = \(\): expected a pytree"),
    ],
)
def test_bad_settings_are_refused_by_name(make: Any, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        make()
