"""Verdicts of `diffusion-regression`: pure functions of the measurements. All differences are paired, in dB."""

from __future__ import annotations

from typing import Any

import numpy as np

from tacit_reproduction.diffusion.protocol import METHODS, Floats, Method, Noise
from tacit_reproduction.diffusion.regression_runs import TEXT_STEP, Cell, Evidence
from tacit_reproduction.experiment import Claim, seen_in
from tacit_reproduction.gaps import Gap, above, decibels, judged, within
from tacit_reproduction.judging import Chain, rising
from tacit_reproduction.mirror.slopes import slope_of_mean

CLOSE, FAR = 1.0, 6.0
"""dB: at most this far apart is "as good", at least that far "much worse"."""
UNTOUCHED = 0.1
"""dB that a grid may cost."""
SLOPE_SPARE = 0.1
LARGEST_OF_SLOPE = 0.1
"""Steps from here down are small enough for the theory."""
ROUNDS, ROUNDS_SMALL, STEPS = "rounds", "rounds-small", "steps"
"""Our figures."""
OF_LOCAL = "figure 4.4: the curve under local graph-homomorphic noise follows that without noise (curves, no numbers)"
OF_CLOSE = (
    "figure 4.4, mu = 0.4: close to the curve without noise (no numbers); (4.54): O(1) sigma_g^2 of the noise stay"
)
OF_FAR = "figure 4.4, mu = 0.4: random significantly higher (no numbers); (4.48): it adds O(1 / mu) sigma_g^2"
OF_INDIVIDUAL = "figure 4.4: models of their own suffer, but less than under random noise (curves, no numbers)"
OF_RANDOM = "(4.48): random noise adds O(1 / mu) sigma_g^2; no runs at other mu"
OF_HOMOMORPHIC = "(4.54): at most O(mu) sigma_s^2 + O(1) sigma_g^2 + O(mu^2); no runs at other mu"


def smallest(evidence: Evidence) -> float:
    """Return the smallest step."""
    return min(cell.step for cell in evidence.cells)


def steps_of(evidence: Evidence, method: Method) -> list[float]:
    """Return the steps at which a method was run, falling."""
    return sorted({cell.step for cell in evidence.cells if cell.method == method}, reverse=True)


def methods_at(evidence: Evidence, step: float) -> list[Method]:
    """Return the methods that were run at a step."""
    return [method for method in METHODS if step in steps_of(evidence, method)]


def swept(evidence: Evidence) -> list[Method]:
    """Return the methods that were run at several steps."""
    return [method for method in METHODS if len(steps_of(evidence, method)) > 1]


def judge(evidence: Evidence) -> list[Claim]:
    """Return every claim with its verdict."""
    shown = {ROUNDS: TEXT_STEP, ROUNDS_SMALL: smallest(evidence)}
    return [
        *seen_in(ROUNDS, _bits(evidence), _grid(evidence), text=OF_LOCAL),
        *(claim for name, step in shown.items() for claim in seen_in(name, _close(evidence, step), text=OF_CLOSE)),
        *(claim for name, step in shown.items() for claim in seen_in(name, _far(evidence, step), text=OF_FAR)),
        *seen_in(ROUNDS, _ordered(evidence), text=OF_FAR),
        *_whole(evidence),
        *(c for name, step in shown.items() for c in seen_in(name, _individual(evidence, step), text=OF_INDIVIDUAL)),
        *seen_in(STEPS, _random_worsens(evidence), text=OF_RANDOM),
        *seen_in(STEPS, _homomorphic_improves(evidence), text=OF_HOMOMORPHIC),
        *seen_in(STEPS, _slope(evidence), text=OF_RANDOM),
        *seen_in(STEPS, _prediction(evidence)),
        *_levels(evidence),
    ]


def _settled(evidence: Evidence, method: Method, noise: Noise, step: float) -> Floats:
    found = evidence.cells[Cell(method, noise, step)].settled
    return np.where(np.isfinite(found), found, np.nan)  # of what has left all bounds no difference can be taken


def _gaps(evidence: Evidence, noise: Noise, step: float) -> list[Gap]:
    methods = methods_at(evidence, step)
    return [Gap(m, *(_settled(evidence, m, which, step) for which in (noise, "none"))) for m in methods]


def _bits(evidence: Evidence) -> Claim:
    parts = [
        f"{method}: {found.numbers:,} numbers, {'all the same' if found.same else 'not all the same'}"
        for method, found in evidence.masked.items()
    ]
    same = all(found.same for found in evidence.masked.values())
    claim = "Local graph-homomorphic noise leaves the run as it is to the bit, in every round, at every agent"
    return Claim(claim, same, f"models beside those of the same run on the same grid without masks; {'; '.join(parts)}")


def _grid(evidence: Evidence) -> Claim:
    gaps = [
        Gap(method, found.local.settled, _settled(evidence, method, "none", TEXT_STEP))
        for method, found in evidence.masked.items()
    ]
    claim = (
        f"Centroid MSD under local graph-homomorphic noise is that of the run without noise, within {UNTOUCHED:g} dB"
    )
    return judged(claim, gaps, within(UNTOUCHED), "the grid is too coarse for such small deviations")


def _close(evidence: Evidence, step: float) -> Claim:
    claim = f"Centroid MSD under graph-homomorphic noise is within {CLOSE:g} dB of that without noise: mu = {step:g}"
    note = f"In general: {_gap_in_words(evidence, 1.0)}."
    return judged(claim, _gaps(evidence, "homomorphic", step), within(CLOSE), note=note)


def _gap_in_words(evidence: Evidence, level: float) -> str:
    theory = evidence.theory[level]
    gap = float(np.mean(decibels(1 + theory.homomorphic / theory.sampling)))
    return (
        f"theory has {gap:.2f} dB at every small mu, since gradients at models that differ are noisier, and all noise "
        "of gradients counts in proportion to mu"
    )


def _far(evidence: Evidence, step: float) -> Claim:
    claim = f"Centroid MSD under random noise is at least {FAR:g} dB above that without noise: mu = {step:g}"
    theory = evidence.theory[1.0]
    crossing = float(np.sqrt(np.mean(theory.random) / np.mean(theory.sampling)))
    far = crossing / float(np.sqrt(10 ** (FAR / 10) - 1))
    why = (
        f"random noise adds {float(np.mean(theory.random)):.1e} / mu to the centroid's MSD and one-sample gradients "
        f"have {float(np.mean(theory.sampling)):.1e} mu of their own, so that the first is more than the second only "
        f"below mu = {crossing:.2f}, and both together are {FAR:g} dB above the second below mu = {far:.2f}"
    )
    return judged(claim, _gaps(evidence, "random", step), above(FAR), why)


def _ordered(evidence: Evidence) -> Claim:
    gaps = [Gap(m, *(_settled(evidence, m, noise, TEXT_STEP) for noise in ("random", "homomorphic"))) for m in METHODS]
    claim = f"Centroid MSD is higher under random than under graph-homomorphic noise: mu = {TEXT_STEP:g} (figure 4.4)"
    why = "at this step the gradients' own noise hides both kinds, see the claim on 6 dB"
    return judged(claim, gaps, lambda found: found.low > 0, why)


def _whole(evidence: Evidence) -> list[Claim]:
    if not any(cell.whole for cell in evidence.cells):
        return []
    none, random, homomorphic = (
        evidence.cells[Cell("ATC", noise, TEXT_STEP, whole=True)].settled for noise in ("none", "random", "homomorphic")
    )
    where = f"gradients of whole data sets, ATC, mu = {TEXT_STEP:g}"
    why = (
        "without gradient noise nothing is left of the plain run's error but a small bias, while the agents' samples "
        "have curvatures that differ, so that what the noise does to their gradients does not cancel quite"
    )
    return [
        judged(
            f"Centroid MSD under random noise is at least {FAR:g} dB above that under graph-homomorphic noise: {where}",
            [Gap("ATC", random, homomorphic)],
            above(FAR),
        ),
        judged(
            f"Centroid MSD under graph-homomorphic noise is within {CLOSE:g} dB of that without noise: {where}",
            [Gap("ATC", homomorphic, none)],
            within(CLOSE),
            why,
        ),
    ]


def _individual(evidence: Evidence, step: float) -> Claim:
    order: tuple[Noise, ...] = ("none", "homomorphic", "random")
    chains = [
        Chain(m, [(noise, decibels(evidence.cells[Cell(m, noise, step)].settled_individual)) for noise in order])
        for m in methods_at(evidence, step)
    ]
    claim = f"Mean individual MSD under graph-homomorphic noise lies between no noise and random noise: mu = {step:g}"
    verdict = rising(claim, chains, " dB")
    if verdict.holds:
        return verdict
    theory = evidence.theory[1.0]
    apart, own = float(np.mean(theory.apart_homomorphic)), float(np.mean(theory.apart_random))
    crossing = float(np.mean(theory.random)) / (apart - own)
    why = (
        "Why: what an agent keeps makes up for the noise that it sends out, and that drives models apart, by a mean "
        f"squared distance of {apart:.1e} from the centroid where random noise has {own:.1e} (theory for small mu). "
        f"Only below mu = {crossing:.1e} random noise harms the centroid by more than that difference"
    )
    return verdict._replace(figure=f"{verdict.figure}. {why}.")


def _random_worsens(evidence: Evidence) -> Claim:
    chains = []
    for method in swept(evidence):
        links = []
        for step in steps_of(evidence, method):
            value, reference = (decibels(_settled(evidence, method, n, step)) for n in ("random", "none"))
            links.append((f"mu = {step:g}", value - reference))
        chains.append(Chain(method, links))
    return rising("The smaller mu, the more random noise costs: centroid MSD above that without noise", chains, " dB")


def _homomorphic_improves(evidence: Evidence) -> Claim:
    chains = [
        Chain(
            method,
            [
                (f"mu = {step:g}", decibels(_settled(evidence, method, "homomorphic", step)))
                for step in reversed(steps_of(evidence, method))
            ],
        )
        for method in swept(evidence)
    ]
    note = "The text's bound (4.54) is O(1) sigma_g^2: it is not tight, the share of the noise falls with mu."
    return rising("Under graph-homomorphic noise a smaller mu has a lower centroid MSD", chains, " dB", note)


def excess(evidence: Evidence, method: Method, noise: Noise) -> tuple[Any, Floats]:
    """Return the steps, rising, and (seeds, steps) what noise adds to the centroid's MSD."""
    steps = sorted(steps_of(evidence, method))
    added = [_settled(evidence, method, noise, step) - _settled(evidence, method, "none", step) for step in steps]
    return np.array(steps), np.stack(added, axis=1)


def _slope(evidence: Evidence) -> Claim:
    parts, held = [], True
    for method in swept(evidence):
        steps, added = excess(evidence, method, "random")
        used = steps <= LARGEST_OF_SLOPE
        if used.sum() >= 3:
            found = slope_of_mean(steps[used], added[:, used])
            held &= found.low > -1 - SLOPE_SPARE and found.high < -1 + SLOPE_SPARE
            parts.append(f"{method}: {found.mean:.3f} [{found.low:.3f}, {found.high:.3f}]")
    claim = f"What random noise adds to the centroid's MSD grows like 1 / mu (4.48), slope within {SLOPE_SPARE:g} of -1"
    return Claim(claim, held, f"{'; '.join(parts)}, from mu = {LARGEST_OF_SLOPE:g} down (95 %, jackknife over seeds)")


def _prediction(evidence: Evidence) -> Claim:
    step = smallest(evidence)
    theory = evidence.theory[1.0]
    gaps = []
    for method in swept(evidence):
        gaps.append(Gap(f"{method}, none", _settled(evidence, method, "none", step), theory.sampling * step))
        expected = theory.sampling * step + theory.random / step
        gaps.append(Gap(f"{method}, random", _settled(evidence, method, "random", step), expected))
        expected = (theory.sampling + theory.homomorphic) * step
        gaps.append(Gap(f"{method}, homomorphic", _settled(evidence, method, "homomorphic", step), expected))
    claim = f"Our theory, from data and network alone, gives the centroid's MSD within {CLOSE:g} dB: mu = {step:g}"
    return judged(claim, gaps, within(CLOSE))


def _levels(evidence: Evidence) -> list[Claim]:
    claims = []
    step = smallest(evidence)
    for level in sorted({cell.level for cell in evidence.cells} - {1.0}):
        value, none = (evidence.cells[Cell("ATC", n, step, level)].settled for n in ("homomorphic", "none"))
        claim = (
            f"Centroid MSD under graph-homomorphic noise is within {CLOSE:g} dB of that without noise: mu = {step:g}, "
            f"data with {level:g} times the noise variance"
        )
        why = f"{_gap_in_words(evidence, level)}; the less noise the data have, the more that is"
        claims.append(judged(claim, [Gap("ATC", value, none)], within(CLOSE), why))
    return claims
