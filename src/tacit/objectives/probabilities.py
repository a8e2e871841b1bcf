"""Probabilities of classes, from the predictions of models whose scores are logarithms of odds."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.core.contract import Objective
from tacit.core.errors import ConfigError

LOG_ODDS = ("logistic", "softmax", "cnn")
"""Objectives whose predictions are logarithms of odds; of others no probability follows."""


def has_probabilities(objective: Objective) -> bool:
    """Return whether probabilities follow from what an objective predicts; `from_model` says it of its losses."""
    model = getattr(objective.predict, "__self__", None)
    return objective.name in LOG_ODDS if model is None else bool(getattr(model, "log_odds", False))


def probabilities(objective: Objective, said: NDArray[Any]) -> NDArray[np.float64]:
    """Return (rows, classes) probabilities of what a model said: (rows,) margins, or (rows, classes)."""
    if not has_probabilities(objective):
        raise ConfigError(
            f"objective {objective.name!r} gives no probabilities; use logistic or softmax, or ask for classes"
        )
    logits = np.asarray(said, np.float64)
    if logits.ndim == 1:
        logits = np.stack([np.zeros_like(logits), logits], axis=1)
    odds = np.exp(logits - logits.max(axis=1, keepdims=True))
    return np.asarray(odds / odds.sum(axis=1, keepdims=True))
