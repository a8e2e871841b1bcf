"""Probabilities of importance sampling: given, made of gradients, or shared out anew (Rizk (2023), sec. 2.4).

Record n of client k is worth ||grad Q_n||, (2.46), (2.50); the client, (2.48), (2.51), is worth

    sqrt(sigma_k^2 + alpha_k ||grad J_k||^2)     alpha_k = 3 + 6 / (E_k B_k)                                  (2.49)
    sigma_k^2 = 6 / (E_k B_k N_k^2) sum_n ||grad Q_n||^2 / p_n                                                (2.25)

Probabilities are in proportion to the worth. A client that takes its batch as it comes draws nothing: it has no
sigma_k, alpha_k is the same for all, and it is worth ||grad J_k||.

An inclusion probability is the number drawn times the share p. Errata. One above 1 is none: shares are capped
(`sampling.capped`). A record of share 0 would
never be drawn, whatever its gradient at another model, and 1 / p_n has no bound: a share is mixed with the uniform one,
(1 - floor) p + floor / N, so that no record counts more than 1 / floor times as much as without importance sampling;
this costs at most 10 log10(1 / (1 - floor)) dB of the gain.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from tacit.algorithms._parts.per_client import PerClient, numbers, of_client
from tacit.algorithms._parts.sampling import (
    Sample,
    capped,
    progressive_totals,
    systematic_cohort,
    systematic_draw,
    uniform_cohort,
)
from tacit.core.checks import proportion, whole_number
from tacit.core.contract import Array, Batch, Key, Objective, Params, Tree, View
from tacit.core.errors import ConfigError, DataError

Rule = Literal["uniform", "given", "current", "sampled"]
FLOOR = 0.1


class Shares(NamedTuple):
    """Normalised inclusion probabilities of clients and records, made by `optimal_shares` or by hand.

    Args:
      clients: (K,) p_k of every client, from 0 on; those of one server need not sum to 1.
      records: (K, places) p_n of every client's records, 0 where it has none; None where batches are taken as they
        come.

    Example:
      >>> import tacit
      >>> tacit.algorithms.Shares(clients=[0.5, 0.25, 0.25]).records is None
      True
    """

    clients: Any
    """(K,) p_k of every client; those of one server need not sum to 1."""
    records: Any = None
    """(K, places) p_n of every client's records, 0 where it has none; None where batches are taken as they come."""


Probabilities = Literal["uniform", "current", "sampled"] | Shares


def validate_floor(floor: float) -> None:
    """Refuse a share of uniform sampling with which a record could have probability 0."""
    proportion("floor", floor, "the share of uniform sampling; 0.1 is usual", one=True)


class Sampling(NamedTuple):
    """How clients and records are drawn."""

    rule: Rule
    given: Shares | None
    places: int
    """For how many records a client keeps a probability."""


def validate_probabilities(
    probabilities: Probabilities, cohort: int, batch_size: PerClient | None, records: int | None, floor: float
) -> Sampling:
    """Return how clients and records are drawn; refuse settings that do not go together."""
    validate_floor(floor)
    whole_number("cohort", cohort, "how many clients a server calls")
    if isinstance(probabilities, Shares):
        return Sampling("given", *_validated_shares(probabilities, batch_size))
    if probabilities not in ("uniform", "current", "sampled"):
        raise ConfigError(f"probabilities = {probabilities!r}: expected 'uniform', 'current', 'sampled' or Shares")
    if probabilities != "sampled" or batch_size is None:
        return Sampling(probabilities, None, 0)
    size = "with probabilities='sampled' the records of the largest data set, max(stream.data_size): each has a share"
    return Sampling(probabilities, None, whole_number("records", records, size))


def _validated_shares(shares: Shares, batch_size: PerClient | None) -> tuple[Shares, int]:
    given = Shares(*(None if table is None else np.asarray(table) for table in shares))
    tables = [table for table in given if table is not None]
    numbers = all(table.dtype.kind in "fiu" for table in tables)
    if not numbers or any(not np.all(np.isfinite(table) & (table >= 0)) for table in tables) or given.clients.ndim != 1:
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


def first_shares(given: Shares | None, places: int, batch_size: PerClient | None, view: View) -> Array:
    """Return (places, 1) the shares that a client begins with; of given ones, which stay, the progressive totals."""
    there = jnp.arange(places) < view.data_size
    equal = mixed(jnp.ones(places), there, 0.0)
    if given is None or given.records is None or batch_size is None:
        return equal[:, None]
    own = mixed(jnp.asarray(given.records, equal.dtype)[view.agent], there, 0.0)
    taken = records_taken(numbers("batch_size", batch_size), view)
    return progressive_totals(capped(own, taken), taken)[:, None]


def drawn_records(key: Key, rule: Rule, p: Array, sizes: np.ndarray, floor: float, view: View) -> Sample:
    """Draw a client's records: p are shares under "sampled", otherwise, where they stay, their progressive totals."""
    taken, most = records_taken(sizes, view), int(sizes.max())
    if rule == "uniform":
        chosen = uniform_cohort(key, view.data_size, most, taken)
        return Sample(chosen, jnp.where(chosen >= 0, 1 / view.data_size.astype(p.dtype), 1))
    if rule == "sampled":
        even = mixed(p, jnp.arange(p.shape[0]) < view.data_size, floor)
        return systematic_cohort(key, capped(even, taken), most, taken)
    return systematic_draw(key, p, most, taken)


def redistributed(share: Array, chosen: Array, worth: Array) -> Array:
    """Share out anew, by worth, what the chosen (-1: none) have together; the others keep theirs: (2.53)."""
    place = jnp.where(chosen >= 0, chosen, share.shape[0])
    mass = jnp.sum(share.at[place].get(mode="fill", fill_value=0))
    total = jnp.sum(worth)
    shared = share.at[place].set(mass * worth / jnp.where(total > 0, total, 1), mode="drop")
    return jnp.where(total > 0, shared, share)


def records_taken(sizes: np.ndarray, view: View) -> Array:
    """Return how many records a client draws: B_k, or all it has."""
    return jnp.minimum(of_client(sizes, view), jnp.maximum(view.data_size, 1))


def optimal_shares(
    objective: Objective,
    data: Batch,
    sizes: Any,
    model: Params,
    local_steps: PerClient = 1,
    batch_size: PerClient | None = None,
    floor: float = FLOOR,
) -> Shares:
    """Probabilities of importance sampling at a model; at the optimum those are optimal.

    Args:
      objective: Loss and regulariser, e.g. `tacit.objectives.logistic(l2=1e-4)`.
      data: Batch with leading axes (clients, places), as one round of `tacit.streams.whole`.
      sizes: (clients,) how many of the places are taken, the first ones.
      model: Parameters at which gradients are taken.
      local_steps: Gradient steps of a client in a round, from 1 on; one number, or one per client.
      batch_size: Records drawn for each step, without replacement, from 1 on; one number, or one per client; by default
        the batch as it comes.
      floor: Part of the probabilities that is uniform, above 0, at most 1; no record counts more than 1 / floor times.

    Returns:
      Probabilities for `importance_fedavg(probabilities=...)`.

    Example:
      >>> import numpy as np, tacit
      >>> from tacit.streams import Batch
      >>> data = Batch(np.array([[[1.0], [1.0]], [[3.0], [3.0]]]), np.ones((2, 2)))
      >>> shares = tacit.algorithms.optimal_shares(tacit.objectives.squared(), data, [2, 2], np.zeros(1), floor=0.1)
      >>> [round(float(share), 3) for share in shares.clients]
      [0.275, 0.725]

    References:
      Rizk (2023), thesis, EPFL, (2.46), (2.48).
    """
    validate_floor(floor)
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
    whole = squared_norm(jax.grad(objective.loss)(model, batch))
    if draws is None:
        return jnp.sqrt(whole), jnp.zeros(0)
    there = records_there(batch, size)
    norms = jnp.where(there, record_norms(record_gradients(objective, model, batch)), 0)
    p = mixed(norms, there, floor)
    return worth_of(spread_of(norms, p), whole, draws, size), p


def record_gradients(objective: Objective, params: Params, records: Batch) -> Tree:
    """Return the gradient of every record's loss, the regulariser included as in (2.72): leaves (records, ...)."""
    each = records._replace(weight=None)
    return jax.vmap(jax.grad(objective.loss), in_axes=(None, 0))(params, each)


def spread_of(norms: Array, p: Array) -> Array:
    """Return sum_n ||grad Q_n||^2 / p_n, where every record has a share."""
    return jnp.sum(jnp.where(p > 0, jnp.square(norms) / jnp.where(p > 0, p, 1), 0))


def worth_of(spread: Array, gradient: Array, draws: Array, records: Array) -> Array:
    """Return (2.48)'s numerator from sum_n ||grad Q_n||^2 / p_n, ||grad J_k||^2 and E_k B_k."""
    variability = 6 / draws * spread / jnp.square(records.astype(spread.dtype))
    return jnp.sqrt(variability + (3 + 6 / draws) * gradient)


def record_norms(gradients: Tree) -> Array:
    """Return the norm of each record's gradient."""
    return jnp.sqrt(sum(jnp.sum(jnp.square(g), axis=tuple(range(1, g.ndim))) for g in jax.tree.leaves(gradients)))


def squared_norm(tree: Tree) -> Array:
    """Return the squared norm of all leaves together."""
    return jnp.asarray(sum(jnp.sum(jnp.square(leaf)) for leaf in jax.tree.leaves(tree)))


def records_there(batch: Batch, size: Array) -> Array:
    """Return which places of a batch hold a record."""
    if jnp.ndim(batch.y) == 0:
        raise DataError(
            "a batch is one record without an axis, of which none can be drawn; give each client its whole data set "
            "in every round (tacit.streams.whole), or take batches as they come (batch_size=None)"
        )
    return jnp.arange(batch.y.shape[0]) < size
