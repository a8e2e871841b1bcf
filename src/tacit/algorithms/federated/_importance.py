"""How much clients and records count: the probabilities of importance sampling, 004 section 2.4.

Record n of client k is worth ||grad Q_n||, (2.46), (2.50); the client, (2.48), (2.51), is worth

    sqrt(sigma_k^2 + alpha_k ||grad J_k||^2)     alpha_k = 3 + 6 / (E_k B_k)                                  (2.49)
    sigma_k^2 = 6 / (E_k B_k N_k^2) sum_n ||grad Q_n||^2 / p_n                                                (2.25)

Probabilities are in proportion to the worth. A client that takes its batch as it comes draws nothing: it has no
sigma_k, alpha_k is the same for all, and it is worth ||grad J_k||.

Errata. An inclusion probability B p_n above 1 is none: shares are capped (`cohorts.capped`). A record of share 0 would
never be drawn, whatever its gradient at another model, and 1 / p_n has no bound: a share is mixed with the uniform one,
(1 - floor) p + floor / N, so that no record counts more than 1 / floor times as much as without importance sampling;
this costs at most 10 log10(1 / (1 - floor)) dB of the gain.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tacit.algorithms._parts.per_client import PerClient, numbers
from tacit.algorithms.federated._probabilities import FLOOR, Shares, check_floor, mixed
from tacit.core.contract import Array, Batch, Objective, Params, Tree
from tacit.core.errors import DataError


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
