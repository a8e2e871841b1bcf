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


def encode(snapshot: Snapshot, cursor: Any, links: Mapping[str, Any] | None = None) -> bytes:
    """Return a snapshot as bytes, together with the cursor of the data source and the book of links that change."""
    facts = {
        "round": snapshot.round,
        "phase": snapshot.phase,
        "held": list(snapshot.held),
        "own": snapshot.own is not None,
        "batch": len(jax.tree.leaves(snapshot.batch)),
        "addressed": snapshot.addressed,
        "reached": snapshot.reached,
        "absorbed": snapshot.absorbed,
        "numbered": snapshot.numbered,
        "cursor": cursor,
        **({} if links is None else {"links": links}),
    }
    leaves = jax.tree.leaves((snapshot.state, snapshot.memories, snapshot.own, snapshot.batch))
    return pack(facts, [np.asarray(leaf) for leaf in leaves])


def decode(
    data: bytes, state: State, specs: Sequence[MessageSpec], batch: Batch, memories: Memories = ()
) -> tuple[Snapshot, Any]:
    """Read a snapshot back; `state`, `specs`, `batch` and `memories` say which form its arrays must have."""
    facts, leaves = unpack(data)
    try:
        own = specs[facts["phase"]].message if facts["own"] else None
        template = (state, memories, own, batch if facts["batch"] else ())
        expected = [(tuple(leaf.shape), np.dtype(leaf.dtype)) for leaf in jax.tree.leaves(template)]
        if [(leaf.shape, leaf.dtype) for leaf in leaves] != expected:
            raise ValueError("arrays of other shapes or types")
        state, memories, own, batch = jax.tree.unflatten(jax.tree.structure(template), leaves)
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


def pack(facts: Mapping[str, Any], arrays: Sequence[np.ndarray]) -> bytes:
    """Return facts (of types that JSON has) and arrays as bytes."""
    leaves = [np.asarray(array) for array in arrays]
    described = [{"dtype": leaf.dtype.str, "shape": leaf.shape} for leaf in leaves]
    header = json.dumps({"facts": facts, "arrays": described}, separators=(",", ":")).encode()
    return b"".join((len(header).to_bytes(_LENGTH, "little"), header, *(leaf.tobytes() for leaf in leaves)))


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
