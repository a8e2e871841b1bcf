"""Networks with convolutions in the simulator: the form that is fast says the same as the one that is written."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tacit
from tacit.privacy.per_record.rewriting import contains
from tacit.runtime.convolutions import convolves, in_fast_form, one_by_one
from tacit.streams import Batch

FORMS = {
    "flax": {"dimension_numbers": ("NHWC", "HWIO", "NHWC"), "window_strides": (1, 1), "padding": "SAME"},
    "equinox": {"dimension_numbers": ("NCHW", "OIHW", "NCHW"), "window_strides": (2, 1), "padding": "VALID"},
    "dilated": {"dimension_numbers": ("NHWC", "OIHW", "NCHW"), "window_strides": (1, 1), "padding": ((2, 1), (0, 1)),
                "rhs_dilation": (2, 1)},
    "grouped": {"dimension_numbers": ("NHWC", "HWIO", "NHWC"), "window_strides": (1, 1), "padding": "SAME",
                "feature_group_count": 2},
}  # fmt: skip


@pytest.mark.parametrize("form", FORMS)
def test_convolutions_and_their_gradients_stay_what_they_are(form: str) -> None:
    settings = FORMS[form]
    rng = np.random.default_rng(0)
    places = {"N": 3, "H": 7, "W": 6, "C": 4}
    kernel = {"H": 3, "W": 3, "I": 4 // settings.get("feature_group_count", 1), "O": 2}  # type: ignore[operator]
    image_form, kernel_form, _ = settings["dimension_numbers"]  # type: ignore[misc]
    x = jnp.asarray(rng.normal(size=[places[c] for c in image_form]), jnp.float32)
    w = jnp.asarray(rng.normal(size=[kernel[c] for c in kernel_form]), jnp.float32)

    def loss(x: jax.Array, w: jax.Array) -> jax.Array:
        def body(k: jax.Array, so_far: jax.Array) -> jax.Array:
            return so_far + jnp.sum(jnp.sin(jax.lax.conv_general_dilated(x * (k + 1), w, **settings)))  # type: ignore[arg-type]

        return jax.lax.fori_loop(0, 2, body, jnp.zeros(()))

    both = jax.value_and_grad(loss, argnums=(0, 1))
    for written, fast in zip(jax.tree.leaves(both(x, w)), jax.tree.leaves(in_fast_form(both)(x, w)), strict=True):
        np.testing.assert_allclose(fast, written, rtol=1e-4, atol=1e-4)


def test_a_largest_number_takes_the_gradient_of_its_window_and_the_first_of_equal_ones() -> None:
    x = jnp.asarray(np.random.default_rng(1).integers(0, 3, (2, 5, 6, 2)), jnp.float32)

    def loss(x: jax.Array, w: jax.Array) -> jax.Array:
        pooled = jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
        return jnp.sum(pooled * w)

    w = jnp.asarray(np.random.default_rng(2).normal(size=(2, 2, 3, 2)), jnp.float32)
    both = jax.value_and_grad(loss)
    fast = in_fast_form(both)
    assert not contains(jax.make_jaxpr(fast)(x, w), "select_and_scatter_add")
    for one, other in zip(both(x, w), fast(x, w), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6)


def test_one_by_one_maps_as_vmap_does() -> None:
    x, w, bias = jnp.arange(24.0).reshape(3, 4, 2), jnp.arange(6.0).reshape(2, 3), jnp.float32(2)

    def function(x: jax.Array, w: jax.Array, bias: jax.Array) -> dict[str, jax.Array]:
        return {"out": jnp.sum(x) * w + bias}

    axes = (0, 1, None)
    np.testing.assert_allclose(
        one_by_one(function, axes)(x, w, bias)["out"], jax.vmap(function, axes)(x, w, bias)["out"]
    )


@pytest.mark.skipif(jax.default_backend() != "cpu", reason="it is done on a CPU alone")
def test_runs_say_the_same_one_by_one_and_all_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = jnp.asarray(np.random.default_rng(3).normal(size=(3, 3, 1, 2)) / 3, jnp.float32)

    def apply(params: dict[str, jax.Array], x: jax.Array) -> jax.Array:
        form = ("NHWC", "HWIO", "NHWC")
        x = jax.nn.relu(jax.lax.conv_general_dilated(x, params["kernel"], (1, 1), "SAME", dimension_numbers=form))
        x = jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
        return x.reshape(x.shape[0], -1) @ params["out"]

    first = {"kernel": kernel, "out": jnp.ones((8, 3), jnp.float32) / 8}
    objective = tacit.objectives.from_model(apply, "cross_entropy", first, shape=(4, 4, 1))
    rng = np.random.default_rng(4)
    x, y = rng.normal(size=(60, 16)).astype("float32"), rng.integers(0, 3, 60)
    stream = tacit.streams.from_arrays(x, y, np.arange(60) % 3, task="multiclass", batch=4)
    noise = tacit.privacy.gaussian(noise_multiplier=0.1, clip=0.5, perturbs="gradient")
    methods = {
        "ring": (partial(tacit.algorithms.distributed_online, mechanism=noise), tacit.graphs.ring(3)),
        "server": (tacit.algorithms.fedavg, tacit.graphs.star_roles(3)),
    }
    for make, graph in methods.values():
        simulate = partial(tacit.simulate, make(objective, step=0.1), graph, stream, rounds=4)
        in_turn = simulate()
        with monkeypatch.context() as at_once:
            at_once.setattr("tacit.simulator.setup.convolves", lambda *_: False)
            together = simulate()
        assert in_turn.per_round.keys() == together.per_round.keys()
        for name, values in in_turn.per_round.items():
            np.testing.assert_allclose(values, together.per_round[name], rtol=2e-4, atol=1e-5, err_msg=name)
        for one, other in zip(jax.tree.leaves(in_turn.models), jax.tree.leaves(together.models), strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-3, atol=1e-5)


def test_only_learners_with_convolutions_work_in_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    def smoothed(w: jax.Array, batch: Batch) -> jax.Array:
        return jnp.sum(jnp.convolve(jnp.ravel(batch.x), w))

    found = []
    monkeypatch.setattr("tacit.simulator.setup.convolves", lambda *given: found.append(convolves(*given)) or found[-1])
    for objective in (tacit.objectives.logistic(), tacit.objectives.from_loss(smoothed, jnp.zeros(3))):
        method = tacit.algorithms.distributed_online(objective, step=0.1)
        tacit.simulate(method, tacit.graphs.ring(3), tacit.streams.logistic_drift(3, 3), rounds=1)
    assert found == [False, True]
