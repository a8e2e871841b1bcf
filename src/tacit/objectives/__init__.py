"""What is learnt: losses, regularisers and the sets that parameters are kept in."""

from tacit.objectives.custom import from_loss
from tacit.objectives.losses import absolute, hinge, logistic, regularised, softmax, squared
from tacit.objectives.projections import Ball, Box, Projection, Simplex
from tacit.objectives.registry import OBJECTIVES, PROJECTIONS
from tacit.objectives.regularisers import Regulariser, elastic_net, l1, l2

__all__ = [
    "OBJECTIVES",
    "PROJECTIONS",
    "Ball",
    "Box",
    "Projection",
    "Regulariser",
    "Simplex",
    "absolute",
    "elastic_net",
    "from_loss",
    "hinge",
    "l1",
    "l2",
    "logistic",
    "regularised",
    "softmax",
    "squared",
]
