"""RCV1 for DOLA: one reduction to many columns, of which each setting takes the first few."""

import functools
import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tacit_reproduction.datasets.rcv1 import rcv1
from tacit_reproduction.li.dola import Samples

ROUNDED_DOWN = 1 - 1e-6  # single precision must not lift a norm above 1: sensitivities count on it


class Representation(NamedTuple):  # representation of documents as rows
    columns: int
    keep: int | None = None  # only the largest coordinates of each row; None: all of them

    @property
    def clip(self) -> float:
        """L1 bound of a gradient: 1 where rows have L1 norm 1, else what a random direction of length 1 has."""
        return 1.0 if self.keep is not None else math.sqrt(2 * self.columns / math.pi)


class Documents(NamedTuple):  # documents reduced to the widest representation, training part first
    x: NDArray[np.float32]
    y: NDArray[np.float32]
    training: int
    description: str

    def represented(self, wanted: Representation) -> NDArray[np.float32]:
        """Return the rows of one representation, of norm 1 (L1 norm 1 where only some coordinates are kept).

        Columns are singular directions in falling order, hence the first few are those of a narrower reduction.
        """
        x = self.x[:, : wanted.columns].astype(np.float64)
        if wanted.keep is not None:
            small = np.argsort(-np.abs(x), axis=1, kind="stable")[:, wanted.keep :]
            np.put_along_axis(x, small, 0.0, axis=1)
        norm = np.linalg.norm(x, axis=1) if wanted.keep is None else np.abs(x).sum(axis=1)
        return np.asarray(x * (ROUNDED_DOWN / np.where(norm > 0, norm, 1))[:, None], np.float32)

    def split(self, wanted: Representation) -> tuple[Samples, Samples]:
        """Return the training and the test part of one representation."""
        x, last = self.represented(wanted), self.training
        return Samples(x[:last], self.y[:last]), Samples(x[last:], self.y[last:])


@functools.cache
def load(columns: int) -> Documents:
    """Load RCV1 with this many columns; where it cannot be had the error says where it was looked for."""
    data = rcv1(columns)
    return Documents(data.x, data.y, data.parts["train"].stop, data.description)
