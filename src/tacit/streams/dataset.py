"""A labelled data set in memory."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.streams.batch import Task


@dataclass(frozen=True)
class Dataset:
    """A labelled data set in memory.

    Example:
      >>> import numpy as np
      >>> from tacit.streams import Dataset
      >>> Dataset("toy", np.ones((20, 3), np.float32), np.ones(20), ("a", "b", "c"), "20 rows of ones", True, {})
      Dataset(toy, 20 rows, 3 columns, binary)
    """

    name: str
    """Name in tables."""
    x: NDArray[np.float32]
    """(rows, columns), as published unless `standardised`."""
    y: NDArray[Any]
    """(rows,) -1 or +1 (float32); where `task` is multiclass 0, 1, 2, ... (int32)."""
    columns: tuple[str, ...]
    """Names of the features."""
    description: str
    """One sentence for reports; it says where this is only a part of the original."""
    complete: bool
    """Whether these are all rows of the original."""
    parts: dict[str, slice]
    """The publisher's own division of the rows, where there is one."""
    task: Task = "binary"
    """Kind of the labels."""

    def __repr__(self) -> str:
        return f"Dataset({self.name}, {len(self.x)} rows, {len(self.columns)} columns, {self.task})"

    def standardised(self, by: NDArray[np.bool_] | None = None) -> Dataset:
        """Return it with columns of mean 0 and standard deviation 1 (a constant column becomes 0).

        Mean and deviation are taken over all rows and all agents, outside any privacy account.

        Args:
          by: (rows,) which rows mean and deviation are of; None: all.
        """
        x = self.x.astype(np.float64)
        known = x if by is None else x[by]
        spread = known.std(axis=0)
        scaled = (x - known.mean(axis=0)) / np.where(spread > 0, spread, 1)
        return replace(self, x=scaled.astype(np.float32), description=f"{self.description}, columns standardised")


def with_bias(x: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return features (rows, columns) with a last column of ones, so that a linear model has an intercept."""
    return np.concatenate([x, np.ones((len(x), 1), x.dtype)], axis=1)
