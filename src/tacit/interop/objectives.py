"""Which objective fits a task, and what its predictions say in the words of other libraries."""

from __future__ import annotations

import inspect

from tacit.core.contract import Objective
from tacit.core.errors import ConfigError
from tacit.objectives import OBJECTIVES
from tacit.objectives.probabilities import probabilities
from tacit.streams.batch import Task

__all__ = ["USUAL", "probabilities", "resolved"]

USUAL: dict[Task, str] = {"binary": "logistic", "multiclass": "softmax", "regression": "squared"}
"""Task -> default objective."""

PER_CLASS = ("softmax", "cnn")
"""Objectives that give a number for each class, and so take two classes as any number of them."""
MARGINS = ("logistic", "hinge")
"""Objectives that tell two classes apart by the sign of one number."""


def task_of(objective: str | Objective | None, classes: int) -> Task:
    """Return the task that labels of so many classes are numbered for, or refuse an objective that has no room."""
    name = objective.name if isinstance(objective, Objective) else objective
    if name in MARGINS and classes > 2:
        raise ConfigError(
            f"objective {name!r} tells two classes apart, and there are {classes}; use softmax, or leave it out"
        )
    return "multiclass" if classes > 2 or name in PER_CLASS else "binary"


def resolved(objective: str | Objective | None, task: Task, classes: int) -> Objective:
    """Return the objective that is named or given, or the usual one of the task."""
    if isinstance(objective, Objective):
        return objective
    name = USUAL[task] if objective is None else objective
    if name not in OBJECTIVES:
        raise ConfigError(f"objective={name!r}: expected one of {', '.join(OBJECTIVES)}, or an Objective")
    constructor = OBJECTIVES[name]
    return constructor(classes) if "classes" in inspect.signature(constructor).parameters else constructor()
