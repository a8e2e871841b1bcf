"""Standing of a peer's neighbours, where its job has a robust rule: in the status, as figures, in the log."""

from __future__ import annotations

from typing import Any

import numpy as np

from tacit import runtime
from tacit.core.standing import standings
from tacit.peer.node.node import Node
from tacit.peer.operations.counters import Counters
from tacit.peer.operations.logs import Log


def neighbour_standing(node: Node) -> dict[str, dict[str, Any]]:
    """Return the evidence against in-neighbours, by name; the worst where one is heard on several link sets.

    It stands in the peer's own state, made of what it received itself. Nothing where the job has no robust rule.
    """
    ends, found = runtime.link_ends(node.plan.algorithm), dict[str, dict[str, Any]]()
    for links, standing in standings(node.machine.state).items():
        names, agents = node.plan.members[ends[links][0]], np.asarray(node.plan.views(0)[links].into.agent)
        score, far, until = map(np.asarray, standing)
        for slot in np.flatnonzero(agents[1:] >= 0) + 1:
            name, held = names[agents[slot]], int(until[slot]) > node.round
            if name not in found or found[name]["score"] < score[slot]:
                found[name] = {
                    "score": round(float(score[slot]), 4),
                    "distance": round(float(far[slot]), 3),
                    "quarantined_until": int(until[slot]) if held else None,
                }
    return dict(sorted(found.items()))


class StandingWatch:
    """Reports on the neighbours' standing: figures after every round, and quarantines in the log."""

    def __init__(self, counters: Counters, log: Log) -> None:
        self._counters, self._log = counters, log
        self._held: set[str] = set()

    def look(self, node: Node) -> None:
        """Report on the standing after a round."""
        found = neighbour_standing(node)
        for name, standing in found.items():
            self._counters.set("tacit_neighbour_score", standing["score"], neighbour=name)
        held = {name for name, standing in found.items() if standing["quarantined_until"] is not None}
        for name in sorted(held - self._held):
            self._log.warning("a neighbour is in quarantine", neighbour=name, round=node.round, **found[name])
        for name in sorted(self._held - held):
            self._log.info("a neighbour is heard again", neighbour=name, round=node.round)
        self._held = held
