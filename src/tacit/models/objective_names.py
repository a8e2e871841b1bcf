"""Objectives by name and arguments: how a model's file says which function of parameters and x it is.

An objective of this package is known by the constructor and arguments that give one with an equal loss and an equal
prediction. Of a user's own nothing but the name is kept: its code is needed to predict.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import jax
import numpy as np

from tacit.core.contract import Objective, Params
from tacit.core.errors import ModelError, TacitError
from tacit.objectives import OBJECTIVES, cnn
from tacit.objectives.losses import PenalisedLoss
from tacit.objectives.networks import Layer, Network, Weights
from tacit.objectives.random_features import FourierModel
from tacit.objectives.registry import OWN_OBJECTIVES
from tacit.streams.batch import Batch

CONSTRUCTORS: Mapping[str, Callable[..., Objective]] = {
    **{name: OBJECTIVES[name] for name in OBJECTIVES if name not in OWN_OBJECTIVES},
    "cnn": cnn,
}
LINEAR = ("logistic", "hinge", "squared", "absolute", "softmax")
"""Objectives whose prediction is <x, w>, of one w or of one per class."""


def arguments_of(objective: Objective, params: Params) -> dict[str, Any] | None:
    """Return the arguments with which the constructor of this name gives the same objective; None: it is another.

    Args:
      objective: Any objective.
      params: Parameters of it, which say how many classes there are.
    """
    constructor = CONSTRUCTORS.get(objective.name)
    if constructor is None:
        return None
    for arguments in _candidates(objective, params):
        try:
            same = constructor(**arguments)
        except (TacitError, TypeError):
            continue
        if (same.loss, same.predict) == (objective.loss, objective.predict):
            return arguments
    return None


def _candidates(objective: Objective, params: Params) -> Iterator[dict[str, Any]]:
    penalty = objective.loss.regulariser if isinstance(objective.loss, PenalisedLoss) else None
    strengths: dict[str, Any] = {key: float(getattr(penalty, key, 0.0)) for key in ("l1", "l2")}
    weights = getattr(getattr(getattr(objective.loss, "data", None), "sample", None), "weights", None)
    if weights is not None:
        strengths["class_weight"] = [float(weight) for weight in weights]
    predict = objective.predict
    if isinstance(predict, FourierModel):
        map_ = predict.features
        yield {"count": map_.count, "bandwidth": map_.bandwidth, "seed": map_.seed, "l2": strengths["l2"]}
    elif isinstance(predict, Network):
        sizes = {key: getattr(predict, key) for key in ("classes", "hidden", "side")}
        yield {**sizes, "channels": list(predict.channels), "l2": strengths["l2"]}
    elif objective.name == "softmax":
        yield {"classes": int(np.shape(jax.tree.leaves(params)[0])[0]), **strengths}
    else:
        yield strengths


def made(name: str, arguments: Mapping[str, Any]) -> Objective:
    """Return the objective of a name, with arguments out of a file."""
    if name not in CONSTRUCTORS:
        raise ModelError(f"objective {name[:80]!r} is unknown; expected one of {', '.join(CONSTRUCTORS)}")
    try:
        return CONSTRUCTORS[name](**arguments)
    except (TacitError, TypeError, ValueError, OverflowError) as error:
        raise ModelError(f"objective {name!r} cannot be made with {str(dict(arguments))[:200]}: {error}") from error


def like(objective: Objective, features: int) -> Params:
    """Return the shapes of an objective's parameters for samples of so many numbers."""
    if isinstance(objective.predict, Network):  # which would draw its first weights, however many a file asks for
        each = ((_shape(*shape), _shape(shape[1])) for shape in objective.predict.shapes())
        return Weights(*(Layer(*layer) for layer in each))  # type: ignore[arg-type]
    return jax.eval_shape(lambda: objective.initial(Batch(_shape(features), _shape())))  # type: ignore[arg-type]


def _shape(*shape: int) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(shape, np.float32)


def leaf_names(params: Params) -> list[str]:
    """Return a name for each leaf of a tree: `convolution1.weight`; of a single array, `weights`."""
    leaves = jax.tree_util.tree_leaves_with_path(params)
    return [jax.tree_util.keystr(path, simple=True, separator=".") or "weights" for path, _ in leaves]
