"""Standing of an agent's neighbours: what their own messages speak against them, carried along in its state."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from tacit.core.contract import Array, State
from tacit.core.lifted import Carrying


class Standing(NamedTuple):
    """Evidence against each in-neighbour of one link set, slot by slot; that of slot 0, the agent itself, stays 0."""

    score: Array
    """Share of its latest messages that lay far from what the others sent."""
    distance: Array
    """How far they lay, in distances that are usual among the others."""
    until: Array
    """Round up to which it is in quarantine; 0: never was."""


def standings(state: State) -> Mapping[str, Standing]:
    """Return what a state carries about the neighbours: link set -> their standing; nothing where no rule judges them.

    Args:
      state: Of one agent.

    Example:
      >>> from tacit.core.lifted import Carrying
      >>> standings(Carrying([0.5], {"peers": Standing(0, 0, 0)}))
      {'peers': Standing(score=0, distance=0, until=0)}
      >>> standings([0.5])
      {}
    """
    while isinstance(state, Carrying):
        carried = state.carried
        if isinstance(carried, dict) and any(isinstance(each, Standing) for each in carried.values()):
            return carried
        state = state.state
    return {}
