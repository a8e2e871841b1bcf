"""Batch size of an agent's mean, rows of a batch, and the mechanism of a mean over an agent's own records."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from tacit.core.contract import Array, Batch, Mechanism, View
from tacit.core.errors import ConfigError
from tacit.privacy import present_in, records_in


def own_records(view: View, places: int) -> Array:
    """Return over how many records an agent's mean is: its data set where a batch holds that, else the batch."""
    return jnp.where(view.data_size > 0, jnp.minimum(view.data_size, places), places)


def counted(batch: Batch, view: View) -> Array:
    """Return what a sum over a batch is divided by: the agent's own records, or all that are there if these are more.

    So D_k where a batch holds a whole data set, however many places there are for larger ones, and the places where few
    records fill them again and again. What is not there where it is expected (a record that cannot be used) counts.
    """
    return jnp.maximum(own_records(view, records_in(batch)), present_in(batch))


def of_own_records(mechanism: Mechanism, apart: bool = False) -> Mechanism:
    """Return the mechanism for a mean over an agent's own records instead of the places of a batch."""
    return mechanism.over(lambda view, extent: own_records(view, extent.records), apart)


def records_held(batch: Batch, view: View) -> Array:
    """Return how many records a client can draw from: its data set, without the padding; of a stream, its batch."""
    if jnp.ndim(getattr(batch, "y", 0)) == 0:
        raise ConfigError(
            "batch_size is given, but a round brings a client one record only, so that there is nothing to draw from; "
            "leave it out, or feed whole data sets (tacit.streams.whole)"
        )
    return own_records(view, records_in(batch))


def rows(batch: Batch, chosen: Array) -> Batch:
    """Take records out of a batch; places numbered -1 get weight 0, others their own."""
    taken = jax.tree.map(lambda leaf: leaf[jnp.maximum(chosen, 0)], batch)
    own = 1 if taken.weight is None else taken.weight
    return taken._replace(weight=jnp.where(chosen >= 0, own, 0).astype(jnp.result_type(float)))
