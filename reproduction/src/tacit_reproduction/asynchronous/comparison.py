"""Comparison of PAO-Fed with other methods at matched steps, or at the best step of each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from tacit_reproduction.asynchronous.setting import Curve

STEP = 0.4
"""PAO-Fed's, in the text."""
SGD, FED = "Online-FedSGD", "Online-Fed"
FRACTION = 0.02
"""Of the available clients, called by Online-Fed: 98 % less communication."""


def fair(tuning_seeds: int) -> str:
    """Return what steps of others are called: matched, or where none are chosen that of PAO-Fed."""
    return "matched" if tuning_seeds else f"step {STEP:g}"


def mean_db(curve: Curve) -> float:
    """Return the mean steady error over seeds in dB."""
    return float(np.mean(curve.steady()))


def listed(steps: Sequence[float]) -> str:
    """Return steps in words."""
    return ", ".join(f"{step:g}" for step in steps)


def without_place(panels: Mapping[str, Sequence[Curve]]) -> dict[str, list[Curve]]:
    """Leave out of labels "place: method" what the title of a panel says."""
    return {
        title: [curve._replace(label=curve.label.split(": ", 1)[1]) for curve in curves]
        for title, curves in panels.items()
    }
