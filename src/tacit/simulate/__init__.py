"""The vectorised simulator."""

from __future__ import annotations

from tacit.simulate.driver import simulate

__all__ = ["simulate"]
