"""Weights of classes in a loss: a record of a rare class counts more.

A weight multiplies the loss of a record, and so its gradient, before anything is clipped: whatever the weight, a
record moves a release by no more than the clip allows, and no privacy figure changes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import jax.numpy as jnp
import numpy as np

from tacit.core.checks import positive
from tacit.core.contract import Array
from tacit.core.errors import ConfigError

if TYPE_CHECKING:
    from tacit.objectives.losses import ClassWeight

SIGNS = ("-1", "1")
LARGEST = 1e6


@dataclass(frozen=True)
class ClassWeighted:
    """A loss of each sample times the weight of its class."""

    sample: Any
    """(prediction, y) -> loss, sample by sample."""
    weights: tuple[float, ...]
    """Of class 0, 1, 2, ..., or of labels -1 and +1."""
    signs: bool
    """Whether labels are -1 and +1."""

    def __call__(self, prediction: Array, y: Array) -> Array:
        """Return the loss of each sample."""
        loss = self.sample(prediction, y)
        number = jnp.asarray(y > 0 if self.signs else y, jnp.int32)
        return jnp.asarray(jnp.take(jnp.asarray(self.weights, loss.dtype), number, mode="clip") * loss)


@dataclass(frozen=True)
class SmoothClassWeighted:
    """Smooth losses times the weights of classes, below the loss by at most what is asked for."""

    sample: Any
    """mu -> a loss of each sample."""
    weights: tuple[float, ...]
    signs: bool

    def __call__(self, mu: float) -> ClassWeighted:
        """Return the loss that lies below by mu at most."""
        return ClassWeighted(self.sample(mu / max(self.weights)), self.weights, self.signs)


def weighted(sample: Any, class_weight: ClassWeight, classes: int | None = None) -> Any:
    """Return a loss of each sample with its classes weighed.

    Args:
      sample: (prediction, y) -> loss, or a class of smooth ones by how far they are below it at most.
      class_weight: Weights.
      classes: Number of classes 0, 1, ...; None: labels are -1 and +1.
    """
    names = SIGNS if classes is None else tuple(map(str, range(classes)))
    weights = weights_in_order(class_weight, names)
    return (SmoothClassWeighted if isinstance(sample, type) else ClassWeighted)(sample, weights, classes is None)


def weights_in_order(class_weight: ClassWeight, names: Sequence[str]) -> tuple[float, ...]:
    """Return the weights of classes, in the order of their names; a class that is not listed has 1.

    Args:
      class_weight: By name, or in this order.
      names: Names of the classes.
    """
    if isinstance(class_weight, str) or class_weight is None:
        raise ConfigError(
            f"class_weight = {class_weight!r}: 'balanced' is counted from an experiment's rows; give numbers here, "
            "e.g. {-1 = 1.0, 1 = 5.0} (in Python tacit.objectives.balanced(y) counts them)"
        )
    if isinstance(class_weight, Mapping):
        given = {str(name): weight for name, weight in class_weight.items()}
        if tuple(names) == SIGNS and "0" in given:
            given = {"-1" if name == "0" else name: weight for name, weight in given.items()}
        unknown = sorted(given.keys() - set(names))
        if unknown:
            raise ConfigError(f"class_weight of {unknown[0]!r}: there is no such class, only {', '.join(names)}")
        found = [given.get(name, 1.0) for name in names]
    else:
        found = list(class_weight)
        if len(found) != len(names):
            raise ConfigError(f"class_weight = {found}: expected {len(names)} numbers, of {', '.join(names)}")
    for name, weight in zip(names, found, strict=True):
        positive(f"class_weight of {name!r}", weight, most=LARGEST)
    return tuple(float(weight) for weight in found)


def balanced(y: Any, classes: int | None = None) -> tuple[float, ...]:
    """Weights with which every class counts alike: rows / (classes x rows of the class), for `class_weight`.

    They are made of all labels, which no privacy account covers: of a private run, say weights that are known
    beforehand, or answer for these.

    Args:
      y: Labels: -1 and +1, or 0 and 1, or 0, 1, 2, ...
      classes: Number of classes 0, 1, ...; None: two, -1 and +1 (or 0 and 1).

    Example:
      >>> import tacit
      >>> tacit.objectives.balanced([-1, -1, -1, 1])
      (0.6666666666666666, 2.0)
      >>> tacit.objectives.logistic(class_weight=tacit.objectives.balanced([-1, -1, -1, 1]))
      Objective(logistic)
    """
    labels = np.asarray(y)
    number = (labels > 0).astype(np.int64) if classes is None else labels.astype(np.int64)
    counts = np.bincount(number, minlength=classes or 2)
    return tuple(len(labels) / (len(counts) * count) if count else 1.0 for count in counts.tolist())
