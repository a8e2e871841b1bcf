"""Losses and scores of a model's outputs for a batch, by name or of the user's own, and their means over what is there.

A function of (outputs, labels) gives the mean over the batch, or one number per record. Where records are absent the
mean is taken over those that are there, record by record if need be.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import jax
import jax.numpy as jnp

from tacit.core.contract import Array, Batch, Key, Params
from tacit.core.errors import ConfigError, DataError, nearest
from tacit.objectives.losses import absolute_loss, logistic_loss, softmax_loss, squared_loss
from tacit.objectives.own_models.networks import Network

OfOutputs = Callable[[Array, Array], Array]
"""(outputs, labels) -> their mean, or one number per record."""
Task = Literal["binary", "multiclass", "regression"]
LOSSES: Mapping[str, tuple[OfOutputs, Task]] = {
    "cross_entropy": (softmax_loss, "multiclass"),
    "logistic": (logistic_loss, "binary"),
    "squared": (squared_loss, "regression"),
    "absolute": (absolute_loss, "regression"),
}
"""Name -> loss of each record, and the labels that it is for: 0, 1, ...; -1 and 1; numbers."""


@dataclass(frozen=True, eq=False)
class Model:
    """A network, the form of its rows, and the precision that it computes in."""

    network: Network
    shape: tuple[int, ...] | None
    """Of one record as the network sees it; None: (features,), as they come."""
    bfloat16: bool
    augment: Callable[[Key, Array], Array] | None
    columns: bool
    """Whether one output is meant for each record, so that (b, 1) is (b,)."""
    log_odds: bool
    """Whether outputs are logarithms of odds, so that probabilities follow."""

    def rows(self, x: Array) -> Array:
        """Return rows (b, features) or (b, *shape) in the form that the network sees."""
        if self.shape is None or x.shape[1:] == self.shape:
            return x
        return x.reshape(x.shape[0], *self.shape)

    def __call__(self, params: Params, rows: Array, key: Key | None = None) -> Array:
        """Return the outputs for rows (b, ...): with a key those of training, else those of evaluation."""
        drawn = None
        if key is not None:
            drawn, own = jax.random.split(key)
            if self.augment is not None:
                rows = jax.vmap(self.augment)(jax.random.split(own, rows.shape[0]), rows)
        wide = jnp.result_type(*jax.tree.leaves(params))
        within = jnp.bfloat16 if self.bfloat16 else wide
        params, rows = jax.tree.map(lambda leaf: _floating_as(leaf, within), (params, rows))
        found = self.network.outputs(params, rows, drawn if self.network.draws else None)
        found = jnp.asarray(found).astype(wide)
        return found[:, 0] if self.columns and found.ndim == 2 and found.shape[1] == 1 else found

    def predict(self, params: Params, x: Array) -> Array:
        """Return what it says of one record or of rows: a number, or one per class."""
        x = jnp.asarray(x)
        one = x.ndim == 1 or (self.shape is not None and x.shape == self.shape)
        found = self(params, self.rows(x[None] if one else x))
        return found[0] if one else found


@dataclass(frozen=True, eq=False)
class BatchMean:
    """Mean over a batch's records that are there of a function of the model's outputs and the labels."""

    model: Model
    function: OfOutputs
    whole_labels: bool
    """Whether labels are numbers of classes, which functions of the user's own get as whole numbers."""

    def __call__(self, params: Params, batch: Batch) -> Array:
        """Return the mean, as in evaluation."""
        return self.drawn(None, params, batch)

    def drawn(self, key: Key | None, params: Params, batch: Batch) -> Array:
        """Return the mean as in training, with a key for what is drawn."""
        y, weight = jnp.asarray(batch.y), getattr(batch, "weight", None)
        one = y.ndim == 0
        # A record by itself is a batch of one.
        x, y = (batch.x[None], y[None]) if one else (batch.x, y)
        if weight is not None:
            weight = jnp.broadcast_to(jnp.asarray(weight), y.shape)
            there = weight > 0  # what lies in other places may be NaN, and 0 * NaN is NaN
            x, y = jnp.where(there.reshape(-1, *(1 for _ in x.shape[1:])), x, 0), jnp.where(there, y, 0)
        outputs = self.model(params, self.model.rows(x), key)
        labels = y.astype(jnp.int32) if self.whole_labels else y.astype(outputs.dtype)
        return _mean(self.function, outputs, labels, weight)


def _mean(function: OfOutputs, outputs: Array, labels: Array, weight: Array | None) -> Array:
    found = jnp.asarray(function(outputs, labels))
    if found.ndim == 0 and weight is not None:  # of records that may be absent
        found = jax.vmap(lambda own, label: jnp.asarray(function(own[None], label[None])).reshape(()))(outputs, labels)
    if found.ndim == 0:
        return found
    if found.shape != labels.shape:
        raise ConfigError(
            f"a loss or metric gave an array of shape {found.shape} for {labels.size} records; expected one number, "
            "their mean, or one per record: sum or average over the other axes"
        )
    found = found.astype(outputs.dtype)
    if weight is None:
        return jnp.mean(found)
    total = jnp.sum(weight).astype(found.dtype)
    return jnp.sum(weight.astype(found.dtype) * found) / jnp.where(total > 0, total, 1)


def _floating_as(leaf: Array, dtype: Any) -> Array:
    return leaf.astype(dtype) if jnp.issubdtype(leaf.dtype, jnp.floating) else leaf


def check_rows(batch: Any, shape: tuple[int, ...] | None) -> Array:
    """Return an empty row of the form that the network sees, given the shapes of one agent's batch."""
    if not (hasattr(batch, "x") and hasattr(batch, "y")):
        raise DataError("a batch without x and y: a model of from_model learns from these; use from_loss for others")
    labels, record = len(batch.y.shape), tuple(batch.x.shape[len(batch.y.shape) :])
    if labels > 1:
        raise DataError(
            f"labels of shape {tuple(batch.y.shape)}: expected one per record; put targets of several numbers into x, "
            "and take them out in a loss of your own (from_loss)"
        )
    if shape is None and len(record) != 1:
        raise ConfigError(
            f"records of shape {record}: say shape={record} (as the model sees one record), so that rows of files and "
            "of peers, which are flat, find their form"
        )
    size = 1
    for length in shape or ():
        size *= length
    if shape is not None and record not in (shape, (size,)):
        raise DataError(f"records of shape {record} for a model of records of {shape}; expected that, or ({size},)")
    return jnp.zeros((1, *(record if shape is None else shape)), jax.dtypes.canonicalize_dtype(batch.x.dtype))


METRICS: Mapping[str, OfOutputs] = {
    "mean_squared_error": lambda outputs, labels: jnp.square(outputs - labels),
    "mean_absolute_error": lambda outputs, labels: jnp.abs(outputs - labels),
}
NAMES = ("accuracy", "top_2, top_3, ...", "loss", *METRICS)


def metric_of(name: str, task: Task | None, loss: OfOutputs) -> OfOutputs:
    """Return a metric by its name: a number of each record."""
    top = re.fullmatch(r"top_([1-9]\d{0,5})", name)
    if name == "loss":
        return loss
    if name == "accuracy" and task == "binary":
        return lambda outputs, labels: (outputs * labels > 0).astype(outputs.dtype)
    if (name == "accuracy" or top) and task == "multiclass":
        return _among(int(top[1]) if top else 1)
    if name in METRICS and task != "multiclass":
        return METRICS[name]
    fits = f", of labels that are {task or 'not told (say task=)'}"
    raise ConfigError(f"metric {name!r}{fits}: {nearest(name, NAMES)}expected one of {', '.join(NAMES)} that fits them")


def _among(most: int) -> OfOutputs:
    def found(outputs: Array, labels: Array) -> Array:
        """1 where fewer than so many classes have at least the output of the right one; a tie is wrong."""
        right = jnp.take_along_axis(outputs, labels[:, None].astype(jnp.int32), axis=-1)
        return (jnp.sum(outputs >= right, axis=-1) <= most).astype(outputs.dtype)

    return found
