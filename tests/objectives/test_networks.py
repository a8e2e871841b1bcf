"""The small CNN against a straightforward implementation with XLA's own convolutions."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tacit.core.contract import Clip
from tacit.core.errors import ConfigError, DataError
from tacit.objectives import cnn
from tacit.objectives.losses import certified_regulariser
from tacit.objectives.networks import Network
from tacit.privacy import gradient_parts
from tacit.streams import Batch

SIDE, CLASSES, CHANNELS, HIDDEN, RECORDS = 8, 3, (2, 3), 5, 4
L2 = 0.1


def straightforward(params, x):
    """The same network as a text book writes it: convolutions, windows, matrix products, image by image."""
    image = x.reshape(-1, SIDE, SIDE, 1)
    for layer in (params.convolution1, params.convolution2):
        kernel = layer.weight.reshape(5, 5, image.shape[-1], -1)
        axes = ("NHWC", "HWIO", "NHWC")
        image = jax.lax.conv_general_dilated(image, kernel, (1, 1), "SAME", dimension_numbers=axes) + layer.bias
        image = jax.lax.reduce_window(image, -jnp.inf, jax.lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
    flat = image.reshape(image.shape[0], -1)
    hidden = jnp.maximum(flat @ params.hidden.weight + params.hidden.bias, 0)
    return (hidden @ params.output.weight + params.output.bias).reshape(*x.shape[:-1], CLASSES)


def cross_entropy(params, x, y):
    logits = straightforward(params, x)
    return -jnp.mean(jnp.take_along_axis(jax.nn.log_softmax(logits), y[:, None], axis=1))


@pytest.fixture(scope="module")
def objective():
    return cnn(CLASSES, CHANNELS, HIDDEN, SIDE, l2=L2, seed=3)


@pytest.fixture(scope="module")
def batch():
    rng = np.random.default_rng(0)
    x = rng.random((RECORDS, SIDE * SIDE)).astype(np.float32)
    return Batch(jnp.asarray(x), jnp.asarray(rng.integers(0, CLASSES, RECORDS), jnp.int32))


@pytest.fixture(scope="module")
def params(objective, batch):
    """The first weights, with biases that are not 0, so that a forgotten one is seen."""
    start = objective.initial(batch)
    return jax.tree.map(lambda leaf: leaf + 0.1 if leaf.ndim == 1 else leaf, start)


@pytest.fixture(scope="module")
def predictions(objective, params, batch):
    return jax.jit(objective.predict)(params, batch.x)


def test_predictions_loss_and_gradient(objective, params, batch, predictions):
    loss, found = jax.jit(jax.value_and_grad(objective.loss))(params, batch)
    reference = jax.jit(lambda p: (jax.value_and_grad(cross_entropy)(p, *batch[:2]), straightforward(p, batch.x)))
    (plain, gradient), expected = reference(params)
    np.testing.assert_allclose(predictions, expected, atol=1e-5)
    squares = sum(float(np.sum(np.square(leaf))) for leaf in jax.tree.leaves(params))
    np.testing.assert_allclose(loss, plain + 0.5 * L2 * squares, rtol=1e-5)
    jax.tree.map(lambda a, g, p: np.testing.assert_allclose(a, g + L2 * p, atol=2e-5), found, gradient, params)


def test_gradients_of_single_records_clipped(objective, params, batch):
    """As the runtimes use it: vmapped over agents with their own weights, record by record, inside a loop."""
    bound = 3.0
    agents = jax.tree.map(lambda leaf: jnp.stack([leaf, 0.5 * leaf]), params)
    both = Batch(jnp.stack([batch.x, batch.x[::-1]]), jnp.stack([batch.y, batch.y[::-1]]))
    clipped = jax.vmap(gradient_parts(objective, Clip(bound)).data)
    found = jax.jit(lambda a: jax.lax.fori_loop(0, 1, lambda _, state: clipped(state, both), a))(agents)
    of_record = jax.grad(lambda p, x, y: cross_entropy(p, x[None], y[None]))
    each = jax.jit(jax.vmap(jax.vmap(of_record, in_axes=(None, 0, 0))))(agents, both.x, both.y)
    norms = np.sqrt(sum(np.sum(np.square(g).reshape(2, RECORDS, -1), axis=2) for g in jax.tree.leaves(each)))
    assert 0 < np.sum(norms > bound) < 2 * RECORDS, "the bound must cut some and leave some"
    factor = np.minimum(1, bound / norms) / RECORDS

    def check(mine, gradients):
        np.testing.assert_allclose(mine, np.einsum("ar,ar...->a...", factor, gradients), atol=2e-5)

    jax.tree.map(check, found, each)


def test_one_sample_has_no_batch_axis(objective, params, batch, predictions):
    one = Batch(batch.x[0], batch.y[0])
    loss, predicted = jax.jit(lambda p: (objective.loss(p, one), objective.predict(p, one.x)))(params)
    np.testing.assert_allclose(predicted, predictions[0], atol=1e-5)
    assert loss.shape == ()


def test_absent_samples_do_not_count(objective, params, batch):
    weight = jnp.asarray([1.0, 0.0, 1.0, 0.0])
    absent = (weight == 0)[:, None]
    spoilt = Batch(jnp.where(absent, jnp.nan, batch.x), batch.y, weight)
    kept = Batch(batch.x[::2], batch.y[::2])
    figures = jax.jit(lambda p, b: (objective.loss(p, b), objective.score(p, b)))
    np.testing.assert_allclose(figures(params, spoilt), figures(params, kept), rtol=1e-5)


def test_score_is_the_share_of_right_classes(objective, params, batch, predictions):
    best = np.argmax(predictions, axis=-1).astype(np.int32)
    score = jax.jit(lambda p, y: objective.score(p, Batch(batch.x, y)))
    assert score(params, best) == 1
    assert score(params, np.where(np.arange(RECORDS) == 0, (best + 1) % CLASSES, best)) == 1 - 1 / RECORDS
    indifferent = jax.tree.map(jnp.zeros_like, params)
    assert score(indifferent, best) == 0, "a tie is no answer"
    assert score(params, np.full(RECORDS, CLASSES, np.int32)) == 0, "a class that does not exist"


def test_first_weights_follow_from_the_seed_alone(objective, batch):
    again = cnn(CLASSES, CHANNELS, HIDDEN, SIDE, seed=3).initial(Batch(1 - batch.x, batch.y))
    other = cnn(CLASSES, CHANNELS, HIDDEN, SIDE, seed=4).initial(batch)
    first = objective.initial(batch)
    jax.tree.map(np.testing.assert_array_equal, first, again)
    assert not np.array_equal(first.hidden.weight, other.hidden.weight)
    assert all(not np.any(layer.bias) for layer in first)


def test_the_network_of_the_text_has_its_size():
    shapes = Network().shapes()
    assert sum(inputs * outputs + outputs for inputs, outputs in shapes) == 1_663_370
    weights = Network().first(0, jnp.dtype("float32")).hidden.weight
    # Uniform weights of variance 2 / inputs; the mean of 1.6 million squares is within 1 % with certainty.
    np.testing.assert_allclose(np.var(weights), 2 / 3136, rtol=0.01)
    assert float(jnp.max(jnp.abs(weights))) <= np.sqrt(6 / 3136)


def test_no_optimum_is_certified(objective):
    assert certified_regulariser(objective) is None


def test_equal_settings_make_equal_losses():
    assert cnn(3, (1, 2), 4, 8).loss == cnn(3, (1, 2), 4, 8).loss != cnn(3, (1, 2), 5, 8).loss


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"classes": 1}, "classes = 1: expected a whole number of at least 2"),
        ({"channels": (4,)}, r"channels = \(4,\): expected two whole numbers"),
        ({"channels": (0, 4)}, "channels = 0: expected a whole number of at least 1"),
        ({"hidden": 0.5}, "hidden = 0.5: expected a whole number"),
        ({"side": 30}, "side = 30: expected a multiple of 4"),
        ({"l2": -1.0}, "l2 = -1.0: expected a finite number from 0 on"),
    ],
)
def test_settings_that_make_no_network_are_refused(settings, message):
    with pytest.raises(ConfigError, match=message):
        cnn(**settings)


def test_images_of_another_size_are_refused(objective):
    with pytest.raises(DataError, match=r"\(4, 49\) .* 64 grey"):
        objective.initial(Batch(np.zeros((4, 49), np.float32), np.zeros(4, np.int32)))


def test_a_file_can_name_it_since_it_says_its_labels():
    assert cnn().task == "multiclass"
