"""Personalised graph federated learning, PGFL, and ClusterFL (Gauthier (2023), ch. 5, Alg. 4 and 5).

    client k of cluster q:  w_k = argmin f_k(w) - <phi_k, w - w_sq> + (rho / 2) ||w - w_sq||^2               (5.4)
                            sends w_k + noise - phi_k / rho
    server s, per cluster:  wt_sq = mean over the clients of q that answered                                (5.8)
                            wh_sq = mean of wt_pq over the servers p around s, itself included              (5.9)
                            w_sq = (1 - tau_t) wh_sq + tau_t / (Q - 1) sum_{r != q} wh_sr                   (5.10)
    client k, when called:  phi_k <- phi_k + rho (w_sq - what it sent of w_k last)                          (5.5)

A client's dual step is made when it hears its server again: with all clients called in every round that is the text's
order. Where a server hears no client of a cluster in a round, or has none, it hands on its own model of it. A client
predicts with w_sq as it heard it last. The text judges w_k, to which it is equal in the end; under noise w_k carries
all of the client's own noise of the round before, by way of phi_k, and w_sq only its share of it.

What a client sends is w_sq less its gradient / rho: to the server it is a gradient step at what the client came to. So
(5.9) has the fixed point of decentralised gradient descent, which is the cluster's optimum only where all servers hear
all; elsewhere servers stay apart, the less the larger rho, and count by how many hear them, whatever Theorem 5.1 says.
`exact` corrects each server's step by what its last combination moved (exact diffusion), over symmetric doubly
stochastic weights: then every cluster comes to the one minimum of sum_s mean_{k of q at s} f_k, on any connected graph.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import NamedTuple

import jax
import jax.numpy as jnp

from tacit.algorithms._parts import multipliers as admm
from tacit.algorithms._parts import proximal
from tacit.algorithms._parts.sampling import uniform_cohort
from tacit.algorithms.personalised._clusters import Strength, mixing, refuse_other_clusters
from tacit.algorithms.registry import register
from tacit.core.checks import whole_number
from tacit.core.contract import (
    Algorithm,
    Array,
    Batch,
    Inbox,
    Key,
    Mechanism,
    Objective,
    Outbox,
    Params,
    Phase,
    Requirement,
    Tree,
    View,
    share,
    unprotected,
)
from tacit.core.errors import TacitWarning
from tacit.privacy import statement

TEXT = "phi_n-zCDP in round n and the sum of phi_n over the run (Gauthier (2023), Theorems 5.3 and 5.4)"


class Client(NamedTuple):
    """State of a client."""

    anchor: Params
    """w_sq, as it was heard last."""
    phi: Params
    sent: Params
    """Of w_k, what was released last."""
    answered: Array
    """Whether it has sent anything yet."""
    residual: Array
    """Of its last local problem; of models sent with noise it is not kept."""


class Server(NamedTuple):
    """State of a server; leaves have a leading axis over the clusters."""

    w: Params
    gathered: Params
    """wt: what its own clients came to."""
    combined: Params
    """wh."""
    before: Params
    """wt of the last round."""
    called: Array
    """(L,) slots of the clients that it calls in this round."""


@register("Gauthier (2023), Alg. 4 and 5", {"clusters": 1}, title="Personalised graph federated learning (PGFL)")
def personalised_graph_federated(
    objective: Objective,
    mechanism: Mechanism = unprotected,
    *,
    clusters: int,
    penalty: float = 1.0,
    tau: Strength = 0.0,
    cohort: int | None = None,
    exact: bool = False,
    newton_steps: int = proximal.NEWTON_STEPS,
) -> Algorithm:
    """Personalised graph federated learning (PGFL): one model per cluster of clients, across servers on a graph.

    In a round each server sends its models to its clients; a client minimises its loss around the model of its cluster
    and sends the outcome with noise; the server averages per cluster, combines with its neighbouring servers', and
    mixes clusters by `tau`. It runs on `tacit.graphs.federation(servers, clients, clusters=...)`.

    Args:
      objective: Squared or logistic loss of a linear model, without l1, e.g. `tacit.objectives.squared(l2=0.01)`.
      mechanism: Noise, its place and its account, e.g. `tacit.privacy.laplace(1.0, clip=1.0)`; none by default.
      clusters: Number of models; 1 learns one model for all (the baseline GFL).
      penalty: rho above 0, how hard a client is pulled to its cluster's model.
      tau: Weight of the other clusters' models, from 0 (apart) to 1: a number, or a function of the round.
      cohort: Clients that a server calls in a round, from 1 on, drawn uniformly; by default all of them.
      exact: Whether servers correct their steps so that all come to the optimum on any connected graph; no by default.
      newton_steps: Newton steps of a local problem without noise, from 1 on; under noise as many as it takes.

    Returns:
      An algorithm for `tacit.simulate`, a peer or an audit.

    Example:
      >>> import tacit
      >>> objective = tacit.objectives.squared(l2=0.01)
      >>> algorithm = tacit.algorithms.personalised_graph_federated(objective, clusters=2, tau=0.1)
      >>> [phase.links for phase in algorithm.phases]
      ['downlink', 'uplink', 'servers']

    References:
      Gauthier (2023), thesis, NTNU, ch. 5, Alg. 4 and 5.
    """
    name = "personalised_graph_federated"
    _warn_of_one_cluster(name, clusters, tau)
    made = _around_servers(name, objective, mechanism, clusters, penalty, cohort, newton_steps)
    mixed = mixing(tau, clusters)

    def tell(key: Key, state: Server, batch: Batch, view: View) -> tuple[Server, Tree]:
        if not exact:
            return state, state.gathered
        moved = jax.tree.map(lambda new, wh, old: new + wh - old, state.gathered, state.combined, state.before)
        return state._replace(before=state.gathered, gathered=moved), moved

    def combine(key: Key, state: Server, inbox: Inbox, view: View) -> Server:
        found = inbox.mix().private
        if exact:
            found = jax.tree.map(lambda a, b: (a + b) / 2, found, state.gathered)
        return state._replace(combined=found, w=mixed(found, view))

    needs: frozenset[Requirement] = frozenset({"strongly_connected", "symmetric", "fixed", "reliable"})
    return made._replace(
        phases=(
            *made.phases,
            Phase("servers", tell, unprotected, combine, source="server", target="server"),
        ),
        requires=needs | {"doubly_stochastic"} if exact else needs,
        weights="metropolis" if exact else "receiver",
    )


@register("Gauthier (2023), sec. 5.4, baseline", {"clusters": 1}, title="Clustered federated learning (ClusterFL)")
def clustered_federated(
    objective: Objective,
    mechanism: Mechanism = unprotected,
    *,
    clusters: int,
    penalty: float = 1.0,
    tau: Strength = 0.0,
    cohort: int | None = None,
    newton_steps: int = proximal.NEWTON_STEPS,
) -> Algorithm:
    """Clustered federated learning (ClusterFL): every server learns its clusters' models from its own clients alone.

    Rounds are those of `personalised_graph_federated` without links between servers.

    Args:
      objective: Squared or logistic loss of a linear model, without l1, e.g. `tacit.objectives.squared(l2=0.01)`.
      mechanism: Noise, its place and its account, e.g. `tacit.privacy.laplace(1.0, clip=1.0)`; none by default.
      clusters: Number of models; 1 learns one model for all (the baseline GFL).
      penalty: rho above 0, how hard a client is pulled to its cluster's model.
      tau: Weight of the other clusters' models, from 0 (apart) to 1: a number, or a function of the round.
      cohort: Clients that a server calls in a round, from 1 on, drawn uniformly; by default all of them.
      newton_steps: Newton steps of a local problem without noise, from 1 on; under noise as many as it takes.

    Returns:
      An algorithm for `tacit.simulate`, a peer or an audit.

    Example:
      >>> import tacit
      >>> algorithm = tacit.algorithms.clustered_federated(tacit.objectives.squared(l2=0.01), clusters=2)
      >>> sorted(algorithm.requires)
      ['fixed', 'reliable']

    References:
      Gauthier (2023), thesis, NTNU, sec. 5.4.
    """
    name = "clustered_federated"
    _warn_of_one_cluster(name, clusters, tau)
    made = _around_servers(name, objective, mechanism, clusters, penalty, cohort, newton_steps)
    mixed = mixing(tau, clusters)
    gather = made.phases[1].absorb

    def settle(key: Key, state: Server, inbox: Inbox, view: View) -> Server:
        found: Server = gather(key, state, inbox, view)
        return found._replace(w=mixed(found.gathered, view))

    return made._replace(phases=(made.phases[0], made.phases[1]._replace(absorb=settle)))


def _warn_of_one_cluster(name: str, clusters: int, tau: Strength) -> None:
    if clusters == 1 and (callable(tau) or tau != 0):
        said = "a function of the round" if callable(tau) else tau
        warnings.warn(
            f"{name} with clusters = 1 and tau = {said}: tau has no effect, since there is no other cluster to mix "
            "with; leave it out, or say how many clusters there are",
            TacitWarning,
            stacklevel=3,
        )


def _around_servers(
    name: str,
    objective: Objective,
    mechanism: Mechanism,
    clusters: int,
    penalty: float,
    cohort: int | None,
    newton_steps: int,
) -> Algorithm:
    """Return the phases between servers and their clients, and all else that both methods have in common."""
    rho = admm.validate_penalty(penalty)
    whole_number("clusters", clusters, "how many models are learnt")
    if cohort is not None:
        whole_number("cohort", cohort, "how many clients a server calls")

    def curvature(view: View) -> Array:
        return jnp.asarray(rho, jnp.result_type(float))

    step = proximal.proximal_step(objective, mechanism, curvature, name, newton_steps)

    def client_init(key: Key, params: Params, views: Mapping[str, View]) -> Client:
        nothing = jnp.zeros_like(params)
        return Client(params, nothing, params, jnp.asarray(False), jnp.zeros((), params.dtype))

    def server_init(key: Key, params: Params, views: Mapping[str, View]) -> Server:
        models = jnp.broadcast_to(params, (clusters, *params.shape))
        return Server(models, models, models, models, jnp.zeros(cohort or 0, jnp.int32))

    def call(key: Key, state: Server, batch: Batch, view: View) -> tuple[Server, Tree]:
        if cohort is None:
            return state, state.w
        return state._replace(called=1 + uniform_cohort(key, view.out.degree, cohort)), state.w

    def send(state: Server, released: Tree, view: View) -> tuple[Server, Outbox]:
        return state, share(released, to=None if cohort is None else state.called)

    def download(key: Key, state: Client, inbox: Inbox, view: View) -> Client:
        anchor = inbox.mean().private[view.cluster if clusters > 1 else 0]
        gap = rho * (anchor - state.sent)
        return state._replace(anchor=anchor, phi=state.phi + jnp.where(state.answered, gap, 0))

    def pull(state: Client) -> Params:
        return rho * state.anchor + state.phi

    def train(key: Key, state: Client, batch: Batch, view: View) -> tuple[Client, Tree]:
        solution = step.solve(pull(state), curvature(view), batch, view)
        value = step.value(curvature(view), solution)
        return state._replace(residual=proximal.residual_to_store(mechanism, state.residual, solution)), value

    def upload(state: Client, released: Tree, view: View) -> tuple[Client, Outbox]:
        sent = step.moved(pull(state), curvature(view), released)
        which = jnp.asarray(view.cluster if clusters > 1 else 0, jnp.int32)
        return state._replace(sent=sent, answered=jnp.asarray(True)), share(sent - state.phi / rho, public=which)

    def gather(key: Key, state: Server, inbox: Inbox, view: View) -> Server:
        heard = inbox.values()
        member = (heard.public[:, None] == jnp.arange(clusters)) & inbox.arrived[:, None]
        count = jnp.sum(member, axis=0)[:, None]
        total = member.astype(heard.private.dtype).T @ heard.private
        mean = total / jnp.maximum(count, 1).astype(total.dtype)
        return state._replace(gathered=jnp.where(count > 0, mean, state.w))

    return Algorithm(
        name=name,
        objective=objective,
        init={"client": client_init, "server": server_init},
        phases=(
            Phase("downlink", call, unprotected, download, send, source="server", target="client"),
            Phase("uplink", train, step.mechanism, gather, upload, "client", "server", answers="downlink"),
        ),
        model=lambda state: state.anchor,
        requires=frozenset({"fixed", "reliable"}),
        privacy=statement(mechanism, TEXT, "parallel", proximal.ASSUMPTIONS),
        check=lambda given: refuse_other_clusters(given, name, clusters),
        learner="client",
        predictor="client",
        prepare=step.prepare,
        diagnostics={"residual": lambda state: state.residual, "dual": lambda state: state.phi},
    )
