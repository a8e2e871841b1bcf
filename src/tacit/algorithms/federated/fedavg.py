"""Federated averaging around a server, with noise at the clients (baseline of the Dissertation, sec. 5.5).

    client:  w_i <- w_i - eta_t ghat_i(w_i)        ghat: the clipped gradient of its batch, released with noise
    server:  w   <- mean of the w_i that arrived
    client:  w_i <- w                              if it arrived; else it keeps its own

Privacy (DP-FedAvg at the level of records): noise enters at the client, before anything leaves, so that the server need
not be trusted. A client's model is made of released values only, hence the server's is, and sending it back is free.
A record is charged for the rounds that read it, whether or not the links are up: what is released then goes into the
model and leaves later.

With the Euclidean mirror map this and `dynamic_mirror_descent` are one recursion with different averages: the exact
mean of all here, a weighted mean of the neighbours there.
"""

from __future__ import annotations

from tacit.algorithms._parts.descent import gradient_step
from tacit.algorithms._parts.local_steps import local_work, sampled_training
from tacit.algorithms._parts.mixing import IfMissing, first_model, link_requirements
from tacit.algorithms._parts.per_client import PerClient, around_one_server
from tacit.algorithms.federated._server_round import average, averaging_rounds
from tacit.algorithms.local_step import LocalStep, optimised, rate_of
from tacit.algorithms.registry import register
from tacit.core.contract import (
    Algorithm,
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
from tacit.core.errors import ConfigError
from tacit.privacy import statement

TEXT = "epsilon(i) growing linearly, per client, with a probability below 1 (Rizk (2023), (2.69))"


@register("Dissertation, sec. 5.5, baseline", title="Federated averaging (FedAvg)")
def fedavg(
    objective: Objective,
    step: LocalStep = 0.1,
    mechanism: Mechanism = unprotected,
    missing: IfMissing = "wait",
    cohort: int | None = None,
    local_steps: PerClient = 1,
    batch_size: PerClient | None = None,
    local_epochs: PerClient | None = None,
) -> Algorithm:
    """Federated averaging (FedAvg): clients step with noise, a server averages and hands the mean back.

    In a round every client takes a gradient step and sends its model; the server sends back the mean. With a `cohort`
    the server calls so many clients and sends them its model first; these alone train, and the server predicts.
    Several rounds between two communications are rounds in which both link sets are down (`tacit.graphs.Periodic` on
    "uplink" and "downlink"). It runs on `tacit.graphs.star_roles`; a graph of peers is taken as so many clients of one
    server.

    Args:
      objective: Loss and regulariser, e.g. `tacit.objectives.logistic(l2=1e-4)`.
      step: Step size above 0, a number or a function of the round t = 1, 2, ..., or an optimiser such as
        `optax.adam(1e-3)`; 0.1 by default.
      mechanism: Noise, its place and its account, e.g. `tacit.privacy.laplace(1.0, clip=1.0)`; none by default.
      missing: "wait" for all models, or "renormalise": the server averages those that arrived, and a client that hears
        nothing goes on with its own.
      cohort: Clients that the server calls in a round, from 1 on, drawn uniformly; by default all of them take part.
      local_steps: Gradient steps of a client in a round, from 1 on; one number, or one per client.
      batch_size: Records drawn for each step, without replacement, from 1 on; one number, or one per client; by default
        the batch as it comes. These three need a cohort.
      local_epochs: Passes through all records that a round brings, shuffled, `batch_size` of them at a time, in the
        place of `local_steps`; one number, or one per client; none by default.

    Returns:
      An algorithm for `tacit.simulate`, a peer or an audit.

    Example:
      >>> import tacit
      >>> algorithm = tacit.algorithms.fedavg(tacit.objectives.logistic(), cohort=3, local_steps=5, batch_size=10)
      >>> algorithm.learner, algorithm.predictor
      ('client', 'server')

    References:
      Dissertation on private online optimisation, sec. 5.5; with a cohort Rizk (2023), thesis, EPFL, ch. 2.
    """
    if cohort is not None:
        training = sampled_training(objective, step, mechanism, local_work(local_steps, batch_size, local_epochs))
        said = statement(mechanism, TEXT)
        return averaging_rounds("fedavg", objective, training, said, missing, cohort)
    alone = isinstance(local_steps, int) and local_steps == 1
    if batch_size is not None or local_epochs is not None or not alone:
        raise ConfigError(
            f"local_steps = {local_steps!r}, batch_size = {batch_size!r}, local_epochs = {local_epochs!r} without a "
            "cohort; say how many clients the server calls, all of them if need be"
        )
    descent = gradient_step(objective, rate_of(step), mechanism)

    def train(key: Key, state: Params, batch: Batch, view: View) -> tuple[Params, Tree]:
        return state, descent.value(state, state, batch, view, key)

    def upload(state: Params, released: Tree, view: View) -> tuple[Params, Outbox]:
        moved = descent.moved(state, state, released, view)
        return moved, share(moved)

    def answer(key: Key, state: Params, batch: Batch, view: View) -> tuple[Params, Tree]:
        return state, state

    def settle(key: Key, state: Params, inbox: Inbox, view: View) -> Params:
        """Take the mean of what arrived, on a client the server's one model; without any keep what there is."""
        return average(inbox, state)

    made = Algorithm(
        name="fedavg",
        objective=objective,
        init={"client": first_model, "server": first_model},
        phases=(
            Phase("uplink", train, descent.mechanism, settle, upload, source="client", target="server"),
            # A server that no client reached has nothing new: its old model would undo the clients' own steps.
            Phase("downlink", answer, unprotected, settle, source="server", target="client", answers="uplink"),
        ),
        model=lambda state: state,
        requires=link_requirements(missing),
        privacy=statement(
            mechanism, "the epsilon of one round and one component of the gradient (Dissertation, sec. 5.5)"
        ),
        topology=around_one_server,
        learner="client",
        missing=missing,
        predictor="client",
    )
    return optimised(made, descent, lambda state: state)
