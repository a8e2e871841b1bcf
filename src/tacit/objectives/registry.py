"""Names under which configurations ask for objectives, constraints and geometries."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Mapping

from tacit.core.contract import Objective
from tacit.core.lazy import LazyTable


def _table(names: Mapping[str, str]) -> LazyTable:
    return LazyTable("tacit.objectives", names)


OWN_OBJECTIVES: dict[str, Callable[..., Objective]] = {}
"""Name -> constructor of the objectives that were registered (`register_objective`)."""
OBJECTIVES: Mapping[str, Callable[..., Objective]] = ChainMap(
    OWN_OBJECTIVES,
    _table({name: name for name in ("logistic", "hinge", "squared", "absolute", "softmax", "fourier")}),  # type: ignore[arg-type]
)
"""Name -> constructor of the objective."""
PROJECTIONS = _table({"ball": "Ball", "box": "Box", "simplex": "Simplex"})
"""Name -> constructor of the projection on that set."""
MIRROR_MAPS = _table({"euclidean": "euclidean_ball", "entropy": "entropy"})
"""Name -> constructor of the geometry."""
CONSTRAINTS = _table({"spending_limit": "spending_limit", "size_limit": "size_limit"})
"""Name -> constructor of what shall hold in the long run."""
