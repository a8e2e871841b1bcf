"""Snapshot of a round machine: what another process needs to go on."""

from __future__ import annotations

from typing import NamedTuple

from tacit.core.contract import Batch, Memory, Message, State
from tacit.privacy.charges import Held

Memories = tuple[Memory | None, ...]
"""Per phase, the memory of this agent's noise: as secret as a key. None: its draws are independent, or not its own."""


class Snapshot(NamedTuple):
    """The durable state of a machine. Messages that were received and not absorbed are not in it."""

    round: int
    phase: int | None
    held: Held
    state: State
    batch: Batch
    own: Message | None
    addressed: dict[str, list[int]]
    reached: list[str]
    absorbed: list[tuple[int, int, int]]
    numbered: int = 0
    """Number of the last batch of records that never come again: it grows even where rounds are set back."""
    memories: Memories = ()
