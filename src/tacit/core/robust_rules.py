"""Robust combinations of vectors, of which up to b may be lies.

x is (E, d), one row per sender; `here` says whose row arrived, and rows that did not are never read. Of m rows:

    trimmed_mean       per coordinate the weighted mean without the b largest and the b smallest values
    median             per coordinate the middle value
    geometric_median   the point with the least sum of distances to the rows, by Weiszfeld's iteration from the median
    clipped            c + sum_j w_j min(1, tau / |x_j - c|) (x_j - c), where c is the agent's own row

Order statistics come from ranks, counted against one row after another: on a CPU some forty times as fast as a sort of
so few rows. Of equal values the one with the smaller weight comes first, so that the order of senders does not matter.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import NamedTuple

import jax
import jax.numpy as jnp

from tacit.core.checks import proportion, whole_number
from tacit.core.contract import Array
from tacit.core.errors import ConfigError


class Rows(NamedTuple):
    """Vectors that an agent combines."""

    x: Array
    """(E, d)."""
    here: Array
    """(E,) whether a row arrived."""
    weight: Array
    """(E,) above 0 where it did, of sum 1."""
    own: Array
    """(E,) whether it is the agent's own."""


class Rule(NamedTuple):
    """One way to combine: `combine` of rows, of which up to `liars` may be lies."""

    name: str
    liars: int
    combine: Callable[[Rows], Array]


def trimmed_mean(liars: int = 1) -> Rule:
    """Return the rule that leaves out the `liars` largest and smallest values of every coordinate."""

    def combine(rows: Rows) -> Array:
        count = jnp.sum(rows.here)
        cut = jnp.minimum(liars, (count - 1) // 2)  # of too few, as many as leave one
        rank = _ranks(rows)
        kept = (rank >= cut) & (rank < count - cut) & rows.here[:, None]
        return _mean(rows.x, jnp.where(kept, rows.weight[:, None], 0))

    return Rule("trimmed_mean", _checked(liars), combine)


def median(liars: int = 1) -> Rule:
    """Return the rule that takes the middle value of every coordinate."""
    return Rule("median", _checked(liars), _middle)


def geometric_median(liars: int = 1, iterations: int = 16, smoothing: float = 1e-6) -> Rule:
    """Return the rule of the point nearest to all rows; distances below `smoothing` count as that."""
    whole_number("iterations", iterations, "16 are enough", most=1000)
    proportion("smoothing", smoothing, "a distance, e.g. 1e-6")

    def combine(rows: Rows) -> Array:
        def nearer(_: Array, at: Array) -> Array:
            pull = jnp.where(rows.here, 1 / jnp.maximum(distances(rows, at), smoothing), 0)
            return _mean(rows.x, pull[:, None])

        found: Array = jax.lax.fori_loop(0, iterations, nearer, _middle(rows))
        return found

    return Rule("geometric_median", _checked(liars), combine)


def clipped(liars: int = 1, tau: float | None = None) -> Rule:
    """Return the rule of clipped differences: to length `tau`, or to that of the 2 b + 1st longest."""
    if tau is not None and not tau > 0:
        raise ConfigError(f"tau = {tau!r}: expected a distance above 0, or none: then it follows from the neighbours'")

    def combine(rows: Rows) -> Array:
        alone = jnp.any(rows.own)
        centre = jnp.where(alone, _mean(rows.x, jnp.where(rows.own, 1, 0)[:, None]), _middle(rows))
        length = distances(rows, centre)
        others = rows.here & ~rows.own
        longest = _of_rank(length, others, jnp.sum(others) - 1 - 2 * liars) if tau is None else jnp.asarray(tau)
        # A length beyond the largest number is infinite: such a row has no say at all.
        share = jnp.where(length <= longest, 1, longest / jnp.where(length > 0, length, 1))
        share = jnp.where(rows.here & jnp.isfinite(length), share, 0).astype(rows.x.dtype)
        moved = jnp.where(share[:, None] > 0, rows.x - centre, 0)
        return centre + jnp.sum((rows.weight * share)[:, None] * moved, axis=0)

    return Rule("clipped", _checked(liars), combine)


RULES: Mapping[str, Callable[..., Rule]] = MappingProxyType(
    {"clipped": clipped, "trimmed_mean": trimmed_mean, "median": median, "geometric_median": geometric_median}
)
"""Name -> its constructor."""


def distances(rows: Rows, at: Array) -> Array:
    """Return (E,) how far the rows lie from a point; 0 where none arrived."""
    apart = jnp.where(rows.here[:, None], rows.x - at, 0)
    return jnp.sqrt(jnp.sum(jnp.square(apart), axis=1))


def usual_distance(length: Array, others: Array) -> Array:
    """Return the middle one of the others' distances, of which fewer than half can be lies."""
    return _of_rank(length, others, (jnp.sum(others) - 1) // 2)


def _checked(liars: int) -> int:
    return whole_number("liars", liars, "how many of an agent's neighbours may lie", least=0, most=10_000)


def _ranks(rows: Rows) -> Array:
    """Return (E, d): how many of the values that arrived come before each one in its coordinate."""
    number = jnp.arange(rows.weight.size)

    def count(k: Array, rank: Array) -> Array:
        value, weight = rows.x[k], rows.weight[k]
        first = (weight < rows.weight) | ((weight == rows.weight) & (k < number))
        before = jnp.where(first[:, None], value <= rows.x, value < rows.x)
        return rank + (before & rows.here[k])

    found: Array = jax.lax.fori_loop(0, rows.weight.size, count, jnp.zeros(rows.x.shape, jnp.int32))
    return found


def _middle(rows: Rows) -> Array:
    count, rank = jnp.sum(rows.here), _ranks(rows)
    kept = ((rank == (count - 1) // 2) | (rank == count // 2)) & rows.here[:, None]
    return _mean(rows.x, kept.astype(rows.x.dtype))


def _of_rank(values: Array, here: Array, rank: Array) -> Array:
    """Return the value of this rank among those that are here, from 0 on; of none, 0."""
    ordered = jnp.sort(jnp.where(here, values, jnp.inf))
    found = ordered[jnp.clip(rank, 0, values.size - 1)]
    return jnp.where(jnp.any(here), found, 0)


def _mean(x: Array, weight: Array) -> Array:
    """Weighted mean over the rows; those of weight 0 are not read, whatever they hold."""
    weight = weight.astype(x.dtype)
    total = jnp.sum(weight, axis=0)
    parts = jnp.where(weight > 0, x, 0) * weight
    return jnp.sum(parts, axis=0) / jnp.where(total > 0, total, 1)
