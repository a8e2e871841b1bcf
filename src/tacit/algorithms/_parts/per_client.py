"""Per-client settings, and the clients of a server in a given graph."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import jax.numpy as jnp
import numpy as np

from tacit.core.contract import Array, View
from tacit.core.errors import ConfigError
from tacit.graphs import Topology, star_roles

PerClient = int | Sequence[int]
"""The same number for all clients, or one for each."""


def numbers(name: str, value: PerClient) -> np.ndarray:
    """Return one positive whole number per client, or one for all."""
    found = np.asarray(value)
    if found.ndim > 1 or found.size == 0 or not np.issubdtype(found.dtype, np.integer) or found.min() < 1:
        raise ConfigError(f"{name} = {value!r}: expected a whole number from 1 on, or one per client")
    return found.astype(np.int32)


def of_client(table: np.ndarray, view: View) -> Array:
    """Return a client's own entry."""
    return jnp.asarray(table) if table.ndim == 0 else jnp.asarray(table)[view.agent]


def around_one_server(given: Topology) -> Topology:
    """Take a graph of agents of one role as so many clients of one server."""
    if set(given.roles) != {"peer"}:
        return given
    there = {"client": given.availability["peer"]} if "peer" in given.availability else {}
    return replace(star_roles(given.roles["peer"]), availability=there)


def with_clients(make: Callable[[Topology], Topology], **of_each: PerClient | None) -> Callable[[Topology], Topology]:
    """Return what a method makes of a topology, refusing one whose clients are not those that settings speak of."""
    lengths = {name: len(value) for name, value in of_each.items() if isinstance(value, Sequence | np.ndarray)}

    def topology(given: Topology) -> Topology:
        made = make(given)
        clients = made.roles.get("client", 0)
        for name, length in lengths.items():
            if length != clients:
                raise ConfigError(f"{name} has {length} entries, but there are {clients} clients; give one for each")
        return made

    return topology
