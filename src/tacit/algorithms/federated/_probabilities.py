"""Normalised inclusion probabilities of clients and records: given or made, mixed with equal ones, shared out anew.

An inclusion probability is taken * share and at most 1, see `cohorts.capped`.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

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
from tacit.algorithms._parts.validation import whole_number
from tacit.core.contract import Array, Key, View
from tacit.core.errors import ConfigError

Rule = Literal["uniform", "given", "current", "sampled"]
FLOOR = 0.1


class Shares(NamedTuple):
    """Normalised inclusion probabilities, before the cap. Make them with `optimal_shares`, or as you like."""

    clients: Any
    """(K,) p_k of every client; those of one server need not sum to 1."""
    records: Any = None
    """(K, places) p_n of every client's records, 0 where it has none; None where batches are taken as they come."""


Probabilities = Literal["uniform", "current", "sampled"] | Shares


def check_floor(floor: float) -> None:
    """Refuse a share of uniform sampling with which a record could have probability 0."""
    if not 0 < floor <= 1:
        raise ConfigError(f"floor = {floor!r}: expected a share of uniform sampling above 0, at most 1; 0.1 is usual")


def checked(
    probabilities: Probabilities, cohort: int, batch_size: PerClient | None, records: int | None, floor: float
) -> tuple[Rule, Shares | None, int]:
    """Refuse settings that do not go together; return the rule, and for how many records a client keeps shares."""
    check_floor(floor)
    whole_number("cohort", cohort, "how many clients a server calls")
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
    """Let the chosen (-1: nobody) share out what they have together by their worth, the others keep theirs: (2.53)."""
    place = jnp.where(chosen >= 0, chosen, share.shape[0])
    mass = jnp.sum(share.at[place].get(mode="fill", fill_value=0))
    total = jnp.sum(worth)
    shared = share.at[place].set(mass * worth / jnp.where(total > 0, total, 1), mode="drop")
    return jnp.where(total > 0, shared, share)


def records_taken(sizes: np.ndarray, view: View) -> Array:
    """Return how many records a client draws: B_k, or all it has."""
    return jnp.minimum(of_client(sizes, view), jnp.maximum(view.data_size, 1))
