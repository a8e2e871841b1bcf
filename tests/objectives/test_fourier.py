"""Random Fourier features against the kernel that they stand for, and the loss on them against NumPy."""

from __future__ import annotations

import math
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit.config.experiment import load
from tacit.core.contract import Clip
from tacit.core.errors import ConfigError
from tacit.experiments.build import build
from tacit.objectives import FourierFeatures, fourier
from tacit.objectives.losses import certified_regulariser
from tacit.objectives.random_features import _cosine, _drawn
from tacit.privacy import gradient_parts
from tacit.streams import Batch

COUNT, INPUTS, RECORDS, L2 = 30, 3, 5, 0.1
SETTINGS = {"count": COUNT, "bandwidth": 1.5, "seed": 2}
RNG = np.random.default_rng(0)
X, Y = RNG.standard_normal((RECORDS, INPUTS)), RNG.standard_normal(RECORDS)
W = RNG.standard_normal(COUNT)
WEIGHT = np.array([1.0, 0, 1, 1, 1])


def features(x: np.ndarray) -> np.ndarray:
    """z(x) as the definition has it, of the same draws."""
    rates, phase = _drawn(COUNT, 2, INPUTS)
    omega, b = 2 * math.pi * rates.T, 2 * math.pi * phase
    return np.array([math.sqrt(2 / COUNT) * np.cos(omega @ row / 1.5 + b) for row in x])


def test_the_map_follows_its_definition_in_either_precision() -> None:
    single = FourierFeatures(**SETTINGS)(X.astype(np.float32))
    assert single.dtype == jnp.float32
    np.testing.assert_allclose(single, features(X.astype(np.float32)), atol=1e-6)
    with jax.enable_x64(True):
        double = FourierFeatures(**SETTINGS)(X)
        assert double.dtype == jnp.float64
        assert fourier(COUNT).initial(Batch(X[0], Y[0])).dtype == jnp.float64
    np.testing.assert_allclose(double, features(X), rtol=0, atol=1e-14)
    assert FourierFeatures(**SETTINGS)(np.ones(INPUTS, np.int32)).shape == (COUNT,)


@given(turns=st.floats(-100, 100))
@settings(derandomize=True, deadline=None, max_examples=200)
def test_the_cosine_is_one(turns: float) -> None:
    exact = math.cos(2 * math.pi * math.fmod(float(np.float32(turns)), 1))
    assert float(_cosine(np.float32(turns))) == pytest.approx(exact, abs=5e-7)


def test_inner_products_approach_the_gaussian_kernel() -> None:
    count, bandwidth = 20_000, 2.0
    x = np.random.default_rng(1).standard_normal((20, 4)) * np.linspace(0.2, 2, 20)[:, None]
    z = np.asarray(FourierFeatures(count, bandwidth, seed=3)(x), np.float64)
    apart = np.square(x[:, None] - x).sum(axis=-1)
    kernel = np.exp(-apart / (2 * bandwidth**2))
    # A product is a mean of `count` terms in [-2, 2] whose variance is at most 1 + 1/2. 5.5 of its deviations: for
    # 210 products false alarms in less than 1e-5 of all seeds.
    assert np.abs(z @ z.T - kernel).max() < 5.5 * math.sqrt(1.5 / count)
    assert kernel.min() < 0.3 < np.median(kernel) < 0.95  # else a constant would do
    assert np.square(z).sum(axis=1).max() <= 2


def test_omega_is_normal_and_phases_uniform() -> None:
    # 5 standard errors each: false alarms in less than 1e-5 of all seeds.
    rates, phase = _drawn(10_000, 0, 4)
    omega = 2 * math.pi * rates
    assert abs(omega.mean()) < 5 / math.sqrt(40_000)
    assert abs(omega.var() - 1) < 5 * math.sqrt(2 / 40_000)
    assert abs(phase.mean() - 0.5) < 5 / math.sqrt(12 * 10_000)
    assert abs(phase.var() - 1 / 12) < 5 / math.sqrt(180 * 10_000)


def test_features_never_grow_beyond_sqrt_2() -> None:
    # Few features, so that all cosines can be near 1 together.
    z = FourierFeatures(2, seed=1)(np.linspace(-50, 50, 20_001, dtype=np.float32)[:, None])
    assert 1.99 < float(jnp.square(z).sum(axis=1).max()) <= 2 + 1e-6


def test_loss_score_and_gradient_are_those_of_least_squares() -> None:
    objective = fourier(**SETTINGS, l2=L2)
    batch = Batch(jnp.asarray(X), jnp.asarray(Y), jnp.asarray(WEIGHT))
    z = features(X)
    error = Y - z @ W
    present = WEIGHT / WEIGHT.sum()
    assert float(objective.score(jnp.asarray(W), batch)) == pytest.approx(present @ error**2, rel=1e-5)
    value, gradient = jax.value_and_grad(objective.loss)(jnp.asarray(W), batch)
    penalty = certified_regulariser(objective)
    assert float(value - penalty(jnp.asarray(W))) == pytest.approx(present @ error**2 / 2, rel=1e-5)
    np.testing.assert_allclose(gradient, -(present * error) @ z + L2 * W, atol=1e-5)
    np.testing.assert_allclose(objective.predict(jnp.asarray(W), X), z @ W, atol=1e-5)
    assert (objective.name, objective.score_name) == ("fourier", "mse")


def test_one_sample_and_none() -> None:
    objective = fourier(**SETTINGS)
    start = objective.initial(Batch(X[0].astype(np.float32), Y[0]))
    assert (start.shape, start.dtype, float(jnp.abs(start).max())) == ((COUNT,), jnp.float32, 0)
    gradient = jax.grad(objective.loss)
    one = gradient(jnp.asarray(W), Batch(X[0], Y[0], np.float32(1)))
    z = features(X[:1])[0]
    np.testing.assert_allclose(one, -z * (Y[0] - z @ W), atol=1e-5)
    none = gradient(jnp.asarray(W), Batch(np.full(INPUTS, np.nan), np.nan, np.float32(0)))
    np.testing.assert_array_equal(none, np.zeros(COUNT))


def test_each_record_can_be_clipped() -> None:
    data, penalty = gradient_parts(fourier(**SETTINGS, l2=L2), Clip(0.5))
    found = data(jnp.asarray(W), Batch(jnp.asarray(X), jnp.asarray(Y), jnp.asarray(WEIGHT)))
    z = features(X)
    each = -(Y - z @ W)[:, None] * z
    norm = np.linalg.norm(each, axis=1)
    assert norm.min() < 0.5 < norm.max()
    expected = (each * np.minimum(1, 0.5 / norm)[:, None] * WEIGHT[:, None]).sum(axis=0) / RECORDS
    np.testing.assert_allclose(found, expected, atol=1e-5)
    np.testing.assert_allclose(penalty(jnp.asarray(W)), L2 * W, rtol=1e-5)


def test_maps_are_values() -> None:
    assert fourier(**SETTINGS, l2=L2).loss == fourier(**SETTINGS, l2=L2).loss
    assert hash(fourier(**SETTINGS).loss) == hash(fourier(**SETTINGS).loss)
    assert FourierFeatures(bandwidth=2) == FourierFeatures(bandwidth=2.0)
    for other in ({"count": COUNT + 1}, {"bandwidth": 1.0}, {"seed": 3}):
        assert fourier(**(SETTINGS | other)).loss != fourier(**SETTINGS).loss
    assert not np.array_equal(FourierFeatures(4, seed=0)(X), FourierFeatures(4, seed=1)(X))


@pytest.mark.parametrize(
    ("setting", "value", "expected"),
    [
        ("count", 0, "whole number of at least 1"),
        ("count", 2.0, "whole number of at least 1"),
        ("seed", -1, "whole number of at least 0"),
        ("seed", True, "whole number of at least 0"),
        ("bandwidth", 0.0, "number above 0"),
        ("bandwidth", math.inf, "number above 0"),
        ("l2", -1.0, "number from 0 on"),
    ],
)
def test_bad_settings_are_refused(setting: str, value: object, expected: str) -> None:
    with pytest.raises(ConfigError, match=f"{setting} = {value!r}: expected a.*{expected}"):
        fourier(**{setting: value})


def test_an_experiment_can_name_it(tmp_path: Path) -> None:
    file = tmp_path / "experiment.toml"
    file.write_text(
        "run = {rounds = 2}\ngraph = {kind = 'ring', agents = 5}\nstream = {kind = 'linear_drift', dim = 3}\n"
        "objective = {kind = 'fourier', count = 30, bandwidth = 1.5, seed = 2, l2 = 0.1}\n"
        "algorithm = [{name = 'local_online', step = 0.1}]\n"
    )
    (algorithm,) = build(load(file)).algorithms
    assert algorithm.objective.loss == fourier(**SETTINGS, l2=L2).loss
