"""Personalised graph federated learning, PGFL: clusters of clients across servers on a graph (001 ch. 5, Alg. 4 and 5).

    client k of cluster q:  w_k = argmin f_k(w) - <phi_k, w - w_sq> + (rho / 2) ||w - w_sq||^2               (5.4)
                            sends w_k + noise - phi_k / rho
    server s, per cluster:  wt_sq = mean over the clients of q that answered                                (5.8)
                            wh_sq = mean of wt_pq over the servers p around s, itself included              (5.9)
                            w_sq = (1 - tau_t) wh_sq + tau_t / (Q - 1) sum_{r != q} wh_sr                   (5.10)
    client k, when called:  phi_k <- phi_k + rho (w_sq - what it sent of w_k last)                          (5.5)

A client's dual step is made when it hears its server again: with everybody called in every round that is the text's
order. Where a server hears nobody of a cluster in a round, or has nobody of it, it hands on its own model of it. A
client predicts with w_sq as it heard it last. The text judges w_k, to which it is equal in the end; under noise w_k
carries all of the client's own noise of the round before, by way of phi_k, and w_sq only its share of it.

What a client sends is w_sq less its gradient / rho: to the server it is a gradient step at what the client came to. So
(5.9) has the fixed point of decentralised gradient descent, which is the cluster's optimum only where all servers hear
all; elsewhere servers stay apart, the less the larger rho, and count by how many hear them, whatever 001 Theorem 5.1
says. `exact` corrects each server's step by what its last combination moved (exact diffusion), over symmetric doubly
stochastic weights: then every cluster comes to the one minimum of sum_s mean_{k of q at s} f_k, on any connected graph.

`clusters=1` is the single-task baseline GFL; `clustered_federated` is ClusterFL: no links between servers.
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
from tacit.algorithms._parts.validation import whole_number
from tacit.algorithms.personalised._clusters import Strength, mixing, refuse_other_clusters
from tacit.algorithms.registry import register
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

TEXT = "phi_n-zCDP in round n and the sum of phi_n over the run (001 Theorems 5.3 and 5.4)"


class Client(NamedTuple):
    """What a client carries."""

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
    """What a server carries; leaves have a leading axis over the clusters."""

    w: Params
    gathered: Params
    """wt: what its own clients came to."""
    combined: Params
    """wh."""
    before: Params
    """wt of the last round."""
    called: Array
    """(L,) slots of the clients that it calls in this round."""


@register("001 Alg. 4 and 5", example={"clusters": 1})
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
    """PGFL: one model per cluster, learnt by clients of several servers, which combine them and mix clusters by tau.

    It runs on `tacit.graphs.federation(servers, clients, clusters=...)`. In each round a server calls `cohort` of its
    clients, everybody without one. `tau` is a number or a function of the round.
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


@register("001 section 5.4, baseline", example={"clusters": 1})
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
    """ClusterFL: every server learns its clusters' models from its own clients alone, and mixes them by tau."""
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
