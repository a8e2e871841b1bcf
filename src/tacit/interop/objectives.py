"""Which objective fits a task, and what its predictions say in the words of other libraries."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.core.contract import Objective
from tacit.core.errors import ConfigError
from tacit.objectives import OBJECTIVES
from tacit.streams.validate import Task

USUAL: dict[Task, str] = {"binary": "logistic", "multiclass": "softmax", "regression": "squared"}
"""Task -> default objective."""


def resolved(objective: str | Objective | None, task: Task, classes: int) -> Objective:
    """Return the objective that is named or given, or the usual one of the task."""
    if isinstance(objective, Objective):
        return objective
    name = USUAL[task] if objective is None else objective
    if name not in OBJECTIVES:
        raise ConfigError(f"objective={name!r}: expected one of {', '.join(OBJECTIVES)}, or an Objective")
    constructor = OBJECTIVES[name]
    return constructor(classes) if "classes" in inspect.signature(constructor).parameters else constructor()


def probabilities(objective: Objective, said: NDArray[Any]) -> NDArray[np.float64]:
    """Return (rows, classes) probabilities of what a model said: (rows,) margins, or (rows, classes)."""
    if objective.name not in ("logistic", "softmax", "cnn"):
        raise ConfigError(
            f"objective {objective.name!r} gives no probabilities; use logistic or softmax, or ask for classes"
        )
    logits = np.asarray(said, np.float64)
    if logits.ndim == 1:
        logits = np.stack([np.zeros_like(logits), logits], axis=1)
    odds = np.exp(logits - logits.max(axis=1, keepdims=True))
    return np.asarray(odds / odds.sum(axis=1, keepdims=True))
