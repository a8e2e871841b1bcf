"""Time-varying graphs: which links are up and which agents are present in a round.

Everything is elementwise or a segment operation, evaluated in the round loop on the device. The state of a link is a
hash of the round's key and its two ends, so it depends neither on the other links nor on their order; agents of a
disjoint union of repeats have other ids, hence independent draws.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.random import threefry_2x32

from tacit.core.errors import GraphError, RequirementError
from tacit.graphs.edges import BoolArray, IntArray, one_sided, reverse_positions

if TYPE_CHECKING:
    from tacit.graphs.graph import Graph


class Dynamics(Protocol):
    """How a graph changes from round to round: the protocol of `Graph.with_dynamics`."""

    def live(self, t: Any, key: jax.Array, senders: Any, receivers: Any, agents: int) -> tuple[jax.Array, jax.Array]:
        """Return (links that are up (E,) bool, agents that are present (n,) bool) of round t = 1, 2, ...

        Args:
          t: Round, 1, 2, ...; may be traced.
          key: Key of the round, for random dynamics.
          senders: (E,) sender of each link, counted from 0.
          receivers: (E,) receiver of each link.
          agents: Number of agents n.
        """

    def check(self, graph: Graph) -> None:
        """Raise where these dynamics do not fit the graph.

        Args:
          graph: Graph that is to have these dynamics.
        """

    def keeps_links_mutual(self, graph: Graph) -> bool:
        """Whether both directions of a link are always up or down together.

        Args:
          graph: Graph that has these dynamics.
        """


@jax.tree_util.register_dataclass
@dataclass(frozen=True, eq=False, repr=False)
class Periodic(Dynamics):
    """P sets of links played in turn: row (t - 1) mod P of the table says which are up. Make it with `periodic`.

    Args:
      table: (P, E) bool, in the graph's canonical order of links.

    Example:
      >>> import tacit
      >>> tacit.graphs.one_peer_exponential(8).dynamics
      Periodic(3 rounds, 24 links)
    """

    table: BoolArray

    def __repr__(self) -> str:
        return f"Periodic({self.table.shape[0]} rounds, {self.table.shape[1]} links)"

    @property
    def period(self) -> int:
        """Number of rounds after which the links repeat."""
        return len(self.table)

    def links_in(self, t: Any, senders: IntArray, receivers: IntArray) -> BoolArray:
        """Return which links are up in round t (NumPy); of several rounds, one row each.

        Args:
          t: Round, 1, 2, ..., or an array of rounds.
          senders: (E,) sender of each link.
          receivers: (E,) receiver of each link.
        """
        rows: BoolArray = self.table[(t - 1) % self.period]
        return rows

    def live(self, t: Any, key: jax.Array, senders: Any, receivers: Any, agents: int) -> tuple[jax.Array, jax.Array]:
        """Return the links of round t; every agent is present."""
        table = jnp.asarray(self.table)
        return table[(t - 1) % table.shape[0]], jnp.ones(agents, bool)

    def check(self, graph: Graph) -> None:
        """Raise where the table does not have one column per edge."""
        _check_table("periodic", self.table, graph.edges, "one column per edge of the graph")

    def keeps_links_mutual(self, graph: Graph) -> bool:
        """Whether in every round each link is up together with its reverse."""
        back = reverse_positions(graph.senders, graph.receivers, graph.agents)
        paired = back >= 0
        return bool(np.all(self.table[:, paired] == self.table[:, back[paired]]))


@jax.tree_util.register_dataclass
@dataclass(frozen=True, eq=False, repr=False)
class Attendance(Dynamics):
    """Agents that come and go by a table: row (t - 1) mod P says which are present in round t.

    What an absent agent does is up to the method: most step with their own data and hear no agent, `mirror_descent` and
    `dynamic_mirror_descent` keep their state, and methods that require fixed links refuse the graph (docs/choosing.md,
    "Who stays away").

    Args:
      table: (P, agents) bool; `attendance` takes plain lists.

    Example:
      >>> import tacit
      >>> away = tacit.graphs.attendance([[True, True, True], [True, True, False]])
      >>> tacit.graphs.ring(3).with_dynamics(away).live_at(2).sum()
      np.int64(2)
    """

    table: BoolArray

    def __repr__(self) -> str:
        return f"Attendance({self.table.shape[0]} rounds, {self.table.shape[1]} agents)"

    @property
    def period(self) -> int:
        """Number of rounds after which the attendance repeats."""
        return len(self.table)

    def live(self, t: Any, key: jax.Array, senders: Any, receivers: Any, agents: int) -> tuple[jax.Array, jax.Array]:
        """Return the links among agents that are present, and which are."""
        table = jnp.asarray(self.table)
        present = table[(t - 1) % table.shape[0]]
        return present[jnp.asarray(senders)] & present[jnp.asarray(receivers)], present

    def links_in(self, t: Any, senders: IntArray, receivers: IntArray) -> BoolArray:
        """Return which links are up in round t (NumPy); of several rounds, one row each.

        Args:
          t: Round, 1, 2, ..., or an array of rounds.
          senders: (E,) sender of each link.
          receivers: (E,) receiver of each link.
        """
        present: BoolArray = self.table[(t - 1) % self.period]
        return present[..., senders] & present[..., receivers]

    def check(self, graph: Graph) -> None:
        """Raise where the table does not have one column per agent, or where the links are between two roles."""
        _refuse_two_roles(graph, "Attendance")
        layout = (
            "one row per round of the period and one column per agent; make it with np.ones((rounds, agents), bool) "
            "and set False where an agent stays away"
        )
        _check_table("attendance", self.table, graph.agents, layout)

    def keeps_links_mutual(self, graph: Graph) -> bool:
        """Return True: an absent agent neither sends nor hears."""
        return True


def attendance(table: list[list[bool]]) -> Attendance:
    """Attendance of plain lists.

    Args:
      table: One list per round of the period, each with one entry per agent: whether it is present.

    Example:
      >>> import tacit
      >>> tacit.graphs.attendance([[True, True, True], [True, True, False]])
      Attendance(2 rounds, 3 agents)
    """
    lengths = {len(row) for row in table}
    if len(lengths) != 1:
        raise GraphError(
            f"the attendance table has {len(table)} rows of lengths {sorted(lengths)}: expected at least one row, "
            "and in each one entry per agent (true: present)"
        )
    return Attendance(np.asarray(table))


Scheduled = Periodic | Attendance
"""Dynamics that are known in advance, and repeat."""


class Schedule(ABC):
    """Links that are played in turn by a rule: what `Graph.with_dynamics` makes a `Periodic` of."""

    @abstractmethod
    def table(self, senders: IntArray, receivers: IntArray, agents: int) -> BoolArray:
        """Return (P, E) which links are up in each round of the period; of each link by its two ends alone.

        Args:
          senders: (E,) sender of each link, counted from 0.
          receivers: (E,) receiver of each link.
          agents: Number of agents n.
        """

    @abstractmethod
    def check(self, senders: IntArray, receivers: IntArray, agents: int, of: Collection[int]) -> None:
        """Raise where the schedule does not fit links: one that is never up, or that is not there.

        Args:
          senders: (E,) sender of each link.
          receivers: (E,) receiver of each link.
          agents: Number of agents n.
          of: Agents of which these are all links.
        """

    def on(self, graph: Graph) -> Periodic:
        """Return the dynamics of a graph, having checked that the schedule fits it.

        Args:
          graph: Graph with all of its links.
        """
        _refuse_two_roles(graph, type(self).__name__)
        self.check(graph.senders, graph.receivers, graph.agents, range(graph.agents))
        return Periodic(self.table(graph.senders, graph.receivers, graph.agents))


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class RandomMatching(Dynamics):
    """Gossip: in each round a random matching among the links, so that no agent talks to two others.

    Each link draws a priority, and is up when it is the highest at both of its ends. Every link needs its reverse.

    Example:
      >>> import tacit
      >>> tacit.graphs.ring(8).with_dynamics(tacit.graphs.RandomMatching())
      Graph(ring, 8 agents, 16 links, RandomMatching)
    """

    def live(self, t: Any, key: jax.Array, senders: Any, receivers: Any, agents: int) -> tuple[jax.Array, jax.Array]:
        """Return a matching, both directions of a link together; every agent is present."""
        senders, receivers = jnp.asarray(senders), jnp.asarray(receivers)
        priority = _bits_of_pair(key, senders, receivers)
        highest = jax.ops.segment_max(priority, receivers, num_segments=agents)
        candidate = (priority == highest[receivers]) & (priority == highest[senders])
        # Two links of an agent may tie (32 bits): it takes the neighbour with the higher id, so that the
        # result is a matching always and not only almost surely.
        partner = jax.ops.segment_max(jnp.where(candidate, senders, -1), receivers, num_segments=agents)
        return candidate & (partner[receivers] == senders) & (partner[senders] == receivers), jnp.ones(agents, bool)

    def check(self, graph: Graph) -> None:
        """Raise where a link has no reverse."""
        _refuse_two_roles(graph, "RandomMatching")
        edge = one_sided(graph.senders, graph.receivers, graph.agents)
        if edge is not None:
            raise RequirementError(
                f"RandomMatching requires links in both directions, but {edge[0]} -> {edge[1]} has no reverse: use "
                "graph.mutual() first"
            )

    def keeps_links_mutual(self, graph: Graph) -> bool:
        """Return True: a matched pair talks both ways."""
        return True


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class LinkDrop(Dynamics):
    """Random failures of links: each directed link is down with one probability in each round, independently.

    Args:
      probability: Probability of a link to be down in a round, 0 <= probability < 1.
      symmetric: Whether both directions drop together, so that doubly stochastic rules stay so.

    Example:
      >>> import tacit
      >>> tacit.graphs.ring(5).with_dynamics(tacit.graphs.LinkDrop(0.2))
      Graph(ring, 5 agents, 10 links, LinkDrop)
    """

    probability: float = field(metadata={"static": True})
    symmetric: bool = field(default=False, metadata={"static": True})

    def __post_init__(self) -> None:
        _check_probability("LinkDrop", self.probability)

    def live(self, t: Any, key: jax.Array, senders: Any, receivers: Any, agents: int) -> tuple[jax.Array, jax.Array]:
        """Return the links that are not down; every agent is present."""
        senders, receivers = jnp.asarray(senders), jnp.asarray(receivers)
        bits = _bits_of_pair(key, senders, receivers) if self.symmetric else _bits(key, senders, receivers)
        threshold = jnp.uint32(min(round(self.probability * 2**32), 2**32 - 1))
        return bits >= threshold, jnp.ones(agents, bool)

    def check(self, graph: Graph) -> None:
        """Raise where both directions shall drop together but are links between two roles."""
        if self.symmetric:
            _refuse_two_roles(graph, "LinkDrop(symmetric=True)")

    def keeps_links_mutual(self, graph: Graph) -> bool:
        """Whether both directions drop together."""
        return self.symmetric or self.probability == 0


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class OptOut(Dynamics):
    """Random absences of agents: each stays away from a round with one probability, and all of its links are then down.

    What it does meanwhile is up to the method, as under `Attendance`.

    Args:
      probability: Probability of an agent to stay away from a round, 0 <= probability < 1.

    Example:
      >>> import tacit
      >>> tacit.graphs.ring(5).with_dynamics(tacit.graphs.OptOut(0.2))
      Graph(ring, 5 agents, 10 links, OptOut)
    """

    probability: float = field(metadata={"static": True})

    def __post_init__(self) -> None:
        _check_probability("OptOut", self.probability)

    def live(self, t: Any, key: jax.Array, senders: Any, receivers: Any, agents: int) -> tuple[jax.Array, jax.Array]:
        """Return the links among agents that are present, and which are."""
        # In single precision whatever that of the run: one seed, one history.
        present = jax.random.uniform(key, (agents,), jnp.float32) >= self.probability
        return present[jnp.asarray(senders)] & present[jnp.asarray(receivers)], present

    def check(self, graph: Graph) -> None:
        """Raise on links between two roles, whose two link sets could not agree on which agents are away."""
        _refuse_two_roles(graph, "OptOut")

    def keeps_links_mutual(self, graph: Graph) -> bool:
        """Return True: an absent agent neither sends nor hears."""
        return True


def _bits(key: jax.Array, first: jax.Array, second: jax.Array) -> jax.Array:
    """Return 32 random bits per pair of ids: JAX's own cipher, with the ids as its counter."""
    cipher_key = jax.random.bits(key, (2,), jnp.uint32)
    words = threefry_2x32(cipher_key, jnp.concatenate([first.astype(jnp.uint32), second.astype(jnp.uint32)]))
    bits: jax.Array = words[: first.shape[0]]
    return bits


def _bits_of_pair(key: jax.Array, senders: jax.Array, receivers: jax.Array) -> jax.Array:
    return _bits(key, jnp.minimum(senders, receivers), jnp.maximum(senders, receivers))


def _check_probability(name: str, probability: float) -> None:
    if not 0 <= probability < 1:
        raise GraphError(f"{name} probability is {probability}: expected a number in [0, 1)")


def _check_table(name: str, given: Any, columns: int, layout: str) -> None:
    table = np.asarray(given)
    if table.ndim != 2 or table.shape[0] == 0 or table.shape[1] != columns or table.dtype != np.bool_:
        raise GraphError(
            f"the {name} table has shape {table.shape} and type {table.dtype}: expected (rounds, {columns}) of bool, "
            f"{layout}"
        )


def _refuse_two_roles(graph: Graph, name: str) -> None:
    if graph.sources is not None:
        raise GraphError(f"{name} needs a graph among agents of one role, but {graph.name!r} links two roles")


def joined_dynamics(parts: list[Dynamics | None]) -> Dynamics | None:
    """Return the dynamics of the disjoint union of graphs that have these."""
    first = parts[0]
    scheduled = [d for d in parts if isinstance(d, Scheduled)]
    if scheduled:
        kinds = sorted({"fixed" if d is None else type(d).__name__ for d in parts})
        periods = sorted({d.period for d in scheduled})
        if len(kinds) > 1 or len(periods) > 1:
            raise GraphError(
                f"a union needs equal dynamics: these are {' and '.join(kinds)} with periods {periods}; give all of "
                "them one kind and one period"
            )
        return type(scheduled[0])(np.concatenate([d.table for d in scheduled], axis=1))
    if any(d != first for d in parts):
        raise GraphError(f"a union needs equal dynamics, but these have {sorted({str(d) for d in parts})}")
    return first
