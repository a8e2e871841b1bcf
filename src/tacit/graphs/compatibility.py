"""Which weights go with which links and dynamics, so that what a rule promises holds in every round."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tacit.core.errors import GraphError, RequirementError
from tacit.graphs.dynamics import Dynamics, Periodic
from tacit.graphs.edges import one_sided
from tacit.graphs.weights import Weights

if TYPE_CHECKING:
    from tacit.graphs.graph import Graph


def checked(graph: Graph) -> Graph:
    """Return the graph, or raise where its links, weights and dynamics do not go together."""
    if graph.dynamics is not None:
        graph.dynamics.check(graph)
    if graph.weights is None:
        return graph
    if graph.weights.rule == "metropolis":
        _check_metropolis(graph)
    elif graph.weights.period is not None:
        _check_period(graph.weights.period, graph.dynamics)
    elif graph.weights.rule == "given" and graph.dynamics is not None:
        _check_given(graph, graph.weights, graph.dynamics)
    return graph


def _check_metropolis(graph: Graph) -> None:
    if graph.sources is not None:
        raise GraphError(
            f"the weight rule 'metropolis' is for agents of one role, but {graph.name!r} links two roles: use "
            "'receiver' or 'sender'"
        )
    edge = one_sided(graph.senders, graph.receivers, graph.agents)
    if edge is not None:
        raise RequirementError(
            f"the weight rule 'metropolis' requires a symmetric graph, but {edge[0]} -> {edge[1]} has no reverse: keep "
            "mutual links only with graph.mutual(), or use sender-normalised weights with a push-sum method"
        )
    if graph.dynamics is not None and not graph.dynamics.keeps_links_mutual(graph):
        raise RequirementError(
            "the weight rule 'metropolis' requires that both directions of a link are up together, which "
            f"{type(graph.dynamics).__name__} does not promise: use LinkDrop(..., symmetric=True), list symmetric "
            "graphs, or use sender-normalised weights with a push-sum method"
        )


def _check_period(period: int, dynamics: Dynamics | None) -> None:
    if not isinstance(dynamics, Periodic) or len(dynamics.table) != period:
        raise GraphError(
            f"weights for a period of {period} rounds need Periodic dynamics of that period: choose "
            "other weights "
            "with with_weights before changing the dynamics"
        )


def _check_given(graph: Graph, weights: Weights, dynamics: Dynamics) -> None:
    remedy = "name a rule with with_weights('sender') or with_weights('receiver')"
    if weights.absorbs == "neither":
        raise RequirementError(
            "given weights on a time-varying graph must be sender-normalised, receiver-normalised, "
            "or symmetric and "
            f"doubly stochastic, so that it is settled who takes the weight of a link that is down: {remedy}"
        )
    if weights.absorbs == "either" and not dynamics.keeps_links_mutual(graph):
        raise RequirementError(
            "given doubly stochastic weights require that both directions of a link are up together, which "
            f"{type(dynamics).__name__} does not promise: use LinkDrop(..., symmetric=True), or {remedy}"
        )
