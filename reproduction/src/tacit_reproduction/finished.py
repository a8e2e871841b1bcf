"""Runs without a progress display, complete or refused."""

from __future__ import annotations

from typing import Any

from tacit.results import Run
from tacit.simulator import simulate


def finished_run(*problem: Any, **settings: Any) -> Run:
    """Simulate as `tacit.simulate` does; a run that was interrupted is no evidence, and ends the experiment too."""
    run = simulate(*problem, **settings, progress=False)
    if run.partial:
        raise KeyboardInterrupt
    return run
