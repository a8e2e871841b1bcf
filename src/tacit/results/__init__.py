"""Results: runs and their figures, tables and plots of them, run directories and reports."""

from __future__ import annotations

from tacit.results.best import Best
from tacit.results.comparison import Comparison, load_all
from tacit.results.record import Record, Trace
from tacit.results.regret import DynamicRegret, RegretCurve
from tacit.results.run import Run
from tacit.results.store import load

__all__ = ["Best", "Comparison", "DynamicRegret", "Record", "RegretCurve", "Run", "Trace", "load", "load_all"]
