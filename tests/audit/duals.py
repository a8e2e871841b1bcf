"""The problem on which a multiplier that is made of data gives most away."""

from __future__ import annotations

from functools import partial

import jax.numpy as jnp

import tacit
from tacit.contract import Algorithm
from tacit.objectives import Constraint
from tacit.privacy import gaussian

CLIP = 0.5
SWITCHED = gaussian(noise_multiplier=2.0, clip=CLIP, perturbs="gradient")
"""Four rounds of this noise cost what one of half of it does."""


def _switch(params, batch):
    """Below 0 on the victim's data and far above on the neighbour's, whose records sum to less.

    The multiplier is then 0, or so large that the constraint's slope drowns the loss's gradient, which points the
    other way: every clipped gradient from there on turns round.
    """
    return 100 * (2.6 * CLIP - jnp.mean(batch.y * batch.x[..., 0])) - 0.1 * params[0]


def with_private_dual(name: str):
    """Return the constructor of a method whose dual variable is switched by the record that differs."""
    settings = {"constrained_mirror_descent": {"damping": 0.0}, "lagrangian_descent": {"rounds": 4}}[name]
    constructor = tacit.algorithms.find(name).constructor
    return partial(constructor, constraints=Constraint("switch", _switch), dual="private", **settings)


def said_to_be_parallel(constructor):
    """Return the constructor with another promise: that a record costs the round that reads it alone."""

    def make(objective, mechanism) -> Algorithm:
        algorithm = constructor(objective, mechanism=mechanism)
        return algorithm._replace(privacy=algorithm.privacy._replace(composition="parallel"))

    return make
