"""Losses of linear models, and the objectives made of them.

A batch has the attributes `x` ((d,) or (b, d)), `y` (() or (b,)) and `weight` (None, () or (b,); 0 means that
there is no sample, whatever x and y hold). A loss is the weighted mean over the samples that are present, or
0 if there are none, plus the regulariser. Losses are values: two made with the same settings are equal, so
that a compiled program is found again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import jax
import jax.numpy as jnp

from tacit.core.checks import SINGLE, positive, whole_number
from tacit.core.contract import Array, Batch, Objective, Params
from tacit.objectives.regularisers import Regulariser, huber

SampleLoss = Callable[[Array, Array], Array]
"""(prediction, y) -> loss, sample by sample."""
Loss = Callable[[Params, Batch], Array]
ClassWeight = Mapping[str, float] | Sequence[float] | Literal["balanced"] | None
"""Class -> weight, or the weights in the order of the classes; "balanced": counted from the rows of an experiment."""
Predict = Callable[[Params, Array], Array]
"""(params, x) -> prediction: one number per sample, or one per sample and class."""


@dataclass(frozen=True)
class MeanLoss:
    """Mean over a batch's present samples of a loss that is convex in the parameters and >= 0.

    Args:
      predict: (params, x) -> prediction.
      sample: (prediction, y) -> loss of each sample.
      smooth: For a `sample` with kinks, mu -> a smooth convex loss, >= 0, below it by at most mu.
    """

    predict: Predict
    sample: SampleLoss
    smooth: Callable[[float], SampleLoss] | None = None

    def __call__(self, params: Params, batch: Batch) -> Array:
        """Return the mean loss of the batch."""
        x, y = _present(batch)
        return _mean_present(self.sample(self.predict(params, x), y), batch.weight)

    @property
    def smoothing(self) -> Callable[[float], Loss] | None:
        """For a loss with kinks: mu -> a smooth one below it by at most mu, as each sample's is."""
        smooth = self.smooth
        return None if smooth is None else lambda mu: MeanLoss(self.predict, smooth(mu))


@dataclass(frozen=True)
class PenalisedLoss:
    """Loss of the data plus a regulariser, kept apart so that a solver can certify its result.

    Args:
      data: (params, batch) -> mean loss of the batch.
      regulariser: params -> penalty.
    """

    data: Loss
    regulariser: Callable[[Params], Array]

    def __call__(self, params: Params, batch: Batch) -> Array:
        """Return the loss of the batch plus the regulariser."""
        return self.data(params, batch) + self.regulariser(params)


@dataclass(frozen=True)
class SmoothHinge:
    """The hinge loss with its kink rounded off on 0 <= 1 - y p <= 2 mu: below it by at most mu."""

    mu: float

    def __call__(self, prediction: Array, y: Array) -> Array:
        """Return the loss of each sample."""
        short = 1 - y * prediction
        rounded = jnp.where(short <= 2 * self.mu, jnp.square(short) / (4 * self.mu), short - self.mu)
        return jnp.where(short <= 0, 0, rounded)


@dataclass(frozen=True)
class SmoothAbsolute:
    """The absolute loss with its kink rounded off: below it by at most mu."""

    mu: float

    def __call__(self, prediction: Array, y: Array) -> Array:
        """Return the loss of each sample."""
        return huber(prediction - y, self.mu)


def regularised(objective: Objective, regulariser: Regulariser) -> Objective:
    """Objective with a regulariser added to its loss.

    Args:
      objective: The objective.
      regulariser: The penalty, e.g. ``tacit.objectives.l1(0.01)``; it adds to one that is there.

    Example:
      >>> import tacit
      >>> more = tacit.objectives.regularised(tacit.objectives.logistic(l2=0.1), tacit.objectives.l1(0.01))
      >>> more
      Objective(logistic, l1=0.01, l2=0.1)
    """
    loss = objective.loss
    data, total = loss, regulariser
    if isinstance(loss, PenalisedLoss) and isinstance(loss.regulariser, Regulariser):
        data, total = loss.data, loss.regulariser + regulariser
    if isinstance(data, MeanLoss):
        smoothed = _smoothing(data, data.smoothing, total)
    else:
        smoothed = _smoothing(loss, objective.smoothed, regulariser)
    return objective._replace(loss=PenalisedLoss(data, total), smoothed=smoothed)


def certified_regulariser(objective: Objective) -> Regulariser | None:
    """Return the regulariser where the rest of the loss is known to be convex and >= 0; None where that is unknown.

    On this a solver can build a bound on its distance from the optimum.
    """
    loss = objective.loss
    if not (isinstance(loss, PenalisedLoss) and isinstance(loss.data, MeanLoss)):
        return None
    return loss.regulariser if isinstance(loss.regulariser, Regulariser) else None


def logistic(l2: float = 0.0, l1: float = 0.0, class_weight: ClassWeight = None) -> Objective:
    """Logistic regression: log(1 + exp(-y <x, w>)), labels -1 and +1; the score is the accuracy.

    Args:
      l2: Coefficient of ||w||^2 / 2, 0 or more.
      l1: Coefficient of ||w||_1, 0 or more.
      class_weight: Weight of each class in the loss, as ``{"-1": 1.0, "1": 5.0}`` or in this order; None: 1.

    Example:
      >>> import jax.numpy as jnp, tacit
      >>> batch = tacit.streams.Batch(x=jnp.ones((20, 3)), y=jnp.ones(20))
      >>> round(float(tacit.objectives.logistic().loss(jnp.zeros(3), batch)), 4)
      0.6931
    """
    data = MeanLoss(linear, _weighted(logistic_loss, class_weight))
    return _objective("logistic", data, Regulariser(l1, l2), initial=_zeros, score=_sign_agreement)


def hinge(l2: float = 0.0, l1: float = 0.0, class_weight: ClassWeight = None) -> Objective:
    """Support vector machine: max(0, 1 - y <x, w>), labels -1 and +1; the score is the accuracy.

    Args:
      l2: Coefficient of ||w||^2 / 2, 0 or more.
      l1: Coefficient of ||w||_1, 0 or more.
      class_weight: Weight of each class in the loss, as ``{"-1": 1.0, "1": 5.0}`` or in this order; None: 1.

    Example:
      >>> import tacit
      >>> tacit.objectives.hinge(l1=0.01)
      Objective(hinge, l1=0.01)
    """
    data = MeanLoss(linear, _weighted(hinge_loss, class_weight), _weighted(SmoothHinge, class_weight))
    return _objective("hinge", data, Regulariser(l1, l2), initial=_zeros, score=_sign_agreement)


def squared(l2: float = 0.0, l1: float = 0.0) -> Objective:
    """Least squares: (<x, w> - y)^2 / 2; the score is the mean squared error.

    Args:
      l2: Coefficient of ||w||^2 / 2, 0 or more.
      l1: Coefficient of ||w||_1, 0 or more.

    Example:
      >>> import tacit
      >>> tacit.objectives.squared(l2=0.1)
      Objective(squared, l2=0.1)
    """
    data = MeanLoss(linear, squared_loss)
    penalty = Regulariser(l1, l2)
    return _objective("squared", data, penalty, initial=_zeros, score=_squared_error, score_name="mse")


def absolute(l2: float = 0.0, l1: float = 0.0) -> Objective:
    """Least absolute deviation: |<x, w> - y|; the score is the mean squared error.

    Args:
      l2: Coefficient of ||w||^2 / 2, 0 or more.
      l1: Coefficient of ||w||_1, 0 or more.

    Example:
      >>> import tacit
      >>> tacit.objectives.absolute()
      Objective(absolute)
    """
    data = MeanLoss(linear, absolute_loss, SmoothAbsolute)
    penalty = Regulariser(l1, l2)
    return _objective("absolute", data, penalty, initial=_zeros, score=_squared_error, score_name="mse")


def softmax(classes: int, l2: float = 0.0, l1: float = 0.0, class_weight: ClassWeight = None) -> Objective:
    """Multinomial logistic regression: parameters (classes, d), labels 0 .. classes - 1; the score is the accuracy.

    Args:
      classes: Number of classes, at least 2.
      l2: Coefficient of ||w||^2 / 2, 0 or more.
      l1: Coefficient of ||w||_1, 0 or more.
      class_weight: Weight of each class in the loss, as ``{"0": 1.0, "2": 5.0}`` or in their order; None: 1.

    Example:
      >>> import jax.numpy as jnp, tacit
      >>> batch = tacit.streams.Batch(x=jnp.ones((20, 3)), y=jnp.zeros(20, int))
      >>> tacit.objectives.softmax(classes=4).initial(batch).shape
      (4, 3)
    """
    whole_number("classes", classes, "count the distinct labels, and use logistic for labels -1/+1", least=2)

    def initial(batch: Batch) -> Array:
        return jnp.zeros((classes, batch.x.shape[-1]), _floating(batch.x.dtype))

    data = MeanLoss(linear_per_class, _weighted(softmax_loss, class_weight, classes))
    return _objective("softmax", data, Regulariser(l1, l2), initial=initial, score=_class_agreement)


def linear(params: Array, x: Array) -> Array:
    """Prediction <x, w> of a linear model, written as a sum: under vmap XLA's batched dot is slow on the CPU.

    Args:
      params: w (d,).
      x: (d,) or (samples, d).

    Example:
      >>> import jax.numpy as jnp, tacit
      >>> tacit.objectives.linear(jnp.array([1.0, 2.0]), jnp.ones((3, 2))).tolist()
      [3.0, 3.0, 3.0]
    """
    return jnp.sum(x * params, axis=-1)


def linear_per_class(params: Array, x: Array) -> Array:
    """<x, w_c> for each class c."""
    return jnp.sum(x[..., None, :] * params, axis=-1)


def logistic_loss(prediction: Array, y: Array) -> Array:
    """log(1 + exp(-y p)), without overflow, and with a finite gradient at any margin."""
    # log1p(exp(-|m|)) + max(-m, 0) has the same values, but at margin 0 autodiff gives it -1 instead of -1/2.
    return jax.nn.softplus(-y * prediction)


def hinge_loss(prediction: Array, y: Array) -> Array:
    """max(0, 1 - y p)."""
    return jnp.maximum(0, 1 - y * prediction)


def squared_loss(prediction: Array, y: Array) -> Array:
    """Squared loss (p - y)^2 / 2 of each sample.

    Args:
      prediction: p, one per sample.
      y: Labels.

    Example:
      >>> import jax.numpy as jnp, tacit
      >>> tacit.objectives.squared_loss(jnp.array([1.0, 3.0]), jnp.zeros(2)).tolist()
      [0.5, 4.5]
    """
    return 0.5 * jnp.square(prediction - y)


def linear_loss(prediction: Array, y: Array) -> Array:
    """y p, whose slope is y wherever it is taken: of it a clip has to bound most (`tacit.audit`)."""
    return y * prediction


def absolute_loss(prediction: Array, y: Array) -> Array:
    """|p - y|."""
    return jnp.abs(prediction - y)


def softmax_loss(prediction: Array, y: Array) -> Array:
    """-log of the probability that the softmax of the predictions (..., classes) gives to class y."""
    return jax.nn.logsumexp(prediction, axis=-1) - _of_class(prediction, y)


def _objective(
    name: str,
    data: MeanLoss,
    regulariser: Regulariser,
    *,
    initial: Callable[[Batch], Params],
    score: Callable[[Params, Batch], Array],
    score_name: str = "accuracy",
) -> Objective:
    smoothed = _smoothing(data, data.smoothing, regulariser)
    return Objective(name, PenalisedLoss(data, regulariser), initial, score, score_name, smoothed, data.predict)


def _weighted(sample: Any, class_weight: ClassWeight, classes: int | None = None) -> Any:
    """Return a loss, or mu -> a smooth one, with weights of classes; a peer that has none does not import them."""
    if class_weight is None:
        return sample
    from tacit.objectives.class_weights import weighted

    return weighted(sample, class_weight, classes)


def _zeros(batch: Batch) -> Array:
    return jnp.zeros(batch.x.shape[-1], _floating(batch.x.dtype))


def _floating(dtype: Any) -> Any:
    wanted = dtype if jnp.issubdtype(dtype, jnp.floating) else float
    return jax.dtypes.canonicalize_dtype(wanted)  # NumPy's float64 becomes float32 unless JAX is set to 64 bits


def _present(batch: Batch) -> tuple[Array, Array]:
    """Return x and y with zeros where there is no sample: what lies there may be NaN, and 0 * NaN is NaN."""
    if batch.weight is None:
        return batch.x, batch.y
    there = jnp.broadcast_to(jnp.asarray(batch.weight) > 0, batch.x.shape[:-1])
    return jnp.where(there[..., None], batch.x, 0), jnp.where(there, batch.y, 0)


def _mean_present(values: Array, weight: Array | None) -> Array:
    if weight is None:
        return jnp.mean(values)
    weights = jnp.broadcast_to(jnp.asarray(weight, values.dtype), values.shape)
    total = jnp.sum(weights)
    return jnp.sum(weights * values) / jnp.where(total > 0, total, 1)


def _smoothing(
    loss: Loss, smooth_loss: Callable[[float], Loss] | None, regulariser: Regulariser
) -> Callable[[float], Loss] | None:
    """Return mu -> a smooth loss below `loss` + `regulariser` by at most mu, shared among the kinks."""
    kinks = (smooth_loss is not None) + (regulariser.l1 > 0)
    if kinks == 0:
        return None

    def smoothed(mu: float) -> Loss:
        share = positive("mu", mu, "it bounds how far the smoothed loss lies below the true one", most=SINGLE) / kinks
        smooth = loss if smooth_loss is None else smooth_loss(share)
        return PenalisedLoss(smooth, regulariser.smoothed(share))

    return smoothed


def _sign_agreement(params: Params, batch: Batch) -> Array:
    """Share of the present samples on the right side; a margin of 0 is wrong."""
    x, y = _present(batch)
    margin = y * linear(params, x)
    return _mean_present((margin > 0).astype(margin.dtype), batch.weight)


def _class_agreement(params: Params, batch: Batch) -> Array:
    """Share of the present samples whose class has the one largest prediction; a tie is wrong."""
    x, y = _present(batch)
    prediction = linear_per_class(params, x)
    at_least_as_large = jnp.sum(prediction >= _of_class(prediction, y)[..., None], axis=-1)
    return _mean_present((at_least_as_large == 1).astype(prediction.dtype), batch.weight)


def _squared_error(params: Params, batch: Batch) -> Array:
    x, y = _present(batch)
    return _mean_present(jnp.square(linear(params, x) - y), batch.weight)


def _of_class(prediction: Array, y: Array) -> Array:
    here = jnp.arange(prediction.shape[-1]) == jnp.asarray(y)[..., None]
    chosen = jnp.sum(jnp.where(here, prediction, 0), axis=-1)
    # A label out of range cannot raise in compiled code; NaN makes it seen.
    return jnp.where(jnp.any(here, axis=-1), chosen, jnp.nan)
