"""Runtime of one agent: its round machine, the real peer built on it, and an in-memory network of many machines."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tacit.core.lazy import lazy_exports

if TYPE_CHECKING:
    from tacit.peer.in_memory import Trajectory as Trajectory
    from tacit.peer.in_memory import run_in_process as run_in_process
    from tacit.peer.machine.envelopes import Envelope as Envelope
    from tacit.peer.machine.functions import AgentFunctions as AgentFunctions
    from tacit.peer.machine.rounds import RoundMachine as RoundMachine

__getattr__, __dir__, __all__ = lazy_exports(
    __name__,
    {
        "in_memory": "Trajectory run_in_process",
        "machine.envelopes": "Envelope",
        "machine.functions": "AgentFunctions",
        "machine.rounds": "RoundMachine",
    },
)
