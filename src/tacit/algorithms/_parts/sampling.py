"""Client sampling: cohorts drawn without replacement, uniformly or with given inclusion probabilities.

Numbers are drawn from 0 to count - 1, for `jit` and `vmap`; a server adds 1 to get the slot of a client.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from tacit.core.contract import Array, Key


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
    """(size,) inclusion probability of each, divided by how many are drawn: the p of Rizk (2023), (2.6), by which an
    estimate is divided to be unbiased; 1 in places that are not filled."""


def systematic_cohort(key: Key, share: Array, size: int, taken: Array | int | None = None) -> Sample:
    """Draw with inclusion probabilities taken * share: systematic sampling, Rizk (2023), (2.55).

    `share` sums to 1 and is at most 1 / taken, see `capped`. `taken` as in `uniform_cohort`.
    """
    return systematic_draw(key, progressive_totals(share, size if taken is None else taken), size, taken)


def progressive_totals(share: Array, taken: Array | int) -> Array:
    """Return the sums of the first inclusion probabilities, (2.55), which end at `taken`."""
    total = jax.lax.cummax(jnp.cumsum(share))  # a sum taken as a tree may fall by a rounding
    return total * (jnp.asarray(taken, share.dtype) / total[-1])


def systematic_draw(key: Key, total: Array, size: int, taken: Array | int | None = None) -> Sample:
    """Draw from progressive totals, in O(size log count): for a server that draws from the same ones in every round.

    Number k is drawn if one of d, d + 1, d + 2, ..., for one uniform d in [0, 1), falls between the totals up to k - 1
    and up to k. Its probability is read off the totals: what rounding does to them biases no estimate.
    """
    wanted = jnp.asarray(size if taken is None else taken, total.dtype)
    place = jnp.arange(size, dtype=total.dtype)
    points = jax.random.uniform(key, (), total.dtype) + place
    found = jnp.minimum(jnp.searchsorted(total, points, side="right"), total.shape[0] - 1).astype(jnp.int32)
    width = total[found] - jnp.where(found > 0, total[jnp.maximum(found - 1, 0)], 0)
    filled = place < wanted
    return Sample(jnp.where(filled, found, -1), jnp.where(filled, width / wanted, 1))


def capped(weight: Array, size: Array | int) -> Array:
    """Return shares in proportion to the weights, none above 1 / size: an inclusion probability is at most 1.

    What is taken in any case has the share 1 / size; the others keep their proportions. A share above the cap
    is set to it, which gives the others more, until no other is above: in fewer than `size` steps. Entries with a
    weight of 0 get a share only if the others are fewer than `size`.
    """
    most = 1 / jnp.asarray(size, weight.dtype)

    def shares(at_cap: Array) -> Array:
        rest = jnp.where(at_cap, 0, weight)
        left, total = 1 - most * jnp.sum(at_cap), jnp.sum(rest)
        equal = left / jnp.maximum(jnp.sum(~at_cap), 1)  # where all with a weight are at the cap
        return jnp.where(at_cap, most, jnp.where(total > 0, rest * (left / jnp.where(total > 0, total, 1)), equal))

    def beyond(at_cap: Array) -> Array:
        return ~at_cap & (shares(at_cap) > most)

    at_cap: Array = jax.lax.while_loop(
        lambda at_cap: jnp.any(beyond(at_cap)), lambda at_cap: at_cap | beyond(at_cap), jnp.zeros(weight.shape, bool)
    )
    return shares(at_cap)
