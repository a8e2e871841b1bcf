"""RCV1 for DOLA: one reduction to many columns, of which each setting takes the first few."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tacit_reproduction.datasets.rcv1 import rcv1
from tacit_reproduction.dola.samples import Samples
from tacit_reproduction.dola.table import Representation

ROUNDED_DOWN = 1 - 1e-6
"""Single precision must not lift a norm above 1: sensitivities count on it."""


class Documents(NamedTuple):
    """Documents reduced to the widest representation, training part first."""

    x: NDArray[np.float32]
    y: NDArray[np.float32]
    training: int
    description: str

    def represented(self, wanted: Representation) -> NDArray[np.float32]:
        """Return the rows of one representation, of norm 1 (L1 norm 1 where only some coordinates are kept).

        Columns are singular directions in falling order, hence the first few are those of a narrower reduction, and
        rows are scaled afterwards: it is what `rcv1(columns=..., keep=...)` gives, without solving for each anew.
        """
        x = self.x[:, : wanted.columns].astype(np.float64)
        if wanted.keep is not None:
            small = np.argsort(-np.abs(x), axis=1, kind="stable")[:, wanted.keep :]
            np.put_along_axis(x, small, 0.0, axis=1)
        norm = np.linalg.norm(x, axis=1) if wanted.keep is None else np.abs(x).sum(axis=1)
        return np.asarray(x * (ROUNDED_DOWN / np.where(norm > 0, norm, 1))[:, None], np.float32)

    def split(self, wanted: Representation) -> tuple[Samples, Samples]:
        """Return the training and the test part of one representation."""
        x = self.represented(wanted)
        return Samples(x[: self.training], self.y[: self.training]), Samples(
            x[self.training :], self.y[self.training :]
        )


def load(columns: int) -> Documents:
    """Load RCV1 with this many columns; where it cannot be had the error says where it was looked for."""
    data = rcv1("public_svd", columns)
    return Documents(data.x, data.y, data.parts["train"].stop, data.description)
