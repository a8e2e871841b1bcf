"""Properties of the agents of a role: which cluster each belongs to, and with which probability each is there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt

from tacit.core.errors import GraphError
from tacit.graphs.edges import BoolArray, FloatArray, IntArray


def validate_clusters(clusters: npt.ArrayLike, agents: int, of: str) -> IntArray:
    """Return one cluster per agent as an array; every number from 0 to the largest must have a member.

    Args:
      clusters: (agents,) whole numbers, counted from 0 without gaps.
      agents: Number of agents.
      of: Noun for the agents in error messages.

    Example:
      >>> import tacit
      >>> tacit.graphs.validate_clusters([0, 0, 1], 3, "clients")
      array([0, 0, 1], dtype=int32)
    """
    labels = np.asarray(clusters)
    if labels.shape != (agents,) or not np.issubdtype(labels.dtype, np.integer):
        raise GraphError(
            f"clusters of shape {labels.shape} and type {labels.dtype}: expected one whole number for each of "
            f"{agents} {of}"
        )
    if labels.min() < 0:
        raise GraphError(f"clusters: {labels.min()} is negative; number them 0, 1, 2, ...")
    found = np.unique(labels)
    if found[-1] >= found.size:
        empty = int(np.argmax(found != np.arange(found.size)))
        raise GraphError(
            f"clusters: nobody belongs to cluster {empty}, but somebody to cluster {found[-1]}; number them "
            "0, 1, 2, ... without gaps"
        )
    return labels.astype(np.int32)


def joined_clusters(parts: Sequence[IntArray | None]) -> IntArray | None:
    """Return the clusters of a union: agents keep their numbers."""
    known = [part for part in parts if part is not None]
    if not known:
        return None
    if len(known) < len(parts):
        raise GraphError("a union needs all of its parts in clusters, or none")
    return np.concatenate(known)


@jax.tree_util.register_dataclass
@dataclass(frozen=True, eq=False, repr=False)
class Availability:
    """Agents of a role that are there by chance, each with its own probability, the same on all of their links.

    With known `arrivals`, an agent is there only when it has new data. An agent that is away neither sends nor hears on
    any link; it may still learn alone. Make it with `Topology.available`.

    Example:
      >>> import tacit
      >>> tacit.graphs.Availability.of(5, 0.5)
      Availability(5 agents, probability 0.5)
    """

    probability: FloatArray
    """(n,) of each agent of the role."""
    arrivals: BoolArray | None = None
    """(rounds, n) whether a round brings an agent data; row (t - 1) mod rounds is that of round t."""

    def __repr__(self) -> str:
        low, high = float(np.min(self.probability)), float(np.max(self.probability))
        chance = f"{low:g}" if low == high else f"{low:g} to {high:g}"
        data = "" if self.arrivals is None else ", only with new data"
        return f"Availability({len(self.probability)} agents, probability {chance}{data})"

    @staticmethod
    def of(agents: int, probability: npt.ArrayLike, arrivals: npt.ArrayLike | None = None) -> Availability:
        """Availability of given agents, checked.

        Args:
          agents: Number of agents of the role.
          probability: One for all or (agents,), above 0 and up to 1.
          arrivals: (rounds, agents) bool, whether a round brings an agent data (a stream's `arrivals`); None: not
            asked.
        """
        chance = np.asarray(probability, np.float64)
        if chance.shape not in ((), (agents,)) or not np.all((chance > 0) & (chance <= 1)):
            between = f" between {chance.min():g} and {chance.max():g}" if chance.size else ""
            raise GraphError(
                f"availability of shape {chance.shape}{between}: expected one "
                f"probability above 0 and up to 1, or one for each of {agents} agents"
            )
        table = None if arrivals is None else np.asarray(arrivals)
        if table is not None and (table.ndim != 2 or table.shape[1] != agents or table.dtype != np.bool_):
            raise GraphError(
                f"arrivals of shape {table.shape} and type {table.dtype}: expected (rounds, {agents}) of bool, whether "
                "a round brings an agent data (a stream's `arrivals`)"
            )
        return Availability(np.broadcast_to(chance, (agents,)).copy(), table)

    def present(self, t: Any, key: jax.Array) -> jax.Array:
        """Return (n,) bool, which agents are there in a round.

        Args:
          t: Round, 1, 2, ...; may be traced.
          key: Key of the round.
        """
        # In single precision whatever that of the run: one seed, one history.
        chance = jnp.asarray(self.probability, jnp.float32)
        there = jax.random.uniform(key, chance.shape, jnp.float32) < chance
        if self.arrivals is None:
            return there
        table = jnp.asarray(self.arrivals)
        return there & table[(t - 1) % table.shape[0]]


def joined_availability(parts: Sequence[Availability | None]) -> Availability | None:
    """Return the availability in a union of topologies."""
    known = [part for part in parts if part is not None]
    if not known:
        return None
    tables = [part.arrivals for part in known if part.arrivals is not None]
    shapes = {table.shape[0] for table in tables}
    if len(known) < len(parts) or (tables and (len(tables) < len(known) or len(shapes) > 1)):
        raise GraphError(
            f"a union of {len(parts)} topologies, of which {len(known)} say who is there and {len(tables)} when data "
            f"come (over {sorted(shapes)} rounds): give all of them the same form"
        )
    return Availability(
        np.concatenate([part.probability for part in known]), np.concatenate(tables, axis=1) if tables else None
    )
