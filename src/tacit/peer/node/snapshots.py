"""A round machine's snapshot as bytes and back, for a peer's store."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tacit.core.contract import Batch, State
from tacit.core.errors import StoreError
from tacit.peer.machine.rounds import Snapshot
from tacit.peer.node.packing import pack, unpack
from tacit.privacy.charges import Held
from tacit.runtime import MessageSpec


def encode(snapshot: Snapshot, cursor: Any) -> bytes:
    """Return a snapshot as bytes, together with where the source of the data stands."""
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
    }
    leaves = jax.tree.leaves((snapshot.state, snapshot.own, snapshot.batch))
    return pack(facts, [np.asarray(leaf) for leaf in leaves])


def decode(data: bytes, state: State, specs: Sequence[MessageSpec], batch: Batch) -> tuple[Snapshot, Any]:
    """Read a snapshot back; `state`, `specs` and `batch` say which form its arrays must have."""
    facts, leaves = unpack(data)
    try:
        own = specs[facts["phase"]].message if facts["own"] else None
        template = (state, own, batch if facts["batch"] else ())
        expected = [(tuple(leaf.shape), np.dtype(leaf.dtype)) for leaf in jax.tree.leaves(template)]
        if [(leaf.shape, leaf.dtype) for leaf in leaves] != expected:
            raise ValueError("arrays of other shapes or types")
        state, own, batch = jax.tree.unflatten(jax.tree.structure(template), leaves)
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
        )
        return snapshot, facts["cursor"]
    except (KeyError, TypeError, ValueError, IndexError) as error:
        raise StoreError(
            f"the snapshot does not fit this job ({error}); was the store of another peer or version put here?"
        ) from error
