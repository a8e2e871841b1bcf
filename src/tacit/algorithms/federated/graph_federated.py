"""Graph federated learning: servers on a graph, each with clients of its own (Rizk (2023), ch. 3, (3.6)-(3.8)).

every server p runs one round of federated averaging with L of its K clients       psi_p
w_p = sum_m A[p, m] (psi_m + noise on that link)                                   "servers"
"""

from __future__ import annotations

from tacit.algorithms._parts.local_steps import local_work, locally_optimised, sampled_training
from tacit.algorithms._parts.mixing import combined, first_model, outbox
from tacit.algorithms._parts.per_client import PerClient, with_clients
from tacit.algorithms.federated._server_round import Server, called_rounds, server_init
from tacit.algorithms.local_step import LocalStep
from tacit.algorithms.registry import register
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
TEXT = "epsilon(i) growing linearly, per client's data set and with a probability below 1 (Rizk (2023), (3.57)-(3.58))"


@register("Rizk (2023), (3.6)-(3.8)", {"cohort": 2}, title="Graph federated learning (GFL)")
def graph_federated(
    objective: Objective,
    step: LocalStep = 0.1,
    mechanism: Mechanism = unprotected,
    server_mechanism: Mechanism = unprotected,
    *,
    cohort: int,
    local_steps: PerClient = 1,
    batch_size: PerClient | None = None,
    local_epochs: PerClient | None = None,
) -> Algorithm:
    """Graph federated learning: federated averaging around every server, and diffusion among the servers.

    In a round every server calls a cohort of its own clients, averages what they came to, and combines the outcome
    with its neighbouring servers'. With one server it is `fedavg`. It runs on `tacit.graphs.federation`.

    Args:
      objective: Loss and regulariser, e.g. `tacit.objectives.logistic(l2=1e-4)`.
      step: Step size above 0, a number or a function of the round t = 1, 2, ..., or an optimiser such as
        `optax.adam(1e-3)`; 0.1 by default.
      mechanism: Noise of the clients, before anything leaves them, on which a guarantee per record stands; none by
        default.
      server_mechanism: Noise between servers, which hides what a server's clients gave it from other servers; none by
        default. It is post-processing of what the clients released.
      cohort: Clients that each server calls in a round, from 1 on.
      local_steps: Gradient steps of a client in a round, from 1 on; one number, or one per client.
      batch_size: Records drawn for each step, without replacement, from 1 on; one number, or one per client; by default
        the batch as it comes.
      local_epochs: Passes through all records that a round brings, shuffled, `batch_size` of them at a time, in the
        place of `local_steps`; one number, or one per client; none by default.

    Returns:
      An algorithm for `tacit.simulate`, a peer or an audit.

    Example:
      >>> import tacit
      >>> algorithm = tacit.algorithms.graph_federated(tacit.objectives.logistic(), cohort=2)
      >>> [phase.links for phase in algorithm.phases]
      ['downlink', 'uplink', 'servers']

    References:
      Rizk (2023), thesis, EPFL, ch. 3, (3.6)-(3.8).
    """
    training = sampled_training(objective, step, mechanism, local_work(local_steps, batch_size, local_epochs))

    def tell(key: Key, state: Server, batch: Batch, view: View) -> tuple[Server, Tree]:
        return state, state.w

    def spread(state: Server, released: Tree, view: View) -> tuple[Server, Outbox]:
        return state, outbox(server_mechanism, released)

    def combine(key: Key, state: Server, inbox: Inbox, view: View) -> Server:
        return state._replace(w=combined(server_mechanism, inbox))

    made = Algorithm(
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
        topology=with_clients(_of_servers, **training.settings),
        learner="client",
        predictor="server",
    )
    return locally_optimised(made, training)


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
