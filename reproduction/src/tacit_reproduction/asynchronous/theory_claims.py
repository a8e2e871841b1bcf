"""Verdicts of `pao-theory` on the analysis of Gauthier (2023), sec. 4.3."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tacit.metrics import Band, Interval, mean_band, mean_interval
from tacit_reproduction.asynchronous.theory_runs import SMALLEST, Evidence, Floats, Form
from tacit_reproduction.asynchronous.theory_settings import AGES, ALONE, BEYOND, FADING, FORCED, MEETING, ROUGH
from tacit_reproduction.experiment import Claim, seen_in
from tacit_reproduction.gaps import within

CLOSE = 1.0
"""dB."""
BLOCK = 20
"""Rounds over which a simulated curve is averaged before it is compared: single rounds scatter widely."""
STEADY, WAY, STEPS = "steady", "transient", "steps"
"""Names of figures."""


def off(evidence: Evidence, name: str, form: Form) -> Interval:
    """Return by how many dB a predicted steady error is above the simulated one, with its 95 % interval."""
    share = mean_interval(evidence.simulated[name].steady / evidence.predicted[name].steady[form])
    low, high = (10 * np.log10(max(end, 1e-12)) for end in (share.low, share.high))
    return Interval(-10 * float(np.log10(share.mean)), -float(high), -float(low), share.n)


def path_off(evidence: Evidence, name: str, form: Form) -> Band:
    """Return (blocks,) by how many dB a predicted curve is above the mean of the simulated ones, with intervals."""
    simulated, predicted = evidence.simulated[name].deviation, evidence.predicted[name].paths[form]
    blocks = len(predicted) // BLOCK

    def means(values: Floats) -> Floats:
        return np.asarray(values[..., : blocks * BLOCK].reshape(*values.shape[:-1], blocks, BLOCK).mean(axis=-1))

    share = mean_band(means(simulated) / means(predicted))
    middle, low, high = (-10 * np.log10(np.maximum(part, 1e-12)) for part in (share.mean, share.high, share.low))
    return Band(middle, low, high, share.n)


def judge(evidence: Evidence) -> list[Claim]:
    """Return every claim with its verdict."""
    names = [setting.name for setting in evidence.design.settings]
    usual = [name for name in names if name != MEETING.name]
    claims = [
        _steady(evidence, usual, "kept", "(4.34), with the terms that can be kept, is within 1 dB of simulations"),
        _steady(evidence, usual, "text", "(4.34) as the text has it is within 1 dB of simulations", _dropped(evidence)),
    ]
    if MEETING.name in names:
        words = "(4.34), with the terms that can be kept, is within 1 dB where updates of all ages meet"
        why = "a message arrives once, but arrivals of different ages are taken as independent, as in the text"
        claims.append(_steady(evidence, [MEETING.name], "kept", words, why))
    return [
        *seen_in(STEADY, *claims, text="(4.34) gives the steady state; the text does not compare it with a run"),
        *seen_in(WAY, _paths(evidence), text="(4.33) gives every iteration; the text does not compare it with a run"),
        *_steps(evidence),
    ]


def _steady(evidence: Evidence, names: Sequence[str], form: Form, claim: str, why: str = "") -> Claim:
    found = {name: off(evidence, name, form) for name in names}
    farthest = max(found, key=lambda name: abs(found[name].mean))
    missed = {name: gap for name, gap in found.items() if not within(CLOSE)(gap)}
    one = found[farthest]
    figure = f"predicted minus simulated, dB: {farthest} {_in_words(one)} (95 % over {one.n} runs)"
    if len(found) > 1:
        least, most = (pick(gap.mean for gap in found.values()) for pick in (min, max))
        figure += f", the farthest of {len(found)} settings, which are {least:+.2f} to {most:+.2f} off"
    if missed:
        figure += f". Not so: {', '.join(f'{name} {_in_words(gap)}' for name, gap in missed.items())}"
        figure += f". Why: {why}" if why else ""
    return Claim(claim, not missed, figure)


def _in_words(gap: Interval) -> str:
    return f"{gap.mean:+.2f} [{gap.low:+.2f}, {gap.high:+.2f}]"


def _dropped(evidence: Evidence) -> str:
    """Say how much of what the text's form is off by is due to the mu^2 terms."""
    parts = []
    for setting in evidence.design.settings:
        steady = evidence.predicted[setting.name].steady
        squares, all_of_it = (10 * np.log10(steady[form] / steady["kept"]) for form in ("no squares", "text"))
        parts.append(f"{setting.name} {squares:+.2f} of {all_of_it:+.2f}")
    return (
        "(4.26) has no mu^2 terms, which alone changes the prediction by, in dB and of all that the text's form changes"
        f": {', '.join(parts)}; the rest, of either sign, is that selections are drawn anew for each iteration and "
        "that receiving is independent of sending, while a client sends in the iteration in which it receives"
    )


def _paths(evidence: Evidence) -> Claim:
    parts, holds = [], True
    for name, predicted in evidence.predicted.items():
        if not predicted.paths:
            continue
        found, text = (path_off(evidence, name, form) for form in ("kept", "text"))
        outside = int(np.sum((found.low > CLOSE) | (found.high < -CLOSE)))
        mean, of_text = (float(np.abs(band.mean).mean()) for band in (found, text))
        holds &= outside == 0 and mean < CLOSE
        parts.append(f"{name} {mean:.2f} dB, {outside} of {len(found.mean)} outside (the text's form {of_text:.2f} dB)")
    figure = (
        f"mean distance, of means over {BLOCK} rounds each from the first to the last, and how many of these have "
        f"their 95 % interval wholly farther than 1 dB: {', '.join(parts)}"
    )
    return Claim("(4.33), the way there, is within 1 dB of simulations", holds, figure)


# -- step sizes --------------------------------------------------------------------------------------------------------


def _steps(evidence: Evidence) -> list[Claim]:
    refused = [setting for setting in FORCED if evidence.refusals[setting.name]]
    flagged = Claim(
        "A step above the bound of Theorem 4.2 is flagged before the run",
        len(refused) == len(FORCED),
        "; ".join(f"{s.name}: {evidence.refusals[s.name] or 'nothing is said'}" for s in FORCED),
    )
    fates = [
        Claim(
            "Forced, it diverges, if it is above the true limit as well",
            bool(evidence.simulated[BEYOND.name].diverged.all()),
            _fate(evidence, BEYOND.name, BEYOND.step),
        ),
        Claim(
            "Theorem 4.2, only if: any step above its bound diverges",
            bool(evidence.simulated[ROUGH.name].diverged.all()),
            f"{_fate(evidence, ROUGH.name, ROUGH.step)}. One of eight clients has eight times the others' variance, "
            "and averaging over clients damps what its own steps do",
        ),
        Claim(
            "Theorem 4.2, if: a step below its bound is stable (one client, Gaussian features)",
            not evidence.simulated[ALONE.name].diverged.any(),
            f"{_fate(evidence, ALONE.name, ALONE.step)}. This is the classical LMS, whose limit 2 / (d + 2) comes from "
            "the mu^2 terms",
        ),
        Claim(
            "... with everything shared, alpha = 1 and three ages that meet",
            not evidence.simulated[AGES.name].diverged.any(),
            f"{_fate(evidence, AGES.name, AGES.step)}. (4.14) adds up one whole correction for every age, and the "
            f"server overshoots. With alpha_l = 0.2^l: {_fate(evidence, FADING.name, FADING.step)}",
        ),
    ]
    said = (
        "Theorem 4.2: the mean-square deviation is stable if and only if 0 < mu < 1 / (largest eigenvalue of any R_k)"
    )
    return [flagged, *seen_in(STEPS, *fates, text=said)]


def _fate(evidence: Evidence, name: str, step: float) -> str:
    bounds, run = evidence.bounds[name], evidence.simulated[name]
    limit = f"{bounds.true:.3g}" if bounds.true else f"below {SMALLEST * bounds.mean_square:g}"
    last = float(np.median(run.deviation[:, -1]))
    error = f"{last:.2g} times the first" if np.isfinite(last) else "no longer a number"
    return (
        f"mu = {step:g}, bounds {bounds.mean_square:.3g} (Theorem 4.2) and {bounds.mean:.3g} (Theorem 4.1), limit by "
        f"the radius of F {limit}: {int(run.diverged.sum())} of {len(run.deviation)} runs have diverged after "
        f"{run.deviation.shape[1]:,} rounds, the median error is then {error}"
    )
