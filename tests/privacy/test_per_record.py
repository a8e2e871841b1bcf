"""Clipped gradients of large models: the same as record by record, and never above the bound."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tacit.core.contract import Clip
from tacit.privacy import clipping
from tacit.privacy.clipping import clip, clipped_gradient
from tacit.privacy.per_record import blocks, gradients, pairs
from tacit.privacy.per_record.gradients import Records as Held
from tacit.privacy.per_record.gradients import clipped_sum, number_above, planned


class Records(NamedTuple):
    x: Any
    y: Any
    weight: Any = None


def convolved(x: Any, kernel: Any, stride: int = 1, **settings: Any) -> Any:
    form = ("NHWC", "HWIO", "NHWC")
    return jax.lax.conv_general_dilated(x, kernel, (stride, stride), "SAME", dimension_numbers=form, **settings)


def dense(params: Any, x: Any) -> Any:
    return jnp.tanh(x @ params["w"] + params["b"]) @ params["v"].T


def sequence(params: Any, x: Any) -> Any:
    """Rows of a sequence, the parameter on the left, in another shape."""
    rows = x.reshape(6, 4)
    mixed = jnp.tanh(jnp.einsum("io,ti->to", params["w"].reshape(4, 9), rows) * params["b"])
    return jnp.sum(jax.lax.dot_general(params["v"], mixed, (((1,), (1,)), ((), ()))), axis=1)


def picture(params: Any, x: Any) -> Any:
    seen = jax.nn.relu(convolved(x.reshape(1, 6, 4, 1), params["k"], 2, rhs_dilation=(2, 1)) + params["b"])
    return jnp.max(convolved(seen, params["v"]), axis=(0, 1, 2))


def words(params: Any, x: Any) -> Any:
    number = jnp.clip(jnp.nan_to_num(x * 3), -2, 8).astype(int)[:7]  # some of them twice, some out of range
    return jnp.sum(jnp.tanh(jnp.take(params["table"], number, axis=0, fill_value=0)) @ params["v"], axis=0)


def halved(params: Any, x: Any) -> Any:
    low = jax.tree.map(lambda leaf: leaf.astype(jnp.bfloat16), params)
    return dense(low, x.astype(jnp.bfloat16)).astype(x.dtype)


def tied(params: Any, x: Any) -> Any:
    """A parameter that is used twice."""
    return jnp.tanh(x @ params["w"]) @ params["w"].T @ params["v"]


def twins(params: Any, x: Any) -> Any:
    """Two rows, and so many outputs that a gradient costs more than sums over pairs of rows."""
    return jnp.sum(jnp.tanh(x.reshape(2, 12) @ params["w"]) @ params["v"])


SHAPES = {
    twins: {"w": (12, 60), "v": (60, 1)},
    dense: {"w": (24, 9), "b": (9,), "v": (3, 9)},
    sequence: {"w": (36,), "b": (9,), "v": (3, 9)},
    picture: {"k": (3, 2, 1, 5), "b": (5,), "v": (2, 2, 5, 3)},
    words: {"table": (9, 5), "v": (5, 3)},
    halved: {"w": (24, 9), "b": (9,), "v": (3, 9)},
    tied: {"w": (24, 9), "v": (24, 3)},
}
LAYERS = {twins: 2, dense: 2, sequence: 2, picture: 2, words: 2, halved: 2, tied: 1}


def loss_of(model: Any) -> Any:
    def loss(params: Any, batch: Any) -> Any:
        return jnp.sum(jnp.square(model(params, batch.x) - batch.y))

    return loss


def some_params(model: Any, dtype: Any = np.float32, scale: float = 1.0) -> Any:
    rng = np.random.default_rng(3)
    return {name: (rng.normal(size=shape) * scale).astype(dtype) for name, shape in SHAPES[model].items()}


def some_records(count: int = 7, dtype: Any = np.float32) -> Records:
    rng = np.random.default_rng(4)
    size = (10.0 ** rng.uniform(-2, 0.5, (count, 1))).astype(dtype)
    return Records(rng.normal(size=(count, 24)).astype(dtype) * size, rng.normal(size=(count, 1)).astype(dtype)[:, 0])


def one_by_one(loss: Any, to: Clip, params: Any, batch: Records) -> Any:
    """The sum of gradients that are formed and clipped record by record."""
    total = jax.tree.map(np.zeros_like, params)
    gradient = jax.jit(lambda params, record: clip(jax.grad(loss)(params, record), to))
    for k in range(len(batch.y)):
        if batch.weight is None or batch.weight[k] > 0:
            total = jax.tree.map(np.add, total, gradient(params, Records(batch.x[k], batch.y[k])))
    return total


@pytest.fixture
def little_room(monkeypatch: pytest.MonkeyPatch) -> None:
    """Patches and gradients are made for few records at a time, as those of large models are."""
    for module in (blocks, gradients, pairs):
        monkeypatch.setattr(module, "ROOM", 64)


def assert_alike(found: Any, wanted: Any, precision: float = 1e-9) -> None:
    for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(wanted), strict=True):
        np.testing.assert_allclose(a, b, rtol=precision, atol=precision * np.abs(b).max())


@pytest.mark.parametrize("model", SHAPES)
def test_it_is_the_sum_of_gradients_clipped_one_by_one(model: Any) -> None:
    """In double precision, where margins and rounding are small."""
    loss, to = loss_of(model), Clip(1.0)
    with jax.enable_x64(True):
        params = some_params(model, np.float64)
        batch = some_records(7, np.float64)._replace(weight=np.asarray([1, 1, 0, 1, 2, 1, 1.0]))
        assert len(planned(loss, to, params, Held(batch)).layers) == LAYERS[model]
        found, wanted = jax.jit(clipped_sum(loss, to))(params, batch), one_by_one(loss, to, params, batch)
        assert_alike(found, wanted, 0.02 if model is halved else 1e-9)


@pytest.mark.parametrize("model", [picture, words, tied])
@pytest.mark.usefixtures("little_room")
def test_few_records_at_a_time_give_the_same(model: Any) -> None:
    loss, to = loss_of(model), Clip(1.0)
    with jax.enable_x64(True):
        params, batch = some_params(model, np.float64), some_records(7, np.float64)
        assert_alike(jax.jit(clipped_sum(loss, to))(params, batch), one_by_one(loss, to, params, batch))


@pytest.mark.parametrize("norm", ["l1", "linf"])
def test_other_norms_are_taken_of_gradients_that_are_formed(norm: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "WIDE", 600)  # two records at a time
    loss, to = loss_of(dense), Clip(0.3, norm)
    with jax.enable_x64(True):
        params, batch = some_params(dense, np.float64), some_records(7, np.float64)
        assert_alike(jax.jit(clipped_sum(loss, to))(params, batch), one_by_one(loss, to, params, batch))
        assert int(jax.jit(number_above(loss, to))(params, batch)) == 7


# --- the bound --------------------------------------------------------------------------------------------------------


def length(tree: Any) -> float:
    return float(np.sqrt(sum(np.sum(np.square(np.asarray(leaf, np.longdouble))) for leaf in jax.tree.leaves(tree))))


def contribution(model: Any, to: Clip, params: Any) -> Any:
    """What one record says in a batch in which nobody else says anything."""
    summed = clipped_sum(loss_of(model), to)
    weight = jnp.asarray([1.0, 0.0])
    return jax.jit(lambda x, y: summed(params, Records(jnp.stack([x, x]), jnp.stack([y, y]), weight)))


def hostile(rng: np.random.Generator, dtype: Any) -> np.ndarray:
    """Records of all scales; of rows that take each other back; of one number only; all alike."""
    kind = rng.integers(5)
    reach = 30 if dtype is np.float32 else 250
    if kind == 0:
        found = rng.normal(size=24) * 10.0 ** rng.uniform(-reach, reach)
    elif kind == 1:
        found = rng.normal(size=24) * 10.0 ** rng.uniform(-4, 4, 24)
    elif kind == 2:
        half = rng.normal(size=12)
        found = np.concatenate([half, -half * (1 + 1e-6 * rng.normal(size=12))])
    elif kind == 3:
        found = np.zeros(24)
        found[rng.integers(24)] = 10.0 ** rng.uniform(-3, 6)
    else:
        found = np.full(24, rng.normal())
    return found.astype(dtype)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("model", [dense, sequence, picture, words, twins])
def test_no_record_of_any_kind_contributes_more_than_the_bound(model: Any, dtype: Any) -> None:
    rng, reached = np.random.default_rng(5), 0.0
    with jax.enable_x64(dtype is np.float64):
        for scale in (1.0, 1e3):
            of_one = contribution(model, Clip(1 / 3), some_params(model, dtype, scale))
            for _ in range(150):
                found = of_one(hostile(rng, dtype), dtype(10.0 ** rng.uniform(-3, 3)))
                assert length(found) <= 1 / 3
                reached = max(reached, length(found))
    assert reached > (1 / 3) * (1 - 1e-3)  # and the bound is not far from what it could be


@pytest.mark.parametrize("poison", [np.nan, np.inf, 3e38])
def test_a_record_without_a_direction_counts_zero_and_spoils_no_other(poison: float) -> None:
    params, to = some_params(picture), Clip(0.5)
    for model in (picture, dense, sequence):
        params, batch = some_params(model), some_records()
        loss = loss_of(model)
        wanted = jax.jit(clipped_sum(loss, to))(params, batch._replace(weight=np.asarray([1, 0, 1, 1, 1, 0, 1.0])))
        batch.x[1, 3] = poison
        batch.x[5] = np.nan
        found = jax.jit(clipped_sum(loss, to))(params, batch._replace(weight=np.asarray([1, 1, 1, 1, 1, 0, 1.0])))
        assert all(np.all(np.isfinite(leaf)) for leaf in jax.tree.leaves(found))
        assert length(jax.tree.map(np.subtract, found, wanted)) <= 0.5 * (1 + 1e-6)
        if not np.isfinite(poison) and model is not picture:  # a maximum may pass by what is not a number
            np.testing.assert_allclose(length(jax.tree.map(np.subtract, found, wanted)), 0, atol=1e-6)


@pytest.mark.covered_by("the sum of gradients clipped one by one")
def test_a_wide_clip_changes_nothing() -> None:
    for model in (dense, picture):
        params, loss, batch = some_params(model), loss_of(model), some_records()
        whole = jax.grad(lambda p, loss=loss, batch=batch: jnp.sum(jax.vmap(loss, (None, 0))(p, batch)))(params)
        found = jax.jit(clipped_sum(loss, Clip(2.0**30)))(params, batch)
        for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(whole), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4 * np.abs(b).max())
        assert int(number_above(loss, Clip(2.0**30))(params, batch)) == 0


# --- the way that a size asks for -------------------------------------------------------------------------------------


def test_large_models_take_this_way_and_need_less_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    from tacit.objectives import from_loss

    objective = from_loss(loss_of(dense), initial=some_params(dense))
    batch = some_records(64)

    def compiled() -> Any:
        return jax.jit(clipped_gradient(objective, Clip(1.0))).lower(some_params(dense), batch).compile()

    formed = compiled()
    monkeypatch.setattr(clipping, "SMALL", 10)
    ours = compiled()
    assert ours.memory_analysis().temp_size_in_bytes < formed.memory_analysis().temp_size_in_bytes / 2
    for a, b in zip(*(jax.tree.leaves(f(some_params(dense), batch)) for f in (ours, formed)), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-5)
