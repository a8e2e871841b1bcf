"""Topologies made ready for a run, and runs refused for what their links do not keep."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
import numpy as np

from tacit import graphs  # lazy: a peer knows its own links and loads no graph
from tacit.core.contract import Algorithm, Key
from tacit.core.errors import ConfigError, RequirementError
from tacit.runtime.keys import links_key
from tacit.runtime.phases import link_ends
from tacit.runtime.presence import presence

if TYPE_CHECKING:
    from tacit.graphs import Availability, Channel, Graph, Topology


def prepared_topology(algorithm: Algorithm, graph: Graph | Topology, channel: Channel | None = None) -> Topology:
    """Return what the algorithm makes of a graph, with weights, its requirements checked (the channel's too)."""
    topology = graphs.as_topology(graph)
    if algorithm.topology is not None:
        topology = algorithm.topology(topology)
    if algorithm.check is not None:
        algorithm.check(topology)
    ends = link_ends(algorithm)
    for name, (source, target) in ends.items():
        if name not in topology.links or {source, target} - topology.roles.keys():
            raise ConfigError(
                f"algorithm {algorithm.name!r} needs links {name!r} from {source!r} to {target!r}, but the topology "
                f"has links {sorted(topology.links)} among roles {sorted(topology.roles)}"
            )
        _check_ends(name, topology.links[name], source, target, topology.roles)
    if channel is not None and channel.links is not None and not ends.keys() & set(channel.links):
        raise ConfigError(
            f"the channel is for links {', '.join(map(repr, channel.links))}, but {algorithm.name!r} has "
            f"{', '.join(map(repr, ends))}: name one of these, or none for all of them"
        )
    used = replace(topology, links={name: topology.links[name] for name in ends})
    graphs.require(used, algorithm.requires, algorithm.name, channel)
    unweighted = [name for name in ends if used.links[name].weights is None]
    chosen = {name: used.links[name].with_weights(_rule(algorithm, used.links[name])) for name in unweighted}
    ready = replace(used, links={**used.links, **chosen})
    # Connectivity was checked above and does not depend on weights; whether these sum to one does.
    graphs.require(ready, algorithm.requires - {"strongly_connected", "connected_over_time"}, algorithm.name)
    return ready


def _rule(algorithm: Algorithm, graph: Graph) -> str:
    """Return the rule for the weights of links that have none; Metropolis weights are for links within one role."""
    return "receiver" if algorithm.weights == "metropolis" and graph.sources is not None else algorithm.weights


def check_window(algorithm: Algorithm, topology: Topology, root: Key, rounds: int, repeats: int = 1) -> None:
    """Refuse a run in which the links of some `algorithm.window` rounds in a row leave somebody unreached.

    Who comes and goes is drawn from the run's own keys, so that the very rounds to come are looked at. `topology` is
    the disjoint union of the repeats. A run that is shorter than the window must connect everybody over all of it.
    """
    if algorithm.window is None:
        return
    if not all(there.rests for there in topology.availability.values()):
        raise RequirementError(
            f"{algorithm.name} requires that the links of every {algorithm.window} rounds in a row connect everybody, "
            "which agents that are there by chance do not promise: say who is there with graphs.Attendance, or shifts"
        )
    window = min(algorithm.window, rounds)
    ends = link_ends(algorithm)
    for index, (name, graph) in enumerate(topology.links.items()):
        if graph.sources is not None:
            continue
        keys = jax.vmap(partial(links_key, root, index))(jnp.arange(1, rounds + 1))
        role = ends[name][0]
        there = topology.availability.get(role)
        rows = None if there is None else partial(_there, there, root, role)
        gap = graphs.first_gap_of_run(graph, keys, window, parts=repeats, there=rows)
        if gap is not None:
            where = f" (repeat {gap.part})" if repeats > 1 else ""
            raise RequirementError(
                f"{algorithm.name} requires that the links of every {window} rounds in a row connect everybody, but of "
                f"{name!r} {gap}{where}: let fewer agents stay away at a time, add links, or declare a longer window"
            )


def _there(availability: Availability, root: Key, role: str, first: int, last: int) -> np.ndarray:
    return np.asarray(presence(availability, root, role, first, last + 1 - first))


def _check_ends(name: str, graph: Graph, source: str, target: str, roles: Mapping[str, int]) -> None:
    """Refuse a graph that cannot be the links from one role to another: its slots would mean other agents."""
    senders = None if source == target else roles[source]
    if (graph.agents, graph.sources) != (roles[target], senders):
        raise ConfigError(
            f"links {name!r} lead from {roles[source]} {source!r} to {roles[target]} {target!r}, but their graph has "
            f"agents={graph.agents} and sources={graph.sources}; expected agents={roles[target]} and sources={senders} "
            "(receivers, and senders where these are another role)"
        )
