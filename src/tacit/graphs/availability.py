"""Who is there in a round: agents of one role that come and go by chance, the same on all of their links."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt

from tacit.core.errors import GraphError
from tacit.graphs.edges import BoolArray, FloatArray


@jax.tree_util.register_dataclass
@dataclass(frozen=True, eq=False)
class Availability:
    """Each agent is there with a probability of its own, and, where `arrivals` are known, only when it has data.

    Whoever is away neither sends nor hears on any link; it may still learn alone.
    """

    probability: FloatArray
    """(n,) of each agent of the role."""
    arrivals: BoolArray | None = None
    """(rounds, n) whether a round brings an agent data; row (t - 1) mod rounds is that of round t."""

    @staticmethod
    def of(agents: int, probability: npt.ArrayLike, arrivals: npt.ArrayLike | None = None) -> Availability:
        """Check what is given: one probability for all or one for each, and a table with a column for each."""
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
        """Return (n,) who is there in round t = 1, 2, ...; `key` is that of the round."""
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
