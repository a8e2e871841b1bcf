"""A set of directed links among n agents, with weights and dynamics, in O(edges) memory.

An edge goes from sender to receiver ("the sender trusts the receiver"). A graph is a pytree: pass it to a
compiled function as an argument, so that millions of edges are data and not constants of the program.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt

from tacit.core.errors import GraphError
from tacit.graphs import edges as edge_lists
from tacit.graphs.dynamics import Attendance, Dynamics, Periodic, Schedule, Scheduled, joined_dynamics
from tacit.graphs.edges import BoolArray, IntArray
from tacit.graphs.roles import joined_clusters, validate_clusters
from tacit.graphs.weights import (
    Rule,
    Weights,
    by_rule,
    evaluate,
    evaluate_exactly,
    given,
    joined_weights,
    validate_weights,
)

STATIC = {"static": True}


class RoundGraph(NamedTuple):
    """A graph in one round, as `Graph.at` gives it."""

    live: jax.Array
    """(E,) bool: links that are up."""
    edge_weight: jax.Array
    """(E,) W[receiver, sender]; 0 where the link is down."""
    self_weight: jax.Array
    """(n,) W[i, i]; 0 between two roles."""
    present: jax.Array
    """Agents that take part, (n,) bool."""
    senders_present: jax.Array
    """The same of the senders, (columns,) bool, which are these agents unless they are of another role."""


@jax.tree_util.register_dataclass
@dataclass(frozen=True, eq=False, repr=False)
class Graph:
    """Directed links among agents, with weights and dynamics; the plain constructor checks nothing.

    Make it with a generator (`ring`, `random_digraph`, ...), `from_edges`, `from_matrix` or `from_networkx`. It is
    immutable, and a pytree.

    Example:
      >>> import tacit
      >>> tacit.graphs.ring(5).with_weights("metropolis").with_dynamics(tacit.graphs.LinkDrop(0.1, symmetric=True))
      Graph(ring, 5 agents, 10 links, metropolis weights, LinkDrop)
    """

    agents: int = field(metadata=STATIC)
    """Number of receivers, and of senders unless `sources` is given."""
    senders: IntArray
    """(E,) int32."""
    receivers: IntArray
    """(E,) int32. Edges are sorted by (receiver, sender); no duplicates, no self loops."""
    weights: Weights | None = None
    """None: not chosen yet, the algorithm's rule is used."""
    dynamics: Dynamics | None = None
    """None: the same in every round."""
    sources: int | None = field(default=None, metadata=STATIC)
    """Number of senders of links between two roles; None: one role, and each agent has a self."""
    name: str = field(default="graph", metadata=STATIC)
    """Name in reports."""
    clusters: IntArray | None = None
    """(agents,) which cluster each agent belongs to, counted from 0; None: there are none."""

    @classmethod
    def from_edges(
        cls,
        agents: int,
        senders: npt.ArrayLike,
        receivers: npt.ArrayLike,
        *,
        sources: int | None = None,
        name: str = "graph",
        weight: npt.ArrayLike | None = None,
        self_weight: npt.ArrayLike | None = None,
    ) -> Graph:
        """Graph of an edge list; ids out of range, duplicates and self loops are refused.

        Args:
          agents: Number of agents, at least 1; between two roles, of receivers.
          senders: (E,) sender of each link, counted from 0.
          receivers: (E,) receiver of each link.
          sources: Number of senders of links between two roles; None: agents of one role.
          name: Name in reports.
          weight: (E,) W[receiver, sender] of each link in the order given; None: weights are chosen later.
          self_weight: (agents,) W[i, i]; needed with `weight` where there is one role.

        Example:
          >>> import tacit
          >>> tacit.graphs.from_edges(3, senders=[0, 1, 2], receivers=[1, 2, 0], name="triangle")
          Graph(triangle, 3 agents, 3 links)
        """
        if agents < 1 or (sources is not None and sources < 1):
            raise GraphError(f"graph of {agents} agents (sources: {sources}): expected at least one")
        edge_lists.refuse_large(max(agents, sources or 0), np.size(senders), name)
        if weight is None and self_weight is not None:
            raise GraphError("self_weight without weight: give both, or name a rule with with_weights")
        send, receive, order = edge_lists.sorted_edges(agents, senders, receivers, sources, ordered=weight is not None)
        graph = cls(int(agents), send, receive, sources=sources, name=name)
        if order is None:
            return graph
        if self_weight is None and sources is None:
            raise GraphError("weight without self_weight: give W[i, i] of each agent too (zeros if none hears itself)")
        values = np.asarray(weight, dtype=np.float64)
        if values.shape != order.shape:
            raise GraphError(f"weight has shape {values.shape}: expected one per edge, {order.shape}")
        own = np.zeros(agents) if self_weight is None else self_weight
        return graph.with_weights(given(values[order], own))

    def __repr__(self) -> str:
        ends = f"{self.agents} agents" if self.sources is None else f"{self.sources} senders to {self.agents} receivers"
        more = "" if self.weights is None else f", {self.weights.rule} weights"
        more += "" if self.dynamics is None else f", {type(self.dynamics).__name__}"
        return f"Graph({self.name.partition('(')[0]}, {ends}, {self.edges} links{more})"

    @property
    def edges(self) -> int:
        """Number of directed links."""
        return len(self.senders)

    @property
    def columns(self) -> int:
        """Number of agents that may send."""
        return self.agents if self.sources is None else self.sources

    @property
    def in_degree(self) -> IntArray:
        """(agents,) number of links into each receiver."""
        return edge_lists.counts(self.receivers, self.agents)

    @property
    def out_degree(self) -> IntArray:
        """(columns,) number of links out of each sender."""
        return edge_lists.counts(self.senders, self.columns)

    def neighbours_in(self, agent: int) -> IntArray:
        """Senders that a receiver hears, in ascending order.

        Args:
          agent: Receiver, counted from 0.
        """
        start, stop = np.searchsorted(self.receivers, [agent, agent + 1])
        return self.senders[start:stop]

    def neighbours_out(self, agent: int) -> IntArray:
        """Receivers that a sender sends to, in ascending order.

        Args:
          agent: Sender, counted from 0.
        """
        order, sorted_senders = self._by_sender
        start, stop = np.searchsorted(sorted_senders, [agent, agent + 1])
        return self.receivers[order[start:stop]]

    @cached_property
    def _by_sender(self) -> tuple[IntArray, IntArray]:
        order = edge_lists.stable_order(self.senders)
        return order, self.senders[order]

    def at(
        self,
        t: Any,
        key: jax.Array,
        dtype: Any = jnp.float32,
        there: jax.Array | None = None,
        senders_there: jax.Array | None = None,
    ) -> RoundGraph:
        """Return the graph of one round (pure JAX). A fixed graph is always the same: ask once.

        Args:
          t: Round, 1, 2, ...
          key: Key of the round, for random dynamics.
          dtype: Type of the weights.
          there: (agents,) which receivers are there; None: all.
          senders_there: The same of the senders of another role.
        """
        if self.weights is None:
            raise GraphError(f"graph {self.name!r} has no weights yet: use with_weights('sender'), for one")
        if self.dynamics is None:
            live, present = jnp.ones(len(self.senders), bool), jnp.ones(self.agents, bool)
        else:
            live, present = self.dynamics.live(t, key, self.senders, self.receivers, self.agents)
        if there is not None:
            live, present = live & there[jnp.asarray(self.receivers)], present & there
        if senders_there is not None:
            live = live & senders_there[jnp.asarray(self.senders)]
        varies = self.dynamics is not None or there is not None or senders_there is not None
        up, weights = live if varies else None, self.weights.in_round(t)
        edge, own = evaluate(weights, self.senders, self.receivers, self.agents, up, sources=self.sources, dtype=dtype)
        if self.sources is None:
            return RoundGraph(live, edge, own, present, present)
        senders = jnp.ones(self.sources, bool) if senders_there is None else senders_there
        return RoundGraph(live, edge, own, present, senders)

    def live_at(self, t: int, key: jax.Array | None = None) -> BoolArray:
        """Return (E,) which links are up in a round (NumPy).

        Args:
          t: Round, 1, 2, ...
          key: Key of the round; without it, all links of random dynamics are up.
        """
        if isinstance(self.dynamics, Scheduled):
            return self.dynamics.links_in(t, self.senders, self.receivers)
        if self.dynamics is None or key is None:
            return np.ones(self.edges, dtype=bool)
        return np.asarray(self.dynamics.live(t, key, self.senders, self.receivers, self.agents)[0])

    def matrix(self, t: int = 1, key: jax.Array | None = None) -> Any:
        """Return W of a round, diagonal included, as a scipy.sparse.csr_array in double precision.

        Args:
          t: Round, 1, 2, ...
          key: Key of the round; without it, all links of random dynamics are up.
        """
        from scipy import sparse

        if self.weights is None:
            raise GraphError(f"graph {self.name!r} has no weights yet: use with_weights('sender'), for one")
        live = self.live_at(t, key)
        edge, own = evaluate_exactly(
            self.weights.in_round(t), self.senders, self.receivers, self.agents, live, sources=self.sources
        )
        shape = (self.agents, self.columns)
        W = sparse.csr_array((edge[live], (self.receivers[live], self.senders[live])), shape=shape)
        return W if self.sources is not None else (W + sparse.diags_array(own)).tocsr()

    def with_weights(self, weights: Rule | Weights | Any) -> Graph:
        """Return the graph with other weights, checked against its links and dynamics.

        Args:
          weights: A rule ("sender", "receiver" or "metropolis"), `Weights`, or a matrix W (scipy.sparse; dense up to
            500).
        """
        if isinstance(weights, str):
            chosen = by_rule(weights)  # type: ignore[arg-type]
        elif isinstance(weights, Weights):
            chosen = weights
        else:
            shape, two_roles = (self.agents, self.columns), self.sources is not None
            chosen = given(*edge_lists.matrix_weights(weights, self.senders, self.receivers, shape, two_roles))
        fitted = chosen.fitted(self.senders, self.receivers, self.agents, self.sources)
        return validate_weights(replace(self, weights=fitted))

    def with_dynamics(self, dynamics: Dynamics | Schedule | None) -> Graph:
        """Return the graph with other dynamics, checked against its links and weights.

        Args:
          dynamics: In place of its own; None: the same in every round.
        """
        settled = dynamics.on(self) if isinstance(dynamics, Schedule) else dynamics
        return validate_weights(replace(self, dynamics=settled))

    def with_clusters(self, clusters: npt.ArrayLike) -> Graph:
        """Return the graph with its agents in clusters.

        A run then has the links within clusters as "cluster" and the others as "bridge", besides all as "peers".

        Args:
          clusters: (agents,) number of each agent's cluster, from 0 on.
        """
        self._refuse_two_roles("with_clusters()")
        return replace(self, clusters=validate_clusters(clusters, self.agents, "agents"))

    def among(self, keep: BoolArray, name: str) -> Graph:
        """Return the same agents with some of the links, weights to be chosen anew.

        Args:
          keep: (E,) bool, which links stay.
          name: Name in reports.
        """
        chosen = np.flatnonzero(keep)
        senders, receivers, dynamics = self.senders[chosen], self.receivers[chosen], self._dynamics_of(chosen)
        return replace(self, senders=senders, receivers=receivers, weights=None, dynamics=dynamics, name=name)

    def reverse(self) -> Graph:
        """Return the graph with every edge turned round, its weights to be chosen anew."""
        order = edge_lists.stable_order(self.senders)
        agents, sources = (self.agents, None) if self.sources is None else (self.sources, self.agents)
        senders, receivers, dynamics = self.receivers[order], self.senders[order], self._dynamics_of(order)
        return Graph(agents, senders, receivers, None, dynamics, sources, self.name, self.clusters)

    def mutual(self) -> Graph:
        """Keep only edges whose reverse exists (periodic: in the same round), weights to be chosen anew."""
        self._refuse_two_roles("mutual()")
        back = edge_lists.reverse_positions(self.senders, self.receivers, self.agents)
        keep = np.flatnonzero(back >= 0)
        dynamics = self.dynamics
        if isinstance(dynamics, Periodic):
            dynamics = Periodic(dynamics.table[:, keep] & dynamics.table[:, back[keep]])
        return replace(
            self, senders=self.senders[keep], receivers=self.receivers[keep], weights=None, dynamics=dynamics
        )

    def disconnected(self) -> Graph:
        """Return the same agents without any link: each learns alone."""
        none = np.zeros(0, dtype=np.int32)
        dynamics = self._dynamics_of(none.astype(np.int64))
        return replace(self, senders=none, receivers=none, weights=None, dynamics=dynamics)

    def completed(self) -> Graph:
        """Return the complete graph on the same agents, weights to be chosen anew.

        Dynamics stay; only a periodic table speaks of the old links and is dropped.
        """
        self._refuse_two_roles("completed()")
        senders, receivers = edge_lists.complete_edges(self.agents)
        dynamics = None if isinstance(self.dynamics, Periodic) else self.dynamics
        return replace(self, senders=senders, receivers=receivers, weights=None, dynamics=dynamics)

    def relabelled(self, permutation: npt.ArrayLike) -> Graph:
        """Return the same graph with its agents renamed; weights and dynamics go along.

        Args:
          permutation: (agents,) new number of each agent, a permutation of 0, 1, ...
        """
        self._refuse_two_roles("relabelled()")
        new = np.asarray(permutation)
        if new.shape != (self.agents,) or not np.array_equal(np.sort(new), np.arange(self.agents)):
            raise GraphError(f"not a permutation of 0..{self.agents - 1}: {new!r}")
        keys = edge_lists.edge_keys(*new.astype(np.int64)[np.stack([self.senders, self.receivers])])
        order = np.argsort(keys)
        senders, receivers = edge_lists.split_keys(keys[order])
        weights = self.weights
        if weights is not None and weights.edge is not None and weights.own is not None:
            own = np.empty_like(weights.own)
            own[..., new] = weights.own
            weights = replace(weights, edge=weights.edge[..., order], own=own)
        dynamics = self._dynamics_of(order)
        if isinstance(dynamics, Attendance):
            dynamics = Attendance(dynamics.table[:, np.argsort(new)])
        clusters = None if self.clusters is None else self.clusters[np.argsort(new)]
        return Graph(self.agents, senders, receivers, weights, dynamics, None, self.name, clusters)

    @staticmethod
    def union(graphs: Sequence[Graph]) -> Graph:
        """Disjoint union of graphs of equal size: R repeats as one graph, agent i of the r-th as r * agents + i.

        Args:
          graphs: At least one, with one kind of weights and equal dynamics; tables of links or of attendance may
            differ, but not in their number of rounds.
        """
        first = first_of_equal_sizes(graphs, "the union", "a union needs equal sizes")
        if (count := len(graphs)) == 1:
            return first
        edge_lists.refuse_large(
            count * max(first.agents, first.columns), count * first.edges, f"{count:,} x {first.name}"
        )
        return Graph(
            count * first.agents,
            np.concatenate([g.senders + np.int32(r * first.columns) for r, g in enumerate(graphs)]),
            np.concatenate([g.receivers + np.int32(r * first.agents) for r, g in enumerate(graphs)]),
            joined_weights([g.weights for g in graphs]),
            joined_dynamics([g.dynamics for g in graphs]),
            None if first.sources is None else count * first.sources,
            f"{count} x {first.name}",
            joined_clusters([g.clusters for g in graphs]),
        )

    def _dynamics_of(self, order: IntArray) -> Dynamics | None:
        return Periodic(self.dynamics.table[:, order]) if isinstance(self.dynamics, Periodic) else self.dynamics

    def _refuse_two_roles(self, operation: str) -> None:
        if self.sources is not None:
            raise GraphError(f"{operation} is for agents of one role, but {self.name!r} links two roles")


def first_of_equal_sizes(graphs: Sequence[Graph], what: str, expected: str) -> Graph:
    """Return the first graph, having refused none at all and graphs on other agents than the first one's."""
    if not graphs:
        raise GraphError(f"{what} of no graphs: give at least one")
    first = graphs[0]
    for index, other in enumerate(graphs):
        if (other.agents, other.sources) != (first.agents, first.sources):
            raise GraphError(
                f"graph {index} has {other.agents} agents (sources: {other.sources}), the first one {first.agents} "
                f"({first.sources}): {expected}"
            )
    return first


from_edges = Graph.from_edges
