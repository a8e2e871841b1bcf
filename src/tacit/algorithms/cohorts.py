"""Who takes part: cohorts drawn without replacement, uniformly or with given inclusion probabilities.

Numbers are drawn from 0 to count - 1, for `jit` and `vmap`; a server adds 1 to get the slot of a client.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from tacit.contract import Array, Key


def uniform_cohort(key: Key, count: Array | int, size: int, taken: Array | int | None = None) -> Array:
    """Draw `size` different numbers below `count`, every set of them equally likely, in O(size^2) whatever `count` is.

    Floyd's algorithm (Bentley and Floyd 1987). `taken` is how many of the places are to be filled, all by default;
    empty ones are -1, as are those beyond `count`.
    """
    wanted = jnp.asarray(size if taken is None else taken, jnp.int32)
    last = jnp.asarray(count, jnp.int32) - wanted + jnp.arange(size, dtype=jnp.int32)
    last = jnp.where(jnp.arange(size) < wanted, last, -1)
    draw = jax.random.randint(key, (size,), 0, jnp.maximum(last + 1, 1), jnp.int32)

    def take(k: Array, chosen: Array) -> Array:
        number = jnp.where(jnp.any(chosen == draw[k]), last[k], draw[k])
        return chosen.at[k].set(jnp.where(last[k] < 0, -1, number))

    chosen: Array = jax.lax.fori_loop(0, size, take, jnp.full(size, -1, jnp.int32))
    return chosen


class Sample(NamedTuple):
    """A cohort drawn with unequal probabilities."""

    chosen: Array
    """(size,) numbers, all different; -1 in places that are not filled."""
    share: Array
    """(size,) inclusion probability of each, divided by how many are drawn: the p of 004 (2.6), by which an estimate is
    divided to be unbiased; 1 in places that are not filled."""


def systematic_cohort(key: Key, share: Array, size: int, taken: Array | int | None = None) -> Sample:
    """Draw with inclusion probabilities taken * share: systematic sampling on progressive totals, 004 (2.55).

    Number k is drawn if one of d, d + 1, d + 2, ..., for one uniform d in [0, 1), falls between the totals up to k - 1
    and up to k. `share` sums to 1 and is at most 1 / taken, see `capped`. `taken` as in `uniform_cohort`.
    """
    wanted = jnp.asarray(size if taken is None else taken, share.dtype)
    total = jnp.cumsum(share)
    total = total * (wanted / total[-1])  # rounding must not push the last point beyond the end
    place = jnp.arange(size, dtype=share.dtype)
    points = jax.random.uniform(key, (), share.dtype) + place
    found = jnp.minimum(jnp.searchsorted(total, points, side="right"), share.shape[0] - 1).astype(jnp.int32)
    filled = place < wanted
    return Sample(jnp.where(filled, found, -1), jnp.where(filled, share[found], 1))


def capped(weight: Array, size: Array | int) -> Array:
    """Return shares in proportion to the weights, none above 1 / size: an inclusion probability is at most 1.

    What is taken in any case has the share 1 / size; the others keep their proportions. The number of those at the
    cap is found exactly, from the sorted weights. Entries with a weight of 0 get a share only if the others are fewer
    than `size`.
    """
    most = 1 / jnp.asarray(size, weight.dtype)
    count = weight.shape[0]
    ordered = jnp.sort(weight)[::-1]
    rest = jnp.cumsum(ordered[::-1])[::-1]  # sum of the k-th largest and all smaller ones
    number = jnp.arange(count, dtype=weight.dtype)
    left = 1 - number * most  # what k entries at the cap leave for the rest
    fits = ordered * left <= most * rest  # with k at the cap the largest of the rest is within it
    k = jnp.argmax(fits)
    scale = left[k] / jnp.where(rest[k] > 0, rest[k], 1)
    equal = left[k] / jnp.maximum(count - k, 1)  # where all with a weight are at the cap
    return jnp.where(rest[k] > 0, jnp.minimum(weight * scale, most), jnp.where(weight > 0, most, equal))
