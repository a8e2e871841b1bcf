"""Runtime of one agent: its round machine, the real peer built on it, and an in-memory network of many machines."""

from __future__ import annotations

from tacit.peer.in_memory import Trajectory, run_in_process
from tacit.peer.machine.envelopes import Envelope
from tacit.peer.machine.functions import AgentFunctions
from tacit.peer.machine.rounds import RoundMachine

__all__ = ["AgentFunctions", "Envelope", "RoundMachine", "Trajectory", "run_in_process"]
