"""Constraints c(params, batch) <= 0 that shall hold in the long run (Dissertation, ch. 3 and 4).

A constraint is a convex function of the parameters that each round's batch defines anew, like a loss: a mean over the
batch's records. A method may have several at once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp

from tacit.core.checks import SINGLE, bound, positive
from tacit.core.contract import Array, Batch, Params
from tacit.core.errors import ConfigError, ContractError
from tacit.objectives.losses import MeanLoss, linear


class Constraint(NamedTuple):
    """A convex function of the parameters that shall be at most 0 on average over the rounds.

    Example:
      >>> import tacit
      >>> tacit.objectives.Constraint("first at most 1", lambda params, batch: params[0] - 1, reads_data=False)
      Constraint(first at most 1)
    """

    name: str
    """Name in tables and in `run.violation()`."""
    value: Callable[[Params, Batch], Array]
    """Parameters and one agent's batch -> a number, the mean over the batch's records; above 0: violated."""
    reads_data: bool = True
    """Whether the batch matters. One that is about the parameters alone costs no privacy; the runtimes check that."""

    def __repr__(self) -> str:
        return f"Constraint({self.name})"


def spending_limit(limit: float) -> Constraint:
    """Constraint <x, params> <= limit, where the batch's x are prices.

    Args:
      limit: Amount that may be spent per round on average.

    Example:
      >>> import tacit
      >>> tacit.objectives.spending_limit(2.5)
      Constraint(spending at most 2.5)
    """
    most = bound("limit", limit, "it is what may be spent per round on average")

    return Constraint(f"spending at most {most:g}", MeanLoss(linear, lambda cost, y: cost - most))


def size_limit(limit: float) -> Constraint:
    """Constraint ||params||_1 <= limit: a model whose use costs the sum of its coordinates. It reads no data.

    Args:
      limit: Largest l1 norm, above 0.

    Example:
      >>> import tacit
      >>> tacit.objectives.size_limit(3)
      Constraint(l1 norm at most 3)
    """
    most = positive("limit", limit, "it is the largest l1 norm", most=SINGLE)

    def value(params: Params, batch: Batch) -> Array:
        return sum((jnp.sum(jnp.abs(leaf)) for leaf in jax.tree.leaves(params)), start=jnp.asarray(-most))

    return Constraint(f"l1 norm at most {most:g}", value, reads_data=False)


def as_constraints(given: Constraint | Sequence[Constraint]) -> tuple[Constraint, ...]:
    """Return one or several constraints as a tuple, none of them twice."""
    found = (given,) if isinstance(given, Constraint) else tuple(given)
    if not found or not all(isinstance(each, Constraint) for each in found):
        raise ConfigError(
            f"constraints = {given!r}: expected a tacit.objectives.Constraint, or a list of at least one of them"
        )
    names = [each.name for each in found]
    if len(set(names)) < len(names):
        raise ConfigError(f"constraints named {names}: expected different names, under which their values are reported")
    return found


def stacked(constraints: tuple[Constraint, ...]) -> Callable[[Params, Batch], Array]:
    """Return the vector (k,) of all values as one function."""

    def values(params: Params, batch: Batch) -> Array:
        found = [jnp.asarray(each.value(params, batch)) for each in constraints]
        for each, value in zip(constraints, found, strict=True):
            if value.shape != ():
                raise ContractError(
                    f"constraint {each.name!r} gives an array of shape {value.shape}: expected one number, the mean "
                    "over the batch; make several constraints of several numbers"
                )
        return jnp.stack(found)

    return values
