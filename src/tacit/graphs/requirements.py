"""Requirements of an algorithm on its links, checked before round 0: requirement, evidence, remedy."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tacit.core.contract import Requirement
from tacit.core.errors import RequirementError
from tacit.graphs import checks
from tacit.graphs.channel import Channel
from tacit.graphs.dynamics import LinkDrop, OptOut
from tacit.graphs.graph import Graph
from tacit.graphs.topology import Topology, as_topology


def check_requirements(topology: Topology | Graph, requires: frozenset[Requirement], algorithm_name: str) -> list[str]:
    """Sentences on the requirements that the links break; an empty list where all hold.

    Structure and weights are asked of links within one role; "fixed" of every link set. A graph without weights will
    get them by the algorithm's rule, so it breaks a requirement on weights only where no rule could fulfil it. On a
    time-varying graph, "strongly_connected" is asked of all links that are ever up; "symmetric" and requirements on
    weights are asked of every round.

    Args:
      topology: Graph or topology of a run.
      requires: Requirements, e.g. ``algorithm.requires``.
      algorithm_name: Subject of the sentences.

    Returns:
      One sentence for each broken requirement of each link set: requirement, evidence, remedy.

    Example:
      >>> import tacit
      >>> len(tacit.graphs.check_requirements(tacit.graphs.directed_ring(5), frozenset({"symmetric"}), "gossip"))
      1
    """
    sentences = []
    whole = as_topology(topology)
    for name, given in whole.links.items():
        graph = _with_absences(given, whole)
        for requirement, check in _CHECKS.items():
            if requirement not in requires or (graph.sources is not None and requirement != "fixed"):
                continue
            fault = check(graph)
            if fault is not None:
                evidence, remedy = fault
                sentences.append(f"{algorithm_name} requires {requirement} links, but of {name!r} {evidence}: {remedy}")
    return sentences


def _with_absences(graph: Graph, topology: Topology) -> Graph:
    """Return a graph that varies as one does whose agents are there by chance: its properties hold of that one."""
    sizes = {topology.roles[role] for role in topology.availability}
    if graph.dynamics is not None or not sizes & {graph.agents, graph.columns}:
        return graph
    return graph.with_dynamics(OptOut(0.5) if graph.sources is None else LinkDrop(0.5))


def check_channel(channel: Channel, requires: frozenset[Requirement], algorithm_name: str) -> list[str]:
    """A sentence where the algorithm requires a reliable channel and this one is not; otherwise an empty list.

    Args:
      channel: Channel of a run.
      requires: Requirements, e.g. ``algorithm.requires``.
      algorithm_name: Subject of the sentence.

    Example:
      >>> import tacit
      >>> tacit.graphs.check_channel(tacit.graphs.Channel(), frozenset({"reliable"}), "gossip")
      []
    """
    if "reliable" not in requires or channel.reliable:
        return []
    does = [f"loses {channel.loss:.3g} of the messages"] if channel.loss else []
    if channel.delay is not None:
        does.append(f"delays them by up to {channel.delay.longest} rounds and drops older ones")
    return [
        f"{algorithm_name} requires reliable links, but the channel {' and '.join(does)}: use its loss-tolerant "
        "variant, or a channel without loss and delay"
    ]


def require(
    topology: Topology | Graph,
    requires: frozenset[Requirement],
    algorithm_name: str,
    channel: Channel | None = None,
) -> None:
    """Raise RequirementError with every sentence of `check_requirements` and `check_channel`.

    Args:
      topology: Graph or topology of a run.
      requires: Requirements, e.g. ``algorithm.requires``.
      algorithm_name: Subject of the sentences.
      channel: Channel of the run; None: it is not asked about.

    Example:
      >>> import tacit
      >>> tacit.graphs.require(tacit.graphs.ring(5), frozenset({"symmetric"}), "gossip")
    """
    sentences = check_requirements(topology, requires, algorithm_name)
    if channel is not None:
        sentences += check_channel(channel, requires, algorithm_name)
    if sentences:
        raise RequirementError("\n".join(sentences))


Fault = tuple[str, str] | None
"""(evidence, remedy) of a broken requirement."""


def _strongly_connected(graph: Graph) -> Fault:
    path = checks.missing_path(graph)
    if path is None:
        return None
    return (
        f"there is no path from agent {path[0]} to agent {path[1]}",
        "add links, or use a generator that promises connectivity (random_digraph, ring, exponential, k_regular)",
    )


def _connected_over_time(graph: Graph) -> Fault:
    path = checks.missing_path(graph)
    if path is None:
        return None
    return (
        f"there is no path from agent {path[0]} to agent {path[1]}, not even over all rounds together",
        "let the rounds connect everybody between them",
    )


def _symmetric(graph: Graph) -> Fault:
    edge = checks.one_sided_edge(graph)
    if edge is not None:
        return (
            f"the edge {edge[0]} -> {edge[1]} has no reverse",
            "keep mutual links only with graph.mutual(), or use a push-sum method, which needs no reverse links",
        )
    if graph.dynamics is not None and not graph.dynamics.keeps_links_mutual(graph):
        return (
            f"{type(graph.dynamics).__name__} may leave one direction of a link up alone",
            "use LinkDrop(..., symmetric=True), or list symmetric graphs",
        )
    return None


def _sender_normalised(graph: Graph) -> Fault:
    evidence = None if graph.weights is None else checks.normalisation_fault(graph, "sender")
    return None if evidence is None else (evidence, "use graph.with_weights('sender')")


def _receiver_normalised(graph: Graph) -> Fault:
    evidence = None if graph.weights is None else checks.normalisation_fault(graph, "receiver")
    return None if evidence is None else (evidence, "use graph.with_weights('receiver')")


def _doubly_stochastic(graph: Graph) -> Fault:
    if graph.weights is None:
        # Only the Metropolis rule promises it, and it needs links that are mutual in every round.
        return _symmetric(graph)
    evidence = checks.normalisation_fault(graph, "receiver") or checks.normalisation_fault(graph, "sender")
    if evidence is None:
        return None
    return evidence, (
        "use graph.with_weights('metropolis') on a symmetric graph (graph.mutual() makes one), or a push-sum method "
        "with sender-normalised weights"
    )


def _fixed(graph: Graph) -> Fault:
    if graph.dynamics is None:
        return None
    return (
        f"the links change from round to round ({type(graph.dynamics).__name__})",
        "use graph.with_dynamics(None), or a method for time-varying graphs",
    )


def _hears_itself(graph: Graph) -> Fault:
    if graph.weights is None:
        return None  # every rule gives an agent a part of its own
    own = graph.matrix().diagonal()
    if np.all(own > 0):
        return None
    return (
        f"agent {int(np.argmin(own))} gives its own value the weight {float(own.min()):g}",
        "use graph.with_weights('metropolis'), under which everybody hears itself",
    )


def _several_senders(graph: Graph) -> Fault:
    alone = np.flatnonzero(graph.in_degree == 1)
    if alone.size == 0:
        return None
    agent = int(alone[0])
    return (
        f"agent {agent} hears agent {int(graph.neighbours_in(agent)[0])} alone",
        "give it a second sender, so that masks can cancel, or use privacy.per_edge, whose noise stays in the result",
    )


_CHECKS: dict[Requirement, Callable[[Graph], Fault]] = {
    "strongly_connected": _strongly_connected,
    "connected_over_time": _connected_over_time,
    "symmetric": _symmetric,
    "sender_normalised": _sender_normalised,
    "receiver_normalised": _receiver_normalised,
    "doubly_stochastic": _doubly_stochastic,
    "fixed": _fixed,
    "hears_itself": _hears_itself,
    "several_senders": _several_senders,
}
