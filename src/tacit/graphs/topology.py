"""Roles and the named link sets between them: peers on one graph, or clients and servers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from tacit.core.errors import GraphError
from tacit.graphs.edges import IntArray, refuse_large
from tacit.graphs.graph import Graph
from tacit.graphs.roles import Availability, Shifts, joined_availability, joined_clusters, validate_clusters


@dataclass(frozen=True, eq=False, repr=False)
class Topology:
    """Roles, the named link sets between them, clusters and availability: what a run's network is.

    A plain graph serves wherever a topology does (`as_topology`).

    Args:
      roles: Role -> number of its agents, e.g. ``{"client": 6, "server": 2}``.
      links: Name of a link set -> its graph; sizes of both ends must be those of roles.
      clusters: Role -> (agents,) cluster of each agent, counted from 0; a role without clusters is left out.
      availability: Role -> `Availability`; agents of a role that is left out are always there.

    Example:
      >>> import tacit
      >>> tacit.graphs.star_roles(5).available("client", 0.5)
      Topology(5 client, 1 server; links uplink 5, downlink 5)
    """

    roles: Mapping[str, int]
    links: Mapping[str, Graph]
    clusters: Mapping[str, IntArray] = field(default_factory=dict)
    availability: Mapping[str, Availability] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for role, labels in self.clusters.items():
            validate_clusters(labels, self.roles.get(role, 0), f"agents of role {role!r}")
        for role, availability in self.availability.items():
            if availability.probability.shape != (self.roles.get(role),):
                raise GraphError(
                    f"{availability.probability.size} availabilities of role {role!r}, but the roles are "
                    f"{dict(self.roles)}; make them with topology.available(role, probability)"
                )
        if not self.roles:
            raise GraphError("a topology needs at least one role, e.g. {'peer': 10}")
        for role, size in self.roles.items():
            if size < 1:
                raise GraphError(f"role {role!r} has {size} agents: expected at least one")
        sizes = ", ".join(f"{role}: {size}" for role, size in self.roles.items())
        for name, graph in self.links.items():
            for side, count in (("receivers", graph.agents), ("senders", graph.columns)):
                if count not in self.roles.values():
                    raise GraphError(f"links {name!r} have {count} {side}, but no role is of that size ({sizes})")

    def __repr__(self) -> str:
        roles = ", ".join(f"{size} {role}" for role, size in self.roles.items())
        links = ", ".join(f"{name} {graph.edges}" for name, graph in self.links.items())
        return f"Topology({roles}; links {links})"

    def available(
        self,
        role: str,
        probability: npt.ArrayLike,
        arrivals: npt.ArrayLike | None = None,
        shifts: Shifts | None = None,
    ) -> Topology:
        """Return the topology with agents of a role that are there by chance or by schedule, on all of their links.

        Args:
          role: Name of the role.
          probability: One for all of its agents, or one for each; above 0 and up to 1.
          arrivals: (rounds, agents) bool of a stream: no agent is there without new data. None: not asked.
          shifts: Rounds in which each agent works; it rests in all others, and when chance keeps it away.
        """
        if role not in self.roles:
            raise GraphError(f"there is no role {role!r}; expected one of {', '.join(map(repr, self.roles))}")
        made = Availability.of(self.roles[role], probability, arrivals, shifts)
        return replace(self, availability={**self.availability, role: made})

    @staticmethod
    def union(topologies: Sequence[Topology]) -> Topology:
        """Disjoint union of topologies of equal roles and link names, link set by link set.

        Args:
          topologies: At least one.
        """
        if not topologies:
            raise GraphError("the union of no topologies: give at least one")
        first = topologies[0]
        for index, other in enumerate(topologies):
            if dict(other.roles) != dict(first.roles) or set(other.links) != set(first.links):
                raise GraphError(
                    f"topology {index} has roles {dict(other.roles)} and links {sorted(other.links)}, the first one "
                    f"{dict(first.roles)} and {sorted(first.links)}: a union needs them equal"
                )
        return Topology(
            {role: len(topologies) * size for role, size in first.roles.items()},
            {name: Graph.union([part.links[name] for part in topologies]) for name in first.links},
            {
                role: labels
                for role in first.roles
                if (labels := joined_clusters([part.clusters.get(role) for part in topologies])) is not None
            },
            {
                role: there
                for role in first.roles
                if (there := joined_availability([part.availability.get(role) for part in topologies])) is not None
            },
        )


def as_topology(graph: Graph | Topology) -> Topology:
    """Topology of a graph: role "peer" and links "peers".

    Of a graph in clusters there are also the links within them, "cluster", and those between them, "bridge".

    Args:
      graph: A graph among agents of one role, or a topology, which is returned as it is.

    Example:
      >>> import tacit
      >>> tacit.graphs.as_topology(tacit.graphs.ring(4).with_clusters([0, 0, 1, 1]))
      Topology(4 peer; links peers 8, cluster 4, bridge 4)
    """
    if isinstance(graph, Topology):
        return graph
    if graph.sources is not None:
        raise GraphError(f"graph {graph.name!r} links two roles: name them in a Topology(roles, links)")
    if graph.clusters is None:
        return Topology({"peer": graph.agents}, {"peers": graph})
    within = graph.clusters[graph.senders] == graph.clusters[graph.receivers]
    links = {"peers": graph, "cluster": graph.among(within, "cluster"), "bridge": graph.among(~within, "bridge")}
    return Topology({"peer": graph.agents}, links, {"peer": graph.clusters})


def federation(servers: Graph, clients: int, clusters: npt.ArrayLike | None = None) -> Topology:
    """Servers on a graph of their own, each with clients around it.

    Client c belongs to server c // clients. Links are "uplink", "downlink" and "servers". One server is `star_roles`
    with a server that hears itself alone.

    Args:
      servers: Graph among the servers.
      clients: Number of clients of each server, at least 1.
      clusters: (servers * clients,) cluster of each client, counted from 0; None: no clusters.

    Example:
      >>> import tacit
      >>> tacit.graphs.federation(tacit.graphs.ring(3), clients=2)
      Topology(6 client, 3 server; links uplink 6, downlink 6, servers 6)

    References:
      Rizk (2023), ch. 3; Gauthier (2023), ch. 5, for clusters.
    """
    if servers.sources is not None:
        raise GraphError(f"graph {servers.name!r} links two roles: servers are of one role")
    if clients < 1:
        raise GraphError(f"{clients} clients per server: expected at least one")
    refuse_large(servers.agents * clients, 2 * servers.agents * clients, "a federation")
    every = np.arange(servers.agents * clients)
    home = every // clients
    count, size = servers.agents, servers.agents * clients
    return Topology(
        {"client": size, "server": count},
        {
            "uplink": Graph.from_edges(count, every, home, sources=size, name="uplink"),
            "downlink": Graph.from_edges(size, home, every, sources=count, name="downlink"),
            "servers": servers,
        },
        {} if clusters is None else {"client": validate_clusters(clusters, size, "clients")},
    )


def star_roles(clients: int) -> Topology:
    """Clients around one server: links "uplink" (to the server) and "downlink" (from it).

    Args:
      clients: Number of clients, at least 1.

    Example:
      >>> import tacit
      >>> tacit.graphs.star_roles(5)
      Topology(5 client, 1 server; links uplink 5, downlink 5)
    """
    if clients < 1:
        raise GraphError(f"a star of {clients} clients: expected at least one")
    refuse_large(clients, 2 * clients, "a star")
    every, server = np.arange(clients), np.zeros(clients, dtype=np.int32)
    return Topology(
        {"client": clients, "server": 1},
        {
            "uplink": Graph.from_edges(1, every, server, sources=clients, name="uplink"),
            "downlink": Graph.from_edges(clients, server, every, sources=1, name="downlink"),
        },
    )
