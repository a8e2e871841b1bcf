"""Objectives of models of the user's own: from_model, and figures of them by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal, NoReturn

import jax
import jax.numpy as jnp

from tacit.core.contract import Array, Batch, Key, Objective, Params
from tacit.core.errors import ConfigError, nearest
from tacit.objectives.losses import PenalisedLoss
from tacit.objectives.own_models.losses import (
    LOSSES,
    BatchMean,
    Model,
    OfOutputs,
    Task,
    check_rows,
    metric_of,
)
from tacit.objectives.own_models.networks import network_of
from tacit.objectives.regularisers import Regulariser

SCORES: Mapping[Task, str] = {
    "binary": "accuracy", "multiclass": "accuracy", "regression": "mean_squared_error",
}  # fmt: skip
"""Kind of labels -> metric that is shown where none was asked for."""


def from_model(
    model: Any,
    loss: str | OfOutputs = "cross_entropy",
    params: Params | None = None,
    *,
    shape: tuple[int, ...] | None = None,
    metric: str | OfOutputs | None = None,
    task: Task | None = None,
    l2: float = 0.0,
    augment: Callable[[Key, Array], Array] | None = None,
    precision: Literal["float32", "bfloat16"] = "float32",
    seed: int = 0,
    name: str | None = None,
) -> Objective:
    """Objective of a model of your own: a Flax or Equinox module, or a function of parameters and rows.

    What is learnt is the model's arrays of floating numbers; whole numbers and all else stay as they are. The loss is
    that of a batch, with and without noise: where single records are clipped each comes as a batch of one. Absent
    records count nothing. Dropout is drawn in training by the round's key, the same in the simulator and in peers, and
    is off in evaluation. Models that keep statistics of batches (batch normalisation) are refused: these mix records.
    Nothing is assumed to be convex, so that no comparator is certified. Needs the extra `networks` for these libraries.

    Args:
      model: A Flax nnx module, a Flax linen module, an Equinox module (of one record), or a function apply(params, x)
        of rows (b, ...); apply(params, x, key) may draw, and gets key=None in evaluation.
      loss: "cross_entropy" (labels 0, 1, ...; one output per class), "logistic" (labels -1 and 1; one output),
        "squared" or "absolute" (numbers), or a function (outputs, labels) -> mean of the batch, or one per record.
      params: First parameters, for a function (any tree); of a linen module those to begin with instead of drawn ones.
      shape: Of one record as the model sees it, e.g. (28, 28, 1). Rows that come flat are brought into it. None:
        rows of features as they come.
      metric: Score of tables: "accuracy", "top_3" and the like, "loss", "mean_squared_error", "mean_absolute_error",
        or a function as for `loss`. None: the accuracy for classes, the mean squared error for numbers.
      task: Kind of the labels for a loss of your own: "binary", "multiclass" or "regression"; labels of several classes
        then come as whole numbers.
      l2: Coefficient of ||params||^2 / 2, 0 or more.
      augment: (key, one record of x) -> a changed one, for training. It is of each record alone, so that privacy per
        record stays what it is.
      precision: What the model computes in. Parameters, gradients, clipping and noise are in single precision
        whatever is said here.
      seed: Of the first parameters of a linen module; other modules bring theirs.
      name: In tables and messages; None: that of the class or function.

    Returns:
      An objective. ``objective.predict`` is the model in evaluation; `rebuilt` gives the library's own form back.

    Raises:
      ConfigError: The model keeps statistics, or something does not fit.

    Example:
      >>> import jax.numpy as jnp, tacit
      >>> def apply(params, x):
      ...     return jnp.tanh(x @ params["inner"]) @ params["outer"]
      >>> first = {"inner": jnp.ones((5, 4)) / 5, "outer": jnp.zeros((4, 1))}
      >>> objective = tacit.objectives.from_model(apply, "logistic", first)
      >>> method = tacit.algorithms.distributed_online(objective, step=0.5)
      >>> tacit.simulate(method, tacit.graphs.ring(4), tacit.streams.logistic_drift(4, 5), rounds=20)
      Run(distributed_online, 4 agents, 20 rounds, loss ...)
    """
    network = network_of(model, params, seed)
    function, kind = _loss_of(loss, task)
    form = None if shape is None else tuple(shape)
    if form is not None and not all(isinstance(n, int) and n > 0 for n in form):
        raise ConfigError(f"shape = {shape!r}: expected lengths of the axes of one record, e.g. (28, 28, 1)")
    if precision not in ("float32", "bfloat16"):
        raise ConfigError(f"precision = {precision!r}: expected 'float32' or 'bfloat16'")
    columns = kind in ("binary", "regression")
    made = Model(network, form, precision == "bfloat16", augment, columns, loss in ("cross_entropy", "logistic"))
    data = BatchMean(made, function, kind == "multiclass")
    draws = network.draws or augment is not None
    own_name = network.name if name is None else name

    def initial(batch: Batch) -> Params:
        row = check_rows(batch, form)
        first = network.first(row)
        _check_outputs(data, first, row, kind, own_name)
        return first

    score, score_name = _score(data, metric, kind)
    return Objective(
        own_name,
        PenalisedLoss(_judging(data, own_name) if draws else data, Regulariser(l2=l2)),
        initial,
        score,
        score_name,
        predict=made.predict,
        training=data.drawn if draws else None,
        task=kind,
    )


def _loss_of(loss: str | OfOutputs, task: Task | None) -> tuple[OfOutputs, Task | None]:
    if task not in (None, "binary", "multiclass", "regression"):
        raise ConfigError(f"task = {task!r}: expected 'binary', 'multiclass' or 'regression'")
    if not isinstance(loss, str):
        if not callable(loss):
            raise ConfigError(f"loss = {loss!r}: expected a function (outputs, labels), or one of {', '.join(LOSSES)}")
        return loss, task
    if loss not in LOSSES:
        raise ConfigError(f"loss = {loss!r}: {nearest(loss, LOSSES)}expected one of {', '.join(LOSSES)}, or a function")
    function, kind = LOSSES[loss]
    if task not in (None, kind):
        raise ConfigError(f"loss = {loss!r} is for labels that are {kind}, and task = {task!r}; leave task out")
    return function, kind


def _score(
    data: BatchMean, metric: str | OfOutputs | None, kind: Task | None
) -> tuple[Callable[[Params, Batch], Array] | None, str]:
    if metric is None and kind is None:
        return None, "score"
    asked = SCORES[kind] if metric is None and kind is not None else metric
    assert asked is not None
    if not isinstance(asked, str):
        return BatchMean(data.model, asked, data.whole_labels), getattr(asked, "__name__", "score").strip("<>")
    function = metric_of(asked, kind, data.function)
    return BatchMean(data.model, function, data.whole_labels), "score" if asked == "loss" else asked


def _judging(data: BatchMean, name: str) -> Callable[[Params, Batch], Array]:
    """Return the loss of evaluation, of which nobody takes a gradient by mistake: that would train without drawing."""
    judged = jax.custom_jvp(data.__call__)

    @judged.defjvp
    def refuse(primals: Any, tangents: Any) -> NoReturn:
        raise ConfigError(
            f"objective {name!r} draws in training (dropout, augmentation), and the gradient of its loss is taken "
            "without a key, so that nothing would be drawn; use a method that hands one on, e.g. distributed_online, "
            "or leave out what draws"
        )

    return judged


def _check_outputs(data: BatchMean, first: Params, row: Array, kind: Task | None, name: str) -> None:
    """Find out before round 0 whether outputs, loss and labels fit each other."""
    try:
        outputs = jax.eval_shape(data.model, first, row)
    except (TypeError, ValueError) as error:
        raise ConfigError(f"{name} fails on rows of shape {row.shape}: {error}; check the model, and shape=") from error
    wanted = {"binary": "(b,) or (b, 1)", "regression": "(b,) or (b, 1)", "multiclass": "(b, classes)"}.get(kind or "")
    shape = outputs.shape
    axes = 2 if kind == "multiclass" else 1
    if shape[:1] != (1,) or (kind is not None and len(shape) != axes):
        raise ConfigError(
            f"{name}: outputs of shape {shape} for one row; expected {wanted or '(b, ...)'}, b the rows of a batch"
            + ("" if kind != "multiclass" else ", one number per class before any softmax")
        )


def figures(objective: Objective, *names: str) -> dict[str, Callable[[Params, Batch], Array]]:
    """Metrics of an objective by name, to note in every round beside its score.

    Args:
      objective: Made by `from_model`.
      *names: "accuracy", "top_3" and the like, "mean_squared_error", "mean_absolute_error".

    Returns:
      Name -> function of a model and a batch, for ``tacit.simulate(..., figures=...)``.

    Example:
      >>> import jax.numpy as jnp, tacit
      >>> objective = tacit.objectives.from_model(jnp.matmul, "cross_entropy", jnp.zeros((3, 4)))
      >>> sorted(tacit.objectives.figures(objective, "top_2", "top_3"))
      ['top_2', 'top_3']
    """
    model = _model(objective)
    function, kind = objective.score, objective.task
    if not isinstance(function, BatchMean):
        raise ConfigError(f"objective {objective.name!r} does not say what its labels are: from_model(..., task=...)")
    whole = function.whole_labels
    return {name: BatchMean(model, metric_of(name, kind, function.function), whole) for name in names}


def rebuilt(objective: Objective, params: Params) -> Any:
    """Return the model of an objective with given parameters, as its library has it, for evaluation.

    Args:
      objective: Made by `from_model`.
      params: Parameters of one agent, e.g. ``run.model().params``.

    Returns:
      An nnx or Equinox module, the variables of a linen module, or the tree of parameters of a function.

    Example:
      >>> import jax.numpy as jnp, tacit
      >>> objective = tacit.objectives.from_model(jnp.matmul, "squared", jnp.zeros(3))
      >>> tacit.objectives.rebuilt(objective, jnp.ones(3)).tolist()
      [1.0, 1.0, 1.0]
    """
    return _model(objective).network.rebuilt(jax.tree.map(jnp.asarray, params))


def _model(objective: Objective) -> Model:
    found = getattr(objective.predict, "__self__", None)
    if not isinstance(found, Model):
        raise ConfigError(f"objective {objective.name!r} is not made by from_model")
    return found
