"""What personalised methods with servers share: the round between a server and its clients, cluster by cluster.

See `tacit.algorithms.personalised_graph_federated`, whose equations these are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import jax.numpy as jnp

from tacit.algorithms import admm, proximal
from tacit.algorithms.cohorts import uniform_cohort
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


def around_servers(
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

    def pull(state: Client) -> Params:
        return rho * state.anchor + state.phi

    def train(key: Key, state: Client, batch: Batch, view: View) -> tuple[Client, Tree]:
        solution = step.solve(pull(state), curvature(view), batch, view)
        value = step.value(pull(state), curvature(view), solution.w, view)
        return state._replace(residual=proximal.noted(mechanism, state.residual, solution)), value

    def upload(state: Client, released: Tree, view: View) -> tuple[Client, Outbox]:
        sent = step.moved(pull(state), curvature(view), released, view)
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


def mixing(tau: Strength, clusters: int) -> Callable[[Params, View], Params]:
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
