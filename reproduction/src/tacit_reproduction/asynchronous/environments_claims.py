"""Verdicts of `pao-environments` on Gauthier (2023), sec. 4.4.6."""

from __future__ import annotations

import numpy as np

from tacit_reproduction.asynchronous.comparison import FED, SGD, STEP, mean_db
from tacit_reproduction.asynchronous.curves import gap, steady_error
from tacit_reproduction.asynchronous.environments_runs import PROMPT, Evidence
from tacit_reproduction.asynchronous.setting import COMMON_DELAYS, HARSH, USUAL, Environment
from tacit_reproduction.experiment import Claim, seen_in
from tacit_reproduction.gaps import above, decibels, judged
from tacit_reproduction.verdicts import larger_gain

DRASTIC = 2.0
"""dB by which a result is worse at least where it is called drastically so."""
PICTURE = "environments"
"""Name of a figure."""


def judge(evidence: Evidence) -> list[Claim]:
    """Return every claim with its verdict."""
    claims = [
        *seen_in(PICTURE, _full_download(evidence), text="figure 4.6 (a): performance is drastically reduced"),
        *_common_delays(evidence),
    ]
    return [*claims, *_harsh(evidence)] if HARSH in evidence.design.environments else claims


def _full_download(evidence: Evidence) -> Claim:
    gaps = [gap(evidence.of(f"{v}, full download", USUAL), evidence.of(v, USUAL)) for v in ("U1", "C2")]
    return judged(
        f"(a) A server that sends its whole model makes U1 and C2 drastically worse (by {DRASTIC:g} dB at least)",
        gaps,
        above(DRASTIC),
    )


def _at_best(evidence: Evidence, where: Environment, *methods: str) -> str:
    """Say where methods end that have the best steps of their grids."""
    best = evidence.steps.best
    if not best:
        return ""
    told = ", ".join(
        f"{m} {mean_db(evidence.of(m, where, 'best')):.2f} dB at {best[m, where.name]:.3g}" for m in methods
    )
    return f"Each with the best step of a grid: {told}"


def _common_delays(evidence: Evidence) -> list[Claim]:
    where, steps = COMMON_DELAYS, evidence.steps
    rival = evidence.of(SGD, where, evidence.fair)
    matched = f"{SGD} has step {steps.matched[SGD, where.name]:g}"
    above_rival = judged(
        f"(b) Common delays: {SGD} ends below U1",
        [gap(evidence.of("U1", where), rival)],
        above(0),
        note=_sentences(matched, _at_best(evidence, where, SGD, "U1")),
    )
    below_rival = judged(
        f"(b) Common delays: C2 with a step near its bound, {steps.near:.3g}, ends below {SGD}",
        [gap(rival, evidence.of("C2", where, "near"))],
        above(0),
        note=_sentences(
            matched,
            f"C2 at {STEP:g} ends at {mean_db(evidence.of('C2', where)):.2f} dB",
            _at_best(evidence, where, SGD, "C2"),
        ),
    )
    return [
        *seen_in(PICTURE, above_rival, text="figure 4.6 (b): Online-FedSGD outperforms U1"),
        *seen_in(PICTURE, below_rival, text="figure 4.6 (b): C2 has a very low error, well below Online-FedSGD's"),
    ]


def _harsh(evidence: Evidence) -> list[Claim]:
    def pair(where: Environment) -> tuple[tuple[str, np.ndarray], tuple[str, np.ndarray]]:
        a, b = (evidence.of(variant, where) for variant in ("C2", "U1"))
        return (a.label, decibels(steady_error(a))), (b.label, decibels(steady_error(b)))

    larger = larger_gain(
        "(c) Harsh environment: the distance of C2 below U1, in dB, is larger than in the usual one",
        pair(HARSH),
        pair(USUAL),
    )
    if not larger.holds:
        larger = larger._replace(figure=f"{larger.figure}. Why: {_what_delays_do(evidence)}")
    return [
        *seen_in(PICTURE, larger, text="figure 4.6 (c): the difference between C2 and U1 increases"),
        *seen_in(PICTURE, _below_rival(evidence, SGD), text="figure 4.6 (c): C2 is significantly better"),
        *seen_in(PICTURE, _below_rival(evidence, FED), text="figure 4.6 (c) has Online-Fed's curve, no sentence on it"),
    ]


def _below_rival(evidence: Evidence, rival: str) -> Claim:
    return judged(
        f"(c) Harsh environment: C2 ends below {rival}",
        [gap(evidence.of(rival, HARSH, evidence.fair), evidence.of("C2", HARSH))],
        above(0),
        note=_sentences(
            f"{rival} has step {evidence.steps.matched[rival, HARSH.name]:g}",
            _at_best(evidence, HARSH, rival, "C2"),
        ),
    )


def _what_delays_do(evidence: Evidence) -> str:
    """Say what is lost to late updates, and what to giving them no weight."""
    told = {
        name: mean_db(curve)
        for name, curve in {
            **{
                f"{v} {words}": evidence.of(v, e)
                for v in ("U1", "C1")
                for e, words in ((HARSH, ""), (PROMPT, "on time"))
            },
            "U2": evidence.of("U2", HARSH),
            "C2": evidence.of("C2", HARSH),
        }.items()
    }
    levels = ", ".join(f"{name.strip()} {level:.2f}" for name, level in told.items())
    clients, messages = evidence.design.clients, evidence.of("U1", HARSH).participations
    return (
        "there is little that weights could win: with every update on time, all else the same, the error is lower by "
        f"{told['U1 '] - told['U1 on time']:.2f} dB (U1) and {told['C1 '] - told['C1 on time']:.2f} dB (C1). A late "
        f"update is 10 iterations old or more, so that 0.2^l throws it away, {HARSH.delay:.0%} of "
        f"{messages * clients:.2g} messages in an iteration for all {clients} clients. "
        f"Steady errors in dB: {levels}"
    )


def _sentences(*parts: str) -> str:
    return ". ".join(part for part in parts if part)
