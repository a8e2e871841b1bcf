"""Predictions with named fields: the score, the probabilities and the class that a model's output stands for.

{"class": "readmitted", "probability": {"stays": 0.27, "readmitted": 0.73}, "score": 0.99}      logistic
{"class": 1, "score": 0.99}                                                                     hinge
{"class": 2, "probability": {"0": 0.1, "1": 0.2, "2": 0.7}, "score": {"0": ...}}                softmax
{"value": 3.2}                                                                                  the others
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.core.contract import Objective
from tacit.objectives.probabilities import has_probabilities, probabilities
from tacit.peer.sources.queue import SampleForm


def named_prediction(form: SampleForm, objective: Objective, output: NDArray[Any]) -> dict[str, Any]:
    """Return what a model's output for one sample says, as plain data.

    Args:
      form: Task of the job, and its classes.
      objective: Objective of the job; of logistic and softmax the output is a logarithm of odds.
      output: One number, or one per class.

    Returns:
      `class`, `probability` by class (where the objective gives one) and `score`: a number, above 0 for the second of
      two classes, or one by class; of a regression `value` alone.

    Example:
      >>> import numpy as np, tacit
      >>> form = SampleForm.of(3, "binary", class_names=("stays", "readmitted"))
      >>> named_prediction(form, tacit.objectives.logistic(), np.zeros(()))
      {'class': 'stays', 'probability': {'stays': 0.5, 'readmitted': 0.5}, 'score': 0.0}
    """
    if form.task == "regression":
        return {"value": output.tolist()}
    labels, score = form.labels, np.asarray(output, np.float64)
    best = int(score > 0) if form.task == "binary" else int(score.argmax())
    found: dict[str, Any] = {"class": labels[best]}
    if has_probabilities(objective):
        shares = probabilities(objective, score[None])[0]
        found["probability"] = {str(label): float(share) for label, share in zip(labels, shares, strict=True)}
    by_class = {str(label): float(each) for label, each in zip(labels, score, strict=True)} if score.ndim else None
    return {**found, "score": float(score) if by_class is None else by_class}
