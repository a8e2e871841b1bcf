"""Regularisers: l1 ||w||_1 + (l2/2) ||w||^2 of any pytree of parameters, taken as one vector."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import jax
import jax.numpy as jnp

from tacit.core.checks import nonnegative
from tacit.core.contract import Array, Params


@dataclass(frozen=True)
class Regulariser:
    """Elastic net l1 ||w||_1 + (l2/2) ||w||^2. A value: equal coefficients compare equal, and two add up.

    Args:
      l1: Coefficient of ||w||_1, 0 or more.
      l2: Coefficient of ||w||^2 / 2, 0 or more.

    Example:
      >>> import jax.numpy as jnp, tacit
      >>> float(tacit.objectives.Regulariser(l1=1.0, l2=2.0)(jnp.array([1.0, -2.0])))
      8.0
    """

    l1: float = 0.0
    l2: float = 0.0

    def __post_init__(self) -> None:
        remedy = "0 switches the term off"
        # A term with a kink is there or not, so that its number cannot be one that is traced: `float` refuses it.
        object.__setattr__(self, "l1", float(nonnegative("l1", self.l1, remedy)))
        object.__setattr__(self, "l2", nonnegative("l2", self.l2, remedy))

    def __call__(self, params: Params) -> Array:
        """Return l1 ||w||_1 + (l2/2) ||w||^2."""
        return self.with_magnitude(params, jnp.abs)

    def smoothed(self, mu: float) -> Callable[[Params], Array]:
        """Return a smooth convex function below this one by at most `mu`, over all coordinates together.

        Args:
          mu: Largest difference, above 0.
        """
        return SmoothRegulariser(self, mu) if self.l1 else self

    def __add__(self, other: Regulariser) -> Regulariser:
        """Return the sum of both."""
        return Regulariser(self.l1 + other.l1, self.l2 + other.l2)

    def with_magnitude(self, params: Params, magnitude: Callable[[Array], Array]) -> Array:
        """Return the regulariser with another function in the place of the absolute value.

        Args:
          params: Parameters w, a pytree of arrays.
          magnitude: Array -> array of its shape, entry by entry, in place of |.|.
        """
        leaves = jax.tree.leaves(params)
        total = jnp.asarray(0.0)
        if self.l1:
            total += self.l1 * sum(jnp.sum(magnitude(leaf)) for leaf in leaves)
        if not isinstance(self.l2, float) or self.l2:  # one that is traced may be any number
            total += 0.5 * self.l2 * sum(jnp.sum(jnp.square(leaf)) for leaf in leaves)
        return total


@dataclass(frozen=True)
class SmoothRegulariser:
    """A regulariser whose l1 term is rounded off at 0: below it by at most mu."""

    regulariser: Regulariser
    mu: float

    def __call__(self, params: Params) -> Array:
        """Return the value."""
        coordinates = sum(leaf.size for leaf in jax.tree.leaves(params))
        per_coordinate = self.mu / (self.regulariser.l1 * coordinates)
        return self.regulariser.with_magnitude(params, lambda leaf: huber(leaf, per_coordinate))


def l1(coefficient: float) -> Regulariser:
    """Regulariser coefficient * ||w||_1.

    Args:
      coefficient: 0 or more.

    Example:
      >>> import tacit
      >>> tacit.objectives.l1(0.1)
      Regulariser(l1=0.1, l2=0.0)
    """
    return Regulariser(l1=coefficient)


def l2(coefficient: float) -> Regulariser:
    """Regulariser (coefficient / 2) * ||w||^2.

    Args:
      coefficient: 0 or more.

    Example:
      >>> import tacit
      >>> tacit.objectives.l1(0.1) + tacit.objectives.l2(0.2)
      Regulariser(l1=0.1, l2=0.2)
    """
    return Regulariser(l2=coefficient)


def huber(residual: Array, mu: float) -> Array:
    """|residual| with its kink rounded off: smooth, convex, and below it by at most `mu`.

    Quadratic up to the width 2 mu, then the line |r| - mu, which meets it with the same slope.
    """
    size = jnp.abs(residual)
    return jnp.where(size <= 2 * mu, jnp.square(residual) / (4 * mu), size - mu)
