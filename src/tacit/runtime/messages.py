"""Messages and releases of each phase, settled by abstract traces before round 0."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from tacit.core.contract import (
    Algorithm,
    Batch,
    Delivery,
    Mechanism,
    Memory,
    Message,
    Outbox,
    Params,
    Tree,
    View,
)
from tacit.core.errors import ConfigError, ContractError
from tacit.privacy.charges import charges_all
from tacit.privacy.noise import hides
from tacit.privacy.noise.fixed_point import fixed_point_step
from tacit.runtime.calls import check_state, self_contained, with_data
from tacit.runtime.data_flow import Flow, Method, Sending, followed, hearing, sending, trace

if TYPE_CHECKING:
    from tacit.core.packing import Packing


class ReleaseSpec(NamedTuple):
    """What a phase releases, settled before the run: the part of a declaration that never changes."""

    mechanism: Mechanism
    coordinates: int
    from_data: bool
    """Whether the value depends on the batch, or on a state that does. What does not is free."""
    records: int = 1
    """Places for records in a batch."""
    in_sequence: bool = True
    """Whether it is charged to every record, those of other rounds too."""
    value: Tree = ()
    """ShapeDtypeStruct of each leaf of the value."""
    phase: int = 0

    def memory(self, wide: bool = False) -> Memory | None:
        """Return the empty memory of an agent's noise; None where its draws are independent."""
        correlation = self.mechanism.correlation
        return None if correlation is None else correlation.start(self.value, wide)


class MessageSpec(NamedTuple):
    """What a phase sends, settled before the run."""

    message: Message
    """ShapeDtypeStruct of each leaf as it lies on the wire."""
    delivery: Delivery
    addressed: bool
    """Whether the outbox picks whom it is for."""
    release: ReleaseSpec
    packing: Packing | None = None
    """How the floating numbers of its private part are written in fewer bytes; None: as they are."""

    def bytes_of_leaves(self) -> list[tuple[int, Packing | None]]:
        """Return what each leaf of a message takes on the wire, and its packing; None: it is written as it is."""
        sizes = [(math.prod(leaf.shape), np.dtype(leaf.dtype)) for leaf in jax.tree.leaves(self.message)]
        found: list[tuple[int, Packing | None]] = [(count * dtype.itemsize, None) for count, dtype in sizes]
        if self.packing is not None:
            from tacit.core.packing import packed_size

            for number in range(len(jax.tree.leaves(self.message.private))):
                size = packed_size(self.packing, *sizes[number])
                found[number] = found[number] if size is None else (size, self.packing)
        return found


def settle(
    algorithm: Algorithm, params: Params, batch: Batch, views: Mapping[str, Mapping[str, View]]
) -> tuple[MessageSpec, ...]:
    """Trace every function once, abstractly, for one agent per role: what the phases send.

    `views` gives one agent's view per role and link set. An algorithm that breaks its promises is refused: `data_flow`
    says how data are followed.
    """
    algorithm = self_contained(algorithm)
    key = jax.eval_shape(lambda: jax.random.key(0))
    init = {role: trace(make, key=key, params=params, views=views[role]) for role, make in algorithm.init.items()}
    method = Method(algorithm, init, [], [])
    for index, phase in enumerate(algorithm.phases):
        state, heard_by = init[phase.source].shapes, init[phase.target].shapes
        own_batch = batch if phase.source == algorithm.learner else ()
        view, own_batch = jax.eval_shape(with_data, views[phase.source][phase.links], own_batch)
        found = sending(phase, index, key, state, own_batch, view)
        _check_spread(algorithm, index, found.outbox)
        check_state(algorithm, index, phase.source, state, found.emit.shapes[0])
        _check_outbox(algorithm, index, found.outbox)
        heard = hearing(phase, key, heard_by, found.outbox, views[phase.target][phase.links])
        check_state(algorithm, index, phase.target, heard_by, heard.shapes)
        method.sends.append(found)
        method.hears.append(heard)
    each = enumerate(zip(method.sends, followed(method), strict=True))
    return tuple(_message_spec(algorithm, index, *found) for index, found in each)


def _message_spec(algorithm: Algorithm, index: int, found: Sending, flow: Flow) -> MessageSpec:
    phase = algorithm.phases[index]
    outbox = found.outbox
    skip = 1 if outbox.delivery == "per_slot" else 0
    message = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape[skip:], leaf.dtype), outbox.message)
    coordinates = sum(math.prod(leaf.shape) for leaf in jax.tree.leaves(found.value))
    in_sequence = charges_all(algorithm.privacy, phase.mechanism.adjacency)
    from_data = any(jax.tree.leaves(flow.value))
    release = ReleaseSpec(phase.mechanism, coordinates, from_data, found.records, in_sequence, found.value, index)
    _check_correlation(algorithm, release)
    return MessageSpec(message, outbox.delivery, outbox.to is not None, release, phase.packing)


def _check_correlation(algorithm: Algorithm, release: ReleaseSpec) -> None:
    """Refuse correlated noise where a record's part of the releases is not known beforehand."""
    if release.mechanism.correlation is None or not release.from_data:
        return
    if release.in_sequence:
        raise ConfigError(
            f"mechanism {release.mechanism.name!r} with {algorithm.name!r}: its noise is fitted to records that enter "
            "the releases of their own rounds alone, but here a record has a say in all later ones (its state holds "
            "data, or one agent is the unit); use gaussian"
        )


def _check_outbox(algorithm: Algorithm, index: int, outbox: Outbox) -> None:
    for leaf in jax.tree.leaves(outbox.message) if outbox.delivery == "push" else ():
        if not jnp.issubdtype(leaf.dtype, jnp.inexact):
            raise ContractError(
                f"algorithm {algorithm.name!r}, phase {index} pushes a leaf of type {leaf.dtype}, of which no share "
                "can be sent: make it a floating number, or send it with `share`"
            )


def _check_spread(algorithm: Algorithm, index: int, outbox: Outbox) -> None:
    """Refuse a mechanism that releases link by link in a phase that sends one value to all."""
    mechanism = algorithm.phases[index].mechanism
    if mechanism.per_slot and outbox.delivery != "per_slot":
        raise ConfigError(
            f"mechanism {mechanism.name!r} releases a value for each link, but algorithm {algorithm.name!r} sends "
            f"one to all in phase {index}; use it with a diffusion method, or take laplace or gaussian noise"
        )
    if mechanism.spread == "masked":
        other = [leaf for leaf in jax.tree.leaves(outbox.message) if not jnp.issubdtype(leaf.dtype, jnp.integer)]
        if other:
            raise ContractError(
                f"algorithm {algorithm.name!r}, phase {index}: masks are added to whole numbers of steps, but a "
                f"leaf of type {other[0].dtype} is sent; send what was released as it is"
            )
        if hides(mechanism):
            _check_masks(mechanism, outbox)


def _check_masks(mechanism: Mechanism, outbox: Outbox) -> None:
    from tacit.privacy.noise.mask_noise import check_size

    for leaf in jax.tree.leaves(outbox.message):
        check_size(mechanism.mask_scale, fixed_point_step(mechanism, leaf.dtype))
