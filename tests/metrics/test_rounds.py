from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tacit.metrics import consensus_distance, message_bits

RNG = np.random.default_rng(0)
W = RNG.normal(size=(4, 3)).astype(np.float32)


def test_consensus_distance_is_the_mean_squared_distance_from_the_mean() -> None:
    tree = {"a": RNG.normal(size=(5, 2, 3)).astype(np.float32), "b": RNG.normal(size=5).astype(np.float32)}
    flat = np.concatenate([tree["a"].reshape(5, -1), tree["b"][:, None]], axis=1).astype(float)
    expected = np.mean(np.sum((flat - flat.mean(axis=0)) ** 2, axis=1))
    assert consensus_distance(jax.tree.map(jnp.asarray, tree)) == pytest.approx(expected, rel=1e-5)
    assert consensus_distance(jnp.ones((3, 4))) == 0
    stacked = jax.vmap(consensus_distance)(jnp.stack([W, 2 * W]))
    np.testing.assert_allclose(stacked[1], 4 * stacked[0], rtol=1e-5)


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
