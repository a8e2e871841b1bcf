"""Scores of predictions on rows with known labels: of classes, of probabilities, of numbers.

All but the calibration error are scikit-learn's. One that has no value on the rows at hand (an ROC curve of one class,
R2 of one row) is NaN.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.core.extras import require
from tacit.streams.batch import Task

Numbers = NDArray[np.float64]
OF_CLASSES = ("accuracy", "balanced accuracy", "F1", "ROC AUC", "log loss", "calibration error")
OF_NUMBERS = ("RMSE", "MAE", "R2")
BINS = 10
"""Of probabilities, by which calibration is judged."""
SMALLEST = 1e-15
"""Probability below which none counts in a log loss, so that one certain and wrong prediction is not infinite."""


def score_names(task: Task) -> tuple[str, ...]:
    """Return the names of a task's scores, in the order of tables.

    Args:
      task: "binary", "multiclass" or "regression".
    """
    return OF_NUMBERS if task == "regression" else OF_CLASSES


def classification_scores(
    truth: NDArray[Any], said: NDArray[Any], probability: NDArray[Any] | None = None
) -> Mapping[str, float]:
    """Scores of predicted classes; of three and more, F1 and ROC AUC are means over them, each against the rest.

    A class that no row has and none is given does not count in these means.

    Args:
      truth: Class of each row (rows,): 0, 1, 2, ...
      said: What models say: (rows,) for two classes, above 0 for the second; else (rows, classes), the largest for the
        class.
      probability: (rows, classes) probabilities; None: log loss and calibration error have no value.

    Returns:
      Accuracy, balanced accuracy (mean over classes of the share that was found), F1 (of the second class of two), ROC
      AUC, log loss and calibration error: how far predicted probabilities are from frequencies, as a mean over ten bins
      (of two classes, of the second one's probability; else of the predicted class's).

    Example:
      >>> import numpy as np
      >>> from tacit.metrics import classification_scores
      >>> found = classification_scores(np.array([0, 0, 0, 1]), np.array([-1.0, -2.0, 1.0, 3.0]))
      >>> found["accuracy"], round(found["balanced accuracy"], 3), found["ROC AUC"]
      (0.75, 0.833, 1.0)
    """
    metrics = require("sklearn.metrics", "data", "scores of held-out rows")
    truth, said = np.asarray(truth, np.int64), np.asarray(said, np.float64)
    if len(truth) == 0 or not np.isfinite(said).all():
        return dict.fromkeys(OF_CLASSES, math.nan)
    two = said.ndim == 1
    classes = np.arange(2 if two else said.shape[1])
    chosen = (said > 0).astype(np.int64) if two else said.argmax(axis=1)
    average = {"pos_label": 1} if two else {"average": "macro"}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of classes that are not among these rows, of which scikit-learn tells
        found = {
            "accuracy": metrics.accuracy_score(truth, chosen),
            "balanced accuracy": metrics.balanced_accuracy_score(truth, chosen),
            "F1": metrics.f1_score(truth, chosen, zero_division=0.0, **average),
            # Of more classes a score ranks rows only beside those of the others, as a probability does.
            "ROC AUC": _area(metrics, truth, said if two or probability is None else probability, classes),
        }
        if probability is None:
            return {**found, "log loss": math.nan, "calibration error": math.nan}
        bounded = np.clip(probability, SMALLEST, 1 - SMALLEST)
        bounded /= bounded.sum(axis=1, keepdims=True)
        found["log loss"] = metrics.log_loss(truth, bounded, labels=classes)
    right, sure = (truth == 1, probability[:, 1]) if two else (truth == chosen, probability.max(axis=1))
    found["calibration error"] = calibration_error(right, sure)
    return {name: float(value) for name, value in found.items()}


def _area(metrics: Any, truth: NDArray[np.int64], said: Numbers, classes: NDArray[np.int64]) -> float:
    """Return the area under the ROC curve, of more classes the mean of those that are there."""
    if said.ndim == 1:
        return float(metrics.roc_auc_score(truth == 1, said)) if len(np.unique(truth)) == 2 else math.nan
    there = [kind for kind in classes if 0 < (truth == kind).sum() < len(truth)]
    areas = [metrics.roc_auc_score(truth == kind, said[:, kind]) for kind in there]
    return float(np.mean(areas)) if areas else math.nan


def calibration_error(happened: NDArray[np.bool_], probability: NDArray[Any]) -> float:
    """Mean distance of predicted probabilities from frequencies, over ten bins of equal width, weighed by their rows.

    Args:
      happened: Whether it was so (rows,).
      probability: Probability that was predicted for it (rows,).

    Example:
      >>> import numpy as np
      >>> from tacit.metrics import calibration_error
      >>> calibration_error(np.array([True, False, True, True]), np.array([0.75, 0.75, 0.75, 0.75]))
      0.0
    """
    sure = np.asarray(probability, np.float64)
    bins = np.minimum((sure * BINS).astype(np.int64), BINS - 1)
    gaps = np.bincount(bins, sure, BINS) - np.bincount(bins, np.asarray(happened, np.float64), BINS)
    return float(np.abs(gaps).sum() / max(len(sure), 1))


def regression_scores(truth: NDArray[Any], predicted: NDArray[Any]) -> Mapping[str, float]:
    """Scores of predicted numbers: root of the mean squared error, mean absolute error, and R2.

    Args:
      truth: Number of each row (rows,).
      predicted: Prediction (rows,).

    Example:
      >>> import numpy as np
      >>> from tacit.metrics import regression_scores
      >>> regression_scores(np.array([1.0, 3.0]), np.array([2.0, 2.0]))
      {'RMSE': 1.0, 'MAE': 1.0, 'R2': 0.0}
    """
    metrics = require("sklearn.metrics", "data", "scores of held-out rows")
    truth, predicted = np.asarray(truth, np.float64), np.asarray(predicted, np.float64)
    if len(truth) == 0 or not np.isfinite(predicted).all():
        return dict.fromkeys(OF_NUMBERS, math.nan)
    return {
        "RMSE": math.sqrt(metrics.mean_squared_error(truth, predicted)),
        "MAE": float(metrics.mean_absolute_error(truth, predicted)),
        "R2": float(metrics.r2_score(truth, predicted)) if len(truth) > 1 else math.nan,
    }
