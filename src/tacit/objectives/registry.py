"""Names under which configurations ask for objectives, constraints and geometries."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tacit.core.contract import Objective
from tacit.objectives.constraints import Constraint, size_limit, spending_limit
from tacit.objectives.losses import absolute, hinge, logistic, softmax, squared
from tacit.objectives.mirror_maps import MirrorMap, entropy, euclidean_ball
from tacit.objectives.projections import Ball, Box, Projection, Simplex
from tacit.objectives.random_features import fourier

OBJECTIVES: Mapping[str, Callable[..., Objective]] = {
    "logistic": logistic,
    "hinge": hinge,
    "squared": squared,
    "absolute": absolute,
    "softmax": softmax,
    "fourier": fourier,
}
"""Name -> constructor of the objective."""

PROJECTIONS: Mapping[str, Callable[..., Projection]] = {"ball": Ball, "box": Box, "simplex": Simplex}
"""Name -> constructor of the projection on that set."""

MIRROR_MAPS: Mapping[str, Callable[..., MirrorMap]] = {"euclidean": euclidean_ball, "entropy": entropy}
"""Name -> constructor of the geometry."""

CONSTRAINTS: Mapping[str, Callable[..., Constraint]] = {"spending_limit": spending_limit, "size_limit": size_limit}
"""Name -> constructor of what shall hold in the long run."""
