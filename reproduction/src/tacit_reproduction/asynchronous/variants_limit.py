"""Predicted errors of PAO-Fed's settings after infinitely many iterations, on a small case."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tacit.algorithms.asynchronous.pao_fed import VARIANTS
from tacit_reproduction.analysis.mean_square import asynchronous_network, steady_state

CLIENTS, COORDINATES = 5, 8
STEP, NOISE, AVAILABLE, DATA = 0.4, 0.0175, 0.095, 0.625
"""The means of the large setting."""
DELAYS = (0.8, 0.16, 0.032, 0.008)


class Limit(NamedTuple):
    """One variant with m coordinates in a message."""

    variant: str
    share: int


SWEEP = tuple(Limit("U1", m) for m in (1, 2, 4))
DECAYED = tuple(Limit(variant, 1) for variant in ("C1", "C2", "U2"))


def predicted(case: Limit) -> float:
    """Return the mean-square deviation of the server's model in dB: (4.34) with all terms kept.

    All directions are alike here (E[z z'] = I / 8), so that none is slow.
    """
    settings = VARIANTS[case.variant]
    network = asynchronous_network(
        np.broadcast_to(np.eye(COORDINATES) / COORDINATES, (CLIENTS, COORDINATES, COORDINATES)),
        NOISE,
        step=STEP,
        share=case.share,
        availability=AVAILABLE,
        delays=DELAYS,
        decay=settings["decay"],
        coordinated=settings["coordinated"],
        data=DATA,
    )
    return float(10 * np.log10(np.mean(steady_state(network).deviation)))
