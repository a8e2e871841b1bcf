"""Which objective fits a task, and what its predictions say in the words of other libraries."""

from __future__ import annotations

import inspect

from tacit.core.contract import Objective
from tacit.core.errors import ConfigError
from tacit.objectives import OBJECTIVES
from tacit.objectives.probabilities import probabilities
from tacit.streams.validate import Task

__all__ = ["USUAL", "probabilities", "resolved"]

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
