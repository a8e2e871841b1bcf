"""Which cluster each agent belongs to: one whole number per agent, counted from 0 without gaps."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from tacit.core.errors import GraphError
from tacit.graphs.edges import IntArray


def checked_clusters(clusters: npt.ArrayLike, agents: int, of: str) -> IntArray:
    """Return one cluster per agent as an array; every number from 0 to the largest must have a member."""
    labels = np.asarray(clusters)
    if labels.shape != (agents,) or not np.issubdtype(labels.dtype, np.integer):
        raise GraphError(
            f"clusters of shape {labels.shape} and type {labels.dtype}: expected one whole number for each of "
            f"{agents} {of}"
        )
    if labels.min() < 0:
        raise GraphError(f"clusters: {labels.min()} is negative; number them 0, 1, 2, ...")
    found = np.unique(labels)
    if found[-1] >= found.size:
        empty = int(np.argmax(found != np.arange(found.size)))
        raise GraphError(
            f"clusters: nobody belongs to cluster {empty}, but somebody to cluster {found[-1]}; number them "
            "0, 1, 2, ... without gaps"
        )
    return labels.astype(np.int32)


def joined_clusters(parts: Sequence[IntArray | None]) -> IntArray | None:
    """Return the clusters of a union: agents keep their numbers."""
    known = [part for part in parts if part is not None]
    if not known:
        return None
    if len(known) < len(parts):
        raise GraphError("a union needs all of its parts in clusters, or none")
    return np.concatenate(known)
