"""Figures of clients that learn several models: per client, per cluster, and whether clusters were found.

Models, targets and values may have leading axes (repeats, rounds); the clients' axis is last, of models the one before
the coordinates.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacit.core.errors import DataError

Floats = NDArray[np.float64]


def normalised_deviation(models: ArrayLike, targets: ArrayLike) -> Floats:
    """Normalised square deviation (..., clients): ||w_k - w*_k||^2 / ||w*_k||^2; its mean over clients is the NMSD.

    Args:
      models: (..., clients, d). A model that has left all bounds deviates by infinity.
      targets: w*, of a shape that fits, (clients, d) for instance; none may be 0.

    Example:
      >>> import tacit
      >>> tacit.metrics.normalised_deviation([[2.0, 0.0]], [[1.0, 0.0]])
      array([1.])

    References:
      Gauthier (2023), eq. (5.35).
    """
    found, wanted = np.asarray(models, np.float64), np.asarray(targets, np.float64)
    fits = found.ndim >= 2 and wanted.ndim >= 2 and found.shape[-2:] == wanted.shape[-2:]
    if not fits or not _broadcasts(found.shape, wanted.shape):
        raise DataError(
            f"models of shape {found.shape} against targets of shape {wanted.shape}: expected (..., clients, d) and "
            "one target per client; take targets[clusters] where there is one per cluster"
        )
    size = np.sum(wanted**2, axis=-1)
    if not (np.isfinite(size) & (size > 0)).all():
        raise DataError("a target is zero or not finite: no deviation can be told as a share of it; leave it out")
    with np.errstate(over="ignore", invalid="ignore"):
        square = np.sum((found - wanted) ** 2, axis=-1) / size
    return np.where(np.isnan(square), np.inf, square)


def by_cluster(values: ArrayLike, clusters: ArrayLike) -> Floats:
    """Means (..., Q) of values over each cluster.

    Args:
      values: (..., clients).
      clusters: (clients,) numbers 0 to Q - 1 without gaps, or with leading axes where repeats have their own.

    Example:
      >>> import tacit
      >>> tacit.metrics.by_cluster([1.0, 3.0, 5.0], [0, 0, 1])
      array([2., 5.])
    """
    numbers, labels = np.asarray(values, np.float64), _labels(clusters)
    if numbers.ndim < 1 or numbers.shape[-1] != labels.shape[-1] or not _broadcasts(numbers.shape, labels.shape):
        raise DataError(
            f"values of shape {numbers.shape} for clusters of shape {labels.shape}: expected (..., clients)"
        )
    count = int(labels.max()) + 1
    member = labels[..., None] == np.arange(count)
    sizes = member.sum(axis=-2)
    if (sizes == 0).any():
        raise DataError(f"clusters 0 to {count - 1} are told, but one of them has no client; number them without gaps")
    return np.stack([np.mean(numbers, axis=-1, where=member[..., q]) for q in range(count)], axis=-1)


def agreement(found: ArrayLike, truth: ArrayLike) -> float:
    """Share of clients in the right cluster, under the naming of the found clusters that fits best.

    Args:
      found: (clients,) found clusters, numbers from 0 on.
      truth: (clients,) true clusters.

    Example:
      >>> import tacit
      >>> tacit.metrics.agreement([1, 1, 0, 0], [0, 0, 1, 0])
      0.75
    """
    from scipy.optimize import linear_sum_assignment

    ours, theirs = _labels(found), _labels(truth)
    if ours.ndim != 1 or ours.shape != theirs.shape:
        raise DataError(
            f"found clusters of shape {ours.shape} against true ones of shape {theirs.shape}: expected (clients,) twice"
        )
    table = np.zeros((int(ours.max()) + 1, int(theirs.max()) + 1))
    np.add.at(table, (ours, theirs), 1)
    return float(table[linear_sum_assignment(table, maximize=True)].sum() / len(ours))


def _labels(clusters: ArrayLike) -> NDArray[np.int64]:
    labels: NDArray[Any] = np.asarray(clusters)
    if labels.ndim < 1 or labels.size == 0 or labels.dtype.kind not in "iu" or labels.min() < 0:
        raise DataError(
            f"clusters of shape {labels.shape} and type {labels.dtype}: expected a whole number from 0 on per client"
        )
    return labels.astype(np.int64)


def _broadcasts(values: tuple[int, ...], other: tuple[int, ...]) -> bool:
    """Whether `other` fits a leading part of `values` without making it larger."""
    try:
        return np.broadcast_shapes(values, other) == values
    except ValueError:
        return False
