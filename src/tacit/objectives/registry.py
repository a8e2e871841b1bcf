"""Names under which configurations ask for objectives, constraints and geometries."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from tacit.core.contract import Objective
from tacit.core.errors import ConfigError
from tacit.core.lazy import LazyTable


def _table(names: Mapping[str, str]) -> LazyTable:
    return LazyTable("tacit.objectives", names)


class Objectives(LazyTable):
    """The package's objectives by name, and those that were registered since."""

    def __init__(self, names: Mapping[str, str]) -> None:
        super().__init__("tacit.objectives", names)
        self.own: dict[str, Callable[..., Objective]] = {}

    def __getitem__(self, name: str) -> Callable[..., Objective]:
        """Return the constructor of a name, whose module is imported if need be."""
        found: Callable[..., Objective] = self.own[name] if name in self.own else super().__getitem__(name)
        return found

    def __contains__(self, name: object) -> bool:
        """Return whether there is an objective of that name, without an import."""
        return name in self.own or super().__contains__(name)

    def __iter__(self) -> Iterator[str]:
        """Iterate over the names."""
        yield from super().__iter__()
        yield from self.own

    def __len__(self) -> int:
        """Return the number of names."""
        return super().__len__() + len(self.own)


OBJECTIVES = Objectives({name: name for name in ("logistic", "hinge", "squared", "absolute", "softmax", "fourier")})
"""Name -> constructor of the objective."""
PROJECTIONS = _table({"ball": "Ball", "box": "Box", "simplex": "Simplex"})
"""Name -> constructor of the projection on that set."""
MIRROR_MAPS = _table({"euclidean": "euclidean_ball", "entropy": "entropy"})
"""Name -> constructor of the geometry."""
CONSTRAINTS = _table({"spending_limit": "spending_limit", "size_limit": "size_limit"})
"""Name -> constructor of what shall hold in the long run."""


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
      >>> del tacit.objectives.OBJECTIVES.own["scaled"]
    """
    name = constructor.__name__
    if name in OBJECTIVES and name not in OBJECTIVES.own:
        raise ConfigError(f"objective {name!r}: there is one of that name in the package; give it another name")
    OBJECTIVES.own[name] = constructor
    return constructor
