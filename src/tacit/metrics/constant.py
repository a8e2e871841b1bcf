"""The constant: what each agent could predict from its own labels so far, without a model and without anybody.

A class by its frequency (its probability n_k + 1/2 over n + K/2, or the majority where a loss or a score wants a side),
a number by the mean; each label is predicted before it is counted. It is computed from the stream, round by round as
the figures of a run are.
"""

from __future__ import annotations

import math
import weakref
from collections.abc import Mapping, Sequence

import jax
import numpy as np
from numpy.typing import NDArray

from tacit.core.contract import Objective, Separable
from tacit.objectives.class_weights import ClassWeighted
from tacit.objectives.losses import (
    MeanLoss,
    absolute_loss,
    hinge_loss,
    logistic_loss,
    softmax_loss,
    squared_loss,
)
from tacit.streams import Stream

NUMBERS_AT_A_TIME = 1 << 22
"""Of a stream, features included, that are read at once."""
QUICK = 1 << 25
"""Numbers of a stream up to which its constant is computed unasked."""
Numbers = NDArray[np.float64]
_KNOWN: weakref.WeakKeyDictionary[Stream, dict[tuple[object, int], Mapping[str, Numbers] | None]]
_KNOWN = weakref.WeakKeyDictionary()
"""Constants that were computed, so that the runs of a comparison share theirs."""


def quick_constant(objective: Objective, stream: Stream, rounds: int) -> Mapping[str, Numbers] | None:
    """Return `constant_figures` where they cost little, and once for a stream; None where they do not, or are none.

    Args:
      objective: Loss of a linear model with labels: classes or numbers.
      stream: The data.
      rounds: Number of rounds, from 1 on.
    """
    features = sum(math.prod(leaf.shape) for leaf in jax.tree.leaves(stream.batch_spec()))
    if rounds * stream.agents * features > QUICK:
        return None
    try:
        hash(objective.loss)
    except TypeError:  # one of the user's own
        return constant_figures(objective, stream, rounds)
    known, key = _KNOWN.setdefault(stream, {}), (objective.loss, rounds)
    if key not in known:
        known[key] = constant_figures(objective, stream, rounds)
    return known[key]


def quick_averages(objective: Objective, streams: Sequence[Stream], rounds: int) -> dict[str, list[float]]:
    """Return average loss and score of the constant on each stream; nothing where it is not known at once.

    Args:
      objective: Loss of a linear model with labels: classes or numbers.
      streams: The data.
      rounds: Number of rounds, from 1 on.
    """
    found = [quick_constant(objective, stream, rounds) for stream in streams]
    averages: dict[str, list[float]] = {}
    for figures in found:
        if figures is None:
            return {}
        judged = max(float(figures["present"].sum()), 1e-300)
        right = float(np.nansum(figures[objective.score_name] * figures["present"]))
        averages.setdefault("average_loss", []).append(float(figures["present_loss"].sum()) / judged)
        averages.setdefault(objective.score_name, []).append(right / judged)
    return averages


def constant_figures(objective: Objective, stream: Stream, rounds: int) -> Mapping[str, Numbers] | None:
    """Return (rounds,) loss and score of the constant on a stream; None where the objective has none.

    Args:
      objective: Loss of a linear model with labels: classes or numbers.
      stream: The data.
      rounds: Number of rounds, from 1 on.
    """
    loss = objective.loss
    data = loss.data if isinstance(loss, Separable) else loss
    sample, spec = getattr(data, "sample", None), stream.batch_spec()
    weights = sample.weights if isinstance(sample, ClassWeighted) else None
    sample = sample.sample if isinstance(sample, ClassWeighted) else sample
    if not isinstance(data, MeanLoss) or not hasattr(spec, "y"):
        return None
    if sample in (squared_loss, absolute_loss):
        kinds = 0
    elif sample in (logistic_loss, hinge_loss):
        kinds = 2
    elif sample is softmax_loss:
        kinds = jax.eval_shape(objective.initial, spec).shape[0]
    else:
        return None
    features = sum(math.prod(leaf.shape) for leaf in jax.tree.leaves(spec))
    step = max(1, NUMBERS_AT_A_TIME // (stream.agents * (features + kinds)))
    seen = np.zeros((stream.agents, max(2, kinds)))
    pieces = []
    for start in range(0, rounds, step):
        batch = stream.chunk(start, min(start + step, rounds))
        y, weight = _by_place(batch.y, getattr(batch, "weight", None))
        if kinds and y.max(initial=0) >= kinds:
            return None  # labels that the objective has no class for
        counts = _counted(y, weight, kinds)
        before = seen + np.cumsum(counts, axis=0) - counts
        seen = before[-1] + counts[-1]
        judged = _numbers(sample, before, y) if kinds == 0 else _classes(sample, before, _class_of(y, kinds), weights)
        pieces.append([_mean_over_agents(values, weight) for values in judged])
    lost, score = (np.concatenate(parts) for parts in zip(*pieces, strict=True))
    # An agent without a sample loses nothing, and is neither right nor wrong.
    figures = {"loss": lost[:, 0], objective.score_name: score[:, 1]}
    return {**figures, "present": lost[:, 2], "present_loss": lost[:, 0]}


def _by_place(y: NDArray[np.generic], weight: NDArray[np.generic] | None) -> tuple[Numbers, Numbers]:
    """Return labels and weights (rounds, agents, places); what cannot be used counts as absent."""
    labels = np.asarray(y, np.float64)
    labels = labels[..., None] if labels.ndim == 2 else labels
    if weight is None:
        return labels, np.ones(labels.shape)
    given = np.maximum(np.asarray(weight, np.float64), 0)
    weights = np.broadcast_to(given[..., None] if given.ndim == 2 else given, labels.shape)
    return np.where(weights > 0, labels, 0), weights


def _class_of(y: Numbers, kinds: int) -> NDArray[np.int64]:
    return (y > 0).astype(np.int64) if kinds == 2 and y.min(initial=0) < 0 else y.astype(np.int64)


def _counted(y: Numbers, weight: Numbers, kinds: int) -> Numbers:
    """Return (rounds, agents, ...) what a round adds: a count for each class, or count and sum of the numbers."""
    if kinds == 0:
        return np.stack([weight.sum(axis=2), (weight * y).sum(axis=2)], axis=2)
    found = _class_of(y, kinds)
    return np.stack([(weight * (found == kind)).sum(axis=2) for kind in range(kinds)], axis=2)


def _numbers(sample: object, before: Numbers, y: Numbers) -> Sequence[Numbers]:
    mean = (before[..., 1] / np.maximum(before[..., 0], np.finfo(float).tiny))[..., None]
    off = np.abs(y - mean)
    return (off**2 / 2 if sample is squared_loss else off), off**2


def _classes(
    sample: object, before: Numbers, found: NDArray[np.int64], weights: Sequence[float] | None
) -> Sequence[Numbers]:
    own, others = _own_and_others(before, found)
    right = (own > others).astype(np.float64)  # of a tie nobody is right, as of a model that says 0
    each = np.ones(before.shape[2]) if weights is None else np.array(weights)
    counts, factor = before * each, each[found]  # what is best for a weighted loss goes by weighted counts
    own, others = _own_and_others(counts, found)
    if sample is hinge_loss:
        return factor * (1 - np.sign(own - others)), right
    total = counts.sum(axis=2, keepdims=True)
    return -factor * np.log((own + 0.5) / (total + before.shape[2] / 2)), right


def _own_and_others(counts: Numbers, found: NDArray[np.int64]) -> tuple[Numbers, Numbers]:
    """Return the count of the class that was found, and the largest of another one."""
    own = np.take_along_axis(counts, found, axis=2)
    here = np.arange(counts.shape[2]) == found[..., None]
    return own, np.where(here, -np.inf, counts[:, :, None]).max(axis=3)


def _mean_over_agents(values: Numbers, weight: Numbers) -> Numbers:
    """Return (rounds, 3) means over the agents: over all, where one without a sample counts 0; over the others; and
    the share of these."""
    there = weight.sum(axis=2)
    each = (weight * values).sum(axis=2) / np.where(there > 0, there, 1)
    present = (there > 0).sum(axis=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        share = present / there.shape[1]
        return np.stack([each.mean(axis=1), each.sum(axis=1) / present, share], axis=1)
