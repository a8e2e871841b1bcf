from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tacit.core.errors import ConfigError
from tacit.metrics import consensus_distance, message_bits, network_loss, network_score, node_loss
from tacit.objectives import from_loss, logistic


class Batch(NamedTuple):
    x: Any
    y: Any
    weight: Any = None


RNG = np.random.default_rng(0)
X = RNG.normal(size=(4, 3)).astype(np.float32)
Y = np.array([1, -1, 1, -1], np.float32)
W = RNG.normal(size=(4, 3)).astype(np.float32)


def test_consensus_distance_is_the_mean_squared_distance_from_the_mean() -> None:
    tree = {"a": RNG.normal(size=(5, 2, 3)).astype(np.float32), "b": RNG.normal(size=5).astype(np.float32)}
    flat = np.concatenate([tree["a"].reshape(5, -1), tree["b"][:, None]], axis=1).astype(float)
    expected = np.mean(np.sum((flat - flat.mean(axis=0)) ** 2, axis=1))
    assert consensus_distance(jax.tree.map(jnp.asarray, tree)) == pytest.approx(expected, rel=1e-5)
    assert consensus_distance(jnp.ones((3, 4))) == 0
    stacked = jax.vmap(consensus_distance)(jnp.stack([W, 2 * W]))
    np.testing.assert_allclose(stacked[1], 4 * stacked[0], rtol=1e-5)


def test_network_and_node_loss_are_sums_over_agents() -> None:
    objective = logistic(l2=0.1)

    def one(w: np.ndarray, i: int) -> float:
        return float(np.logaddexp(0, -Y[i] * (X[i] @ w)) + 0.05 * w @ w)

    batches = Batch(jnp.asarray(X), jnp.asarray(Y))
    own = sum(one(W[i], i) for i in range(4))
    of_second = sum(one(W[1], i) for i in range(4))
    assert network_loss(objective, jnp.asarray(W), batches) == pytest.approx(own, rel=1e-5)
    assert node_loss(objective, jnp.asarray(W[1]), batches) == pytest.approx(of_second, rel=1e-5)


def test_network_score_counts_only_agents_with_samples() -> None:
    w = jnp.asarray(np.stack([X[0], X[1], -X[2], -X[3]]))  # right, wrong, wrong, right
    every = Batch(jnp.asarray(X), jnp.asarray(Y))
    assert network_score(logistic(), w, every) == 0.5
    some = every._replace(weight=jnp.array([1.0, 0.0, 1.0, 1.0]))
    assert network_score(logistic(), w, some) == pytest.approx(2 / 3)
    nobody = every._replace(weight=jnp.zeros(4))
    assert np.isnan(jax.jit(lambda b: network_score(logistic(), w, b))(nobody))
    pairs = Batch(jnp.stack([X, -X], axis=1), jnp.stack([Y, Y], axis=1), jnp.array([[1.0, 0], [0, 0], [1, 1], [0, 1]]))
    assert network_score(logistic(), w, pairs) == pytest.approx((1 + 0.5 + 0) / 3)


def test_an_objective_without_a_score_is_named() -> None:
    bare = from_loss(lambda w, b: jnp.sum(w), jnp.zeros(3), name="bare")
    with pytest.raises(ConfigError, match="objective 'bare' has no score"):
        network_score(bare, jnp.asarray(W), Batch(jnp.asarray(X), jnp.asarray(Y)))


def test_message_bits_count_the_payload() -> None:
    spec = {
        "model": jax.ShapeDtypeStruct((18,), jnp.float32),
        "mass": jax.ShapeDtypeStruct((), jnp.float32),
        "half": jax.ShapeDtypeStruct((2, 3), jnp.bfloat16),
        "count": jax.ShapeDtypeStruct((), jnp.int32),
        "signs": jax.ShapeDtypeStruct((10,), jnp.bool_),
        "code": jax.ShapeDtypeStruct((4,), jnp.int4),
    }
    assert message_bits(spec) == 18 * 32 + 32 + 6 * 16 + 32 + 10 + 16
    assert message_bits(()) == 0
    assert message_bits(jnp.zeros((2, 2), jnp.complex64)) == 4 * 64
