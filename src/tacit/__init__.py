"""tacit: peers learn together without telling."""

from __future__ import annotations

from tacit import algorithms, graphs, metrics, objectives, peer, privacy, streams
from tacit.results import Run
from tacit.simulate import simulate

__version__ = "0.1.0"

__all__ = ["Run", "algorithms", "graphs", "metrics", "objectives", "peer", "privacy", "simulate", "streams"]
