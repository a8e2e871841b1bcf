"""Pictures of `diffusion-regression`."""

from __future__ import annotations

from typing import Any

import numpy as np

from tacit_reproduction.charts import Curve, log_curves
from tacit_reproduction.diffusion.protocol import WORDS, Method, Noise
from tacit_reproduction.diffusion.regression_claims import (
    ROUNDS,
    ROUNDS_SMALL,
    STEPS,
    excess,
    methods_at,
    smallest,
    swept,
)
from tacit_reproduction.diffusion.regression_runs import TEXT_STEP, Cell, Evidence
from tacit_reproduction.experiment import Figure

DRAWN = 16
"""Points of a curve over the rounds."""


def figures(evidence: Evidence) -> list[Figure]:
    """Draw deviations over the rounds, and what noise adds by step."""
    found = evidence.outcomes
    noises: tuple[Noise, ...] = ("none", "homomorphic", "random", "local")
    small = smallest(evidence)

    def over_rounds(method: Method, step: float, individual: bool) -> dict[str, Curve]:
        curves = {}
        for noise in noises:
            if (cell := Cell(method, noise, step)) not in found:
                continue
            outcome = found[cell]
            at = np.unique(np.geomspace(1, len(outcome.rounds), DRAWN).astype(np.int64)) - 1
            values = outcome.individual if individual else outcome.centroid
            curves[WORDS[noise]] = Curve(outcome.rounds[at], values[:, at])
        return curves

    def by_step(method: Method) -> dict[str, Curve]:
        theory = evidence.theory[1.0]
        curves = {}
        expected: dict[Noise, Any] = {
            "random": lambda step: theory.random / step,
            "homomorphic": lambda step: theory.homomorphic * step,
        }
        for noise, of in expected.items():
            steps, added = excess(evidence, method, noise)
            curves[WORDS[noise]] = Curve(steps, added)
            curves[f"our theory, {WORDS[noise]}"] = Curve(steps, np.stack([of(step) for step in steps], axis=1))
        return curves

    seeds = len(next(iter(found.values())).settled)
    bars = f"Lines are means over {seeds} seeds, bands their 95 % intervals."
    names = {False: "centroid", True: "mean individual"}
    return [
        *(
            log_curves(
                name,
                f"Mean-square deviation over the rounds, mu = {step:g}",
                f"{about}; gradients of one sample. {bars}",
                {
                    f"{m}: {names[own]}": over_rounds(m, step, own)
                    for own in (False, True)
                    for m in methods_at(evidence, step)
                },
                "round",
                "MSD (squared distance from w°)",
            )
            for name, step, about in (
                (ROUNDS, TEXT_STEP, "As the text's figure 4.4"),
                (ROUNDS_SMALL, small, "With the smallest step; local noise was run at the text's step only"),
            )
        ),
        log_curves(
            STEPS,
            "What noise adds to the centroid's MSD, by step",
            f"Steady-state MSD minus that of the run without noise; theory falls like 1 / mu or grows like mu. {bars}",
            {method: by_step(method) for method in swept(evidence)},
            "step size mu",
            "MSD that noise adds to the centroid",
        ),
    ]
