"""Views of the simulator's graphs, one agent at a time: neighbours, weights and liveness of each round, by one seed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast

import jax
import jax.numpy as jnp
import numpy as np

from tacit import runtime
from tacit.core.contract import Algorithm, Array, Links, View
from tacit.graphs import Graph, RoundGraph, Topology
from tacit.peer.machine.rounds import Views
from tacit.privacy.noise import hides


class Neighbourhoods:
    """Slots of every agent in one link set, padded to the largest, as the simulator orders them."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.into = self._table(graph.receivers, graph.senders, graph.agents)
        self.out = self._table(graph.senders, graph.receivers, graph.columns)

    @staticmethod
    def _table(own: np.ndarray, other: np.ndarray, agents: int) -> tuple[np.ndarray, np.ndarray]:
        """Neighbour and edge per (agent, slot); slot 0 is left for the agent itself, -1 is none."""
        degree = np.bincount(own, minlength=agents)
        neighbour = np.full((agents, int(degree.max(initial=0)) + 1), -1, np.int32)
        edge = neighbour.copy()
        used = np.zeros(agents, np.int64)
        for e in np.argsort(own, kind="stable"):
            used[own[e]] += 1
            neighbour[own[e], used[own[e]]] = other[e]
            edge[own[e], used[own[e]]] = e
        return neighbour, edge

    def links(self, side: str, agent: int, now: RoundGraph, dtype: jnp.dtype) -> Links:
        """Return one side ("out" or "into") of an agent's links in a round."""
        neighbour, edge = getattr(self, side)
        ids, edges = neighbour[agent].copy(), edge[agent]
        known = edges >= 0
        live, weight = np.zeros(edges.shape, np.bool_), np.zeros(edges.shape)
        live[known], weight[known] = now.live[edges[known]], now.edge_weight[edges[known]]
        if self.graph.sources is None:
            ids[0], live[0], weight[0] = agent, True, now.self_weight[agent]
        return Links(jnp.asarray(ids), jnp.asarray(live), jnp.asarray(weight, dtype))


class AgentViews:
    """Views of every agent in every round, as the simulator draws them from a seed."""

    def __init__(self, algorithm: Algorithm, topology: Topology, seed: int, dtype: jnp.dtype) -> None:
        self.ends = runtime.link_ends(algorithm)
        self._masked = {phase.links for phase in algorithm.phases if hides(phase.mechanism)}
        self.topology, self.dtype, self.root = topology, dtype, jax.random.key(seed)
        self.neighbourhoods = {name: Neighbourhoods(topology.links[name]) for name in self.ends}
        # Weights that differ from round to round come with dynamics, see graphs.compatibility.
        self._varying = {
            name
            for name, roles in self.ends.items()
            if topology.links[name].dynamics is not None or topology.availability.keys() & set(roles)
        }
        self._fixed: dict[str, RoundGraph] = {}
        self._fixed_links: dict[tuple[str, str, int], Links] = {}
        self._fixed_views: dict[tuple[str, str, int, int], View] = {}
        self._none = runtime.empty_links((1,), dtype)

    def at_first(self) -> dict[str, RoundGraph]:
        """Round 0, for which first states are made: every link, with its weight where it never changes."""
        graphs = self.now(1)
        for name, now in graphs.items():
            if name in self._varying:
                ones, zeros = np.ones_like, np.zeros_like
                weights = (zeros(now.edge_weight), zeros(now.self_weight))
                blank = (ones(now.live), *weights, ones(now.present), ones(now.senders_present))
                graphs[name] = RoundGraph(*map(jnp.asarray, blank))
        return graphs

    def now(self, t: int) -> dict[str, RoundGraph]:
        """Return every link set as it is in round t."""
        return {name: self._fixed.get(name) or self._evaluated(k, name, t) for k, name in enumerate(self.ends)}

    def _evaluated(self, index: int, name: str, t: int) -> RoundGraph:
        source, target = (self._there(role, t) for role in self.ends[name])
        key = runtime.links_key(self.root, index, t)
        graph = self.topology.links[name].at(jnp.int32(t), key, self.dtype, target, source)
        in_memory: RoundGraph = jax.tree.map(np.asarray, graph)
        if name not in self._varying:
            self._fixed[name] = in_memory
        return in_memory

    def _there(self, role: str, t: int) -> jax.Array | None:
        availability = self.topology.availability.get(role)
        return None if availability is None else availability.present(t, runtime.presence_key(self.root, role, t))

    def rounds_of(self, role: str, agent: int) -> runtime.Following:
        """Return the rounds in which an agent begins anything, one after the other."""
        return runtime.rounds_of(self.topology.availability.get(role), self.root, role, agent)

    def views(self, role: str, agent: int, t: int, size: int, now: dict[str, RoundGraph]) -> Views:
        """Return an agent's view of each of its link sets in round t."""
        result = {}
        for name, (source, target) in self.ends.items():
            if role not in (source, target):
                continue
            known = self._fixed_views.get((name, role, agent, size))
            if known is None or t == 0:
                known = self._view(name, role, agent, t, size, now[name])
                if name not in self._varying and t:
                    self._fixed_views[name, role, agent, size] = known
            result[name] = known._replace(round=cast("Array", np.int32(t)))  # not put on the device before it is used
        return result

    def _view(self, name: str, role: str, agent: int, t: int, size: int, now: RoundGraph) -> View:
        source, target = self.ends[name]
        return runtime.make_view(
            agent=agent,
            round=t,
            present=bool((now.present if role == target else now.senders_present)[agent]),
            data_size=size,
            out=self._links(name, "out", agent, now) if role == source else self._none,
            into=self._links(name, "into", agent, now) if role == target else self._none,
            cluster=self.topology.clusters[role][agent] if role in self.topology.clusters else 0,
        )

    def co_senders(
        self, role: str, agent: int, members: Mapping[str, Sequence[str]]
    ) -> dict[tuple[str, str], list[str]]:
        """Return (links, receiver) -> its senders there, by id, for the receivers of an agent's masked messages."""
        found = {}
        for name in self._masked:
            source, target = self.ends[name]
            graph = self.topology.links[name]
            for receiver in graph.neighbours_out(agent) if role == source else ():
                senders = [members[source][sender] for sender in graph.neighbours_in(int(receiver))]
                found[name, members[target][receiver]] = senders
        return found

    def _links(self, name: str, side: str, agent: int, now: RoundGraph) -> Links:
        place = (name, side, agent)
        if place in self._fixed_links:
            return self._fixed_links[place]
        links = self.neighbourhoods[name].links(side, agent, now, self.dtype)
        if name not in self._varying:
            self._fixed_links[place] = links
        return links
