"""The vectorised simulator."""

from __future__ import annotations

from tacit.simulate.driver import prepared_topology, simulate

__all__ = ["prepared_topology", "simulate"]
