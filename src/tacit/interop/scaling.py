"""Rows as dense numbers; scaling of columns and labels: by given bounds, by all rows, or by a charged histogram."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse

from tacit.core import limits
from tacit.core.errors import ConfigError
from tacit.privacy.noise import NoiseSource
from tacit.privacy.planning import private_bounds
from tacit.streams.learnt import Learnt

Floats = NDArray[np.float64]
BOUNDS_SHARE = 0.1
"""Of a record's budget that private bounds take."""


class Scaling(NamedTuple):
    """Centre and width of every column, and of labels."""

    centre: Floats
    width: Floats
    bounded: bool = False
    """Whether what lies beyond -1 ... 1 is cut off."""
    unit: bool = False
    """Whether rows are brought to norm 1, with a column of ones."""
    label: tuple[float, float] = (0.0, 1.0)
    """Centre and width of labels."""
    learnt: tuple[Learnt, ...] = ()
    rho: float = 0.0
    """What a record has paid for it."""

    def rows(self, x: Floats) -> NDArray[np.float32]:
        """Return rows as they are learnt from, with a column of ones."""
        scaled = (x - self.centre) / self.width
        if self.bounded:
            scaled = np.clip(scaled, -1, 1)
        whole = np.concatenate([scaled, np.ones((len(x), 1))], axis=1)
        return np.asarray(whole / np.linalg.norm(whole, axis=1, keepdims=True) if self.unit else whole, np.float32)


def dense(x: Any) -> Floats:
    """Return rows as dense numbers; a sparse matrix takes 8 bytes a cell, within the limit on memory.

    Args:
      x: Numbers (rows, columns), dense or sparse. Every row is scaled, and learnt from, as dense numbers.
    """
    if not issparse(x):
        return np.asarray(x)
    rows, columns = x.shape
    limits.refuse_beyond(8 * rows * columns, f"a sparse X of {rows:,} rows x {columns:,} columns as dense numbers")
    return np.asarray(x.toarray())


def given_bounds(bounds: Any, columns: int) -> Scaling:
    """Return the scaling of one pair (low, high), or of one per column."""
    pairs = np.asarray(bounds, np.float64)
    if pairs.shape not in ((2,), (columns, 2)) or not (np.isfinite(pairs).all() and (np.diff(pairs) > 0).all()):
        raise ConfigError(f"bounds={bounds!r}: expected (low, high), or one such pair for each of {columns} columns")
    low, high = np.broadcast_to(pairs, (columns, 2)).T
    return Scaling((low + high) / 2, (high - low) / 2, bounded=True)


def by_all_rows(x: Floats) -> Scaling:
    """Return the scaling by mean and deviation of all rows, which no privacy account covers."""
    spread = x.std(axis=0)
    remedy = "bounds=(low, high), one pair for all columns or one for each, or standardise=False"
    learnt = (Learnt("scaling", "mean and deviation of every column over all rows", remedy),)
    return Scaling(x.mean(axis=0), np.where(spread > 0, spread, 1), learnt=learnt)


def as_it_is(columns: int) -> Scaling:
    """Return the scaling that leaves columns as they are."""
    return Scaling(np.zeros(columns), np.ones(columns))


def by_histograms(table: Floats, owner: NDArray[np.int64], rho: float, seed: int) -> Scaling:
    """Return the scaling by bounds that owners find together from noisy histograms, each record paying rho."""
    found = private_bounds(table, owner, rho, NoiseSource.seeded_for_simulation(seed), simulation=True)
    paid = max(event.loss.rho for event in found.events)
    return Scaling((found.low + found.high) / 2, (found.high - found.low) / 2, bounded=True, rho=paid)
