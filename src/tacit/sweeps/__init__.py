"""Sweeps: many settings of an experiment, several seeds of each, one table."""

from __future__ import annotations

from tacit.sweeps.run import SweepResult, run_sweep
from tacit.sweeps.settings import Sweep, load_sweep

__all__ = ["Sweep", "SweepResult", "load_sweep", "run_sweep"]
