"""Stores that go on to the next epoch: its job in the ledger and the state on its links, in one commit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal

import jax
import numpy as np

from tacit import runtime
from tacit.core.contract import Adjacency, State, View
from tacit.core.errors import ConfigError, ContractError
from tacit.peer.node.assignment import Plan
from tacit.peer.node.snapshot import encode
from tacit.runtime.slots import NO_SLOT, Side, moved_state

if TYPE_CHECKING:
    from tacit.peer.node.node import Node

SIDES: tuple[Literal["out", "into"], ...] = ("out", "into")


def continued_state(plan: Plan, state: State, after: Plan) -> State:
    """Return the first state of the next epoch: memories go with their neighbours, the method sees to the rest."""
    continuation = (after.algorithm.continuation or {}).get(after.role)
    if continuation is None or plan.role != after.role:
        raise ConfigError(
            f"{after.algorithm.name!r} does not say how the state of a {after.role!r} goes on over other links "
            "(`Algorithm.continuation`): begin the next epoch with new stores"
        )
    algorithm = runtime.self_contained(after.algorithm)
    with after.precision():
        views = after.views(0)
        kept = {links: _kept(plan, plan.views(0)[links], after, view, links) for links, view in views.items()}
        moved = moved_state(algorithm, after.role, after.key, after.params, state, views, kept)
        found = continuation(moved, views)
        wanted = jax.eval_shape(algorithm.init[after.role], after.key, after.params, views)
        if jax.tree.map(_form, found) != jax.tree.map(_form, wanted):
            raise ContractError(
                f"the state of {after.algorithm.name!r} has another form in the next epoch than its links ask for: "
                "begin that epoch with new stores"
            )
        return found


def _form(leaf: jax.Array) -> tuple[tuple[int, ...], str]:
    return tuple(np.shape(leaf)), str(np.result_type(leaf) if not hasattr(leaf, "dtype") else leaf.dtype)


def _kept(plan: Plan, before: View, after: Plan, now: View, links: str) -> Mapping[Side, list[int]]:
    """Return, for each side and new slot, the slot that the same neighbour had."""
    source, target = runtime.link_ends(after.algorithm)[links]
    found: dict[Side, list[int]] = {}
    for side in SIDES:
        role = target if side == "out" else source
        old = _names(plan, getattr(before, side).agent, role)
        new = _names(after, getattr(now, side).agent, role)
        found[side] = [0, *(old.index(name, 1) if name in old[1:] else NO_SLOT for name in new[1:])]
    return found


def _names(plan: Plan, agents: jax.Array, role: str) -> list[str | None]:
    return [plan.members[role][int(agent)] if agent >= 0 else None for agent in np.asarray(agents)]


def carry_over(node: Node, after: Plan) -> None:
    """Put a node's store into the next epoch, in one commit; the node is of no more use, another one goes on.

    What was spent stays spent: the ledger is the same, and bound to the next epoch's job by an entry that costs
    nothing. Rounds go on counting, so that no name of a release comes again.
    """
    epochs = node.links.epochs
    assert epochs is not None
    assert epochs.coming is not None
    coming = epochs.coming
    if not epochs.is_over or coming.leaves:
        raise ContractError(f"epoch {coming.epoch} does not follow yet: round {node.round} of {epochs.last_round}")
    state = continued_state(node.plan, node.machine.state, after)
    snapshot = node.machine.snapshot()._replace(
        round=epochs.last_round, phase=None, state=state, batch=(), own=None, addressed={}, reached=[], absorbed=[]
    )
    facts = {
        "began": epochs.last_round + 1,
        "past": [*epochs.past, epochs.job],
        "former": sorted(epochs.former | epochs.neighbours),
    }
    waiting = [(p.receiver, p.links, p.round, p.phase) for parcels in node.outbox.parcels.values() for p in parcels]
    noise = (phase.mechanism for phase in after.algorithm.phases if phase.mechanism.distribution)
    adjacency: Adjacency = next((one.adjacency for one in noise), "record")
    node.store.commit(
        charges=[node.store.ledger.bound_to(coming.part, adjacency)],
        snapshot=encode(snapshot, node.cursor, facts)[0],
        parcels=(),
        drop=[*node.outbox.dropped(), *waiting],
    )
