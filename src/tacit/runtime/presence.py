"""Rounds in which an agent is there, as the run's keys have it."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
import numpy as np

from tacit.core.contract import Key
from tacit.core.limits import MOST_ROUNDS
from tacit.runtime.keys import presence_key

if TYPE_CHECKING:
    from tacit.graphs import Availability

AT_ONCE = 64
"""Rounds that are drawn together."""
Following = Callable[[int], int | None]
"""Round -> the next one in which an agent is there; None: there is none."""


def every_round(t: int) -> int | None:
    """Return the round after t: that of an agent that is always there."""
    return t + 1


def rounds_of(availability: Availability | None, root: Key, role: str, agent: int) -> Following:
    """Return the rounds in which an agent begins anything: all, unless it rests where it is away."""
    if availability is None or availability.shifts is None:
        return every_round
    shifts, certain = availability.shifts, bool(np.all(availability.probability[agent] == 1))

    @lru_cache(maxsize=4)
    def block(number: int) -> np.ndarray:
        return np.asarray(presence(availability, root, role, number * AT_ONCE, AT_ONCE))[:, agent]

    def drawn(t: int) -> bool:
        return bool(block(t // AT_ONCE)[t % AT_ONCE])

    def following(t: int) -> int | None:
        coming = shifts.after(agent, t)
        while coming is not None and coming <= MOST_ROUNDS and not (certain or drawn(coming)):
            coming = shifts.after(agent, coming)
        return coming if coming is not None and coming <= MOST_ROUNDS else None

    return following


@partial(jax.jit, static_argnames=("role", "count"))
def presence(availability: Availability, root: Key, role: str, first: int, count: int) -> jax.Array:
    """Return (count, n) which agents of a role are there in rounds first, first + 1, ..."""

    def there(t: jax.Array) -> jax.Array:
        return availability.present(t, presence_key(root, role, t))

    found: jax.Array = jax.vmap(there)(first + jnp.arange(count, dtype=jnp.int32))
    return found
