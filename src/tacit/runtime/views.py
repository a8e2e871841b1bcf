"""Views: all that one agent, or one bucket of agents, knows in a phase."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from tacit.core.contract import Array, Links, View


def empty_links(shape: tuple[int, ...], dtype: jnp.dtype) -> Links:
    """Return the links of an agent on the side where a phase gives it none; shape (1,) or (1, agents)."""
    return Links(jnp.full(shape, -1, jnp.int32), jnp.zeros(shape, bool), jnp.zeros(shape, dtype))


def make_view(
    *,
    agent: Array | int,
    round: Array | int,
    out: Links,
    into: Links,
    present: Array | bool | None = None,
    data_size: Array | int = 0,
    cluster: Array | int = 0,
) -> View:
    """Return the view of one agent, or of a bucket of agents side by side.

    Args:
      agent: Id within the role; an array of ids makes the view of a bucket.
      round: t = 1, 2, ...; 0 for first states.
      out: Links to those it sends to; `empty_links` where the phase gives it none.
      into: Links from those it hears; likewise.
      present: Whether it takes part in the round; None: it does.
      data_size: Number of own samples; 0 for an endless stream.
      cluster: Its cluster, counted from 0.
    """
    agent = _whole(agent)
    if present is None:
        present = jnp.ones(agent.shape, bool) if agent.ndim else True
    there = present if isinstance(present, jax.Array) else jnp.asarray(present)
    return View(agent, _whole(round), there, _whole(data_size), out, into, _whole(cluster))


def _whole(number: Array | int) -> Array:
    """Return an array as it is, and a number as one by way of NumPy: jnp.int32() would dispatch an operation."""
    return number if isinstance(number, jax.Array) else jnp.asarray(np.int32(number))
