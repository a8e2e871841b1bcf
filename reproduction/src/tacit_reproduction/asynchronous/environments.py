"""Experiment `pao-environments`: full downloads, common delays, harsh networks (Gauthier 2023, sec. 4.4.6)."""

from __future__ import annotations

from tacit_reproduction.asynchronous.comparison import FED, FRACTION, SGD, STEP, listed, without_place
from tacit_reproduction.asynchronous.curves import in_metrics, learning_curves, loads
from tacit_reproduction.asynchronous.environments_claims import PICTURE, judge
from tacit_reproduction.asynchronous.environments_runs import (
    FULL,
    NEAR,
    PAO,
    PAO_STEPS,
    QUICK,
    Design,
    Evidence,
    gather,
    rivals,
)
from tacit_reproduction.asynchronous.setting import (
    COMMON_DELAYS,
    HARSH,
    STEPS,
    USUAL,
    Curve,
    Environment,
    data_in_words,
    setting_in_words,
)
from tacit_reproduction.drawing import IN_WORDS
from tacit_reproduction.experiment import Experiment, Figure, Findings, reproducible

SEEDS_APART = 1000
"""Between the first seeds of two runs of the experiment."""


def investigate(design: Design, seed: int, workers: int | None = None) -> Findings:
    """Run everything and judge the claims."""
    return findings(gather(design, SEEDS_APART * seed, workers))


def findings(evidence: Evidence) -> Findings:
    """Judge what was measured and present it."""
    design, steps = evidence.design, evidence.steps
    return Findings(
        judge(evidence),
        {
            "curves": [in_metrics(curve) for curve in evidence.curves.values()],
            "steps": {
                "near_the_bound": steps.near,
                "matched": {f"{where}: {method}": step for (method, where), step in steps.matched.items()},
                "best": {f"{where}: {method}": step for (method, where), step in steps.best.items()},
            },
        },
        data_in_words(design.clients, design.rounds, design.seeds),
        _method(evidence),
        [loads("Errors and bits", list(evidence.curves.values()))],
        [_figure(evidence), *([_best(evidence)] if steps.best else [])],
    )


def _method(evidence: Evidence) -> list[str]:
    design, steps = evidence.design, evidence.steps
    common, harsh = COMMON_DELAYS, HARSH
    words = [
        setting_in_words(design.clients, design.rounds, design.seeds),
        f"Common delays: an update is l iterations late or later with chance {common.delay:g}^l, and lost beyond "
        f"{common.longest}. Harsh: clients are there with chance {', '.join(f'{p:g}' for p in harsh.availability)}, "
        f"and updates 10 i iterations late or later with chance {harsh.delay:g}^i, lost beyond {harsh.longest}. "
        f"{SGD} takes the mean of what arrives; (4.14) with everything shared and alpha = 1 would diverge. {FED} "
        f"calls {FRACTION:.0%} of those who are there.",
        f"The step of PAO-Fed is {STEP:g}, and m is 4. Near its bound: {NEAR:g} / lambda = {steps.near:.4g}, lambda "
        "the largest eigenvalue of E[z z'] of any client, from the first seed's data.",
    ]
    if steps.best:
        words.append(
            f"Matched: among {listed(STEPS)} and {steps.near:.3g} the step with which a method's curve is nearest to "
            f"U1's in the first tenth of the iterations, as the text compares ({design.tuning_seeds} other seeds). "
            f"Best: which ends lowest there; of {listed(PAO_STEPS)} and {steps.near:.3g} for PAO-Fed."
        )
    else:
        words.append(
            f"The quick form has {design.clients} clients and {design.rounds} iterations, where all methods have the "
            f"step {STEP:g}: no steps are matched. The harsh environment, in which a client takes part once in "
            "hundreds of iterations, needs the full form and is left out."
        )
    return words


def _figure(evidence: Evidence) -> Figure:
    def matched(where: Environment) -> list[Curve]:
        return [evidence.of(method, where, evidence.fair) for method in rivals(where)]

    variants = ("U1", "C2", "U1, full download", "C2, full download")
    panels = {
        "(a) full download": [*matched(USUAL), *(evidence.of(v, USUAL) for v in variants)],
        "(b) common delays": [
            *matched(COMMON_DELAYS),
            evidence.of("U1", COMMON_DELAYS),
            evidence.of("C2", COMMON_DELAYS, "near"),
        ],
    }
    if HARSH in evidence.design.environments:
        panels["(c) harsh"] = [*matched(HARSH), *(evidence.of(v, HARSH) for v in ("U1", "C2"))]
    return learning_curves(PICTURE, "Other environments", f"As figure 4.6. {IN_WORDS}", without_place(panels))


def _best(evidence: Evidence) -> Figure:
    panels = {
        where.name: [evidence.of(method, where, "best") for method in (*rivals(where), *PAO)]
        for where in evidence.design.environments
        if where != USUAL
    }
    caption = "Every method with the step of its grid that ends lowest."
    return learning_curves(
        "best-steps", "Common delays and the harsh environment, best steps", caption, without_place(panels)
    )


ENVIRONMENTS: Experiment = reproducible(
    "pao-environments",
    "PAO-Fed in other environments: full downloads, common delays, and clients that are hardly there",
    "Gauthier (2023), sec. 4.4.6, figure 4.6",
    lambda quick, seed: investigate(QUICK if quick else FULL, seed),
)
