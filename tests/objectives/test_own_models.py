"""Models of the user's own: Flax, Equinox and functions; dropout, clipping, precision, metrics, refusals, files."""

from __future__ import annotations

import subprocess
import sys

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from flax import linen, nnx
from tests.daily import some

import tacit
from tacit.core.contract import Clip
from tacit.core.errors import ConfigError, DataError
from tacit.objectives import figures, from_loss, from_model, rebuilt
from tacit.peer import run_in_process
from tacit.privacy import gaussian, gradient_parts
from tacit.streams import Batch

CLASSES, SIDE, ROWS = 3, 4, 6
SHAPE = (SIDE, SIDE, 1)


class NnxNet(nnx.Module):
    def __init__(self, rngs, drop=0.5, norm=None):
        self.conv = nnx.Conv(1, 2, (3, 3), rngs=rngs)
        self.norm = norm(2, rngs=rngs) if norm else None
        self.drop = nnx.Dropout(drop, rngs=rngs) if drop else None
        self.out = nnx.Linear(2 * SIDE * SIDE, CLASSES, rngs=rngs)
        self.scale = jnp.arange(1, 2)  # whole numbers are not learnt

    def __call__(self, x):
        x = nnx.relu(self.conv(x)) * self.scale
        x = x if self.norm is None else self.norm(x)
        x = x.reshape(x.shape[0], -1)
        return self.out(x if self.drop is None else self.drop(x))


class LinenNet(linen.Module):
    drop: float = 0.5
    norm: bool = False

    @linen.compact
    def __call__(self, x, train: bool = False):
        x = linen.relu(linen.Conv(2, (3, 3))(x))
        x = linen.BatchNorm(use_running_average=not train)(x) if self.norm else x
        return linen.Dense(CLASSES)(linen.Dropout(self.drop, deterministic=not train)(x.reshape(x.shape[0], -1)))


class LinenStill(linen.Module):
    @linen.compact
    def __call__(self, x):
        return linen.Dense(CLASSES)(linen.relu(linen.Conv(2, (3, 3))(x)).reshape(x.shape[0], -1))


class EquinoxNet(eqx.Module):
    conv: eqx.nn.Conv2d
    drop: eqx.nn.Dropout
    out: eqx.nn.Linear

    def __init__(self, seed=0, drop=0.5):
        keys = jax.random.split(jax.random.key(seed))
        self.conv = eqx.nn.Conv2d(1, 2, 3, padding=1, key=keys[0])
        self.drop = eqx.nn.Dropout(drop)
        self.out = eqx.nn.Linear(2 * SIDE * SIDE, CLASSES, key=keys[1])

    def __call__(self, x, *, key=None):
        x = jax.nn.relu(self.conv(x.transpose(2, 0, 1)))
        return self.out(self.drop(x.ravel(), key=key))


def apply(params, x, key=None):
    x = jnp.tanh(x.reshape(x.shape[0], -1) @ params["in"]) * params["twice"]
    x = x if key is None else x * jax.random.bernoulli(key, 0.5, x.shape)
    return x @ params["out"]


def first_params():
    rng = np.random.default_rng(0)
    return {"in": rng.normal(size=(16, 5)) / 4, "out": rng.normal(size=(5, CLASSES)), "twice": np.array([2])}


DRAWING = {
    "nnx": lambda: from_model(NnxNet(nnx.Rngs(0)), shape=SHAPE),
    "linen": lambda: from_model(LinenNet(), shape=SHAPE),
    "equinox": lambda: from_model(EquinoxNet(), shape=SHAPE),
    "function": lambda: from_model(apply, params=first_params(), shape=SHAPE),
}
STILL = {
    "nnx": lambda **how: from_model(NnxNet(nnx.Rngs(0), drop=0), shape=SHAPE, **how),
    "linen": lambda **how: from_model(LinenStill(), shape=SHAPE, **how),
    "equinox": lambda **how: from_model(EquinoxNet(drop=0.0), shape=SHAPE, **how),
}


def rows(count=ROWS, seed=0):
    rng = np.random.default_rng(seed)
    return Batch(
        rng.normal(size=(count, SIDE * SIDE)).astype(np.float32),
        rng.integers(0, CLASSES, count),
        np.ones(count, np.float32),
    )


def spec(batch):
    return jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape, jnp.result_type(leaf)), batch)


def start(objective):
    return jax.tree.map(jnp.asarray, objective.initial(spec(rows())))


def stream(agents=3, batch=2):
    data = rows(60)
    return tacit.streams.from_arrays(data.x, data.y, np.arange(60) % agents, batch=batch, task="multiclass")


def largest_gap(a, b):
    return max(
        float(np.abs(np.asarray(x) - np.asarray(y)).max()) for x, y in zip(*map(jax.tree.leaves, (a, b)), strict=True)
    )


@pytest.mark.parametrize("library", some(DRAWING, "a function", daily=["function"]))
def test_with_noise_adam_and_dropout_peers_do_as_the_simulator(library):
    noise = gaussian(noise_multiplier=0.5, clip=1.0, perturbs="gradient")
    method = tacit.algorithms.distributed_online(DRAWING[library](), optax.adam(0.01), noise)
    settings = {"rounds": 3, "seed": 1, "dtype": "float64"}
    run = tacit.simulate(method, tacit.graphs.complete(3), stream(), **settings)
    peers = run_in_process(method, tacit.graphs.complete(3), stream(), **settings)
    learnt = jax.tree.map(lambda leaf: leaf[0], run.models)
    assert largest_gap(jax.tree.map(lambda leaf: leaf[-1], peers.models), learnt) < 1e-10
    assert largest_gap(jax.tree.map(lambda leaf: leaf[0], learnt), method.objective.initial(spec(rows()))) > 1e-3
    assert run.privacy.summary()["private"]


@pytest.mark.parametrize("library", DRAWING)
def test_dropout_goes_by_the_key_in_training_and_is_off_in_evaluation(library):
    objective = DRAWING[library]()
    params, batch = start(objective), jax.tree.map(jnp.asarray, rows())
    for clip in (None, Clip(100.0)):
        gradient = jax.jit(gradient_parts(objective, clip).data)
        found = [gradient(params, batch, None, jax.random.key(seed)) for seed in (0, 0, 1)]
        assert largest_gap(found[0], found[1]) == 0
        assert largest_gap(found[0], found[2]) > 1e-3
        with pytest.raises(ConfigError, match="key"):
            gradient_parts(objective, clip).data(params, batch)
    with pytest.raises(ConfigError, match="key"):
        jax.grad(objective.loss)(params, batch)
    each = [objective.loss(params, jax.tree.map(lambda leaf, k=k: leaf[k], batch)) for k in range(ROWS)]
    np.testing.assert_allclose(objective.loss(params, batch), np.mean(each), rtol=1e-5)


def test_each_record_of_a_clipped_batch_draws_for_itself():
    objective = from_model(apply, params=first_params(), shape=SHAPE)
    params, batch = start(objective), jax.tree.map(lambda leaf: jnp.stack([jnp.asarray(leaf[0])] * 2), rows())
    pair = gradient_parts(objective, Clip(100.0)).data(params, batch, None, jax.random.key(0))
    each = [
        gradient_parts(objective, Clip(100.0)).data(params, jax.tree.map(lambda leaf: leaf[0], batch), None, key)
        for key in jax.random.split(jax.random.key(0), 2)
    ]
    assert largest_gap(*each) > 1e-3
    assert largest_gap(pair, jax.tree.map(lambda a, b: (a + b) / 2, *each)) < 1e-6


@pytest.mark.parametrize("library", some(STILL, "nnx", daily=["nnx"]))
def test_a_loss_for_batches_is_the_same_with_a_clip(library):
    objective = STILL[library](l2=0.1)
    assert objective.training is None
    params, batch = start(objective), jax.tree.map(jnp.asarray, rows())
    plain = gradient_parts(objective, None).data(params, batch)
    clipped = gradient_parts(objective, Clip(1e4))
    whole = jax.tree.map(jnp.add, clipped.data(params, batch), clipped.penalty(params))
    assert largest_gap(plain, whole) < 1e-5


def test_a_loss_of_ones_own_may_be_a_mean_or_of_each_record():
    def mean(outputs, labels):
        return optax.softmax_cross_entropy_with_integer_labels(outputs, labels).mean()

    losses = ["cross_entropy", mean, optax.softmax_cross_entropy_with_integer_labels]
    objectives = [STILL["nnx"](loss=loss, task="multiclass") for loss in losses]
    batch = rows()
    weight = np.array([1, 0, 1, 1, 0, 1], np.float32)
    absent = batch._replace(x=np.where(weight[:, None] > 0, batch.x, np.nan), weight=weight)
    there = jax.tree.map(lambda leaf: leaf[weight > 0], batch)
    found = [[float(each.loss(start(each), b)) for b in (batch, absent, there)] for each in objectives]
    np.testing.assert_allclose(found, [found[0]] * 3, rtol=1e-6)
    assert found[0][1] == pytest.approx(found[0][2], rel=1e-6)
    gradient = gradient_parts(objectives[1], Clip(1.0)).data(start(objectives[1]), jax.tree.map(jnp.asarray, absent))
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(gradient))


def test_a_plain_loss_of_batches_gets_a_record_as_a_batch_of_one():
    kernel = jnp.ones((1, 1, 3, 3)) / 9

    def loss(params, batch):
        seen = jax.lax.conv(batch.x.reshape(-1, 1, SIDE, SIDE), params * kernel, (1, 1), "SAME")
        return jnp.mean(jnp.square(seen.mean(axis=(1, 2, 3)) - batch.y))

    batch = jax.tree.map(jnp.asarray, rows())
    one = gradient_parts(from_loss(loss, jnp.ones(()), batched=True), Clip(1e4)).data(jnp.ones(()), batch)
    np.testing.assert_allclose(one, jax.grad(loss)(jnp.ones(()), batch), rtol=1e-5)


REFUSED = {
    "nnx statistics": (lambda: from_model(NnxNet(nnx.Rngs(0), norm=nnx.BatchNorm), shape=SHAPE), "LayerNorm"),
    "linen statistics": (lambda: start(from_model(LinenNet(norm=True), shape=SHAPE)), "LayerNorm"),
    "equinox statistics": (
        lambda: from_model(eqx.nn.Sequential([eqx.nn.BatchNorm(2, axis_name="b", mode="batch")])),
        "LayerNorm",
    ),
    "loss": (lambda: STILL["nnx"](loss="crossentropy"), "cross_entropy"),
    "metric": (lambda: STILL["nnx"](metric="mean_absolute_error"), "accuracy"),
    "task": (lambda: STILL["nnx"](task="binary"), "multiclass"),
    "precision": (lambda: STILL["nnx"](precision="float16"), "bfloat16"),
    "no parameters": (lambda: from_model(apply), "params"),
    "a class": (lambda: from_model(NnxNet), "made"),
    "outputs": (lambda: start(from_model(NnxNet(nnx.Rngs(0), drop=0), "squared", shape=SHAPE)), r"\(b, 1\)"),
    "images without a form": (lambda: from_model(NnxNet(nnx.Rngs(0))).initial(spec(rows()._replace(x=np.zeros((6, 4, 4, 1))))), "shape="),
    "a loss of other shape": (
        lambda: (o := STILL["nnx"](loss=lambda outputs, labels: outputs)).loss(start(o), rows()),
        "per record",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_what_does_not_fit_is_refused(case):
    make, word = REFUSED[case]
    with pytest.raises(ConfigError, match=word):
        make()


def test_other_rows_than_the_form_says_are_refused():
    with pytest.raises(DataError, match="16"):
        STILL["nnx"]().initial(spec(rows()._replace(x=np.zeros((6, 15)))))


def test_a_method_that_hands_on_no_key_is_refused_before_round_0():
    method = tacit.algorithms.importance_fedavg(DRAWING["function"](), cohort=2)
    with pytest.raises(ConfigError, match="key"):
        tacit.simulate(method, tacit.graphs.star_roles(3), stream(), rounds=2)


def test_first_parameters_go_by_the_seed_and_whole_numbers_are_not_learnt():
    drawn = [start(from_model(LinenNet(), shape=SHAPE, seed=seed)) for seed in (0, 0, 1)]
    assert largest_gap(drawn[0], drawn[1]) == 0
    assert largest_gap(drawn[0], drawn[2]) > 0.01
    assert sorted(start(STILL["nnx"]())) == ["conv.bias", "conv.kernel", "out.bias", "out.kernel"]
    assert start(DRAWING["function"]())["twice"] is None


def test_half_precision_is_of_the_model_alone():
    wide, narrow = STILL["nnx"](), STILL["nnx"](precision="bfloat16")
    params, batch = start(wide), jax.tree.map(jnp.asarray, rows())
    found = gradient_parts(narrow, Clip(1.0)).data(params, batch)
    assert {leaf.dtype for leaf in jax.tree.leaves(found)} == {jnp.dtype(jnp.float32)}
    assert narrow.loss(params, batch) == pytest.approx(float(wide.loss(params, batch)), rel=0.02)
    assert float(narrow.loss(params, batch)) != float(wide.loss(params, batch))
    assert "bf16" in str(jax.make_jaxpr(narrow.loss)(params, batch))


def test_metrics_by_name():
    objective = from_model(lambda params, x: x[:, :CLASSES] * params, params=jnp.ones(()))
    batch = rows(200)
    order = np.argsort(np.argsort(-batch.x[:, :CLASSES], axis=1), axis=1)
    rank = order[np.arange(200), batch.y]
    found = figures(objective, "accuracy", "top_2")
    assert float(objective.score(jnp.ones(()), batch)) == pytest.approx(np.mean(rank == 0))
    assert float(found["top_2"](jnp.ones(()), batch)) == pytest.approx(np.mean(rank <= 1))
    number = from_model(lambda params, x: x[:, :1] * params, "squared", jnp.ones(()), metric="mean_absolute_error")
    labels = batch._replace(y=batch.y.astype(np.float32))
    assert float(number.score(jnp.ones(()), labels)) == pytest.approx(np.abs(batch.x[:, 0] - batch.y).mean(), rel=1e-5)
    signs = from_model(lambda params, x: x[:, 0] * params, "logistic", jnp.ones(()))
    sides = batch._replace(y=np.where(batch.x[:, 1] > 0, 1.0, -1.0))
    assert float(signs.score(jnp.ones(()), sides)) == pytest.approx(np.mean(batch.x[:, 0] * batch.x[:, 1] > 0))


def test_augmentation_is_of_each_record_and_in_training_alone():
    """Rows that are all alike: what the loss sees of them differs in training, from row to row and from key to key."""

    def shifted(key, x):
        return x + jax.random.normal(key, ()) * jnp.arange(x.size).reshape(x.shape)

    def apart(outputs, labels):
        return jnp.square(outputs[:, 1] - jnp.mean(outputs[:, 1]))

    objective = from_model(
        lambda params, x: x.reshape(x.shape[0], -1) * params, apart, jnp.ones(()), shape=SHAPE, augment=shifted,
        task="multiclass",
    )  # fmt: skip
    alike = Batch(jnp.ones((ROWS, SIDE * SIDE)), jnp.zeros(ROWS, jnp.int32))
    assert float(objective.loss(jnp.ones(()), alike)) == 0
    training = jax.jit(objective.training)
    found = [float(training(jax.random.key(k), jnp.ones(()), alike)) for k in (0, 0, 1)]
    assert found[0] == found[1] != found[2]
    assert min(found) > 0.05  # a variance of six normal numbers: below that once in ten thousand keys
    gradient = jax.grad(objective.training, 1)(jax.random.key(0), jnp.full((), 2.0), alike)
    assert float(gradient) == pytest.approx(4 * found[0], rel=1e-4)  # of the very loss that training sees


@pytest.mark.parametrize("library", STILL)
def test_the_librarys_own_form_comes_back(library):
    objective = STILL[library]()
    params = jax.tree.map(lambda leaf: leaf + 0.1, start(objective))
    model, x = rebuilt(objective, params), jnp.asarray(rows().x).reshape(-1, *SHAPE)
    if library == "linen":
        said = LinenStill().apply(model, x)
    else:
        said = model(x) if library == "nnx" else jax.vmap(model)(x)
    np.testing.assert_allclose(objective.predict(params, x), said, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(objective.predict(params, rows().x[0]), said[0], rtol=1e-5, atol=1e-6)
    with pytest.raises(ConfigError, match="from_model"):
        rebuilt(tacit.objectives.logistic(), params)


def test_a_function_imports_no_library():
    code = (
        "import sys, jax.numpy as jnp, tacit\n"
        "o = tacit.objectives.from_model(lambda p, x: x @ p, 'squared', jnp.zeros(3))\n"
        "method = tacit.algorithms.distributed_online(o, step=0.1)\n"
        "print([name for name in ('flax', 'equinox', 'optax') if name in sys.modules])"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"
