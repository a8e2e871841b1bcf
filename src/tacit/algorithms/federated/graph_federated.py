"""Graph federated learning: servers on a graph, each with clients of its own (004 ch. 3, (3.6)-(3.8)).

    every server p runs one round of federated averaging with L of its K clients       psi_p
    w_p = sum_m A[p, m] (psi_m + noise on that link)                                   "servers"

With one server it is `fedavg`. Clients may add noise of their own (`mechanism`), before anything leaves them; that is
what a guarantee per record stands on. Noise between servers (`server_mechanism`) hides what a server's clients gave it
from other servers, for those who trust their own server; it is post-processing of what the clients released.
"""

from __future__ import annotations

from tacit.algorithms._parts.local_steps import sampled_training
from tacit.algorithms._parts.mixing import combined, first_model, outbox
from tacit.algorithms._parts.per_client import PerClient, with_clients
from tacit.algorithms.federated._server_round import Server, called_rounds, server_init
from tacit.algorithms.registry import register
from tacit.algorithms.schedules import StepSize
from tacit.core.contract import (
    Algorithm,
    Batch,
    Inbox,
    Key,
    Mechanism,
    Objective,
    Outbox,
    Phase,
    PrivacyStatement,
    Requirement,
    Tree,
    View,
    unprotected,
)
from tacit.core.errors import ConfigError
from tacit.graphs import Topology
from tacit.privacy import statement

NEEDS: frozenset[Requirement] = frozenset({"strongly_connected", "doubly_stochastic", "reliable"})
TEXT = "epsilon(i) growing linearly, per client's data set and with a probability below 1 (004 (3.57)-(3.58))"


@register("004 (3.6)-(3.8)", example={"cohort": 2})
def graph_federated(
    objective: Objective,
    step: StepSize = 0.1,
    mechanism: Mechanism = unprotected,
    server_mechanism: Mechanism = unprotected,
    *,
    cohort: int,
    local_steps: PerClient = 1,
    batch_size: PerClient | None = None,
) -> Algorithm:
    """Federated averaging around every server, and diffusion among the servers (`tacit.graphs.federation`)."""
    training = sampled_training(objective, step, mechanism, local_steps, batch_size)

    def tell(key: Key, state: Server, batch: Batch, view: View) -> tuple[Server, Tree]:
        return state, state.w

    def spread(state: Server, released: Tree, view: View) -> tuple[Server, Outbox]:
        return state, outbox(server_mechanism, released)

    def combine(key: Key, state: Server, inbox: Inbox, view: View) -> Server:
        return state._replace(w=combined(server_mechanism, inbox))

    return Algorithm(
        name="graph_federated",
        objective=objective,
        init={"client": first_model, "server": server_init(cohort)},
        phases=(
            *called_rounds(training, cohort),
            Phase("servers", tell, server_mechanism, combine, spread, source="server", target="server"),
        ),
        model=lambda state: state.w,
        requires=NEEDS | server_mechanism.requires,
        privacy=_statement(mechanism, server_mechanism),
        weights="metropolis",
        topology=with_clients(_of_servers, local_steps=local_steps, batch_size=batch_size),
        learner="client",
        predictor="server",
    )


def _of_servers(given: Topology) -> Topology:
    if set(given.roles) == {"peer"}:
        raise ConfigError(
            f"graph_federated got a graph of {given.roles['peer']} peers; say who serves whom with "
            "tacit.graphs.federation(graph of the servers, clients=how many each of them has)"
        )
    return given


def _statement(mechanism: Mechanism, server_mechanism: Mechanism) -> PrivacyStatement:
    said = statement(mechanism, TEXT)
    if said.private or (server_mechanism.distribution is None and server_mechanism.mask_scale == 0):
        return said
    return said._replace(
        holds=f"{said.holds}, to the client's own server; other servers see {server_mechanism.name} noise on what a "
        "server made of its clients' models, and nothing is promised for a single record"
    )
