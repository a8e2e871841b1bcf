"""Experiment `pao-theory`: steady state (4.34) and step bounds of Gauthier (2023), sec. 4.3."""

from __future__ import annotations

from typing import Any

from tacit_reproduction.asynchronous.theory_charts import LABELS, figures
from tacit_reproduction.asynchronous.theory_claims import judge, off
from tacit_reproduction.asynchronous.theory_runs import (
    FORMS,
    SETTLED,
    Evidence,
    Task,
    bounds,
    predict,
    refusal,
    run,
)
from tacit_reproduction.asynchronous.theory_settings import FORCED, FULL, QUICK, STEPPED, Design
from tacit_reproduction.experiment import Experiment, Findings, Table, reproducible
from tacit_reproduction.gaps import in_decibels
from tacit_reproduction.workers import crew

SEEDS_APART = 1000
"""Between the first seeds of two runs of the experiment."""


def investigate(design: Design, seed: int, workers: int | None = None) -> Findings:
    """Run everything and judge the claims."""
    return findings(gather(design, SEEDS_APART * seed, workers))


def gather(design: Design, first: int, workers: int | None = None) -> Evidence:
    """Run and predict everything, with seeds from `first` on."""
    wanted = sorted((*design.settings, *STEPPED), key=design.rounds, reverse=True)
    tasks = [Task(s, design.rounds(s), design.seeds, first, forced=s in FORCED) for s in wanted]
    with crew(workers) as team:
        runs = team("running", run, tasks)
        refused = team("checking", refusal, [Task(s, design.rounds(s), 1, first) for s in FORCED])
    return Evidence(
        design,
        {task.setting.name: found for task, found in zip(tasks, runs, strict=True)},
        {setting.name: predict(setting, design.rounds(setting)) for setting in design.settings},
        {setting.name: bounds(setting) for setting in STEPPED},
        {setting.name: words for setting, words in zip(FORCED, refused, strict=True)},
    )


def findings(evidence: Evidence) -> Findings:
    """Judge what was measured and present it."""
    return Findings(
        judge(evidence),
        _metrics(evidence),
        {
            "name": "Gaussian linear regression",
            "description": (
                "Four clients and six coordinates unless said, one truth, Gaussian features with correlations of each "
                f"client's own, noise of variance 0.05 to 0.15; {evidence.design.seeds} runs with data of their own"
            ),
            "rows": sum(4 * evidence.design.rounds(setting) for setting in evidence.design.settings),
            "complete": True,
        },
        _method(evidence.design),
        [_table(evidence)],
        figures(evidence),
    )


def _metrics(evidence: Evidence) -> dict[str, Any]:
    return {
        "settings": [
            {
                **setting._asdict(),
                "simulated": float(evidence.simulated[setting.name].steady.mean()),
                "predicted": evidence.predicted[setting.name].steady,
                "off_db": {form: off(evidence, setting.name, form)._asdict() for form in FORMS},
            }
            for setting in evidence.design.settings
        ],
        "steps": [
            {
                **setting._asdict(),
                "bounds": evidence.bounds[setting.name]._asdict(),
                "diverged": int(evidence.simulated[setting.name].diverged.sum()),
            }
            for setting in STEPPED
        ],
    }


def _method(design: Design) -> list[str]:
    return [
        "What is simulated is PAO-Fed itself, in double precision, and not the recursion of the analysis. U1, m = 2, "
        "mu = 0.1, clients available in half of the iterations and updates l = 0, 1, 2 iterations late or later with "
        "chance 0.3^l (lost beyond) unless a setting's name says otherwise. Clients' correlations have eigenvalues "
        "from 0.2 to 1 in directions of each one's own. Steady: mean over the last "
        f"{SETTLED:.0%} of {design.time:g} / mu iterations and over runs; intervals are over runs.",
        "Default form: windows as they move, mu^2 terms, and that a client sends in the iteration in which it "
        "receives. The text's form: (4.26) to (4.29). The third is the default with the fourth moments of features set "
        "to 0, which stand in F with mu^2 alone.",
        "Step sizes: the bounds are those of the theorems for the true correlations; before a run they are estimated "
        "from its data. The limit is where the spectral radius of F in the default form reaches 1. A run has diverged "
        "if its error is over a million times the first one.",
    ]


def _table(evidence: Evidence) -> Table:
    rows = []
    for setting in evidence.design.settings:
        gaps = (off(evidence, setting.name, form) for form in FORMS)
        told = (f"{gap.mean:+.2f} [{gap.low:+.2f}, {gap.high:+.2f}]" for gap in gaps)
        rows.append((setting.name, in_decibels(evidence.simulated[setting.name].steady), *told))
    columns = ("setting", "simulated (dB)", *(LABELS[form] for form in FORMS))
    return Table("E||w - w*||^2", "Predictions minus simulation in dB, 95 % over runs.", columns, rows)


THEORY: Experiment = reproducible(
    "pao-theory",
    "PAO-Fed: predicted errors and step sizes",
    "Gauthier (2023), sec. 4.3, (4.34), Theorems 4.1 and 4.2",
    lambda quick, seed: investigate(QUICK if quick else FULL, seed),
)
