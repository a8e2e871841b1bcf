"""Snapshots of a round machine as bytes, for a peer's store: a JSON header, then arrays. Nothing in it is executed."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tacit.core.contract import Batch, State
from tacit.core.errors import StoreError
from tacit.peer.machine.snapshots import Memories, Snapshot
from tacit.privacy.charges import Held
from tacit.runtime import MessageSpec

_LENGTH = 8


def encode(
    snapshot: Snapshot, cursor: Any, links: Mapping[str, Any] | None = None, own: bytes | None = None
) -> tuple[bytes, bytes]:
    """Return a snapshot as bytes, with the cursor of the data source and the book of links that change.

    The second part is the agent's own message, as `Codec.pack` has it (`own`, where that was done); a snapshot is both,
    one after the other.
    """
    facts = {
        "round": snapshot.round,
        "phase": snapshot.phase,
        "held": list(snapshot.held),
        "own": "none" if snapshot.own is None else "last",
        "batch": len(jax.tree.leaves(snapshot.batch)),
        "addressed": snapshot.addressed,
        "reached": snapshot.reached,
        "absorbed": snapshot.absorbed,
        "numbered": snapshot.numbered,
        "cursor": cursor,
        **({} if links is None else {"links": links}),
    }
    leaves = [np.asarray(leaf) for leaf in jax.tree.leaves((snapshot.state, snapshot.memories, snapshot.batch))]
    last = [np.asarray(leaf) for leaf in jax.tree.leaves(snapshot.own)]
    return pack(facts, leaves, last), b"".join(map(_bytes_of, last)) if own is None else own


def decode(
    data: bytes, state: State, specs: Sequence[MessageSpec], batch: Batch, memories: Memories = ()
) -> tuple[Snapshot, Any]:
    """Read a snapshot back; `state`, `specs`, `batch` and `memories` say which form its arrays must have."""
    facts, leaves = unpack(data)
    try:
        own = specs[facts["phase"]].message if facts["own"] in (True, "last") else None
        batch = batch if facts["batch"] else ()
        # Before the own message came last, a Boolean said whether there was one.
        earlier = isinstance(facts["own"], bool)
        template = (state, memories, own, batch) if earlier else (state, memories, batch, own)
        expected = [(tuple(leaf.shape), np.dtype(leaf.dtype)) for leaf in jax.tree.leaves(template)]
        if [(leaf.shape, leaf.dtype) for leaf in leaves] != expected:
            raise ValueError("arrays of other shapes or types")
        state, memories, *rest = jax.tree.unflatten(jax.tree.structure(template), leaves)
        batch, own = reversed(rest) if earlier else rest
        snapshot = Snapshot(
            facts["round"],
            facts["phase"],
            Held(*facts["held"]),
            jax.tree.map(jnp.asarray, state),
            batch,
            own,
            facts["addressed"],
            facts["reached"],
            [(k, sent, slot) for k, sent, slot in facts["absorbed"]],
            facts.get("numbered", 0),
            memories,
        )
        return snapshot, facts["cursor"]
    except (KeyError, TypeError, ValueError, IndexError) as error:
        raise StoreError(
            f"the snapshot does not fit this job ({error}); was the store of another peer or version put here?"
        ) from error


def links_in(data: bytes | None) -> Mapping[str, Any] | None:
    """Return the book of links in a snapshot; None where there is none."""
    return None if data is None else unpack(data)[0].get("links")


def pack(facts: Mapping[str, Any], arrays: Sequence[np.ndarray], following: Sequence[np.ndarray] = ()) -> bytes:
    """Return facts (of types that JSON has) and arrays as bytes; the bytes of those that follow are left to others."""
    described = [{"dtype": leaf.dtype.str, "shape": leaf.shape} for leaf in (*arrays, *following)]
    header = json.dumps({"facts": facts, "arrays": described}, separators=(",", ":")).encode()
    return b"".join((len(header).to_bytes(_LENGTH, "little"), header, *map(_bytes_of, arrays)))


def _bytes_of(array: np.ndarray) -> memoryview:
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8).data


def unpack(data: bytes) -> tuple[dict[str, Any], list[np.ndarray]]:
    """Read back the result of `pack`; anything else is a StoreError."""
    try:
        length = int.from_bytes(data[:_LENGTH], "little")
        header = json.loads(data[_LENGTH : _LENGTH + length])
        begin, arrays = _LENGTH + length, []
        for leaf in header["arrays"]:
            dtype, shape = np.dtype(leaf["dtype"]), tuple(leaf["shape"])
            if dtype.hasobject:
                raise ValueError(f"arrays of {dtype}")
            size = math.prod(shape) * dtype.itemsize
            arrays.append(np.frombuffer(data[begin : begin + size], dtype).reshape(shape))
            begin += size
        facts = dict(header["facts"])
    except (ValueError, TypeError, KeyError, OverflowError, RecursionError) as error:
        raise StoreError(f"a snapshot that cannot be read ({error}): it was written by another version") from error
    if begin != len(data):
        raise StoreError(f"a snapshot of {len(data)} bytes, expected {begin}: it is damaged")
    return facts, arrays
