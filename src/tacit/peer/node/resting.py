"""Rests of a peer in rounds in which the job's schedule has it away.

Under `wait` it goes straight to its next round: no message of that round can come before its neighbours are there, and
nobody follows its number. Otherwise it must not run ahead of the others: it rests until an in-neighbour's message or
greeting says that its round has come, or for as long as the rounds between can take, since all whom it hears may be
away too.
"""

from __future__ import annotations

from tacit.peer.node.node import Node


def rest_of(node: Node, interval: float = 0.0) -> float:
    """Return for how many seconds from its last round on a peer rests at most; `interval` is the least of a round."""
    following = node.next_round
    if node.waits or node.deadline is None or following is None:
        return 0.0
    phases = len(node.plan.algorithm.phases)
    return (following - node.round - 1) * max(node.deadline * phases, interval)


def is_due(node: Node, now: float, until: float) -> bool:
    """Whether the next round should begin: it may, and it is time, or a neighbour says so."""
    following = node.next_round
    return following is not None and node.ready_to_begin and (now >= until or node.claims.furthest >= following)
