"""Objectives of the user's own by name, so that experiments and jobs can ask for them."""

from __future__ import annotations

from collections.abc import Callable

from tacit.core.contract import Objective
from tacit.core.errors import ConfigError
from tacit.objectives.registry import OBJECTIVES, OWN_OBJECTIVES


def register_objective(constructor: Callable[..., Objective]) -> Callable[..., Objective]:
    """Register the constructor of an objective under its own name, so that files can ask for it: a decorator.

    In an experiment or a job ``[objective] kind = "its name"`` and its parameters; `tacit --with FILE.py` runs the file
    that registers it, whose digest is part of a job's hash. Parameters need types, by which a file is checked. One for
    labels of several classes has a parameter `classes`, their number.

    Args:
      constructor: Settings -> the objective.

    Returns:
      The constructor as it is.

    Example:
      >>> import jax.numpy as jnp, tacit
      >>> @tacit.objectives.register_objective
      ... def scaled(features: int, slope: float = 1.0):
      ...     def model(w, x):
      ...         return slope * x @ w
      ...     return tacit.objectives.from_model(model, "squared", jnp.zeros(features))
      >>> tacit.objectives.OBJECTIVES["scaled"](features=3)
      Objective(model)
      >>> del tacit.objectives.registry.OWN_OBJECTIVES["scaled"]
    """
    name = constructor.__name__
    if name in OBJECTIVES and name not in OWN_OBJECTIVES:
        raise ConfigError(f"objective {name!r}: there is one of that name in the package; give it another name")
    OWN_OBJECTIVES[name] = constructor
    return constructor
