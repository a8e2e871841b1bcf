"""What personalised methods with servers share: the round between a server and its clients, cluster by cluster.

See `tacit.algorithms.personalised_graph_federated`, whose equations these are.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import jax.numpy as jnp

from tacit.algorithms._parts import multipliers as admm
from tacit.algorithms._parts import proximal
from tacit.algorithms._parts.sampling import uniform_cohort
from tacit.algorithms._parts.validation import whole_number
from tacit.algorithms.personalised._clusters import refuse_other_clusters
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
    Tree,
    View,
    share,
    unprotected,
)
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
    rho = admm.checked(penalty)
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
        return state._replace(residual=proximal.noted(mechanism, state.residual, solution)), value

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
