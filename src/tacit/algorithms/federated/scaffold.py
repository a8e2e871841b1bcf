"""Stochastic controlled averaging, SCAFFOLD (Karimireddy et al. (2020), Alg. 1 with option II).

    server:  calls L of its N clients, or all, and sends them w and c
    client:  y_0 = w;  y_e = y_{e-1} - eta / E (ghat(y_{e-1}) - c_i + c),  e = 1, ..., E
             c_i+ = c_i - c + (w - y_E) / eta,   delta = c_i+ - c_i,   c_i <- c_i+
    server:  w <- w + eta_g mean (y_E - w),   c <- c + L / N mean delta

(w - y_E) / eta = gbar - c_i + c, where gbar is the mean of the gradients of the local steps. So c_i+ = gbar, and
y_E - w = -eta (delta + c): a client sends delta alone, and the server, which knows c and eta, the rest. Messages up are
as long as models, those down twice as long, where the text sends two vectors each way.

Privacy: gbar is what is released, so that control variates are released values, though they remember a record for many
rounds: they cost no release more, and records compose in parallel.

A client whose delta is lost would have another c_i than the one that c counts, hence `reliable`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import jax
import jax.numpy as jnp

from tacit.algorithms._parts.local_steps import local_work, sampled_training
from tacit.algorithms._parts.per_client import PerClient, around_one_server, with_clients
from tacit.algorithms.federated._server_round import average, called_rounds
from tacit.algorithms.local_step import refuse_optimiser
from tacit.algorithms.registry import register
from tacit.algorithms.schedules import StepSize, as_schedule
from tacit.algorithms.tracking._released import divided, minus, nothing
from tacit.core.checks import positive
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
    Tree,
    View,
    share,
    unprotected,
)
from tacit.privacy import statement


class Client(NamedTuple):
    """State of a client."""

    w: Params
    """As the server sent it."""
    c: Params
    """Likewise."""
    own: Params
    """c_i."""


class Server(NamedTuple):
    """State of a server."""

    w: Params
    called: Array
    """(L,) slots of the clients that it calls in this round; (0,) where it calls all of them."""
    c: Params
    """Mean of the control variates of all clients."""


@register("Karimireddy et al. (2020), Alg. 1", title="SCAFFOLD")
def scaffold(
    objective: Objective,
    step: StepSize = 0.1,
    mechanism: Mechanism = unprotected,
    server_step: float = 1.0,
    cohort: int | None = None,
    local_steps: PerClient = 5,
    batch_size: PerClient | None = None,
    local_epochs: PerClient | None = None,
) -> Algorithm:
    """SCAFFOLD: federated averaging whose clients correct each local step for how their data differ from all.

    In a round the server sends its model and the mean of all clients' control variates; each called client takes some
    gradient steps, each corrected by that mean less its own control variate, and sends by how much the mean of its
    gradients differs from its control variate, which that mean then becomes. Clients keep a control variate as long as
    a model between their rounds. Messages to clients are twice as long as models. It runs on
    `tacit.graphs.star_roles`; a graph of peers is taken as so many clients of one server.

    Args:
      objective: Loss and regulariser, e.g. `tacit.objectives.logistic(l2=1e-4)`.
      step: Step size above 0 of a client's steps in a round together, a number or a function of the round t = 1, 2,
        ...; 0.1 by default.
      mechanism: Noise, its place and its account, e.g. `tacit.privacy.laplace(1.0, clip=1.0)`; none by default.
      server_step: eta_g, how much of the clients' mean way the server goes, above 0; 1 by default.
      cohort: Clients that the server calls in a round, from 1 on, drawn uniformly; by default all of them.
      local_steps: Gradient steps of a client in a round, from 1 on; one number, or one per client; 5 by default.
      batch_size: Records drawn for each step, without replacement, from 1 on; one number, or one per client; by default
        the batch as it comes.
      local_epochs: Passes through all records that a round brings, shuffled, `batch_size` of them at a time, in the
        place of `local_steps`; one number, or one per client; none by default.

    Returns:
      An algorithm for `tacit.simulate`, a peer or an audit.

    Example:
      >>> import tacit
      >>> method = tacit.algorithms.scaffold(tacit.objectives.logistic(), step=0.5, cohort=3)
      >>> stream = tacit.streams.logistic_drift(8, 5, heterogeneity=1.0, seed=0)
      >>> run = tacit.simulate(method, tacit.graphs.star_roles(8), stream, rounds=20, seed=0)
      >>> {name: int(sent.bits[0, 0]) // 32 for name, sent in run.traffic.items()}  # 3 clients, 5 numbers a model
      {'downlink': 30, 'uplink': 15}

    References:
      Karimireddy, Kale, Mohri, Reddi, Stich and Suresh (2020), Alg. 1.
    """
    refuse_optimiser(
        step,
        "scaffold",
        "clients' control variates are found by dividing the way of a round by the step; take fedavg or fedadam with "
        "this optimiser",
    )
    further = positive("server_step", server_step, "how much of the clients' mean way the server goes")
    if mechanism.distribution is None:
        mechanism = mechanism._replace(perturbs="gradient")
    training = sampled_training(objective, step, mechanism, local_work(local_steps, batch_size, local_epochs, 5))
    schedule = as_schedule(step)
    down, up = called_rounds(training, cohort)

    def client(key: Key, params: Params, views: Mapping[str, View]) -> Client:
        return Client(params, nothing(params), nothing(params))

    def server(key: Key, params: Params, views: Mapping[str, View]) -> Server:
        return Server(params, jnp.zeros(cohort or 0, jnp.int32), nothing(params))

    def call(key: Key, state: Server, batch: Batch, view: View) -> tuple[Server, Tree]:
        state, w = down.compute(key, state, batch, view)
        return state, (w, state.c)

    def download(key: Key, state: Client, inbox: Inbox, view: View) -> Client:
        w, c = average(inbox, (state.w, state.c))
        return Client(w, c, state.own)

    def train(key: Key, state: Client, batch: Batch, view: View) -> tuple[Client, Tree]:
        drift = jax.tree.map(jnp.subtract, state.c, state.own)
        return state, training.value(key, state.w, batch, view, (), drift)

    def gradient(start: Params, released: Tree, view: View) -> Params:
        """Return the mean gradient that a released value holds."""
        if mechanism.perturbs == "gradient":
            return training.whole(start, released)
        way = jax.tree.map(jnp.subtract, start, training.moved(start, released, view))
        return divided(way, schedule(view.round))

    def upload(state: Client, released: Tree, view: View) -> tuple[Client, Outbox]:
        own = gradient(state.w, released, view)
        return state._replace(own=own), share(jax.tree.map(jnp.subtract, own, state.own))

    def collect(key: Key, state: Server, inbox: Inbox, view: View) -> Server:
        clients = jnp.sum(view.into.agent[1:] >= 0)
        heard = jnp.sum(inbox.arrived)
        delta = average(inbox, nothing(state.c))
        way = jax.tree.map(jnp.add, delta, state.c)
        rate = further * schedule(view.round) * (heard > 0)
        share_of = (heard / clients).astype(rate.dtype)
        return state._replace(w=minus(state.w, rate, way), c=minus(state.c, -share_of, delta))

    return Algorithm(
        name="scaffold",
        objective=objective,
        init={"client": client, "server": server},
        phases=(
            down._replace(compute=call, absorb=download),
            up._replace(compute=train, absorb=collect, emit=upload),
        ),
        model=lambda state: state.w,
        requires=frozenset({"reliable"}),
        privacy=statement(mechanism),
        topology=with_clients(around_one_server, **training.settings),
        learner="client",
        predictor="server",
    )
