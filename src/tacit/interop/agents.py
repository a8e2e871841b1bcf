"""The learner behind an online learner's interface: an agent alone, or a running peer."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.privacy.spending import RunPrivacy


class Agent(ABC):
    """One agent that learns sample by sample."""

    @property
    @abstractmethod
    def privacy(self) -> RunPrivacy:
        """Privacy promised and spent."""

    @abstractmethod
    def learn(self, x: NDArray[Any], y: float) -> None:
        """Learn from one sample.

        Args:
          x: Numbers of the sample.
          y: Its label.
        """

    @abstractmethod
    def output(self, x: NDArray[Any]) -> NDArray[np.float64]:
        """Return what the model says of a sample: a number, or one per class.

        Args:
          x: Numbers of the sample.
        """

    def learn_many(self, x: NDArray[Any], y: NDArray[Any]) -> None:
        """Learn from samples one after the other.

        Args:
          x: Numbers (samples, columns).
          y: Labels.
        """
        for row, label in zip(x, y.tolist(), strict=True):
            self.learn(row, label)

    def output_many(self, x: NDArray[Any]) -> NDArray[np.float64]:
        """Return what the model says of samples, at least one: (samples,) numbers, or (samples, classes).

        Args:
          x: Numbers (samples, columns).
        """
        return np.stack([self.output(row) for row in x])

    def close(self) -> None:  # noqa: B027 - an agent that is only memory has nothing to end
        """End it."""
