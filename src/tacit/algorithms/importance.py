"""How much clients and records count: the probabilities of importance sampling, 004 section 2.4, and local training.

Record n of client k is worth ||grad Q_n||, (2.46), (2.50); the client, (2.48), (2.51), is worth

    sqrt(sigma_k^2 + alpha_k ||grad J_k||^2)     alpha_k = 3 + 6 / (E_k B_k)                                  (2.49)
    sigma_k^2 = 6 / (E_k B_k N_k^2) sum_n ||grad Q_n||^2 / p_n                                                (2.25)

Probabilities are in proportion to the worth. A client that takes its batch as it comes draws nothing: it has no
sigma_k, alpha_k is the same for all, and it is worth ||grad J_k||.

Errata. An inclusion probability B p_n above 1 is none: shares are capped (`capped`). A record of share 0 would never
be drawn, whatever its gradient at another model, and 1 / p_n has no bound: a share is mixed with the uniform one,
(1 - floor) p + floor / N, so that no record counts more than 1 / floor times as much as without importance sampling;
this costs at most 10 log10(1 / (1 - floor)) dB of the gain.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from tacit.algorithms.cohorts import (
    Sample,
    capped,
    progressive_totals,
    systematic_cohort,
    systematic_draw,
    uniform_cohort,
)
from tacit.algorithms.federated import PerClient, numbers, of_client
from tacit.contract import Array, Batch, Key, Objective, Params, Schedule, Tree, View
from tacit.errors import ConfigError, DataError

Rule = Literal["uniform", "given", "current", "sampled"]
FLOOR = 0.1


class Shares(NamedTuple):
    """Normalised inclusion probabilities, before the cap. Make them with `optimal_shares`, or as you like."""

    clients: Any
    """(K,) p_k of every client; those of one server need not sum to 1."""
    records: Any = None
    """(K, places) p_n of every client's records, 0 where it has none; None where batches are taken as they come."""


Probabilities = Literal["uniform", "current", "sampled"] | Shares


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


def optimal_shares(
    objective: Objective,
    data: Batch,
    sizes: Any,
    model: Params,
    local_steps: PerClient = 1,
    batch_size: PerClient | None = None,
    floor: float = FLOOR,
) -> Shares:
    """Return the probabilities (2.46), (2.48) at a model, with w^o those that are optimal.

    `data` has leading axes (clients, places), as one round of `tacit.streams.whole`; `sizes` (clients,) says how many
    of the places are taken, the first ones.
    """
    check_floor(floor)
    clients = len(jax.tree.leaves(data)[0])
    steps, counts = (np.broadcast_to(n, clients) for n in (numbers("local_steps", local_steps), sizes))
    taken = None if batch_size is None else np.minimum(numbers("batch_size", batch_size), counts)
    draws = None if taken is None else steps * taken
    worth, records = _appraised(objective, floor, model, jax.tree.map(jnp.asarray, data), counts, draws)
    whole = mixed(worth, jnp.ones(clients, bool), floor)
    return Shares(np.asarray(whole), None if batch_size is None else np.asarray(records))


@partial(jax.jit, static_argnums=(0, 1))
def _appraised(
    objective: Objective, floor: float, model: Params, data: Batch, sizes: Array, draws: Array | None
) -> tuple[Array, Array]:
    def one(batch: Batch, size: Array, draws: Array | None) -> tuple[Array, Array]:
        return appraised(objective, floor, model, batch, size, draws)

    return jax.vmap(one, in_axes=(0, 0, None if draws is None else 0))(data, sizes, draws)


def appraised(
    objective: Objective, floor: float, model: Params, batch: Batch, size: Array, draws: Array | None
) -> tuple[Array, Array]:
    """Return what a client is worth at a model, and the shares of its records; `draws` are E_k B_k, None for none."""
    whole = _squared(jax.grad(objective.loss)(model, batch))
    if draws is None:
        return jnp.sqrt(whole), jnp.zeros(0)
    there = _there(batch, size)
    norms = jnp.where(there, _norms(record_gradients(objective, model, batch)), 0)
    p = mixed(norms, there, floor)
    return _worth(_spread(norms, p), whole, draws, size), p


def check_floor(floor: float) -> None:
    """Refuse a share of uniform sampling with which a record could have probability 0."""
    if not 0 < floor <= 1:
        raise ConfigError(f"floor = {floor!r}: expected a share of uniform sampling above 0, at most 1; 0.1 is usual")


def checked(
    probabilities: Probabilities, cohort: int, batch_size: PerClient | None, records: int | None, floor: float
) -> tuple[Rule, Shares | None, int]:
    """Refuse settings that do not go together; return the rule, and for how many records a client keeps shares."""
    check_floor(floor)
    if isinstance(cohort, bool) or not isinstance(cohort, int) or cohort < 1:
        raise ConfigError(f"cohort = {cohort!r}: expected a whole number from 1 on, how many clients a server calls")
    if isinstance(probabilities, Shares):
        return "given", *_checked_shares(probabilities, batch_size)
    if probabilities not in ("uniform", "current", "sampled"):
        raise ConfigError(f"probabilities = {probabilities!r}: expected 'uniform', 'current', 'sampled' or Shares")
    if probabilities != "sampled" or batch_size is None:
        return probabilities, None, 0
    if isinstance(records, bool) or not isinstance(records, int) or records < 1:
        raise ConfigError(
            f"records = {records!r} with probabilities='sampled': expected how many records the largest data set has, "
            "max(stream.data_size), since a client keeps a share for each"
        )
    return probabilities, None, records


def _checked_shares(shares: Shares, batch_size: PerClient | None) -> tuple[Shares, int]:
    given = Shares(*(None if table is None else np.asarray(table) for table in shares))
    tables = [table for table in given if table is not None]
    if any(not np.all(np.isfinite(table) & (table >= 0)) for table in tables) or given.clients.ndim != 1:
        raise ConfigError(
            f"shares of clients of shape {given.clients.shape}: expected (clients,), and finite numbers of at least 0 "
            "for clients and records"
        )
    if (batch_size is None) != (given.records is None):
        raise ConfigError(
            f"batch_size = {batch_size!r} and shares of records "
            f"{'are not given' if given.records is None else 'are given'}: give both, or neither"
        )
    if given.records is None:
        return given, 0
    if given.records.ndim != 2 or len(given.records) != len(given.clients):
        raise ConfigError(f"shares of records of shape {given.records.shape}: expected ({len(given.clients)}, places)")
    return given, int(given.records.shape[1])


def first_shares(given: Shares | None, places: int, batch_size: PerClient | None, view: View) -> Array:
    """Return (places, 1) the shares that a client begins with; of given ones, which stay, the progressive totals."""
    there = jnp.arange(places) < view.data_size
    equal = mixed(jnp.ones(places), there, 0.0)
    if given is None or given.records is None or batch_size is None:
        return equal[:, None]
    own = mixed(jnp.asarray(given.records, equal.dtype)[view.agent], there, 0.0)
    taken = _taken(numbers("batch_size", batch_size), view)
    return progressive_totals(capped(own, taken), taken)[:, None]


def mixed(worth: Array, there: Array, floor: float) -> Array:
    """Return shares in proportion to the worth, mixed with equal ones; 0 for what is not there."""
    equal = there / jnp.maximum(jnp.sum(there), 1).astype(worth.dtype)
    kept = jnp.where(there, worth, 0)
    total = jnp.sum(kept)
    return jnp.where(total > 0, (1 - floor) * kept / jnp.where(total > 0, total, 1) + floor * equal, equal)


def progressive_shares(worth: Array, live: Array, cohort: int, floor: float) -> Array:
    """Return (clients, 2) shares by worth, and the progressive totals (2.55) of what a cohort is drawn from."""
    taken = jnp.minimum(cohort, jnp.sum(live))
    totals = progressive_totals(capped(mixed(worth, live, floor), taken), taken)
    return jnp.stack([mixed(worth, live, 0.0), totals], axis=1)


def record_gradients(objective: Objective, params: Params, records: Batch) -> Tree:
    """Return the gradient of every record's loss, the regulariser included as in (2.72): leaves (records, ...)."""
    each = records._replace(weight=None)
    return jax.vmap(jax.grad(objective.loss), in_axes=(None, 0))(params, each)


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
    most_steps, most_records = int(steps.max()), int(sizes.max())

    def drawn(key: Key, p: Array, view: View) -> Sample:
        """Draw records: p are shares under "sampled", otherwise, where they stay, their progressive totals."""
        taken = _taken(sizes, view)
        if rule == "uniform":
            chosen = uniform_cohort(key, view.data_size, most_records, taken)
            return Sample(chosen, jnp.where(chosen >= 0, 1 / view.data_size.astype(p.dtype), 1))
        if rule == "sampled":
            even = mixed(p, jnp.arange(p.shape[0]) < view.data_size, floor)
            return systematic_cohort(key, capped(even, taken), most_records, taken)
        return systematic_draw(key, p, most_records, taken)

    def round_(key: Key, start: Params, gain: Array, share: Array, batch: Batch, view: View) -> Outcome:
        own, count, size = of_client(steps, view), _taken(sizes, view), view.data_size
        rate = schedule(view.round) / (own * gain)
        there = _there(batch, size)
        first = record_gradients(objective, start, batch) if rule in ("current", "sampled") else None
        norms = jnp.zeros(there.shape) if first is None else jnp.where(there, _norms(first), 0)
        now = share
        if rule == "current":
            now = progressive_totals(capped(mixed(norms, there, floor), count), count)  # (2.50)

        def local(e: Array, walk: tuple[Params, Array, Tree]) -> tuple[Params, Array, Tree]:
            at, p, total = walk
            sample = drawn(jax.random.fold_in(key, e), p, view)
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
        spread = _spread(norms, mixed(share, there, floor))
        return Outcome(model, last, _worth(spread, _squared(total) / jnp.square(own), own * count, size))

    def worth(model: Params, batch: Batch, view: View) -> Array:
        draws = of_client(steps, view) * _taken(sizes, view)
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
        return jnp.sqrt(_squared(gradient(model, batch)))

    return Training(round_, worth)


def redistributed(share: Array, chosen: Array, worth: Array) -> Array:
    """Let the chosen (-1: nobody) share out what they have together by their worth, the others keep theirs: (2.53)."""
    place = jnp.where(chosen >= 0, chosen, share.shape[0])
    mass = jnp.sum(share.at[place].get(mode="fill", fill_value=0))
    total = jnp.sum(worth)
    shared = share.at[place].set(mass * worth / jnp.where(total > 0, total, 1), mode="drop")
    return jnp.where(total > 0, shared, share)


def _spread(norms: Array, p: Array) -> Array:
    """Return sum_n ||grad Q_n||^2 / p_n, where every record has a share."""
    return jnp.sum(jnp.where(p > 0, jnp.square(norms) / jnp.where(p > 0, p, 1), 0))


def _worth(spread: Array, gradient: Array, draws: Array, records: Array) -> Array:
    """Return (2.48)'s numerator from sum_n ||grad Q_n||^2 / p_n, ||grad J_k||^2 and E_k B_k."""
    variability = 6 / draws * spread / jnp.square(records.astype(spread.dtype))
    return jnp.sqrt(variability + (3 + 6 / draws) * gradient)


def _norms(gradients: Tree) -> Array:
    return jnp.sqrt(sum(jnp.sum(jnp.square(g), axis=tuple(range(1, g.ndim))) for g in jax.tree.leaves(gradients)))


def _squared(tree: Tree) -> Array:
    return jnp.asarray(sum(jnp.sum(jnp.square(leaf)) for leaf in jax.tree.leaves(tree)))


def _there(batch: Batch, size: Array) -> Array:
    """Return which places of a batch hold a record."""
    if jnp.ndim(batch.y) == 0:
        raise DataError(
            "a batch is one record without an axis, of which none can be drawn; give each client its whole data set "
            "in every round (tacit.streams.whole), or take batches as they come (batch_size=None)"
        )
    return jnp.arange(batch.y.shape[0]) < size


def _taken(sizes: np.ndarray, view: View) -> Array:
    """Return how many records a client draws: B_k, or all it has."""
    return jnp.minimum(of_client(sizes, view), jnp.maximum(view.data_size, 1))
