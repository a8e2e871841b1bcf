"""Local training under importance sampling, 004 (2.10), and what clients and servers of `importance_fedavg` carry."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from tacit.algorithms._parts.per_client import PerClient, numbers, of_client
from tacit.algorithms._parts.sampling import capped, progressive_totals
from tacit.algorithms.federated._importance import (
    appraised,
    record_gradients,
    record_norms,
    records_there,
    spread_of,
    squared_norm,
    worth_of,
)
from tacit.algorithms.federated._probabilities import Rule, drawn_records, mixed, records_taken, redistributed
from tacit.core.contract import Array, Batch, Key, Objective, Params, Schedule, Tree, View


class Client(NamedTuple):
    """What a client carries."""

    w: Params
    gain: Array
    """K p_k of the round in which it was called last."""
    share: Array
    """(places, 1) p_n of its records; no places where none are kept. (The simulator copies vectors round by round.)"""


class Server(NamedTuple):
    """What a server carries."""

    w: Params
    called: Array
    """(L,) slots of the clients that it calls in this round, 0 for none."""
    shares: Array
    """(slots, 2) p_k of its clients, and progressive totals of what is drawn from."""


class Outcome(NamedTuple):
    """What a client comes to in a round."""

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
