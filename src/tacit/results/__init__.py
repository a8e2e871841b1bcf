"""Results of runs."""

from __future__ import annotations

from tacit.results.run import Run

__all__ = ["Run"]
