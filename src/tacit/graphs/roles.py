"""Properties of the agents of a role: which cluster each belongs to, and in which rounds each is there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt

from tacit.core.errors import GraphError
from tacit.core.limits import MOST_ROUNDS
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
class Shifts:
    """Rounds in which each agent of a role works: from a first to a last one, some of every period.

    Agent i works in round t where first <= t <= last and (t - first) mod period < rounds, with its own four numbers.

    Example:
      >>> import tacit
      >>> shifts = tacit.graphs.Shifts.of(2, first=[1, 9], period=24, rounds=8)
      >>> shifts.work(9).tolist(), shifts.after(0, 8)
      ([False, True], 25)
    """

    first: IntArray
    """(n,) first round of each agent, from 1 on."""
    last: IntArray
    """(n,) last round of each agent."""
    period: IntArray
    """(n,) rounds after which it repeats, counted from the first."""
    rounds: IntArray
    """(n,) rounds of each period, at its beginning, in which the agent works."""

    def __repr__(self) -> str:
        return f"Shifts({len(self.first)} agents)"

    @staticmethod
    def of(
        agents: int,
        first: npt.ArrayLike = 1,
        last: npt.ArrayLike = MOST_ROUNDS,
        period: npt.ArrayLike = 1,
        rounds: npt.ArrayLike = 1,
    ) -> Shifts:
        """Shifts of given agents, checked; each number is one for all, or one for each.

        Args:
          agents: Number of agents of the role.
          first: First round, 1, 2, ...
          last: Last round, not before the first.
          period: Rounds after which it repeats.
          rounds: Rounds of each period in which an agent works, 1 to `period`.
        """
        found = {}
        for name, given in {"first": first, "last": last, "period": period, "rounds": rounds}.items():
            values = np.asarray(given)
            whole = np.issubdtype(values.dtype, np.integer) and values.shape in ((), (agents,))
            if not whole or np.any(values < 1) or np.any(values > MOST_ROUNDS):
                raise GraphError(
                    f"shifts: {name} = {values.tolist()}: expected a whole number from 1 to {MOST_ROUNDS:,}, or one "
                    f"for each of {agents} agents"
                )
            found[name] = np.broadcast_to(values, (agents,)).astype(np.int32)
        for low, high in (("first", "last"), ("rounds", "period")):
            wrong = np.flatnonzero(found[low] > found[high])
            if wrong.size:
                a, b = found[low][wrong[0]], found[high][wrong[0]]
                raise GraphError(f"shifts: {low} = {a} is above {high} = {b}; expected {low} up to {high}")
        return Shifts(**found)

    def work(self, t: Any) -> Any:
        """Return (n,) bool, which agents work in a round.

        Args:
          t: Round, 1, 2, ...; may be traced.
        """
        since = t - self.first
        return (since >= 0) & (t <= self.last) & (since % self.period < self.rounds)

    def after(self, agent: int, t: int) -> int | None:
        """Return the first round after t in which an agent works; None: there is none.

        Args:
          agent: Agent, counted from 0.
          t: Round, 0, 1, ...
        """
        first, last, period, rounds = (int(a[agent]) for a in (self.first, self.last, self.period, self.rounds))
        coming = max(t + 1, first)
        within = (coming - first) % period
        if within >= rounds:
            coming += period - within
        return coming if coming <= last else None


@jax.tree_util.register_dataclass
@dataclass(frozen=True, eq=False, repr=False)
class Availability:
    """Agents of a role that are there by chance or by schedule, each with its own probability, on all of their links.

    With known `arrivals`, an agent is there only when it has new data. An agent that is away neither sends nor hears on
    any link; it may still learn alone. With `shifts` it rests instead: in rounds of no shift of its own, and in those
    that chance takes away, its state stays as it is, it reads no data, and it releases and is charged nothing. Make it
    with `Topology.available`.

    Example:
      >>> import tacit
      >>> tacit.graphs.Availability.of(5, 0.5)
      Availability(5 agents, probability 0.5)
    """

    probability: FloatArray
    """(n,) of each agent of the role."""
    arrivals: BoolArray | None = None
    """(rounds, n) whether a round brings an agent data; row (t - 1) mod rounds is that of round t."""
    shifts: Shifts | None = None
    """Rounds in which each agent works; it rests in all others."""

    @property
    def rests(self) -> bool:
        """Whether an agent that is away rests, instead of learning alone."""
        return self.shifts is not None

    def __repr__(self) -> str:
        low, high = float(np.min(self.probability)), float(np.max(self.probability))
        chance = f"{low:g}" if low == high else f"{low:g} to {high:g}"
        data = "" if self.arrivals is None else ", only with new data"
        turns = "" if self.shifts is None else ", in shifts"
        return f"Availability({len(self.probability)} agents, probability {chance}{data}{turns})"

    @staticmethod
    def of(
        agents: int,
        probability: npt.ArrayLike,
        arrivals: npt.ArrayLike | None = None,
        shifts: Shifts | None = None,
    ) -> Availability:
        """Availability of given agents, checked.

        Args:
          agents: Number of agents of the role.
          probability: One for all or (agents,), above 0 and up to 1.
          arrivals: (rounds, agents) bool, whether a round brings an agent data (a stream's `arrivals`); None: not
            asked.
          shifts: Rounds in which each agent works; None: an agent that is away may learn alone.
        """
        if shifts is not None and (arrivals is not None or len(shifts.first) != agents):
            raise GraphError(
                f"shifts of {len(shifts.first)} agents for a role of {agents}, arrivals "
                f"{'not ' if arrivals is None else ''}given: expected shifts of each agent, and no arrivals, for who "
                "rests reads no data"
            )
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
        return Availability(np.broadcast_to(chance, (agents,)).copy(), table, shifts)

    def present(self, t: Any, key: jax.Array) -> jax.Array:
        """Return (n,) bool, which agents are there in a round.

        Args:
          t: Round, 1, 2, ...; may be traced.
          key: Key of the round.
        """
        # In single precision whatever that of the run: one seed, one history.
        chance = jnp.asarray(self.probability, jnp.float32)
        there = jax.random.uniform(key, chance.shape, jnp.float32) < chance
        if self.shifts is not None:
            there = there & self.shifts.work(t)
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
    turns = [part.shifts for part in known if part.shifts is not None]
    mixed = any(0 < len(some) < len(known) for some in (tables, turns))
    if len(known) < len(parts) or mixed or len(shapes) > 1:
        raise GraphError(
            f"a union of {len(parts)} topologies, of which {len(known)} say who is there and {len(tables)} when data "
            f"come (over {sorted(shapes)} rounds): give all of them the same form"
        )
    return Availability(
        np.concatenate([part.probability for part in known]),
        np.concatenate(tables, axis=1) if tables else None,
        jax.tree.map(lambda *columns: np.concatenate(columns), *turns) if turns else None,
    )
