"""Roles and the named link sets between them: peers on one graph, or clients and servers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from tacit.core.errors import GraphError
from tacit.graphs.edges import IntArray, refuse_large
from tacit.graphs.graph import Graph
from tacit.graphs.roles import Availability, joined_availability, joined_clusters, validate_clusters


@dataclass(frozen=True, eq=False, repr=False)
class Topology:
    """Who there is (role -> number of agents), how they are linked (name -> graph) and in which clusters they are."""

    roles: Mapping[str, int]
    """Role -> number of its agents."""
    links: Mapping[str, Graph]
    """Name of a link set -> its graph."""
    clusters: Mapping[str, IntArray] = field(default_factory=dict)
    """Role -> which cluster each of its agents belongs to, counted from 0; a role without clusters is not there."""
    availability: Mapping[str, Availability] = field(default_factory=dict)
    """Role -> who of it is there in a round; of a role that is not here, all are."""

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

    def available(self, role: str, probability: npt.ArrayLike, arrivals: npt.ArrayLike | None = None) -> Topology:
        """Return the topology with agents of a role that are there by chance (`Availability`), on all of their links.

        `probability` is one for all or one for each; with `arrivals` (a stream's) nobody is there without new data.
        """
        if role not in self.roles:
            raise GraphError(f"there is no role {role!r}; expected one of {', '.join(map(repr, self.roles))}")
        made = Availability.of(self.roles[role], probability, arrivals)
        return replace(self, availability={**self.availability, role: made})

    @staticmethod
    def union(topologies: Sequence[Topology]) -> Topology:
        """Return the disjoint union of topologies of equal roles and link names, link set by link set."""
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
    """Return a topology: a plain graph has the role "peer" and the links "peers".

    Of a graph in clusters there are also the links within them, "cluster", and those between them, "bridge".
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
    """Return servers on a graph of their own, links "servers", each with so many clients around it.

    Client c belongs to server c // clients, on links "uplink" and "downlink" (004 ch. 3), and to the cluster
    `clusters[c]` where clusters are given (001 ch. 5). One server is `star_roles` with a server that hears itself
    alone.
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
    """Return clients around one server: links "uplink" (to the server) and "downlink" (from it)."""
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
