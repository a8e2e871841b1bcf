"""Federated averaging with an optimiser at the server: FedAvgM (Hsu et al. (2019)), FedAdam and its kin.

    server:  calls L of its clients, or all, and sends them w
    client:  trains from w on to w_i: `tacit.algorithms._parts.local_steps`
    server:  delta = mean of w_i - w
             m <- beta m + delta,  w <- w + eta m                                            FedAvgM
             m <- beta_1 m + (1 - beta_1) delta,  w <- w + eta m / (sqrt(v) + tau)           Reddi et al. (2021), Alg. 2
                 v <- beta_2 v + (1 - beta_2) delta^2                                        FedAdam
                 v <- v + delta^2                                                            FedAdagrad
                 v <- v - (1 - beta_2) delta^2 sign(v - delta^2)                             FedYogi

m begins with 0 and v with tau^2, as the text allows. A server that hears nobody keeps all that it has.

Privacy: the server works on released values alone, so that all of this is post-processing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal, NamedTuple, get_args

import jax
import jax.numpy as jnp

from tacit.algorithms._parts.local_steps import Steps, local_work, sampled_training
from tacit.algorithms._parts.mixing import IfMissing
from tacit.algorithms._parts.per_client import PerClient
from tacit.algorithms.federated._server_round import average, averaging_rounds
from tacit.algorithms.local_step import LocalStep
from tacit.algorithms.registry import register
from tacit.core.checks import one_of, positive, proportion
from tacit.core.contract import Algorithm, Array, Inbox, Key, Mechanism, Objective, Params, View, unprotected
from tacit.privacy import statement

Variant = Literal["adam", "adagrad", "yogi"]
"""What becomes of the squares."""


class Server(NamedTuple):
    """State of a server."""

    w: Params
    called: Array
    """(L,) slots of the clients that it calls in this round; (0,) where it calls all of them."""
    momentum: Params
    """m."""
    squares: Params
    """v."""


Update = Callable[[Server, Params], Server]
"""Server and delta -> its next state."""


@register("Hsu et al. (2019), sec. 4", title="Federated averaging with server momentum (FedAvgM)")
def fedavgm(
    objective: Objective,
    step: LocalStep = 0.1,
    mechanism: Mechanism = unprotected,
    missing: IfMissing = "wait",
    server_step: float = 1.0,
    momentum: float = 0.9,
    cohort: int | None = None,
    local_steps: PerClient = 1,
    batch_size: PerClient | None = None,
    local_epochs: PerClient | None = None,
) -> Algorithm:
    """FedAvgM: federated averaging in which the server goes on in the direction of earlier rounds.

    In a round the server sends its model, the called clients train on their own data, and the server moves along a
    momentum of the mean of their ways. Messages are those of `fedavg`. It runs on `tacit.graphs.star_roles`; a graph of
    peers is taken as so many clients of one server.

    Args:
      objective: Loss and regulariser, e.g. `tacit.objectives.logistic(l2=1e-4)`.
      step: Step size above 0 of a client's steps in a round together, a number or a function of the round t = 1, 2,
        ..., or an optimiser such as `optax.adam(1e-3)`; 0.1 by default.
      mechanism: Noise, its place and its account, e.g. `tacit.privacy.laplace(1.0, clip=1.0)`; none by default.
      missing: "wait" for all models, or "renormalise": the server averages those that arrived.
      server_step: How far the server goes along its momentum, above 0; 1 by default.
      momentum: Share of the momentum that is kept, from 0 on and below 1; 0.9 by default.
      cohort: Clients that the server calls in a round, from 1 on, drawn uniformly; by default all of them.
      local_steps: Gradient steps of a client in a round, from 1 on; one number, or one per client.
      batch_size: Records drawn for each step, without replacement, from 1 on; one number, or one per client; by default
        the batch as it comes.
      local_epochs: Passes through all records that a round brings, shuffled, `batch_size` of them at a time, in the
        place of `local_steps`; one number, or one per client; none by default.

    Returns:
      An algorithm for `tacit.simulate`, a peer or an audit.

    Example:
      >>> import tacit
      >>> method = tacit.algorithms.fedavgm(tacit.objectives.logistic(), step=0.1, cohort=3)
      >>> stream = tacit.streams.logistic_drift(8, 5, seed=0)
      >>> tacit.simulate(method, tacit.graphs.star_roles(8), stream, rounds=20, seed=0).algorithm
      'fedavgm'

    References:
      Hsu, Qi and Brown (2019), sec. 4.
    """
    further = positive("server_step", server_step, "how far the server goes along its momentum")
    beta = proportion("momentum", momentum, "the share that is kept", zero=True)

    def update(state: Server, delta: Params) -> Server:
        kept = jax.tree.map(lambda m, d: beta * m + d, state.momentum, delta)
        return state._replace(w=jax.tree.map(lambda w, m: w + further * m, state.w, kept), momentum=kept)

    work = local_work(local_steps, batch_size, local_epochs)
    return _rounds("fedavgm", objective, step, mechanism, missing, cohort, work, update, 0.0)


@register("Reddi et al. (2021), Alg. 2", title="Adaptive federated optimisation (FedAdam)")
def fedadam(
    objective: Objective,
    step: LocalStep = 0.1,
    mechanism: Mechanism = unprotected,
    missing: IfMissing = "wait",
    server_step: float = 0.1,
    variant: Variant = "adam",
    momentum: float = 0.9,
    decay: float = 0.99,
    tau: float = 1e-3,
    cohort: int | None = None,
    local_steps: PerClient = 1,
    batch_size: PerClient | None = None,
    local_epochs: PerClient | None = None,
) -> Algorithm:
    """FedAdam: federated averaging in which the server steps by Adam, Adagrad or Yogi.

    In a round the server sends its model, the called clients train on their own data, and the server takes the mean of
    their ways as a gradient for its optimiser. Messages are those of `fedavg`. It runs on `tacit.graphs.star_roles`; a
    graph of peers is taken as so many clients of one server.

    Args:
      objective: Loss and regulariser, e.g. `tacit.objectives.logistic(l2=1e-4)`.
      step: Step size above 0 of a client's steps in a round together, a number or a function of the round t = 1, 2,
        ..., or an optimiser such as `optax.adam(1e-3)`; 0.1 by default.
      mechanism: Noise, its place and its account, e.g. `tacit.privacy.laplace(1.0, clip=1.0)`; none by default.
      missing: "wait" for all models, or "renormalise": the server averages those that arrived.
      server_step: eta, the server's step size, above 0; 0.1 by default.
      variant: "adam", "adagrad" or "yogi": what becomes of the squares.
      momentum: beta_1, share of the momentum that is kept, from 0 on and below 1; 0.9 by default.
      decay: beta_2, share of the squares that is kept, from 0 on and below 1; 0.99 by default. Adagrad keeps all.
      tau: Added to the root of the squares, above 0; 0.001 by default.
      cohort: Clients that the server calls in a round, from 1 on, drawn uniformly; by default all of them.
      local_steps: Gradient steps of a client in a round, from 1 on; one number, or one per client.
      batch_size: Records drawn for each step, without replacement, from 1 on; one number, or one per client; by default
        the batch as it comes.
      local_epochs: Passes through all records that a round brings, shuffled, `batch_size` of them at a time, in the
        place of `local_steps`; one number, or one per client; none by default.

    Returns:
      An algorithm for `tacit.simulate`, a peer or an audit.

    Example:
      >>> import tacit
      >>> method = tacit.algorithms.fedadam(tacit.objectives.logistic(), step=0.1, variant="yogi", cohort=3)
      >>> stream = tacit.streams.logistic_drift(8, 5, seed=0)
      >>> tacit.simulate(method, tacit.graphs.star_roles(8), stream, rounds=20, seed=0).algorithm
      'fedadam'

    References:
      Reddi, Charles, Zaheer, Garrett, Rush, Konecny, Kumar and McMahan (2021), Alg. 2.
    """
    further = positive("server_step", server_step, "the server's step size")
    small = positive("tau", tau, "added to the root of the squares")
    first = proportion("momentum", momentum, "the share that is kept", zero=True)
    second = proportion("decay", decay, "what is kept", zero=True)
    one_of("variant", variant, get_args(Variant))

    def squared(v: Array, d: Array) -> Array:
        square = d * d
        if variant == "adagrad":
            return v + square
        return (
            second * v + (1 - second) * square
            if variant == "adam"
            else v - (1 - second) * square * jnp.sign(v - square)
        )

    def update(state: Server, delta: Params) -> Server:
        kept = jax.tree.map(lambda m, d: first * m + (1 - first) * d, state.momentum, delta)
        squares = jax.tree.map(squared, state.squares, delta)
        w = jax.tree.map(lambda w, m, v: w + further * m / (jnp.sqrt(v) + small), state.w, kept, squares)
        return state._replace(w=w, momentum=kept, squares=squares)

    work = local_work(local_steps, batch_size, local_epochs)
    return _rounds("fedadam", objective, step, mechanism, missing, cohort, work, update, small**2)


def _rounds(
    name: str,
    objective: Objective,
    step: LocalStep,
    mechanism: Mechanism,
    missing: IfMissing,
    cohort: int | None,
    work: Steps,
    update: Update,
    first_square: float,
) -> Algorithm:
    training = sampled_training(objective, step, mechanism, work)

    def server(key: Key, params: Params, views: Mapping[str, View]) -> Server:
        nothing = jax.tree.map(jnp.zeros_like, params)
        squares = jax.tree.map(lambda leaf: jnp.full_like(leaf, first_square), params)
        return Server(params, jnp.zeros(cohort or 0, jnp.int32), nothing, squares)

    def collect(key: Key, state: Server, inbox: Inbox, view: View) -> Server:
        delta = jax.tree.map(jnp.subtract, average(inbox, state.w), state.w)
        heard = jnp.any(inbox.arrived)
        after: Server = jax.tree.map(lambda new, old: jnp.where(heard, new, old), update(state, delta), state)
        return after

    said = statement(mechanism)
    return averaging_rounds(name, objective, training, said, missing, cohort, server=server, collect=collect)
