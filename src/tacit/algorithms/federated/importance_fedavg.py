"""Federated averaging under importance sampling, ISFedAvg (Rizk (2023), ch. 2, Alg. 2.1).

    server:  calls L of its K clients, client k with probability L p_k, and sends them w      "downlink"
    client:  w_0 = w;  w_e = w_{e-1} - mu / (E_k K p_k) (1 / B_k) sum_b grad Q_b(w_{e-1}) / (N_k p_b)       (2.10)
             over B_k of its N_k records, drawn anew in each step, record n with probability B_k p_n
    server:  w <- mean of what the called clients came to, (2.11)                             "uplink"

Both draw without replacement, by systematic sampling on progressive totals (2.55), so that, whatever the probabilities,
a round's step is an unbiased estimate of the gradient (Lemma 2.1; with several local steps up to terms in mu^2). A
called client learns its p_k from a list of the called ones, O(L). Costs and limits of the rules:

- given probabilities: the server works O(L log K) a round.
- "current", (2.50)-(2.51): before each round all K clients report a number made of all their gradients, and after it
  all are sent the model: 2 K messages and sum N_k gradients a round on top.
- "sampled", (2.53)-(2.54): no further messages, but sigma_k^2 takes all gradients of the called clients. With a cohort
  of 1, and at a client with B_k = 1, nothing ever changes.

Errata: see `tacit.algorithms.federated._importance`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from tacit.algorithms._parts.per_client import PerClient, around_one_server, numbers, of_client, with_clients
from tacit.algorithms._parts.sampling import Sample, capped, progressive_totals, systematic_draw, uniform_cohort
from tacit.algorithms.federated._importance import (
    FLOOR,
    Probabilities,
    Rule,
    appraised,
    drawn_records,
    first_shares,
    mixed,
    progressive_shares,
    record_gradients,
    record_norms,
    records_taken,
    records_there,
    redistributed,
    spread_of,
    squared_norm,
    validate_probabilities,
    worth_of,
)
from tacit.algorithms.registry import register
from tacit.algorithms.schedules import StepSize, as_schedule
from tacit.core.contract import (
    Algorithm,
    Array,
    Batch,
    Inbox,
    Key,
    Objective,
    Outbox,
    Params,
    Phase,
    PrivacyStatement,
    Schedule,
    Tree,
    View,
    share,
    unprotected,
)

HOLDS = {
    "uniform": "not private: models leave as they were computed; for noise take `fedavg` with the same cohort",
    "given": "not private: models leave as they were computed, and probabilities made from data tell of them",
}
TELLS = "not private: models and norms of gradients leave as they are, and who is called depends on the data"


class Client(NamedTuple):
    """State of a client."""

    w: Params
    gain: Array
    """K p_k of the round in which it was called last."""
    share: Array
    """(places, 1) p_n of its records; no places where none are kept. (The simulator copies vectors round by round.)"""


class Server(NamedTuple):
    """State of a server."""

    w: Params
    called: Array
    """(L,) slots of the clients that it calls in this round, 0 for none."""
    shares: Array
    """(slots, 2) p_k of its clients, and progressive totals of what is drawn from."""


class Outcome(NamedTuple):
    """Outcome of a client's round."""

    model: Params
    share: Array
    """(places,) of its records, as the next round needs them; of length 0 where none are kept."""
    worth: Array
    """(2.53)'s numerator; 0 where the rule asks for none."""


class Training(NamedTuple):
    """A client's work, after (2.10)."""

    round: Callable[[Key, Params, Array, Array, Batch, View], Outcome]
    """(key, where to start, K p_k, shares of the records, data, view) -> outcome."""
    worth: Callable[[Params, Batch, View], Array]
    """(model, data, view) -> what the client is worth, from all its records: (2.51)."""


@register("Rizk (2023), Alg. 2.1", {"cohort": 2}, title="Federated averaging by importance (ISFedAvg)")
def importance_fedavg(
    objective: Objective,
    step: StepSize = 0.1,
    probabilities: Probabilities = "sampled",
    *,
    cohort: int,
    local_steps: PerClient = 1,
    batch_size: PerClient | None = None,
    records: int | None = None,
    floor: float = FLOOR,
) -> Algorithm:
    """Federated averaging by importance sampling (ISFedAvg): clients and records are drawn by what they are worth.

    In a round the server calls a cohort of its clients with their probabilities and sends them the model; each takes
    its local steps on records of its own drawing, scaled so that the step is unbiased; the server averages. A client's
    batch is its whole data set (`tacit.streams.whole`). There is no noise: for that take `fedavg` with the same cohort.

    Args:
      objective: Loss and regulariser, e.g. `tacit.objectives.logistic(l2=1e-4)`.
      step: Step size above 0, a number or a function of the round t = 1, 2, ...; 0.1 by default.
      probabilities: "uniform", all alike, which is `fedavg`; `Shares`, given and kept, e.g. by `optimal_shares`;
        "current", by gradients at the current model, at the cost of messages from all clients; "sampled" (default):
        clients and records that took part share out anew what they had together, the others keep theirs.
      cohort: Clients that the server calls in a round, from 1 on.
      local_steps: Gradient steps of a client in a round, from 1 on; one number, or one per client.
      batch_size: Records drawn for each step, without replacement, from 1 on; one number, or one per client; by default
        the batch as it comes, and clients alone are drawn.
      records: Size of the largest data set, `max(stream.data_size)`; needed by "sampled" with a batch size.
      floor: Part of the probabilities that is uniform, above 0, at most 1; no record counts more than 1 / floor times.

    Returns:
      An algorithm for `tacit.simulate`, a peer or an audit.

    Example:
      >>> import tacit
      >>> shares = tacit.algorithms.Shares(clients=[0.5, 0.25, 0.25])
      >>> algorithm = tacit.algorithms.importance_fedavg(tacit.objectives.logistic(), probabilities=shares, cohort=2)
      >>> algorithm.privacy.private
      False

    References:
      Rizk (2023), thesis, EPFL, ch. 2, Alg. 2.1.
    """
    rule, given, places = validate_probabilities(probabilities, cohort, batch_size, records, floor)
    known = None if given is None else given.clients
    training = local_training(objective, as_schedule(step), rule, local_steps, batch_size, floor)

    def shares(p: Array, live: Array) -> Array:
        return progressive_shares(p, live, cohort, 0.0 if rule == "given" else floor)

    def client(key: Key, params: Params, views: Mapping[str, View]) -> Client:
        return Client(params, jnp.ones(()), first_shares(given, places, batch_size, views["downlink"]))

    def server(key: Key, params: Params, views: Mapping[str, View]) -> Server:
        out = views["downlink"].out
        p = jnp.ones(out.live.shape[0] - 1)
        worth = p if known is None else jnp.asarray(known, p.dtype)[out.agent[1:]]
        return Server(params, jnp.zeros(cohort, jnp.int32), shares(worth, out.live[1:]))

    def report(key: Key, state: Client, batch: Batch, view: View) -> tuple[Client, Tree]:
        return state, training.worth(state.w, batch, view)

    def survey(key: Key, state: Server, inbox: Inbox, view: View) -> Server:
        worth = jnp.zeros(inbox.slots).at[inbox.slot].add(inbox.values().private)
        return state._replace(shares=shares(worth[1:], view.into.live[1:]))

    def call(key: Key, state: Server, batch: Batch, view: View) -> tuple[Server, Tree]:
        clients = view.out.degree
        taken = jnp.minimum(cohort, clients)
        if rule == "uniform":
            sample = Sample(uniform_cohort(key, clients, cohort, taken), jnp.full(cohort, 1 / clients))
        else:
            sample = systematic_draw(key, state.shares[:, 1], cohort, taken)
        called = 1 + sample.chosen
        ids = jnp.where(called > 0, view.out.agent[called], -1)
        return state._replace(called=called), (state.w, ids, clients * sample.share)

    def send(state: Server, released: Tree, view: View) -> tuple[Server, Outbox]:
        return state, share(released, to=state.called)

    def download(key: Key, state: Client, inbox: Inbox, view: View) -> Client:
        w, ids, gains = inbox.sum().private  # of one server
        return state._replace(w=w, gain=jnp.sum(jnp.where(ids == view.agent, gains, 0)))

    def train(key: Key, state: Client, batch: Batch, view: View) -> tuple[Client, Tree]:
        found = training.round(key, state.w, state.gain, state.share[:, 0], batch, view)
        told = (found.model, found.worth) if rule == "sampled" else (found.model,)
        return state._replace(share=found.share[:, None]), told

    def collect(key: Key, state: Server, inbox: Inbox, view: View) -> Server:
        state = state._replace(w=inbox.mean().private[0])
        if rule != "sampled":
            return state
        chosen = jnp.where(inbox.arrived, inbox.slot - 1, -1)
        p = redistributed(state.shares[:, 0], chosen, inbox.values().private[1])  # (2.53)
        return state._replace(shares=shares(p, view.into.live[1:]))

    def publish(key: Key, state: Server, batch: Batch, view: View) -> tuple[Server, Tree]:
        return state, state.w

    def adopt(key: Key, state: Client, inbox: Inbox, view: View) -> Client:
        return state._replace(w=inbox.sum().private)

    survey_ = Phase("uplink", report, unprotected, survey, source="client", target="server")
    call_ = Phase("downlink", call, unprotected, download, send, "server", "client")
    answer_ = Phase("uplink", train, unprotected, collect, source="client", target="server", answers="downlink")
    publish_ = Phase("downlink", publish, unprotected, adopt, source="server", target="client")
    return Algorithm(
        name="importance_fedavg",
        objective=objective,
        init={"client": client, "server": server},
        phases=(survey_, call_, answer_, publish_) if rule == "current" else (call_, answer_),
        model=lambda state: state.w,
        requires=frozenset({"reliable"}),
        privacy=PrivacyStatement.none()._replace(holds=HOLDS.get(rule, TELLS)),
        topology=with_clients(around_one_server, local_steps=local_steps, batch_size=batch_size, shares=known),
        learner="client",
        predictor="server",
    )


def local_training(
    objective: Objective,
    schedule: Schedule,
    rule: Rule,
    local_steps: PerClient,
    batch_size: PerClient | None,
    floor: float,
) -> Training:
    """Return the work of a client that takes E_k steps on B_k of its records each."""
    steps = numbers("local_steps", local_steps)
    if batch_size is None:
        return _on_batches(objective, schedule, steps)
    sizes = numbers("batch_size", batch_size)
    most_steps = int(steps.max())

    def round_(key: Key, start: Params, gain: Array, share: Array, batch: Batch, view: View) -> Outcome:
        own, count, size = of_client(steps, view), records_taken(sizes, view), view.data_size
        rate = schedule(view.round) / (own * gain)
        there = records_there(batch, size)
        first = record_gradients(objective, start, batch) if rule in ("current", "sampled") else None
        norms = jnp.zeros(there.shape) if first is None else jnp.where(there, record_norms(first), 0)
        now = share
        if rule == "current":
            now = progressive_totals(capped(mixed(norms, there, floor), count), count)  # (2.50)

        def local(e: Array, walk: tuple[Params, Array, Tree]) -> tuple[Params, Array, Tree]:
            at, p, total = walk
            sample = drawn_records(jax.random.fold_in(key, e), rule, p, sizes, floor, view)
            place = jnp.maximum(sample.chosen, 0)
            scale = jnp.where(sample.chosen >= 0, 1 / (size * sample.share), 0) / count
            on = e < own

            def estimate(gradients: Tree) -> Tree:  # (2.9)
                return jax.tree.map(lambda g: jnp.tensordot(scale.astype(g.dtype), g, axes=1), gradients)

            records = jax.tree.map(lambda leaf: leaf[place], batch._replace(weight=None))
            gradient = estimate(record_gradients(objective, at, records))
            moved = jax.tree.map(lambda w, g: jnp.where(on, w - rate.astype(w.dtype) * g, w), at, gradient)
            if rule != "sampled":
                return moved, p, total
            seen = estimate(jax.tree.map(lambda g: g[place], first))
            added = jax.tree.map(lambda t, g: jnp.where(on, t + g, t), total, seen)
            renewed = redistributed(p, sample.chosen, jnp.where(sample.chosen >= 0, norms[place], 0))  # (2.54)
            return moved, jnp.where(on, renewed, p), added

        nothing = jax.tree.map(jnp.zeros_like, start)
        model, last, total = jax.lax.fori_loop(0, most_steps, local, (start, now, nothing))
        if rule != "sampled":
            return Outcome(model, share, jnp.zeros(()))
        spread = spread_of(norms, mixed(share, there, floor))
        return Outcome(model, last, worth_of(spread, squared_norm(total) / jnp.square(own), own * count, size))

    def worth(model: Params, batch: Batch, view: View) -> Array:
        draws = of_client(steps, view) * records_taken(sizes, view)
        return appraised(objective, floor, model, batch, view.data_size, draws)[0]

    return Training(round_, worth)


def _on_batches(objective: Objective, schedule: Schedule, steps: np.ndarray) -> Training:
    """Return the work of a client that takes its batch as it comes."""
    gradient = jax.grad(objective.loss)

    def round_(key: Key, start: Params, gain: Array, share: Array, batch: Batch, view: View) -> Outcome:
        own = of_client(steps, view)
        rate = schedule(view.round) / (own * gain)

        def local(e: Array, at: Params) -> Params:
            moved: Params = jax.tree.map(
                lambda w, g: jnp.where(e < own, w - rate.astype(w.dtype) * g, w), at, gradient(at, batch)
            )
            return moved

        model = jax.lax.fori_loop(0, int(steps.max()), local, start)
        return Outcome(model, share, worth(start, batch, view))

    def worth(model: Params, batch: Batch, view: View) -> Array:
        return jnp.sqrt(squared_norm(gradient(model, batch)))

    return Training(round_, worth)
