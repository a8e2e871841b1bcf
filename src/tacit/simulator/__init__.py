"""The vectorised simulator."""

from __future__ import annotations

from tacit.simulator.api import simulate

__all__ = ["simulate"]
