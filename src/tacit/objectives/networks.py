"""A small convolutional network as an objective: two convolutions, two fully connected layers, cross-entropy.

It is written for how the runtimes use it: every agent has weights of its own, every record's gradient is clipped by
itself, and rounds run inside a compiled loop. There XLA's own convolutions are slow on the CPU (1.7 times as slow for
this network), so that a convolution is a matrix product with the image's patches, and pooling a maximum over a reshaped
array. The loss is not convex: no comparator is certified for it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from tacit.core.checks import whole_number
from tacit.core.contract import Array, Batch, Objective, Params
from tacit.core.errors import ConfigError, DataError
from tacit.objectives.losses import MeanLoss, PenalisedLoss, softmax_loss
from tacit.objectives.regularisers import Regulariser

KERNEL, POOL = 5, 2


class Layer(NamedTuple):
    """Weights (inputs, outputs) and a bias per output; the inputs of a convolution are a patch's places, each with all
    channels."""

    weight: Array
    bias: Array


class Weights(NamedTuple):
    """The parameters of the network."""

    convolution1: Layer
    convolution2: Layer
    hidden: Layer
    output: Layer


@dataclass(frozen=True)
class Network:
    """The architecture. A value: equal settings compare equal."""

    classes: int = 10
    channels: tuple[int, int] = (32, 64)
    hidden: int = 512
    side: int = 28

    def __post_init__(self) -> None:
        pair = self.channels
        if not isinstance(pair, Sequence) or isinstance(pair, str) or len(pair) != 2:
            raise ConfigError(f"channels = {pair!r}: expected two whole numbers, e.g. (32, 64)")
        sizes = (("classes", self.classes, 2), ("hidden", self.hidden, 1), ("side", self.side, 4))
        for name, value, least in (*sizes, ("channels", pair[0], 1), ("channels", pair[1], 1)):
            whole_number(name, value, least=least)
        if self.side % POOL**2:
            raise ConfigError(
                f"side = {self.side}: expected a multiple of {POOL**2}, since two poolings halve it; pad the images"
            )
        object.__setattr__(self, "channels", tuple(pair))

    def shapes(self) -> tuple[tuple[int, int], ...]:
        """Return (inputs, outputs) of each layer."""
        first, second = self.channels
        left = (self.side // POOL**2) ** 2 * second
        taps = KERNEL**2
        return (taps, first), (taps * first, second), (left, self.hidden), (self.hidden, self.classes)

    def first(self, seed: int, dtype: jnp.dtype) -> Weights:
        """Draw weights uniformly with the variance 2 / inputs (He et al. 2015) and set biases to 0."""
        rng = np.random.default_rng(seed)

        def layer(inputs: int, outputs: int) -> Layer:
            width = math.sqrt(6 / inputs)
            drawn = rng.uniform(-width, width, (inputs, outputs))
            return Layer(jnp.asarray(drawn, dtype), jnp.zeros(outputs, dtype))

        return Weights(*(layer(*shape) for shape in self.shapes()))

    def __call__(self, params: Weights, x: Array) -> Array:
        """Return one number per class of images (..., side * side) with grey values row by row.

        These are from 0 to 1, or whole numbers (bytes) from 0 to 255, which take a quarter of the memory.
        """
        grey = x if jnp.issubdtype(x.dtype, jnp.floating) else x.astype(params.output.bias.dtype) / 255
        image = grey.reshape(*x.shape[:-1], self.side, self.side, 1)
        for layer in (params.convolution1, params.convolution2):
            image = _apart(_pooled(_apart(_apart(_patches(image)) @ layer.weight + layer.bias)))
        flat = image.reshape(*x.shape[:-1], -1)
        hidden = jax.nn.relu(flat @ params.hidden.weight + params.hidden.bias)
        return hidden @ params.output.weight + params.output.bias


@dataclass(frozen=True)
class NetworkLoss:
    """The mean cross-entropy of a network over a batch's present samples; not a `MeanLoss`, which is convex."""

    network: Network

    def __call__(self, params: Params, batch: Batch) -> Array:
        """Return the mean loss of the batch."""
        return MeanLoss(self.network, softmax_loss)(params, batch)


def cnn(
    classes: int = 10,
    channels: tuple[int, int] = (32, 64),
    hidden: int = 512,
    side: int = 28,
    l2: float = 0.0,
    seed: int = 0,
) -> Objective:
    """Convolutional network for square images and classes 0, 1, ...; not convex, the score is the accuracy.

    5 x 5 convolution (padded, so that the side stays), 2 x 2 maximum, the same again, a hidden layer, ReLU, softmax and
    cross-entropy. The defaults have 1,663,370 parameters.

    Args:
      classes: Number of classes, at least 2.
      channels: Channels of the two convolutions.
      hidden: Units of the hidden layer.
      side: Height and width of an image, a multiple of 4; a row of x holds side * side grey values.
      l2: Coefficient of ||w||^2 / 2, 0 or more.
      seed: Seed of the first weights, so that all agents start alike.

    Example:
      >>> import tacit
      >>> tacit.objectives.cnn(classes=3, channels=(2, 2), hidden=8, side=8)
      Objective(cnn)

    References:
      Dissertation, sec. 5.5, which has the defaults.
    """
    network = Network(classes, channels, hidden, side)

    def initial(batch: Batch) -> Weights:
        if batch.x.shape[-1:] != (side * side,):
            raise DataError(
                f"samples of shape {tuple(batch.x.shape)} for a network of images of {side} x {side}: expected a last "
                f"axis of {side * side} grey values; flatten the images, or say side="
            )
        dtype = batch.x.dtype if jnp.issubdtype(batch.x.dtype, jnp.floating) else jnp.dtype(float)
        return network.first(seed, jax.dtypes.canonicalize_dtype(dtype))

    loss = PenalisedLoss(NetworkLoss(network), Regulariser(l2=l2))
    return Objective("cnn", loss, initial, MeanLoss(network, _is_largest), predict=network, task="multiclass")


def _is_largest(prediction: Array, y: Array) -> Array:
    """1 where class y has the one largest prediction, else 0; a tie or a label out of range is wrong."""
    here = jnp.arange(prediction.shape[-1]) == jnp.asarray(y)[..., None]
    own = jnp.max(jnp.where(here, prediction, -jnp.inf), axis=-1, keepdims=True)
    others = jnp.max(jnp.where(here, -jnp.inf, prediction), axis=-1, keepdims=True)
    return (own > others)[..., 0].astype(prediction.dtype)


def _apart(image: Array) -> Array:
    """Keep XLA from merging what comes before with what comes after, here and in the gradient.

    On a GPU it would otherwise put the 25 shifted copies of a patch, or of its gradient, into every reduction that
    reads them.
    """
    separate: Array = jax.lax.optimization_barrier(image)
    return separate


def _patches(image: Array) -> Array:
    """Return (..., side, side, 25 channels): what a 5 x 5 kernel sees around each place, zeros beyond the edge."""
    side, edge = image.shape[-2], KERNEL // 2
    padded = jnp.pad(image, [(0, 0)] * (image.ndim - 3) + [(edge, edge), (edge, edge), (0, 0)])
    steps = range(KERNEL)
    return jnp.concatenate([padded[..., i : i + side, j : j + side, :] for i in steps for j in steps], axis=-1)


def _pooled(image: Array) -> Array:
    """Return the maximum of each 2 x 2 square."""
    *lead, height, width, channels = image.shape
    return image.reshape(*lead, height // POOL, POOL, width // POOL, POOL, channels).max(axis=(-4, -2))
