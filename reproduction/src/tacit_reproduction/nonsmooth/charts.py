"""Pictures of the experiments on Gauthier (2023), sec. 3.4."""

from __future__ import annotations

import numpy as np

from tacit_reproduction.charts import Curve, log_curves
from tacit_reproduction.drawing import IN_WORDS, means_of
from tacit_reproduction.experiment import Figure
from tacit_reproduction.nonsmooth.claims import AVERAGES, BY_TOTAL, OVER_ROUNDS
from tacit_reproduction.nonsmooth.problems import PROBLEMS
from tacit_reproduction.nonsmooth.runs import AVERAGED, AVERAGED_LONG, ROUNDS, Method, Outcome
from tacit_reproduction.nonsmooth.search import MATCHED, Evidence

DRAWN = 24
"""Points of a curve over the rounds."""
ORDER: tuple[Method, ...] = ("zCDP-NFL", "zCDP-grad-NFL", MATCHED, "P-ADMM", "DP-NFL")
"""The last one is not run without noise: colours go by places."""
WORDS: dict[Method, str] = {method: method for method in ORDER} | {"DP-NFL": "(eps, delta)DP-NFL"}
ERROR = "normalised error (sum over the nodes)"


def figures(evidence: Evidence) -> list[Figure]:
    """Draw errors over the rounds, errors by total epsilon, and the objective at averaged iterates."""
    title, place = PROBLEMS[evidence.problem].title, PROBLEMS[evidence.problem].figure
    said = means_of(outcome.final for outcome in evidence.found.values())
    present = [method for method in ORDER if (method, evidence.middle) in evidence.found]
    drawn = [
        log_curves(
            OVER_ROUNDS,
            f"Normalised error over the rounds, {title}",
            f"Left, as {place}: all methods spend the same total, epsilon {evidence.middle:g} at delta = 1e-5, on "
            f"{ROUNDS} rounds; right: what is left without noise. {said} {IN_WORDS}",
            {
                f"total epsilon {evidence.middle:g}": {
                    WORDS[method]: _over_rounds(evidence.found[method, evidence.middle]) for method in present
                },
                "with the clip, without noise": {
                    WORDS[method]: _over_rounds(evidence.quiet[method])
                    for method in present
                    if method in evidence.quiet
                },
            },
            "round n",
            ERROR,
        )
    ]
    if len(evidence.totals) > 1:
        other = "The text has no such figure." if evidence.problem == "lad" else f"As {place} (b). {IN_WORDS}"
        drawn.append(
            log_curves(
                BY_TOTAL,
                f"Privacy and accuracy after {ROUNDS} rounds, {title}",
                f"{other} Each method in its own best setting for each total. {said}",
                {"": {WORDS[method]: _by_total(evidence, method) for method in present if method != MATCHED}},
                "total epsilon at delta = 1e-5",
                ERROR,
            )
        )
    private = evidence.found["zCDP-NFL", evidence.middle]
    limit = evidence.limit["zCDP-NFL"]
    assert limit.excess is not None  # judged runs have both
    assert private.excess is not None
    line = private.excess.mean(axis=0)[:1] * AVERAGED[0] / AVERAGED_LONG
    drawn.append(
        log_curves(
            AVERAGES,
            f"Objective at averaged iterates of zCDP-NFL, {title}",
            "On all data, mean over the agents, above its value at w_c; Theorem IV says 1 / n. The text has no such "
            f"figure. {said}",
            {
                "": {
                    f"total epsilon {evidence.middle:g}": Curve(AVERAGED, private.excess),
                    "no noise, no clip, eta_n = 8 / n": Curve(AVERAGED_LONG, limit.excess),
                    "1 / n": Curve(AVERAGED_LONG, line[None]),
                }
            },
            "round n",
            "objective: f(averaged w_k) - f(w_c)",
        )
    )
    return drawn


def _over_rounds(outcome: Outcome) -> Curve:
    at = np.unique(np.geomspace(1, len(outcome.rounds), DRAWN).astype(np.int64)) - 1
    return Curve(outcome.rounds[at], outcome.error[:, at])


def _by_total(evidence: Evidence, method: Method) -> Curve:
    totals = [total for total in evidence.totals if (method, total) in evidence.found]
    return Curve(np.array(totals), np.stack([evidence.found[method, total].final for total in totals], axis=1))
