"""Mixing weights: W[i, j] is what receiver i multiplies sender j's message with (row = receiver).

A rule is evaluated anew in every round from the links that are live, with segment sums only:

- "sender":     W[i, j] = 1 / (1 + out-degree of j), columns sum to 1 (each sender splits its mass: push-sum);
- "receiver":   W[i, j] = 1 / (1 + in-degree of i), rows sum to 1 (each hears a convex combination);
- "metropolis": W[i, j] = 1 / (1 + max(degree of i, degree of j)), symmetric graphs only, doubly stochastic;
- "given":      arrays; the weight of a link that is down goes to the self weight of the normalised side.

Between two roles there is no self: 1 / degree takes the place of 1 / (1 + degree), and self weights are 0.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, get_args

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt

from tacit.core.errors import GraphError, RequirementError
from tacit.graphs.dynamics import Dynamics, Periodic
from tacit.graphs.edges import BoolArray, FloatArray, IntArray, counts, one_sided, reverse_positions

if TYPE_CHECKING:
    from tacit.graphs.graph import Graph

Rule = Literal["sender", "receiver", "metropolis"]
Absorbs = Literal["sender", "receiver", "either", "neither"]
TOLERANCE = 1e-6
"""How far a sum of weights may be from 1."""


@jax.tree_util.register_dataclass
@dataclass(frozen=True, eq=False, repr=False)
class Weights:
    """Mixing weights: a rule by name, or given arrays. Make it with `by_rule` or `given`."""

    rule: Literal["sender", "receiver", "metropolis", "given"] = field(metadata={"static": True})
    """The normalised side: sender or receiver; both (metropolis); or given."""
    edge: FloatArray | None = None
    """Given: (E,) in canonical edge order, or (P, E) for a period of P rounds."""
    own: FloatArray | None = None
    """Given: (n,) or (P, n), the self weights W[i, i]."""
    absorbs: Absorbs = field(default="neither", metadata={"static": True})
    """Given: whose self weight takes the weight of a link that is down."""

    def __repr__(self) -> str:
        links = "" if self.edge is None else f", {self.edge.shape[-1]} links"
        return f"Weights({self.rule}{links})"

    @property
    def period(self) -> int | None:
        """Number of rounds after which given weights repeat; None where they are the same in every round."""
        return len(self.edge) if self.edge is not None and self.edge.ndim == 2 else None

    def in_round(self, t: Any) -> Weights:
        """Return the weights of round t = 1, 2, ...

        Args:
          t: Round, 1, 2, ...; may be traced.
        """
        if self.period is None or self.edge is None or self.own is None:
            return self
        step = (t - 1) % self.period
        # A traced round can index device arrays only; NumPy keeps its double precision otherwise.
        tables: tuple[Any, Any] = (self.edge, self.own)
        if isinstance(t, jax.Array):
            tables = (jnp.asarray(self.edge), jnp.asarray(self.own))
        return replace(self, edge=tables[0][step], own=tables[1][step])

    def fitted(self, senders: IntArray, receivers: IntArray, agents: int, sources: int | None) -> Weights:
        """Check given arrays against an edge list and settle which self weight absorbs a dead link's weight.

        Args:
          senders: (E,) sender of each link, in canonical order.
          receivers: (E,) receiver of each link.
          agents: Number of receivers.
          sources: Number of senders of links between two roles; None: one role.
        """
        if self.edge is None or self.own is None:
            return self
        if self.edge.shape[-1] != len(senders) or self.own.shape[-1] != agents:
            raise GraphError(
                f"given weights for {self.edge.shape[-1]} edges and {self.own.shape[-1]} agents do not fit a graph of "
                f"{len(senders)} edges and {agents} agents: give one weight per edge in the graph's order (sorted by "
                "receiver, then sender) and one self weight per agent"
            )
        if sources is not None:
            if np.any(self.own != 0):
                raise GraphError("links between two roles have no self weights: give zeros")
            return replace(self, absorbs="neither")
        steps = zip(np.atleast_2d(self.edge), np.atleast_2d(self.own), strict=True)
        kinds = {_absorbs(edge, own, senders, receivers, agents) for edge, own in steps}
        return replace(self, absorbs=kinds.pop() if len(kinds) == 1 else "neither")


def by_rule(rule: Rule) -> Weights:
    """Weights of a named rule, evaluated anew in every round from the links that are up.

    Args:
      rule: "sender": W[i, j] = 1 / (1 + out-degree of j). "receiver": 1 / (1 + in-degree of i). "metropolis": 1 / (1 +
        the larger degree of i and j), for symmetric graphs, doubly stochastic.

    Example:
      >>> import tacit
      >>> tacit.graphs.by_rule("metropolis")
      Weights(metropolis)
    """
    if rule not in get_args(Rule):
        raise GraphError(f"unknown weight rule {rule!r}: use one of {', '.join(get_args(Rule))}")
    return Weights(rule)


def given(weight: npt.ArrayLike, self_weight: npt.ArrayLike) -> Weights:
    """Given weights; the weight of a link that is down goes to the self weight of the normalised side.

    Args:
      weight: (E,) one per link in the graph's canonical order (sorted by receiver, then sender), finite and >= 0; (P,
        E) for a period of P rounds, where round t uses row (t - 1) mod P.
      self_weight: (agents,) W[i, i]; (P, agents) for a period.

    Example:
      >>> import tacit
      >>> tacit.graphs.directed_ring(3).with_weights(tacit.graphs.given([0.5] * 3, [0.5] * 3)).weights
      Weights(given, 3 links)
    """
    edge, own = np.asarray(weight, dtype=np.float64), np.asarray(self_weight, dtype=np.float64)
    if edge.ndim not in (1, 2) or own.ndim != edge.ndim or (edge.ndim == 2 and len(edge) != len(own)):
        raise GraphError(
            f"given weights have shapes {edge.shape} and {own.shape}: expected (E,) and (n,), or (P, E) and (P, n)"
        )
    for what, values in (("weight", edge), ("self weight", own)):
        bad = np.argwhere(~(np.isfinite(values) & (values >= 0)))
        if len(bad):
            place = tuple(int(index) for index in bad[0])
            raise GraphError(f"{what} at position {place} is {values[place]}: expected a finite number, 0 or larger")
    return Weights("given", edge, own)


def evaluate(
    weights: Weights,
    senders: Any,
    receivers: Any,
    agents: int,
    live: jax.Array | None = None,
    *,
    sources: int | None = None,
    dtype: Any = jnp.float32,
) -> tuple[jax.Array, jax.Array]:
    """Weights of one round in JAX: edge weights (E,), 0 where a link is down, and self weights (agents,).

    Args:
      weights: A rule, or given weights of one round.
      senders: (E,) sender of each link.
      receivers: (E,) receiver of each link.
      agents: Number of receivers.
      live: (E,) bool, which links are up; None: all.
      sources: Number of senders of links between two roles; None: one role.
      dtype: Type of the result.

    Example:
      >>> import tacit
      >>> edge, own = tacit.graphs.evaluate(tacit.graphs.by_rule("sender"), [0, 1], [1, 0], agents=2)
      >>> edge.tolist(), own.tolist()
      ([0.5, 0.5], [0.5, 0.5])
    """
    senders, receivers = jnp.asarray(senders), jnp.asarray(receivers)
    up = jnp.ones(senders.shape, bool) if live is None else live
    links = _Links(senders, receivers, up, agents, sources)
    # Degrees are counted in single precision at least: a 16-bit float cannot tell 257 from 256.
    wide = jnp.promote_types(dtype, jnp.float32)
    edge, own = _evaluate(weights, links, _Backend(jnp, _segment_sum, wide))
    return edge.astype(dtype), own.astype(dtype)


def evaluate_exactly(
    weights: Weights,
    senders: IntArray,
    receivers: IntArray,
    agents: int,
    live: BoolArray | None = None,
    *,
    sources: int | None = None,
    dtype: Any = np.float64,
) -> tuple[FloatArray, FloatArray]:
    """Return the same as `evaluate` in NumPy and reckoned in double precision, for checks and reports."""
    links = _Links(senders, receivers, live, agents, sources)
    if weights.rule in ("sender", "receiver") and live is None:  # one number per agent, made small before it is spread
        share, side = _shares(weights, links, _Backend(np, _bincount, np.float64))
        small = share.astype(dtype)
        return small.take(side), np.zeros(agents, dtype) if sources is not None else small
    edge, own = _evaluate(weights, links, _Backend(np, _bincount, np.float64))
    return edge.astype(dtype, copy=False), own.astype(dtype, copy=False)


class _Links(NamedTuple):
    senders: Any
    receivers: Any
    live: Any
    """None: all."""
    agents: int
    sources: int | None


class _Backend(NamedTuple):
    xp: Any
    """jax.numpy or numpy."""
    total: Callable[[Any, Any, int], Any]
    """(values, ids, number of ids) -> sum of the values of each id; values None: their number."""
    dtype: Any


def _evaluate(weights: Weights, links: _Links, backend: _Backend) -> tuple[Any, Any]:
    xp, total, dtype = backend
    senders, receivers, live, agents, sources = links
    ones = None if live is None else live.astype(dtype)
    no_self = xp.zeros(agents, dtype)
    if weights.rule == "given":
        full = xp.asarray(weights.edge, dtype)
        edge, own = _where(xp, live, full), xp.asarray(weights.own, dtype)
        if weights.absorbs == "neither":
            return edge, own
        side = senders if weights.absorbs == "sender" else receivers
        return edge, own + total(full - edge, side, agents)
    if weights.rule == "metropolis":
        degree = total(ones, receivers, agents)
        edge = _where(xp, live, 1 / (1 + xp.maximum(degree[receivers], degree[senders]))).astype(dtype, copy=False)
        return edge, 1 - total(edge, receivers, agents)
    share, side = _shares(weights, links, backend)
    edge = _where(xp, live, share[side]).astype(dtype, copy=False)
    return edge, no_self if sources is not None else share.astype(dtype)


def _shares(weights: Weights, links: _Links, backend: _Backend) -> tuple[Any, Any]:
    """Return the share of each agent on the normalised side, and who that is of each link."""
    senders, receivers, live, agents, sources = links
    side, size = (senders, sources or agents) if weights.rule == "sender" else (receivers, agents)
    ones = None if live is None else live.astype(backend.dtype)
    # The maximum is for agents without a link between two roles: their share is never used.
    count = (1 if sources is None else 0) + backend.total(ones, side, size)
    return 1 / backend.xp.maximum(count, 1), side


def _where(xp: Any, live: Any, weight: Any) -> Any:
    return weight if live is None else xp.where(live, weight, 0)


def _segment_sum(values: jax.Array, ids: jax.Array, size: int) -> jax.Array:
    return jax.ops.segment_sum(values, ids, num_segments=size)


def _bincount(values: FloatArray | None, ids: IntArray, size: int) -> FloatArray:
    if values is None:
        return counts(ids, size).astype(np.float64)
    return np.bincount(ids, weights=values, minlength=size).astype(np.float64, copy=False)


def _absorbs(edge: FloatArray, own: FloatArray, senders: IntArray, receivers: IntArray, agents: int) -> Absorbs:
    columns = own + _bincount(edge, senders, agents)
    rows = own + _bincount(edge, receivers, agents)
    by_sender = bool(np.all(np.abs(columns - 1) <= TOLERANCE))
    by_receiver = bool(np.all(np.abs(rows - 1) <= TOLERANCE))
    if by_sender and by_receiver:
        # Only symmetric weights stay doubly stochastic when both directions of a link go down.
        back = reverse_positions(senders, receivers, agents)
        symmetric = bool(np.all(back >= 0)) and bool(np.allclose(edge, edge[back], rtol=0, atol=TOLERANCE))
        return "either" if symmetric else "neither"
    return "sender" if by_sender else "receiver" if by_receiver else "neither"


def joined_weights(parts: list[Weights | None]) -> Weights | None:
    """Return the weights of the disjoint union of graphs that have these."""
    first = parts[0]
    kinds = {None if w is None else (w.rule, w.period, w.absorbs) for w in parts}
    if len(kinds) > 1:
        raise GraphError(f"a union needs one kind of weights, but these have {sorted(map(str, kinds))}")
    if first is None or first.edge is None:
        return first
    arrays = [(w.edge, w.own) for w in parts if w is not None and w.edge is not None and w.own is not None]
    edge, own = (np.concatenate([pair[k] for pair in arrays], axis=-1) for k in (0, 1))
    return replace(first, edge=edge, own=own)


def validate_weights(graph: Graph) -> Graph:
    """Return the graph, or raise where its links, weights and dynamics do not go together, in every round."""
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
            f"weights for a period of {period} rounds need Periodic dynamics of that period: choose other weights with "
            "with_weights before changing the dynamics"
        )


def _check_given(graph: Graph, weights: Weights, dynamics: Dynamics) -> None:
    remedy = "name a rule with with_weights('sender') or with_weights('receiver')"
    if weights.absorbs == "neither":
        raise RequirementError(
            "given weights on a time-varying graph must be sender-normalised, receiver-normalised, or symmetric and "
            f"doubly stochastic, so that it is settled who takes the weight of a link that is down: {remedy}"
        )
    if weights.absorbs == "either" and not dynamics.keeps_links_mutual(graph):
        raise RequirementError(
            "given doubly stochastic weights require that both directions of a link are up together, which "
            f"{type(dynamics).__name__} does not promise: use LinkDrop(..., symmetric=True), or {remedy}"
        )
