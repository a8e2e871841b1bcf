"""Objectives: losses, regularisers, constraints, and the sets and geometries that parameters live in."""

from typing import TYPE_CHECKING

from tacit.core.lazy import lazy_exports

if TYPE_CHECKING:
    from tacit.objectives.class_weights import balanced as balanced
    from tacit.objectives.constraints import Constraint as Constraint
    from tacit.objectives.constraints import size_limit as size_limit
    from tacit.objectives.constraints import spending_limit as spending_limit
    from tacit.objectives.custom import from_loss as from_loss
    from tacit.objectives.losses import MeanLoss as MeanLoss
    from tacit.objectives.losses import PenalisedLoss as PenalisedLoss
    from tacit.objectives.losses import absolute as absolute
    from tacit.objectives.losses import hinge as hinge
    from tacit.objectives.losses import linear as linear
    from tacit.objectives.losses import logistic as logistic
    from tacit.objectives.losses import regularised as regularised
    from tacit.objectives.losses import softmax as softmax
    from tacit.objectives.losses import squared as squared
    from tacit.objectives.losses import squared_loss as squared_loss
    from tacit.objectives.mirror_maps import Euclidean as Euclidean
    from tacit.objectives.mirror_maps import MirrorMap as MirrorMap
    from tacit.objectives.mirror_maps import NegativeEntropy as NegativeEntropy
    from tacit.objectives.mirror_maps import entropy as entropy
    from tacit.objectives.mirror_maps import euclidean_ball as euclidean_ball
    from tacit.objectives.networks import cnn as cnn
    from tacit.objectives.own_models.objective import figures as figures
    from tacit.objectives.own_models.objective import from_model as from_model
    from tacit.objectives.own_models.objective import rebuilt as rebuilt
    from tacit.objectives.own_models.registering import register_objective as register_objective
    from tacit.objectives.projections import Ball as Ball
    from tacit.objectives.projections import Box as Box
    from tacit.objectives.projections import ConvexSet as ConvexSet
    from tacit.objectives.projections import Projection as Projection
    from tacit.objectives.projections import Simplex as Simplex
    from tacit.objectives.random_features import FourierFeatures as FourierFeatures
    from tacit.objectives.random_features import FourierModel as FourierModel
    from tacit.objectives.random_features import fourier as fourier
    from tacit.objectives.registry import CONSTRAINTS as CONSTRAINTS
    from tacit.objectives.registry import MIRROR_MAPS as MIRROR_MAPS
    from tacit.objectives.registry import OBJECTIVES as OBJECTIVES
    from tacit.objectives.registry import PROJECTIONS as PROJECTIONS
    from tacit.objectives.regularisers import Regulariser as Regulariser
    from tacit.objectives.regularisers import l1 as l1
    from tacit.objectives.regularisers import l2 as l2

__getattr__, __dir__, __all__ = lazy_exports(
    __name__,
    {
        "class_weights": "balanced",
        "constraints": "Constraint size_limit spending_limit",
        "custom": "from_loss",
        "random_features": "FourierFeatures FourierModel fourier",
        "losses": "MeanLoss PenalisedLoss absolute hinge linear logistic regularised softmax squared squared_loss",
        "mirror_maps": "Euclidean MirrorMap NegativeEntropy entropy euclidean_ball",
        "networks": "cnn",
        "own_models.objective": "figures from_model rebuilt",
        "own_models.registering": "register_objective",
        "projections": "Ball Box ConvexSet Projection Simplex",
        "registry": "CONSTRAINTS MIRROR_MAPS OBJECTIVES PROJECTIONS",
        "regularisers": "Regulariser l1 l2",
    },
)
