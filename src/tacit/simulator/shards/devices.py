"""Devices that a simulation runs on: what lies where, and programs over all of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import multihost_utils
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from tacit.core.contract import Array, Tree
from tacit.core.errors import ConfigError
from tacit.simulator.loop_state import InFlight, LinkArrays, LoopState, Masks, Network
from tacit.simulator.shards.exchange import AXIS

EVERYWHERE, AGENTS, SLOTS, ROUNDS = P(), P(AXIS), P(None, AXIS), P(None, None, AXIS)
"""Which axis is cut: none, the first, the second, the third."""
PIECE_BYTES = 2**26
"""Of an array that a process tells the others, at once."""
Spec = Any
"""A pytree of these whose leaves may stand for whole subtrees."""


class Devices:
    """One device, or several that hold a shard each."""

    def __init__(self, count: int) -> None:
        self.count = count
        self._mesh = None if count == 1 else Mesh(np.array(jax.devices()[:count]), (AXIS,))

    def program(self, function: Callable[..., Any], takes: Spec, gives: Spec) -> Callable[..., Any]:
        """Return a function of a shard as one of all shards."""
        if self._mesh is None:
            return function
        return jax.shard_map(function, mesh=self._mesh, in_specs=takes, out_specs=gives, check_vma=False)

    def put(self, tree: Tree, specs: Spec) -> Tree:
        """Put host arrays on the devices, each on those that need it."""
        if self._mesh is None:
            return jax.device_put(tree)
        return jax.tree.map(self._put, jax.tree.broadcast(specs, tree, is_leaf=_is_spec), tree, is_leaf=_is_spec)

    def shapes(self, tree: Tree, specs: Spec) -> Tree:
        """Return the shapes of arrays as they lie on the devices."""
        if self._mesh is None:
            return tree
        mesh = self._mesh

        def placed(spec: P, leaf: Any) -> Any:
            return jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=NamedSharding(mesh, spec))

        return jax.tree.map(placed, jax.tree.broadcast(specs, tree, is_leaf=_is_spec), tree, is_leaf=_is_spec)

    def _put(self, spec: P, leaf: Any) -> Array:
        assert self._mesh is not None
        if isinstance(leaf, jax.Array) and jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
            keys: Array = jax.jit(jax.random.wrap_key_data)(self._put(spec, np.asarray(jax.random.key_data(leaf))))
            return keys
        array = np.asarray(leaf)
        array = array.astype(jax.dtypes.canonicalize_dtype(array.dtype), copy=False)
        place = NamedSharding(self._mesh, spec)
        made: Array = jax.make_array_from_callback(array.shape, place, lambda part: array[part])
        return made

    def own(self, values: np.ndarray) -> np.ndarray:
        """Return the part of an array over all agents that this process holds."""
        if self._mesh is None:
            return values
        mine = [k for k, device in enumerate(self._mesh.devices) if device.process_index == jax.process_index()]
        found: np.ndarray = values.reshape(self.count, -1)[mine].reshape(-1)
        return found

    def put_own(self, tree: Tree, spec: P, lead: tuple[int, ...]) -> Tree:
        """Put the rows that this process holds on its devices; `lead` are the leading axes of all together."""
        if self._mesh is None:
            return jax.device_put(tree)
        place = NamedSharding(self._mesh, spec)

        def whole(leaf: np.ndarray) -> Array:
            made: Array = jax.make_array_from_process_local_data(place, leaf, (*lead, *leaf.shape[len(lead) :]))
            return made

        return jax.tree.map(whole, tree)

    def fetch(self, tree: Tree) -> Tree:
        """Return whole arrays on the host, in every process."""
        if self._mesh is None or jax.process_count() == 1:
            return jax.tree.map(np.asarray, tree)

        return jax.tree.map(self._whole, tree)

    def _whole(self, leaf: Array) -> np.ndarray:
        """Return an array of all processes, asked for in pieces: no device has to hold all of it."""
        assert self._mesh is not None
        if leaf.is_fully_replicated:
            return np.asarray(leaf)
        assert isinstance(leaf.sharding, NamedSharding)
        axis = tuple(leaf.sharding.spec).index(AXIS)
        held = sorted(leaf.addressable_shards, key=lambda shard: shard.index[axis].start)
        mine = np.concatenate([np.asarray(shard.data) for shard in held], axis)
        pieces = np.array_split(mine, max(1, min(mine.shape[axis], -(-mine.nbytes // PIECE_BYTES))), axis)
        heard = [multihost_utils.process_allgather(piece) for piece in pieces]
        others = tuple(np.delete(leaf.shape, axis).tolist())
        shards = np.empty((self.count, leaf.shape[axis] // self.count, *others), mine.dtype)
        of_processes = np.array([device.process_index for device in self._mesh.devices])
        for process in range(jax.process_count()):
            found = np.moveaxis(np.concatenate([piece[process] for piece in heard], axis), axis, 0)
            there = of_processes == process
            shards[there] = found.reshape(int(there.sum()), -1, *others)
        return np.moveaxis(shards.reshape(-1, *others), 0, axis)


def _is_spec(value: object) -> bool:
    return isinstance(value, P)


def devices_asked(count: int | None) -> Devices:
    """Return so many devices, or refuse; None: one, or all where several processes run together."""
    there, processes = jax.device_count(), jax.process_count()
    if count is None:
        return Devices(there if processes > 1 else 1)
    if isinstance(count, bool) or not isinstance(count, int) or count < 1:
        raise ConfigError(f"devices is {count!r}; expected a whole number from 1 on")
    if count > there:
        raise ConfigError(
            f"devices is {count}, but JAX has {there} here ({jax.default_backend()}); ask for at most {there}, or on a "
            f"CPU set the variable XLA_FLAGS=--xla_force_host_platform_device_count={count} before Python starts"
        )
    if processes > 1 and count != there:
        raise ConfigError(f"devices is {count}, but the {processes} processes have {there}; leave it out: all are used")
    return Devices(count)


def network_specs(network: Network) -> Spec:
    """Return where the arrays of a network lie."""
    return Network(
        root=EVERYWHERE,  # type: ignore[arg-type]
        members=AGENTS,  # type: ignore[arg-type]
        links={name: LinkArrays(SLOTS, SLOTS, EVERYWHERE, AGENTS, AGENTS) for name in network.links},  # type: ignore[arg-type]
        masks=tuple(None if m is None else Masks(AGENTS, AGENTS, EVERYWHERE) for m in network.masks),  # type: ignore[arg-type]
        called=EVERYWHERE,  # type: ignore[arg-type]
        served_by=AGENTS,  # type: ignore[arg-type]
        availability=EVERYWHERE,  # type: ignore[arg-type]
        order=AGENTS,  # type: ignore[arg-type]
        position=EVERYWHERE,  # type: ignore[arg-type]
    )


def loop_specs(loop: LoopState) -> Spec:
    """Return where the arrays of a state lie."""
    flying = InFlight(AGENTS, ROUNDS, ROUNDS)  # type: ignore[arg-type]
    under_way = tuple(None if found is None else flying for found in loop.in_flight)
    return LoopState(EVERYWHERE, AGENTS, under_way, AGENTS, AGENTS)  # type: ignore[arg-type]
