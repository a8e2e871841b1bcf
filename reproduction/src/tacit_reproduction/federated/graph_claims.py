"""Verdicts of `gfl-regression`: pure functions of the measurements. All differences are paired, in dB."""

from __future__ import annotations

import numpy as np

from tacit_reproduction.experiment import Claim, seen_in
from tacit_reproduction.federated.graph_moments import Floats
from tacit_reproduction.federated.graph_runs import LONGER, TEXT_STEP, TEXT_VARIANCE, Cell, Evidence, Noise
from tacit_reproduction.gaps import Gap, above, all_close, decibels, judged, within
from tacit_reproduction.judging import Chain, rising

CLOSE, FAR = 1.0, 6.0
"""dB: at most this far apart is "as good", at least that far "much worse"."""
NOISY: tuple[Noise, Noise] = ("random", "homomorphic")
WHERE = f"mu = {TEXT_STEP:g}, sigma_g^2 = {TEXT_VARIANCE:g}"
LEARNING, BY_VARIANCE, BY_STEP = "learning", "variances", "steps"
"""Names of figures."""


def judge(evidence: Evidence) -> list[Claim]:
    """Return every claim with its verdict."""
    with np.errstate(invalid="ignore"):  # of what has left all bounds nothing can be told
        return [
            _one_server(evidence),
            *seen_in(LEARNING, _far(evidence), text="figure 3.2: random noise has lower performance than the others"),
            *seen_in(LEARNING, _close(evidence), text="figure 3.2: no such decay, it tracks the run without noise"),
            *seen_in(BY_VARIANCE, _close_at(evidence, variances(evidence)[0])),
            *seen_in(
                BY_VARIANCE,
                _apart(evidence),
                _rises(evidence, "random"),
                _rises(evidence, "homomorphic"),
                text="figure 3.3 (a): with the variance MSD increases significantly under random noise, unlike under "
                "homomorphic noise",
            ),
            *seen_in(BY_VARIANCE, _breaks_down(evidence), text="section 3.5.1: at some variance it breaks down"),
            *seen_in(BY_VARIANCE, _individual_rises(evidence), text="figure 3.3 (b): it grows for both schemes"),
            *seen_in(
                BY_VARIANCE,
                _individual(evidence),
                text="figure 3.3 (b): homomorphic noise is better, though it does not seem significant",
            ),
            *seen_in(BY_STEP, _random_worsens(evidence), text="Theorem 3.1: random noise adds a term of O(1 / mu)"),
            *seen_in(BY_STEP, _homomorphic_improves(evidence), text="figure 3.4: as mu is increased, MSD increases"),
            *seen_in(BY_STEP, _two_ends(evidence), text="figure 3.4: worse for very small and very large mu"),
            *seen_in(BY_STEP, _converges(evidence), text="figure 3.4 has curves for mu = 0.1, 0.5, 1 and 5"),
            *seen_in(BY_STEP, _theory(evidence)),
        ]


def steps(evidence: Evidence) -> list[float]:
    """Return the steps of the sweep, rising."""
    return sorted({cell.step for cell in evidence.cells})


def variances(evidence: Evidence) -> list[float]:
    """Return the variances of the sweep, rising."""
    return sorted({cell.variance for cell in evidence.cells if cell.step == TEXT_STEP and cell.noise == "random"})


def settled(evidence: Evidence, noise: Noise, step: float = TEXT_STEP, variance: float = TEXT_VARIANCE) -> Floats:
    """Return (seeds,) where the centroid of a cell settled."""
    return evidence.cells[Cell(noise, step, variance)].settled


def _individual_settled(evidence: Evidence, noise: Noise, variance: float = TEXT_VARIANCE) -> Floats:
    return evidence.cells[Cell(noise, TEXT_STEP, variance)].settled_individual


def _one_server(evidence: Evidence) -> Claim:
    found = evidence.one_server
    words = "all the same" if found.same else "not all the same"
    figure = f"{found.numbers:,} numbers, those of the server's model after every round, compared bit by bit: {words}"
    return Claim("With one server it is federated averaging, exactly", found.same, figure)


# -- the centroid, and how much noise there is -------------------------------------------------------------------------


def _far(evidence: Evidence) -> Claim:
    gap = Gap("", settled(evidence, "random"), settled(evidence, "none"))
    claim = f"Centroid MSD under random noise is at least {FAR:g} dB above that without noise: {WHERE} (figure 3.2)"
    return judged(claim, [gap], above(FAR))


def _close(evidence: Evidence) -> Claim:
    return _close_at(evidence, TEXT_VARIANCE, " (figure 3.2)")


def _close_at(evidence: Evidence, variance: float, place: str = "") -> Claim:
    gap = Gap("", *(settled(evidence, noise, variance=variance) for noise in ("homomorphic", "none")))
    claim = (
        f"Centroid MSD under graph-homomorphic noise is within {CLOSE:g} dB of that without noise: mu = {TEXT_STEP:g}, "
        f"sigma_g^2 = {variance:g}{place}"
    )
    theory = evidence.theory[TEXT_STEP]
    own, added = float(theory.plain[:, 0].mean()), float(theory.homomorphic[:, 0].mean())
    limit = own / added * (10 ** (CLOSE / 10) - 1)
    why = (
        f"the noise cancels in the mean of the models but drives them apart, and gradients taken at models that differ "
        f"do not average to that of the mean: moments have {added:.1e} sigma_g^2 beside {own:.1e} of the plain run, "
        f"which is {CLOSE:g} dB from sigma_g^2 = {limit:.2g} on"
    )
    return judged(claim, [gap], within(CLOSE), why)


def _apart(evidence: Evidence) -> Claim:
    gaps = [
        Gap(f"{v:g}", *(settled(evidence, noise, variance=v) for noise in NOISY))
        for v in variances(evidence)
        if v >= TEXT_VARIANCE
    ]
    claim = (
        f"Centroid MSD under random noise is at least {FAR:g} dB above that under graph-homomorphic noise, from "
        f"sigma_g^2 = {TEXT_VARIANCE:g} up (figure 3.3a)"
    )
    return judged(claim, gaps, above(FAR))


def _rises(evidence: Evidence, noise: Noise) -> Claim:
    every = variances(evidence)
    low, high = (settled(evidence, noise, variance=v) for v in (every[0], every[-1]))
    words = f"from sigma_g^2 = {every[0]:g} to {every[-1]:g}, mu = {TEXT_STEP:g}"
    if noise == "random":
        links = [(f"{v:g}", decibels(settled(evidence, noise, variance=v))) for v in every]
        return rising(f"Centroid MSD under random noise grows with sigma_g^2: {words}", [Chain("", links)], " dB")
    claim = f"Centroid MSD under graph-homomorphic noise does not grow by more than {CLOSE:g} dB: {words}"
    added = float(evidence.theory[TEXT_STEP].homomorphic[:, 0].mean())
    why = f"it grows by {added:.1e} sigma_g^2 (moments), in proportion to sigma_g^2 like that of random noise"
    return judged(claim, [Gap("", high, low)], lambda found: found.high < CLOSE, why)


def _breaks_down(evidence: Evidence) -> Claim:
    at = variances(evidence)[-1]
    finite = all(np.isfinite(outcome.individual).all() for outcome in evidence.cells.values())
    worst = float(np.max(_individual_settled(evidence, "random", at)))
    grown = float(evidence.theory[TEXT_STEP].growth.max())
    figure = (
        f"up to sigma_g^2 = {at:g} every run settled, at a mean individual MSD of {worst:.2g} at most. Why: the risks "
        "are quadratic, so that noise is added to a linear recursion, and whether that converges does not depend on "
        f"the noise (after a round {grown:.2f} of a squared deviation is left)"
    )
    claim = "Under random noise the method breaks down at some variance of the sweep"
    return Claim(claim, not finite, figure if finite else "some runs left all bounds")


# -- the servers' own models -------------------------------------------------------------------------------------------


def _individual_rises(evidence: Evidence) -> Claim:
    chains = [
        Chain(noise, [(f"{v:g}", decibels(_individual_settled(evidence, noise, v))) for v in variances(evidence)])
        for noise in NOISY
    ]
    return rising("Mean individual MSD grows with sigma_g^2 under both schemes (figure 3.3b)", chains, " dB")


def _individual(evidence: Evidence) -> Claim:
    gaps = [
        Gap(f"{v:g}", *(_individual_settled(evidence, noise, v) for noise in ("homomorphic", "random")))
        for v in variances(evidence)
    ]
    theory = evidence.theory[TEXT_STEP]
    ours, others = (float(part[:, 1].mean()) for part in (theory.homomorphic, theory.random))
    why = (
        f"moments have {ours:.2f} sigma_g^2 for graph-homomorphic and {others:.2f} sigma_g^2 for random noise. What a "
        "server keeps makes up for the noise that it sent out, which is -(1 - W[p, p]) / W[p, p] times it, more than "
        "what it hears from its neighbours averages out"
    )
    claim = "Mean individual MSD is lower under graph-homomorphic than under random noise of the same variance"
    small = steps(evidence)[0]
    own, random = (
        float(np.mean(decibels(evidence.cells[Cell(noise, small, TEXT_VARIANCE)].settled_individual)))
        for noise in ("homomorphic", "random")
    )
    note = f"At mu = {small:g} it is {own:.2f} against {random:.2f} dB: only random noise costs more as mu falls."
    return judged(claim, gaps, lambda found: found.high < 0, why, note)


# -- the sweep over steps ----------------------------------------------------------------------------------------------


def _random_worsens(evidence: Evidence) -> Claim:
    links = []
    for step in reversed([step for step in steps(evidence) if step <= TEXT_STEP]):
        noisy, plain = (decibels(settled(evidence, noise, step)) for noise in ("random", "none"))
        links.append((f"mu = {step:g}", noisy - plain))
    claim = "The smaller mu, the more random noise costs: centroid MSD above that without noise (figure 3.4)"
    return rising(claim, [Chain("", links)], " dB")


def _homomorphic_improves(evidence: Evidence) -> Claim:
    links = [(f"mu = {step:g}", decibels(settled(evidence, "homomorphic", step))) for step in steps(evidence)]
    claim = "Under graph-homomorphic noise centroid MSD does not get worse as mu falls: it grows with mu (figure 3.4)"
    return rising(claim, [Chain("", links)], " dB")


def _two_ends(evidence: Evidence) -> Claim:
    every = steps(evidence)
    found = {step: decibels(settled(evidence, "random", step)) for step in every}
    lowest = min(every, key=lambda step: float(found[step].mean()))
    claim = "Under random noise both the smallest and the largest mu are worse than some step between (figure 3.4)"
    if lowest in (every[0], every[-1]):
        means = ", ".join(f"mu = {step:g} {float(found[step].mean()):.2f} dB" for step in every)
        return Claim(claim, False, f"the best step is at an end: {means}")
    chains = [
        Chain(f"against mu = {end:g}", [(f"mu = {lowest:g}", found[lowest]), (f"mu = {end:g}", found[end])])
        for end in (every[0], every[-1])
    ]
    return rising(claim, chains, " dB")


def _converges(evidence: Evidence) -> Claim:
    grown = {step: float(theory.growth.max()) for step, theory in sorted(evidence.theory.items())}
    reached = {
        step: all(np.isfinite(o.individual).all() for cell, o in evidence.cells.items() if cell.step == step)
        for step in grown
    }
    parts = [
        f"mu = {step:g}: {factor:.3f}{'' if reached[step] else ', and runs left all bounds'}"
        for step, factor in grown.items()
    ]
    claim = "All steps of figure 3.4 converge, mu = 5 too"
    note = (
        "A client divides mu by its number of local steps, so that many of them follow the gradient closely even where "
        f"one step of size mu would overshoot. With covariances from {LONGER[0]:g} to {LONGER[1]:g} the factor at "
        f"mu = {max(grown):g} is {evidence.longer:.3g}{': it diverges' if evidence.longer >= 1 else ''}"
    )
    holds = all(reached.values()) and max(grown.values()) < 1
    return Claim(
        claim, holds, f"share of a squared deviation left after a round, worst server: {', '.join(parts)}. {note}"
    )


def _theory(evidence: Evidence) -> Claim:
    gaps = []
    for cell, outcome in sorted(evidence.cells.items()):
        name = f"{cell.noise}, mu = {cell.step:g}, sigma_g^2 = {cell.variance:g}"
        theory = evidence.theory[cell.step]
        gaps.append(Gap(f"centroid, {name}", outcome.settled, theory.settled(cell)))
        gaps.append(Gap(f"individual, {name}", outcome.settled_individual, theory.settled(cell, individual=True)))
    claim = f"Moments computed from data, graph, step and sigma_g^2 alone give every settled MSD within {CLOSE:g} dB"
    return all_close(claim, gaps, CLOSE)
