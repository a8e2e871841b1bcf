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
all; elsewhere servers stay O(1 / rho) apart, whatever 001 Theorem 5.1 says. `exact` corrects each server's step by what
its last combination moved (exact diffusion), over symmetric doubly stochastic weights: then every cluster comes to the
one minimum of sum_s mean_{k of q at s} f_k, on any connected graph of servers.

`clusters=1` is the single-task baseline GFL; `clustered_federated` is ClusterFL: no links between servers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import jax
import jax.numpy as jnp

from tacit.algorithms import admm, proximal
from tacit.algorithms.cohorts import uniform_cohort
from tacit.algorithms.registry import register
from tacit.contract import (
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
from tacit.errors import ConfigError
from tacit.graphs import Topology
from tacit.privacy import statement

Strength = float | Callable[[Array], Array]
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
    made = _around_servers(name, objective, mechanism, clusters, penalty, cohort, newton_steps)
    mixed = _mixing(tau, clusters)

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
    made = _around_servers(name, objective, mechanism, clusters, penalty, cohort, newton_steps)
    mixed = _mixing(tau, clusters)
    gather = made.phases[1].absorb

    def settle(key: Key, state: Server, inbox: Inbox, view: View) -> Server:
        found: Server = gather(key, state, inbox, view)
        return found._replace(w=mixed(found.gathered, view))

    return made._replace(phases=(made.phases[0], made.phases[1]._replace(absorb=settle)))


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
    rho = admm.positive("penalty", penalty)
    _check_count("clusters", clusters, "how many models are learnt")
    if cohort is not None:
        _check_count("cohort", cohort, "how many clients a server calls")

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

    def centre(state: Client) -> Params:
        return state.anchor + state.phi / rho

    def train(key: Key, state: Client, batch: Batch, view: View) -> tuple[Client, Tree]:
        v = centre(state)
        solution = step.solve(v, curvature(view), batch, view)
        value = step.value(v, curvature(view), solution.w, view)
        return state._replace(residual=proximal.noted(mechanism, state.residual, solution)), value

    def upload(state: Client, released: Tree, view: View) -> tuple[Client, Outbox]:
        sent = step.moved(centre(state), curvature(view), released, view)
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
        check=lambda given: _refuse_other_clusters(given, name, clusters),
        learner="client",
        predictor="client",
        prepare=step.prepare,
        diagnostics={"residual": lambda state: state.residual, "dual": lambda state: state.phi},
    )


def _mixing(tau: Strength, clusters: int) -> Callable[[Params, View], Params]:
    """Return the learning across clusters, (5.10)."""
    if not callable(tau) and not (isinstance(tau, int | float) and 0 <= tau <= 1):
        raise ConfigError(f"tau = {tau!r}: expected a number from 0 (clusters apart) to 1, or a function of the round")

    def mixed(models: Params, view: View) -> Params:
        if clusters == 1 or (not callable(tau) and tau == 0):
            return models
        strength = jnp.asarray(tau(view.round) if callable(tau) else tau, models.dtype)
        others = (jnp.sum(models, axis=0) - models) / (clusters - 1)
        return (1 - strength) * models + strength * others

    return mixed


def _check_count(name: str, value: int, meaning: str) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ConfigError(f"{name} = {value!r}: expected a whole number from 1 on, {meaning}")


def _refuse_other_clusters(given: Topology, name: str, clusters: int) -> None:
    """Refuse a topology without servers and clients, or whose clusters are others than the method's."""
    if "server" not in given.roles or "client" not in given.roles:
        roles = ", ".join(f"{size} {role}s" for role, size in given.roles.items())
        raise ConfigError(
            f"{name} got a graph of {roles}; say who serves whom and who belongs together with "
            "tacit.graphs.federation(graph of the servers, clients=..., clusters=...)"
        )
    labels = given.clusters.get("client")
    found = 1 if labels is None else int(labels.max()) + 1
    if clusters not in (1, found):
        raise ConfigError(
            f"clusters = {clusters}, but the clients are in {found}; give tacit.graphs.federation(..., clusters=...) "
            "one number from 0 on per client, or say clusters=1 to learn one model for all"
        )
