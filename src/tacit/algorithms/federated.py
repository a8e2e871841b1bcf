"""What federated methods share: a server calls some of its clients, these train on their own data, it averages.

    server:  calls L of its clients and sends them w                                        "downlink"
    client:  w_0 = w;  w_e = w_{e-1} - mu / E_k ghat_k(w_{e-1}), e = 1, ..., E_k            (004 (3.3), (3.6))
    server:  w <- mean of what the called clients came to                                   "uplink", answers "downlink"

ghat_k is the mean gradient over B_k of the client's records, drawn anew in every step without replacement; with
`batch_size=None` it is over the batch as it comes.

Noise goes on what a client has learnt in a round: on the model that it came to ("model", (2.56)), or on the mean of its
gradients ("gradient", (2.58)-(2.60)), which the step size then scales down together with the noise. ("update" is the
same with noise of the update's own size.) With a clip, every record's gradient is clipped in every local step; what is
released is the mean of these means, and the regulariser, which is no data's, joins at the round's first point. One step
moves by 2 C / B_k if a record is replaced; with several, later gradients are taken elsewhere and may change altogether,
by 2 C. That the server picks at random whom it calls is not counted in a client's favour.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from tacit.algorithms.cohorts import uniform_cohort
from tacit.algorithms.schedules import as_schedule
from tacit.contract import (
    Array,
    Batch,
    Inbox,
    Key,
    Mechanism,
    Objective,
    Outbox,
    Params,
    Phase,
    Schedule,
    Tree,
    View,
    share,
    unprotected,
)
from tacit.errors import ConfigError
from tacit.graphs import Topology, star_roles
from tacit.privacy import gradient_parts, records_in

Step = float | Callable[[Array], Array]
PerClient = int | Sequence[int]
"""The same number for all clients, or one for each."""


class Server(NamedTuple):
    """What a server carries."""

    w: Params
    called: Array
    """(L,) slots of the clients that it calls in this round."""


class Training(NamedTuple):
    """A client's work of one round around a mechanism."""

    mechanism: Mechanism
    value: Callable[[Key, Params, Batch, View], Tree]
    """(key, where to start, data, view) -> what is to be released."""
    moved: Callable[[Params, Tree, View], Params]
    """(where it started, what was released, view) -> the client's new model."""


def numbers(name: str, value: PerClient) -> np.ndarray:
    """Return one positive whole number per client, or one for all."""
    found = np.asarray(value)
    if found.ndim > 1 or found.size == 0 or not np.issubdtype(found.dtype, np.integer) or found.min() < 1:
        raise ConfigError(f"{name} = {value!r}: expected a whole number from 1 on, or one per client")
    return found.astype(np.int32)


def of_client(table: np.ndarray, view: View) -> Array:
    """Return a client's own entry."""
    return jnp.asarray(table) if table.ndim == 0 else jnp.asarray(table)[view.agent]


def records_held(batch: Batch, view: View) -> Array:
    """Return how many records a client can draw from: its data set, without the padding; of a stream, its batch."""
    if jnp.ndim(getattr(batch, "y", 0)) == 0:
        raise ConfigError(
            "batch_size is given, but a round brings a client one record only, so that there is nothing to draw from; "
            "leave it out, or feed whole data sets (tacit.streams.whole)"
        )
    places = records_in(batch)
    return jnp.where(view.data_size > 0, jnp.minimum(view.data_size, places), places)


def rows(batch: Batch, chosen: Array) -> Batch:
    """Take records out of a batch; places numbered -1 get weight 0."""
    taken = jax.tree.map(lambda leaf: leaf[jnp.maximum(chosen, 0)], batch)
    return taken._replace(weight=(chosen >= 0).astype(jnp.result_type(float)))


def sampled_training(
    objective: Objective, step: Step, mechanism: Mechanism, local_steps: PerClient, batch_size: PerClient | None
) -> Training:
    """Return the training of a client that takes E_k steps on B_k of its records each."""
    schedule: Schedule = as_schedule(step)
    steps = numbers("local_steps", local_steps)
    sizes = None if batch_size is None else numbers("batch_size", batch_size)
    data, penalty = gradient_parts(objective, mechanism.clip)
    most_steps, most_records = int(steps.max()), 0 if sizes is None else int(sizes.max())

    def drawn(key: Key, batch: Batch, view: View) -> Batch:
        if sizes is None:
            return batch
        return rows(batch, uniform_cohort(key, records_held(batch, view), most_records, of_client(sizes, view)))

    def scaled(gradient: Tree, own: Array) -> Tree:
        """Turn a clipped mean over the places of a batch into one over the records that are drawn."""
        if sizes is None or mechanism.clip is None:
            return gradient
        return jax.tree.map(lambda g: g * (most_records / own).astype(g.dtype), gradient)

    def mean_gradient(key: Key, start: Params, batch: Batch, view: View) -> Tree:
        """The mean over the local steps of the gradients that they took: (2.58)."""
        own = of_client(steps, view)
        rate = schedule(view.round) / own
        records = jnp.ones(()) if sizes is None else of_client(sizes, view).astype(jnp.result_type(float))

        def local(e: Array, walk: tuple[Params, Tree]) -> tuple[Params, Tree]:
            at, total = walk
            taken = drawn(jax.random.fold_in(key, e), batch, view)
            gradient = scaled(data(at, taken), records)
            whole = gradient if penalty is None else jax.tree.map(jnp.add, gradient, penalty(at))
            on = e < own
            moved = jax.tree.map(lambda w, g: jnp.where(on, w - rate.astype(w.dtype) * g, w), at, whole)
            return moved, jax.tree.map(lambda t, g: jnp.where(on, t + g, t), total, gradient)

        nothing = jax.tree.map(jnp.zeros_like, start)
        _, total = jax.lax.fori_loop(0, most_steps, local, (start, nothing))
        return jax.tree.map(lambda t: t / own.astype(t.dtype), total)

    def stepped(start: Params, gradient: Tree, view: View) -> Params:
        whole = gradient if penalty is None else jax.tree.map(jnp.add, gradient, penalty(start))
        rate = schedule(view.round)
        return jax.tree.map(lambda w, g: w - rate.astype(w.dtype) * g, start, whole)

    def value(key: Key, start: Params, batch: Batch, view: View) -> Tree:
        gradient = mean_gradient(key, start, batch, view)
        if mechanism.perturbs == "gradient":
            return gradient
        if mechanism.perturbs == "update":
            return jax.tree.map(lambda g: schedule(view.round).astype(g.dtype) * g, gradient)
        return stepped(start, gradient, view)

    def moved(start: Params, released: Tree, view: View) -> Params:
        if mechanism.perturbs == "gradient":
            return stepped(start, released, view)
        if mechanism.perturbs == "model":
            return released
        rest = start if penalty is None else stepped(start, jax.tree.map(jnp.zeros_like, start), view)
        return jax.tree.map(jnp.subtract, rest, released)

    def gain(view: View) -> Array:
        """How much more than one clipped gradient the value moves."""
        in_steps = jnp.ones(()) if mechanism.perturbs == "gradient" else schedule(view.round)
        if most_steps > 1 or sizes is None:
            return in_steps
        return in_steps / of_client(sizes, view)

    whole = mechanism if most_steps == 1 and sizes is None else mechanism.for_whole_batch()
    return Training(whole.amplified(gain), value, moved)


def client_init(key: Key, params: Params, views: Mapping[str, View]) -> Params:
    """A client carries the model that it was sent."""
    return params


def average(inbox: Inbox, kept: Params) -> Params:
    """Return the mean of what arrived; without any, what there is."""
    heard = jnp.any(inbox.arrived)
    found: Params = jax.tree.map(lambda new, old: jnp.where(heard, new, old), inbox.mean().private, kept)
    return found


def called_rounds(training: Training, cohort: int) -> tuple[Phase, Phase]:
    """Return the two phases of a round around a server: a uniform cohort is called, and it answers."""
    if isinstance(cohort, bool) or not isinstance(cohort, int) or cohort < 1:
        raise ConfigError(f"cohort = {cohort!r}: expected a whole number from 1 on, how many clients a server calls")

    def call(key: Key, state: Server, batch: Batch, view: View) -> tuple[Server, Tree]:
        return state._replace(called=1 + uniform_cohort(key, view.out.degree, cohort)), state.w

    def send(state: Server, released: Tree, view: View) -> tuple[Server, Outbox]:
        return state, share(released, to=state.called)

    def download(key: Key, state: Params, inbox: Inbox, view: View) -> Params:
        return average(inbox, state)

    def train(key: Key, state: Params, batch: Batch, view: View) -> tuple[Params, Tree]:
        return state, training.value(key, state, batch, view)

    def upload(state: Params, released: Tree, view: View) -> tuple[Params, Outbox]:
        return state, share(training.moved(state, released, view))

    def collect(key: Key, state: Server, inbox: Inbox, view: View) -> Server:
        return state._replace(w=average(inbox, state.w))

    return (
        Phase("downlink", call, unprotected, download, send, source="server", target="client"),
        Phase("uplink", train, training.mechanism, collect, upload, "client", "server", answers="downlink"),
    )


def around_one_server(given: Topology) -> Topology:
    """Take a graph of agents of one role as so many clients of one server, whoever they trust."""
    if set(given.roles) != {"peer"}:
        return given
    there = {"client": given.availability["peer"]} if "peer" in given.availability else {}
    return replace(star_roles(given.roles["peer"]), availability=there)


def with_clients(make: Callable[[Topology], Topology], **of_each: PerClient | None) -> Callable[[Topology], Topology]:
    """Return what a method makes of a topology, refusing one whose clients are not those that settings speak of."""
    lengths = {name: len(value) for name, value in of_each.items() if isinstance(value, Sequence | np.ndarray)}

    def topology(given: Topology) -> Topology:
        made = make(given)
        clients = made.roles.get("client", 0)
        for name, length in lengths.items():
            if length != clients:
                raise ConfigError(f"{name} has {length} entries, but there are {clients} clients; give one for each")
        return made

    return topology


def server_init(cohort: int) -> Callable[[Key, Params, Mapping[str, View]], Server]:
    """Return what makes a server's first state."""
    return lambda key, params, views: Server(params, jnp.zeros(cohort, jnp.int32))
