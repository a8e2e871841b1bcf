"""Declared sensitivities made true by the runtime, whatever a method's code did.

A peer lets nothing out but what one record can move by the declared sensitivity s, in the norm of the noise, at most:

- A mean over h records (the usual case: the places of a batch, or `Mechanism.mean_over` where these are fewer) is taken
  apart: `compute` is asked for each record by itself, what it says of one is scaled down to h s / 2, and their mean
  leaves. Replacing a record changes one of h terms, by at most 2 (h s / 2) / h = s. Where more records are there than h
  (an agent's few rows, several times each), the mean is over all of them, which changes less.
- A value that cannot be taken apart (`mean_over` without `apart`: several local steps, a local problem solved to the
  end) is scaled down as a whole to n s / 2, n being how many records it is a mean over. For n = 1 the argument is as
  above; for n > 1 the method answers for the rest, and the audit attacks it.

What was not finite becomes zero. Noise without a bound on what a record changes (an infinite sensitivity) promises
nothing and is left alone. A method whose value is made of its records' clipped parts alone is changed by rounding only;
where the change is larger, the release is counted as cut. What does not depend on data (a regulariser) joins in `emit`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp

from tacit.core.contract import Array, Batch, Clip, Extent, Mechanism, Tree, View
from tacit.privacy.clipping import clip
from tacit.privacy.per_record.blocks import in_blocks, records_at_once
from tacit.privacy.per_record.records import present_in, records_in

NOTICED = 1e-3
"""A change by more than this share of the sensitivity is no rounding."""


class Enforced(NamedTuple):
    """A value that keeps to its declaration."""

    value: Tree
    cut: Array
    """Whether it had to be changed for that."""


def enforced(
    mechanism: Mechanism, value: Tree, batch: Batch, view: View, of_one: Callable[[Batch], Tree], sensitivity: Array
) -> Enforced:
    """Return the value as it may leave; `of_one` gives what `compute` would release of a batch with one place."""
    places = records_in(batch)
    extent = Extent(sum(leaf.size for leaf in jax.tree.leaves(value)), places)
    norm = _norm(mechanism)
    dataset, mean_over = mechanism.adjacency == "dataset", mechanism.mean_over
    records = jnp.asarray(1 if dataset else places) if mean_over is None else mean_over(view, extent)
    whole = dataset or (mean_over is not None and not mechanism.apart)
    if whole or jnp.ndim(getattr(batch, "y", 0)) == 0:
        kept = _within(value, sensitivity / 2 * records, norm)
    else:
        axes = jax.tree.map(lambda leaf: 0 if jnp.ndim(leaf) else None, batch)
        single = jax.tree.map(lambda leaf: leaf[:, None] if jnp.ndim(leaf) else leaf, batch)
        limit = sensitivity / 2 * records

        def together(some: Batch) -> Tree:
            each = jax.vmap(lambda record: _within(of_one(record), limit, norm), in_axes=(axes,))(some)
            return jax.tree.map(lambda leaf: jnp.sum(leaf, axis=0), each)

        count = jnp.maximum(records, present_in(batch))
        summed = in_blocks(together, single, records_at_once(value))
        kept = jax.tree.map(lambda leaf: leaf / count.astype(leaf.dtype), summed)
    apart = jax.tree.map(lambda a, b: jnp.asarray(a - b, jnp.result_type(float)), value, kept)
    return Enforced(kept, ~(_size(apart, norm) <= NOTICED * sensitivity))


def _norm(mechanism: Mechanism) -> str:
    if mechanism.adjacency == "component":
        return "linf"
    return "l2" if mechanism.distribution == "gaussian" else "l1"


def _within(value: Tree, limit: Array, norm: str) -> Tree:
    """Scale a value down to a limit, which `clip` does exactly for a bound that is known beforehand: 1."""
    safe = jnp.where((limit > 0) & jnp.isfinite(limit), limit, 1)
    units = jax.tree.map(lambda leaf: leaf / safe.astype(leaf.dtype), value)
    inside = clip(units, Clip(1.0, norm))  # type: ignore[arg-type]

    def scaled(unit: Array, leaf: Array) -> Array:
        return jnp.where(jnp.isinf(limit), leaf, jnp.where(limit > 0, unit * safe.astype(leaf.dtype), 0))

    return jax.tree.map(scaled, inside, value)


def _size(value: Tree, norm: str) -> Array:
    whole = jnp.concatenate([jnp.abs(leaf).reshape(-1) for leaf in jax.tree.leaves(value)])
    if norm == "linf":
        return jnp.max(whole)
    return jnp.sum(whole) if norm == "l1" else jnp.sqrt(jnp.sum(jnp.square(whole)))
