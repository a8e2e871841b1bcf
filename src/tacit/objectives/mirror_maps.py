"""Mirror maps: the geometry in which a step is taken (Dissertation, ch. 2).

A mirror map is a strictly convex potential R on a convex set X. Mirror descent steps in the dual and comes back::

    grad R(y) = grad R(x) - eta g;   z = argmin_{x in X} B_R(x, y),   B_R(x, y) = R(x) - R(y) - <grad R(y), x - y>

Both are `from_dual(to_dual(x) - eta g)`, since argmin_{x in X} B_R(x, y) = argmin_{x in X} R(x) - <grad R(y), x>.
A map of your own is one class with `potential`, `to_dual`, `from_dual` and `within`; everything else follows. A pytree
of parameters is taken as one vector.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from tacit.core.contract import Array, Params, Tree

if TYPE_CHECKING:
    from tacit.objectives.projections import ConvexSet, Simplex


class MirrorMap(ABC):
    """A potential on a convex set; a subclass defines `within`, `potential`, `to_dual` and `from_dual`."""

    @property
    @abstractmethod
    def within(self) -> ConvexSet | None:
        """The set X; None: no bounds."""

    @abstractmethod
    def potential(self, params: Params) -> Array:
        """R(x).

        Args:
          params: Parameters x, a pytree of arrays.
        """

    @abstractmethod
    def to_dual(self, params: Params) -> Tree:
        """Return grad R(x).

        Args:
          params: Parameters x, a pytree of arrays.
        """

    @abstractmethod
    def from_dual(self, dual: Tree) -> Params:
        """Return argmin over X of R(x) - <dual, x>: where a mirror step leads, Bregman projection included.

        Args:
          dual: Point of the dual space, a pytree like the parameters.
        """

    def divergence(self, params: Params, other: Params) -> Array:
        """B_R(x, y) = R(x) - R(y) - <grad R(y), x - y>.

        Args:
          params: Parameters x, a pytree of arrays.
          other: Parameters y, a pytree like x.
        """
        slope = jax.tree.map(lambda g, x, y: jnp.sum(g * (x - y)), self.to_dual(other), params, other)
        return self.potential(params) - self.potential(other) - sum(jax.tree.leaves(slope))

    def project(self, params: Params) -> Params:
        """Return the point of X that is nearest in the Bregman divergence: argmin_{x in X} B_R(x, params).

        Args:
          params: Parameters, inside X or not.
        """
        return self.from_dual(self.to_dual(params))

    def step(self, params: Params, step: Tree) -> Params:
        """Return where a mirror step leads: from_dual(to_dual(x) - step).

        Args:
          params: Parameters x, a pytree of arrays.
          step: Step size times gradient, a pytree like x.
        """
        return self.from_dual(jax.tree.map(lambda d, s: d - s.astype(d.dtype), self.to_dual(params), step))

    def first(self, like: Params) -> Params:
        """Return the point of X nearest to the objective's own first parameters: of zeros, that of least potential.

        Args:
          like: The objective's first parameters.
        """
        return self.project(like)

    def fault(self, params: Params) -> str | None:
        """Return the reason why parameters are outside X; None where they are in it.

        Args:
          params: Parameters, numbers and not traced ones.
        """
        return None if self.within is None else self.within.fault(params)


@dataclass(frozen=True)
class Euclidean(MirrorMap):
    """Euclidean map R(x) = ||x||^2 / 2: mirror descent is projected gradient descent.

    Args:
      within: The set X; None: no bounds.

    Example:
      >>> import tacit
      >>> tacit.objectives.Euclidean(tacit.objectives.Box(0, 1))
      Euclidean(within=Box(low=0.0, high=1.0))
    """

    within: ConvexSet | None = None

    def potential(self, params: Params) -> Array:
        """||x||^2 / 2."""
        return 0.5 * sum((jnp.sum(jnp.square(leaf)) for leaf in jax.tree.leaves(params)), start=jnp.zeros(()))

    def to_dual(self, params: Params) -> Tree:
        """Return x itself."""
        return params

    def from_dual(self, dual: Tree) -> Params:
        """Return the nearest point of the set."""
        return dual if self.within is None else self.within(dual)


@dataclass(frozen=True)
class NegativeEntropy(MirrorMap):
    """Negative entropy R(x) = sum_j x_j log x_j on the simplex: mirror descent is exponentiated gradient.

    R is (1 / total)-strongly convex in the l1 norm. All exponentials are taken relative to the largest, so that no step
    overflows. A coordinate that underflows counts as the smallest normal number: it can grow again, where log 0 would
    keep it at 0 for ever.

    Args:
      total: Sum of the coordinates, above 0.
    """

    total: float = 1.0

    @property
    def within(self) -> Simplex:
        """The simplex."""
        from tacit.objectives.projections import Simplex

        return Simplex(self.total)

    def __post_init__(self) -> None:
        self.within  # noqa: B018  # refuses a total that is none

    def potential(self, params: Params) -> Array:
        """Sum of x_j log x_j, with 0 log 0 = 0."""
        return sum((jnp.sum(leaf * jnp.log(_positive(leaf))) for leaf in jax.tree.leaves(params)), start=jnp.zeros(()))

    def to_dual(self, params: Params) -> Tree:
        """Return 1 + log x."""
        return jax.tree.map(lambda leaf: 1 + jnp.log(_positive(leaf)), params)

    def from_dual(self, dual: Tree) -> Params:
        """Return total * softmax(dual)."""
        vector, unravel = ravel_pytree(dual)
        return unravel(self.total * jax.nn.softmax(vector))


def euclidean_ball(radius: float | None = None) -> Euclidean:
    """Euclidean map on the ball ||x||_2 <= radius.

    Args:
      radius: Radius, above 0; None: the whole space.

    Example:
      >>> import tacit
      >>> tacit.objectives.euclidean_ball(2.0)
      Euclidean(within=Ball(radius=2.0))
    """
    from tacit.objectives.projections import Ball

    return Euclidean(None if radius is None else Ball(radius))


def entropy(total: float = 1.0) -> NegativeEntropy:
    """Negative entropy on the simplex of points x >= 0 that sum to `total`.

    Args:
      total: Sum of the coordinates, above 0.

    Example:
      >>> import jax.numpy as jnp, tacit
      >>> tacit.objectives.entropy().from_dual(jnp.zeros(4)).tolist()
      [0.25, 0.25, 0.25, 0.25]
    """
    return NegativeEntropy(total)


def _positive(leaf: Array) -> Array:
    return jnp.maximum(leaf, np.finfo(leaf.dtype).tiny)
