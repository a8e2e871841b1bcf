"""States of peers that join and of links that change: what a joiner holds, and memories that go with their slots."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import jax
import numpy as np

from tacit.core.contract import Membership, State
from tacit.peer.machine.rounds import Views
from tacit.peer.membership.book import LinkBook
from tacit.runtime.slots import NO_SLOT, moved_state

if TYPE_CHECKING:
    from tacit.peer.node.node import Node


def membership_of(node: Node) -> Membership:
    """Return how agents come and go in a node's method."""
    terms = node.plan.algorithm.membership
    assert terms is not None
    return terms


def vacant_state(node: Node, views: Views) -> State:
    """Return the state of a peer that joins."""
    first = node.machine.functions.init[node.plan.role](node.plan.key, node.plan.params, views)
    return membership_of(node).vacant(first)


def holds_nothing(node: Node) -> bool:
    """Whether a peer could join anew: nothing was pushed to it yet."""
    state = node.machine.state
    with node.plan.precision():
        nothing = membership_of(node).vacant(state)
    return all(map(np.array_equal, jax.tree.leaves(state), jax.tree.leaves(nothing)))


def holds_enough(node: Node, new: bool) -> bool:
    """Whether a member holds enough to learn; one that is `new` begins with an ample share."""
    terms = membership_of(node)
    with node.plan.precision():
        return bool((terms.ample if new else terms.settled)(node.machine.state))


def give_slots(node: Node, book: LinkBook, views: Callable[[int], Views]) -> None:
    """Give new links their slots, and the state its memories of them."""
    machine, plan = node.machine, node.plan
    kept = book.assign()
    if not kept:
        return
    for slot in (slot for slot, old in enumerate(kept.get("into", ())) if old == NO_SLOT):
        machine._forget_slot(slot)
    machine.state = moved_state(
        plan.algorithm, plan.role, plan.key, plan.params, machine.state, views(0), {book.links: kept}
    )
