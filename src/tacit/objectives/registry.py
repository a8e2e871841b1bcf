"""Names under which configurations ask for objectives and projections."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tacit.contract import Objective
from tacit.objectives.losses import absolute, hinge, logistic, softmax, squared
from tacit.objectives.projections import Ball, Box, Projection, Simplex

OBJECTIVES: Mapping[str, Callable[..., Objective]] = {
    "logistic": logistic,
    "hinge": hinge,
    "squared": squared,
    "absolute": absolute,
    "softmax": softmax,
}
"""Name -> constructor of the objective."""

PROJECTIONS: Mapping[str, Callable[..., Projection]] = {"ball": Ball, "box": Box, "simplex": Simplex}
"""Name -> constructor of the projection on that set."""
