"""What is learnt: losses, regularisers, constraints, and the sets and geometries that parameters live in."""

from tacit.objectives.constraints import Constraint, size_limit, spending_limit
from tacit.objectives.custom import from_loss
from tacit.objectives.fourier import FourierFeatures, FourierModel, fourier
from tacit.objectives.losses import (
    MeanLoss,
    PenalisedLoss,
    absolute,
    hinge,
    linear,
    logistic,
    regularised,
    softmax,
    squared,
    squared_loss,
)
from tacit.objectives.mirror_maps import Euclidean, MirrorMap, NegativeEntropy, entropy, euclidean_ball
from tacit.objectives.networks import cnn
from tacit.objectives.projections import Ball, Box, ConvexSet, Projection, Simplex
from tacit.objectives.registry import CONSTRAINTS, MIRROR_MAPS, OBJECTIVES, PROJECTIONS
from tacit.objectives.regularisers import Regulariser, elastic_net, l1, l2

__all__ = [
    "CONSTRAINTS",
    "MIRROR_MAPS",
    "OBJECTIVES",
    "PROJECTIONS",
    "Ball",
    "Box",
    "Constraint",
    "ConvexSet",
    "Euclidean",
    "FourierFeatures",
    "FourierModel",
    "MeanLoss",
    "MirrorMap",
    "NegativeEntropy",
    "PenalisedLoss",
    "Projection",
    "Regulariser",
    "Simplex",
    "absolute",
    "cnn",
    "elastic_net",
    "entropy",
    "euclidean_ball",
    "fourier",
    "from_loss",
    "hinge",
    "l1",
    "l2",
    "linear",
    "logistic",
    "regularised",
    "size_limit",
    "softmax",
    "spending_limit",
    "squared",
    "squared_loss",
]
