"""Verdicts of `pao-vs-baselines` on Gauthier (2023), secs. 4.4.3 and 4.4.5."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tacit.metrics import Interval
from tacit_reproduction.asynchronous.baselines_runs import (
    FED,
    FEDSGD,
    HALF,
    LONELY,
    PAO,
    PSO,
    SIGN,
    Evidence,
    by_fraction,
    ideal,
    own_best,
    swept,
)
from tacit_reproduction.asynchronous.curves import gap, steady_error
from tacit_reproduction.asynchronous.setting import Curve
from tacit_reproduction.experiment import Claim, seen_in
from tacit_reproduction.gaps import above, decibels, in_decibels, judged
from tacit_reproduction.judging import Chain, rising

POORLY, LITTLE, CLOSE, SLIGHTLY, AT = 0.5, 1.0, 0.25, 1.0, 0.1
"""In dB: what a method that performs poorly loses at least; what one that varies little varies, one that is close
loses, one that is slightly worse loses, and one that is at another's level or below it loses, each at most."""
CURVES, LOAD, STRAGGLERS, REDUCTIONS = "baselines", "load", "stragglers", "reductions"
"""Names of figures."""


def judge(evidence: Evidence) -> list[Claim]:
    """Put every claim to the test."""
    return [
        *_against_fedsgd(evidence),
        *_subsampling(evidence),
        *(_loads(evidence) if evidence.design.sizes else []),
        *(_stragglers(evidence) if evidence.design.ideal else []),
        *_reductions(evidence),
    ]


def saved(curve: Curve, reference: Curve) -> float:
    """Return the share of another method's bits that a method does without."""
    return 1 - (curve.up + curve.down) / (reference.up + reference.down)


def loses_at_most(limit: float) -> Callable[[Interval], bool]:
    """The whole interval ends below this many dB."""
    return lambda found: found.high < limit


def _against_fedsgd(evidence: Evidence) -> list[Claim]:
    curves = evidence.curves
    note = " ".join(filter(None, (_own_steps(evidence, "U1", "C2", FEDSGD), _next_step(evidence))))
    said = f"figure 4.3 (a): U1 and U2 outperform {FEDSGD} with 98 % less communication"
    in_text = {"C2": f"figure 4.3 (a) has U1 and U2; of C2 and {FEDSGD} only section 4.4.4 speaks, on CalCOFI"}
    claims = [
        judged(
            f"{variant} settles at or below (up to {AT:g} dB above) {FEDSGD} with 98 % less communication",
            [gap(curves[variant], curves[FEDSGD])],
            loses_at_most(AT),
            note=f"{saved(curves[variant], curves[FEDSGD]):.1%} of the bits are saved",
        )._replace(text=in_text.get(variant, said))
        for variant in PAO
    ]
    outperform = judged(
        f"U1 and U2 outperform {FEDSGD}",
        [gap(curves[variant], curves[FEDSGD]) for variant in ("U1", "U2")],
        loses_at_most(0),
        note=note,
    )
    return seen_in(CURVES, *claims, outperform, text=said)


def _next_step(evidence: Evidence) -> str:
    """Say what Online-FedSGD comes to with the next larger step, which starts nearly as much alike."""
    chosen = evidence.steps[FEDSGD]
    larger = [step for step in chosen.tried if step > chosen.matched]
    if not larger:
        return ""
    ends = ", ".join(f"{chosen.tried[step]:.2f} dB at {step:g}" for step in (chosen.matched, larger[0]))
    return f"It hangs on what starting alike means. {FEDSGD} on the tuning seeds: {ends}"


def _subsampling(evidence: Evidence) -> list[Claim]:
    curves = evidence.curves
    why = ""
    if LONELY in curves:
        why = (
            "four times fewer messages of four times the width bring as many coordinates home, and clients that are "
            "not called learn on alone. Where nobody does (PAO-Fed U1 with m = 16 and clients there four times as "
            f"rarely, which learn only then) it ends at {in_decibels(steady_error(curves[LONELY]))} dB"
        )
    reasons = {FED: "", PSO: why}
    claims = [
        judged(
            f"{label} performs poorly: {POORLY:g} dB or more above U1 at the same communication",
            [gap(curves[label], curves["U1"])],
            above(POORLY),
            why=reasons[label],
            note=_own_steps(evidence, "U1", label),
        )
        for label in (FED, PSO)
    ]
    said = "figure 4.3 (a): Online-Fed and PSO-Fed, which call some of the few who are there, both perform poorly"
    return seen_in(CURVES, *claims, text=said)


def _loads(evidence: Evidence) -> list[Claim]:
    labels = [curve.label for curve in by_fraction(evidence)[::-1]]
    from_most = [(label, decibels(steady_error(evidence.curves[label]))) for label in labels]
    best_from_most = [(label, decibels(steady_error(at_best(evidence, label)))) for label in labels]
    little = [_varies_little(evidence, variant) for variant in ("U1", "C2")]
    more = [
        rising("Online-Fed is the better the more it sends (steps that start alike)", [Chain("", from_most)], " dB"),
        rising("Online-Fed is the better the more it sends (best steps)", [Chain("", best_from_most)], " dB"),
    ]
    return [
        *seen_in(LOAD, *little, text="figure 4.3 (b): methods that share parts vary very little with the load"),
        *seen_in(LOAD, *more, text="figure 4.3 (b): the higher its load, up to 6,400 bits, the better Online-Fed is"),
    ]


def _varies_little(evidence: Evidence, variant: str) -> Claim:
    found = swept(evidence, variant)
    means = {m: float(np.mean(decibels(steady_error(curve)))) for m, curve in found}
    finite = [mean for mean in means.values() if np.isfinite(mean)]
    spread = max(finite) - min(finite) if len(finite) == len(means) else np.inf
    parts = ", ".join(f"m = {m} {in_decibels(steady_error(curve))}" for m, curve in found)
    figure = f"steady error in dB: {parts}"
    if np.isinf(spread):
        figure += (
            ". Not so: it diverges. Where whole models are shared (4.14) with alpha = 1 adds a whole correction for "
            "every age that arrives, three or four at once; below that m the highest and lowest are "
            f"{max(finite) - min(finite):.2f} dB apart"
        )
    else:
        figure += f"; the highest and the lowest are {spread:.2f} dB apart"
    return Claim(
        f"{variant} varies little ({LITTLE:g} dB) with the load of a message, m from 1 to {found[-1][0]}",
        spread <= LITTLE,
        figure,
    )


def _stragglers(evidence: Evidence) -> list[Claim]:
    curves = evidence.curves
    perfect, c2, u1 = curves[ideal(FEDSGD)], curves[ideal("C2")], curves[ideal("U1")]
    common = judged(
        f"Among ideal clients common windows (C2) lose little (up to {CLOSE:g} dB) to no reduction at all",
        [gap(c2, perfect)],
        loses_at_most(CLOSE),
    )
    own = judged(
        f"Among ideal clients windows of one's own (U1) are slightly worse (up to {SLIGHTLY:g} dB) than C2's",
        [gap(u1, c2)],
        lambda found: found.low > 0 and found.high < SLIGHTLY,
    )
    late = judged(
        f"C2 among stragglers loses little (up to {CLOSE:g} dB) to methods in the perfect setting",
        [gap(curves["C2"], perfect), gap(curves["C2"], c2)],
        loses_at_most(CLOSE),
        why=f"stragglers send {curves['C2'].up / c2.up:.1%} of the messages of ideal clients",
    )
    return [
        *seen_in(STRAGGLERS, common, text="figure 4.3 (c): without stragglers almost identical to no reduction"),
        *seen_in(STRAGGLERS, own, text="figure 4.3 (c): without stragglers uncoordinated sharing is slightly worse"),
        *seen_in(STRAGGLERS, late, text="figure 4.3 (c): with stragglers C2 does almost as in a perfect setting"),
    ]


def _reductions(evidence: Evidence) -> list[Claim]:
    curves = evidence.curves
    sent = ", ".join(f"{name} {curves[name].up + curves[name].down:.4g}" for name in (SIGN, HALF, "C2"))
    sign = judged(
        f"SignSGD settles well ({POORLY:g} dB) below {HALF} at a similar load",
        [gap(curves[HALF], curves[SIGN])],
        above(POORLY),
        note=f"Bits per client and iteration in both directions: {sent}. {_own_steps(evidence, SIGN, HALF)}",
    )
    below_sign = judged(
        "C2 settles below SignSGD",
        [gap(curves["C2"], curves[SIGN])],
        loses_at_most(0),
        note=_own_steps(evidence, "C2", SIGN),
    )
    below_subset = judged("C2 settles below PSO-Fed", [gap(curves["C2"], curves[PSO])], loses_at_most(0))
    return [
        *seen_in(REDUCTIONS, sign, text="figure 4.5: SignSGD does significantly better than Online-Fed at 50 %"),
        *seen_in(REDUCTIONS, below_sign, text="figure 4.5: as it is, SignSGD does not have the accuracy of C2"),
        *seen_in(REDUCTIONS, below_subset, text="figure 4.5: what PSO-Fed does is not desirable among such clients"),
    ]


def _own_steps(evidence: Evidence, *labels: str) -> str:
    """Say where methods end at their own best steps, where those were looked for."""
    if not all(evidence.steps[label].tried for label in labels if label in evidence.steps):
        return ""
    named = []
    for label in labels:
        found = in_decibels(steady_error(at_best(evidence, label)))
        named.append(f"{label} {found} dB (step {evidence.steps[label].best:g})")
    return f"Each at its own best step: {', '.join(named)}."


def at_best(evidence: Evidence, label: str) -> Curve:
    """Return a method's curve at its own best step, which may be the one that starts alike."""
    return evidence.curves.get(own_best(label), evidence.curves[label])
