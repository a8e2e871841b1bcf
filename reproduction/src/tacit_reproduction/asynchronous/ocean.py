"""Experiment `pao-calcofi`: salinity of sea water from clients that are mostly away (Gauthier 2023, sec. 4.4.4)."""

from __future__ import annotations

import numpy as np

from tacit_reproduction.asynchronous.comparison import FRACTION, SGD, STEP, listed, without_place
from tacit_reproduction.asynchronous.curves import in_metrics, learning_curves, loads, steady_error
from tacit_reproduction.asynchronous.ocean_claims import PICTURE, judge
from tacit_reproduction.asynchronous.ocean_runs import (
    FULL,
    METHODS,
    NAMES,
    PAO,
    QUICK,
    RIVALS,
    Design,
    Evidence,
    gather,
)
from tacit_reproduction.asynchronous.setting import BANDWIDTHS, FEATURES, STEPS, TEST_SAMPLES, USUAL, stream
from tacit_reproduction.drawing import IN_WORDS
from tacit_reproduction.experiment import Experiment, Figure, Findings, Table, reproducible

SEEDS_APART = 1000
"""Between the first seeds of two runs of the experiment."""


def investigate(design: Design, seed: int, workers: int | None = None) -> Findings:
    """Run everything and judge the claims."""
    first = SEEDS_APART * seed
    return findings(gather(design, first, workers), stream("calcofi", design.clients, design.rounds, first).description)


def findings(evidence: Evidence, description: str) -> Findings:
    """Judge what was measured and present it."""
    design, steps = evidence.design, evidence.steps
    return Findings(
        judge(evidence),
        {
            "curves": [
                {**in_metrics(curve), "steady_mse_pss2": float(_practical(evidence, curve.label).mean())}
                for curve in evidence.curves.values()
            ],
            "pooled_least_squares_db": {NAMES[data]: value for data, value in evidence.pooled.items()},
            "salinity_deviation": evidence.deviation,
            "matched_steps": {f"{NAMES[data]}: {method}": step for (data, method), step in steps.matched.items()},
            "best_steps": {f"{NAMES[data]}: {method}": step for (data, method), step in steps.best.items()},
        },
        {"name": "calcofi", "description": description, "rows": 80_000 * design.clients // 256, "complete": True},
        _method(evidence),
        [loads("Errors and bits", list(evidence.curves.values())), _salinity(evidence)],
        _figures(evidence),
    )


def _practical(evidence: Evidence, label: str) -> np.ndarray:
    """(seeds,) steady test error on the practical salinity scale, squared."""
    return steady_error(evidence.curves[label]) * evidence.deviation**2


def _method(evidence: Evidence) -> list[str]:
    design, (rarest, most) = evidence.design, evidence.rates
    floor = ", ".join(f"{NAMES[data]} {value:.2f}" for data, value in evidence.pooled.items())
    words = [
        "Salinity from depth, temperature, oxygen and its saturation, all standardised; the text does not name its "
        "columns. Oxygen, saturation and temperature together give salinity away in part, since the solubility of "
        "oxygen falls with it; one set of runs leaves saturation out. By place: bottles sorted by place and cut into "
        "blocks, one for each client, so that clients differ; the text says non-IID and not how. Dealt by chance: "
        "the same bottles in the same iterations, shared out at random. Groups of clients hold 1 : 2 : 3 : 4 parts.",
        f"{design.clients} clients; {rarest:.0%} to {most:.0%} of {design.rounds:,} iterations bring a client a "
        f"bottle, fewer than in the synthetic data; clients are there with chance "
        f"{', '.join(map(str, USUAL.availability))} when they have one, and late as there (delta = {USUAL.delay:g}, up "
        f"to {USUAL.longest}). {design.seeds} seeds, each with its own bottles, absences and delays. {FEATURES} random "
        f"Fourier features of bandwidth {BANDWIDTHS['calcofi']:g}. Errors are on {TEST_SAMPLES:,} bottles of all "
        "places that nobody holds; a model of zeros has 0 dB, least squares on all bottles that the first seed's "
        f"clients hold, in dB: {floor}.",
        f"PAO-Fed: step {STEP:g}, m = 4. Online-Fed calls {FRACTION:.0%} of those who are there; {SGD} takes the mean "
        "of what arrives.",
    ]
    if design.tuning_seeds:
        words.append(
            f"Matched: the step among {listed(STEPS)} with which a method's curve is nearest to U1's in the first "
            f"tenth of the iterations, as the text compares ({design.tuning_seeds} other seeds); without saturation "
            f"those found by place. Best: which of {listed(design.steps)} ends lowest by place, on the same seeds."
        )
    else:
        words.append(f"The quick form matches no steps: all methods have {STEP:g}. Its verdicts are of that alone.")
    return words


def _salinity(evidence: Evidence) -> Table:
    rows = []
    for label, curve in evidence.curves.items():
        found = _practical(evidence, label)
        rows.append((curve.label, f"{found.mean():.4f}", f"{np.sqrt(found.mean()):.3f}"))
    note = f"Salinity deviates by {evidence.deviation:.3f} from its mean over all bottles (PSS-78)."
    return Table("Steady errors in salinity", note, ("method", "MSE (PSS^2)", "root (PSS)"), rows)


def _figures(evidence: Evidence) -> list[Figure]:
    panels = {
        NAMES[data]: [evidence.of(m, data, evidence.fair) for m in RIVALS] + [evidence.of(m, data) for m in PAO]
        for data in evidence.design.data
    }
    drawn = [learning_curves(PICTURE, "Salinity of sea water", f"As figure 4.4. {IN_WORDS}", without_place(panels))]
    if evidence.steps.best:
        best = {
            NAMES[data]: [evidence.of(method, data, "best") for method in METHODS]
            for data in dict.fromkeys(data for data, _ in evidence.steps.best)
        }
        caption = "Every method with the step of its grid that ends lowest."
        drawn.append(learning_curves("best-steps", "Salinity of sea water, best steps", caption, without_place(best)))
    return drawn


CALCOFI: Experiment = reproducible(
    "pao-calcofi",
    "PAO-Fed on CalCOFI: salinity of sea water",
    "Gauthier (2023), sec. 4.4.4, figure 4.4",
    lambda quick, seed: investigate(QUICK if quick else FULL, seed),
)
