from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tacit.metrics import blocks
from tacit.metrics.blocks import Data, Vectors

ROUNDS, AGENTS = 11, 3


class Batch(NamedTuple):
    x: Any


def loss(params: Any, batch: Batch) -> Any:
    return jnp.sum(batch.x * params["w"] ** 2) + params["b"] * batch.x[0]


@pytest.fixture(params=["held", "in blocks", "read again"])
def data(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> tuple[Data, np.ndarray]:
    x = np.random.default_rng(0).normal(size=(ROUNDS, AGENTS, 2))
    if request.param == "in blocks":
        monkeypatch.setattr(blocks, "BLOCK_BYTES", 4 * AGENTS * 2 * 8)  # of 4 rounds, the last one padded
    if request.param == "read again":
        monkeypatch.setattr(blocks, "HOLD_BYTES", 100)
    with jax.enable_x64(True):
        return Data(lambda: [Batch(x[:4]), Batch(x[4:8]), Batch(x[8:])]), x


def test_values_and_derivatives_of_every_round_and_agent(data: tuple[Data, np.ndarray]) -> None:
    held, x = data
    vectors = Vectors.of({"w": np.zeros(2), "b": np.zeros(())})
    point = np.array([3.0, 1.0, 2.0])  # b, w
    gradients = np.concatenate([x[..., :1], 2 * point[1:] * x], axis=-1)
    weight = np.random.default_rng(1).normal(size=(9, AGENTS))
    with jax.enable_x64(True):
        for rounds in (1, 9, ROUNDS):
            values = np.sum(x * point[1:] ** 2, axis=-1) + 3 * x[..., 0]
            np.testing.assert_allclose(held.values(loss, vectors, point, rounds), values[:rounds], rtol=1e-12)
            np.testing.assert_allclose(held.gradients(loss, vectors, point, rounds), gradients[:rounds], rtol=1e-12)
        found = held.agent_gradients(loss, vectors, point, weight)
        np.testing.assert_allclose(found, np.einsum("ti,tid->id", weight, gradients[:9]), rtol=1e-12)
        hessian = held.hessian(loss, vectors, point, 9)
        np.testing.assert_allclose(hessian, np.diag([0, *2 * x[:9].mean(axis=(0, 1))]), atol=1e-12)


def test_vectors_and_trees_are_the_same_numbers() -> None:
    tree = {"b": np.array(1.0), "w": np.arange(6.0).reshape(2, 3)}
    vectors = Vectors.of(tree)
    assert vectors.size == 7
    vector = vectors.vector(tree)
    np.testing.assert_array_equal(vector, [1, 0, 1, 2, 3, 4, 5])
    many = vectors.tree(np.stack([vector, 2 * vector]))
    assert many["b"].shape == (2,)
    np.testing.assert_array_equal(many["w"][1], 2 * tree["w"])
    assert hash(vectors) == hash(Vectors.of(tree))
