"""The vectorised simulator: `simulate` runs all agents and repeats of an algorithm in one compiled program.

`api` is its door, `simulation` the loop over chunks of rounds, `engine` one round, which holds a `setup` (arrays and
forms), a `delivery` (the channel) and `cohorts` (sampled agents).
"""

from __future__ import annotations

from tacit.simulator.api import simulate

__all__ = ["simulate"]
