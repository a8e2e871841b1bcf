"""Verdicts of `fedavg-private`: pure functions of the measurements."""

from __future__ import annotations

import numpy as np

from tacit.metrics import Interval, loglog_slope, paired_difference
from tacit_reproduction.experiment import Claim, seen_in
from tacit_reproduction.federated.graph_moments import Floats
from tacit_reproduction.federated.private_runs import TEXT_STEP, TEXT_VARIANCE, Cell, Evidence, Share
from tacit_reproduction.gaps import Gap, above, all_close, decibels, judged, within
from tacit_reproduction.judging import Chain, rising
from tacit_reproduction.mirror.slopes import slope_of_mean

CLOSE, FAR = 1.0, 6.0
"""dB: at most this far apart is "as good", at least that far "much worse"."""
SLOPE_SPARE = 0.15
SMALL = 0.2
"""Steps up to here are small: what noise adds follows a power of them."""
WHERE = f"mu = {TEXT_STEP:g}, sigma_g^2 = {TEXT_VARIANCE:g}"
LEARNING, BY_STEP, BY_VARIANCE = "learning", "steps", "variances"
"""Names of figures."""


def judge(evidence: Evidence) -> list[Claim]:
    """Return every claim with its verdict."""
    with np.errstate(invalid="ignore"):  # of what has left all bounds nothing can be told
        return [
            *seen_in(LEARNING, _models_worse(evidence), text="figure 2.6: noise is worse where models are shared"),
            *seen_in(
                LEARNING,
                _updates_free(evidence),
                text="section 2.6.4: some mu always makes its effect small; figure 2.6 has both curves",
            ),
            *seen_in(BY_STEP, _updates_rise(evidence), text="figure 2.7 (a), (b): as mu is increased, MSD increases"),
            *seen_in(
                BY_STEP,
                *_trade_off(evidence),
                text="figure 2.7 (a), (b): a trade-off, as mu falls the added noise overpowers the gradients' own",
            ),
            *seen_in(BY_STEP, *_powers(evidence)),
            *seen_in(
                BY_VARIANCE,
                _variances(evidence),
                text="figure 2.7 (c), (d), sigma_g^2 from 0.01 to 0.5: performance diminishes in both cases",
            ),
            *seen_in(
                BY_VARIANCE,
                _sensitive(evidence),
                text="figure 2.7 (c), (d): larger variances affect models more than gradients",
            ),
            *seen_in(
                BY_VARIANCE,
                _linear(evidence),
                text="section 2.6.4: it diverges at lower sigma_g^2 where models are shared",
            ),
            *seen_in(BY_VARIANCE, _theory(evidence)),
            *_equally_private(evidence),
        ]


def steps(evidence: Evidence) -> list[float]:
    """Return the steps of the sweep, rising."""
    return sorted({cell.step for cell in evidence.cells if cell.variance == TEXT_VARIANCE})


def variances(evidence: Evidence) -> list[float]:
    """Return the variances of the sweep, rising."""
    return sorted({cell.variance for cell in evidence.cells if cell.step == TEXT_STEP and cell.share == "models"})


def settled(evidence: Evidence, share: Share, step: float = TEXT_STEP, variance: float = TEXT_VARIANCE) -> Floats:
    """Return (seeds,) where a cell settled."""
    return evidence.cells[Cell(share, step, 0.0 if share == "none" else variance)].settled


def _models_worse(evidence: Evidence) -> Claim:
    gap = Gap("", settled(evidence, "models"), settled(evidence, "updates"))
    claim = f"Noise on models harms by at least {FAR:g} dB more than the same noise on updates: {WHERE} (figure 2.6)"
    return judged(claim, [gap], above(FAR))


def _updates_free(evidence: Evidence) -> Claim:
    theory = evidence.theory[TEXT_STEP]
    cell = Cell("updates", TEXT_STEP, TEXT_VARIANCE)
    own, added = float(theory.plain.mean()), float((theory.settled(cell) - theory.plain).mean())
    why = (
        f"the mean of 30 updates' noises adds {added:.1e} where gradients' own noise leaves {own:.1e} (moments); both "
        "are in proportion to mu when it is small, so that no step makes the first vanish beside the second"
    )
    claim = f"Noise on updates does not hinder: MSD within {CLOSE:g} dB of that without noise: {WHERE}"
    return judged(claim, [Gap("", settled(evidence, "updates"), settled(evidence, "none"))], within(CLOSE), why)


def _updates_rise(evidence: Evidence) -> Claim:
    links = [(f"mu = {step:g}", decibels(settled(evidence, "updates", step))) for step in steps(evidence)]
    return rising("With noise on updates MSD grows with mu (figure 2.7)", [Chain("", links)], " dB")


def _trade_off(evidence: Evidence) -> list[Claim]:
    every = steps(evidence)
    found = {step: decibels(settled(evidence, "models", step)) for step in every}
    lowest = min(every, key=lambda step: float(found[step].mean()))
    low = (f"mu = {lowest:g}", found[lowest])
    ends = [Chain(f"against mu = {end:g}", [low, (f"mu = {end:g}", found[end])]) for end in (every[0], every[-1])]
    claim = "With noise on models there is a trade-off in mu: some step is better than the smallest and the largest"
    inside = every[0] < lowest < every[-1]
    verdict = rising(claim, ends, " dB") if inside else None
    if verdict is None:
        means = ", ".join(f"mu = {step:g} {float(found[step].mean()):.2f} dB" for step in every)
        verdict = Claim(claim, False, f"the best step is the last one tried: {means}")
    small = [step for step in every if step <= SMALL]
    falls = [(f"mu = {step:g}", found[step]) for step in reversed(small)]
    return [verdict, rising("With noise on models MSD grows as a small mu falls", [Chain("", falls)], " dB")]


def noise_part(evidence: Evidence, share: Share, step: float) -> Floats:
    """Return (seeds,) what noise adds to the plain run's MSD."""
    return np.asarray(settled(evidence, share, step) - settled(evidence, "none", step))


def _powers(evidence: Evidence) -> list[Claim]:
    small = [step for step in steps(evidence) if step <= SMALL]
    if len(small) < 3:
        return []
    claims = []
    told: tuple[tuple[Share, float, str, str], ...] = (
        ("models", -1.0, "1 / mu", "section 2.6.4: added noise is tuned by 1 / mu where models are shared"),
        ("updates", 1.0, "mu (2.62)", "(2.62): it is tuned by mu where updates are shared"),
    )
    for share, power, words, text in told:
        added = np.stack([noise_part(evidence, share, step) for step in small], axis=1)
        found = slope_of_mean(small, added)
        claim = (
            f"What noise on {share} adds to MSD goes like {words}: log-log slope within {SLOPE_SPARE:g} of {power:g}"
        )
        holds = power - SLOPE_SPARE < found.low and found.high < power + SLOPE_SPARE
        moments = [float(_part(evidence, Cell(share, step, TEXT_VARIANCE)).mean()) for step in small]
        exact = loglog_slope(small, moments).slope
        figure = (
            f"{_interval(found, 3)} from mu = {small[0]:g} to {small[-1]:g} (95 %, jackknife); moments have "
            f"{exact:+.3f} there, since noise is kept by (1 - mu h)^2 a round, which leaves 1 / (2 mu h - mu^2 h^2) "
            "of it and not 1 / (2 mu h)"
        )
        claims.append(Claim(claim, holds, figure, text))
    return claims


def _part(evidence: Evidence, cell: Cell) -> Floats:
    theory = evidence.theory[cell.step]
    return np.asarray(theory.settled(cell) - theory.plain)


def _variances(evidence: Evidence) -> Claim:
    kinds: tuple[Share, Share] = ("models", "updates")
    chains = [
        Chain(
            share,
            [(f"{v:g}", decibels(settled(evidence, share, variance=v))) for v in variances(evidence)],
        )
        for share in kinds
    ]
    return rising(f"MSD grows with sigma_g^2, mu = {TEXT_STEP:g} (figure 2.7)", chains, " dB")


def _sensitive(evidence: Evidence) -> Claim:
    every = variances(evidence)
    rise = {}
    kinds: tuple[Share, Share] = ("models", "updates")
    for share in kinds:
        rise[share] = settled(evidence, share, variance=every[-1]) - settled(evidence, share, variance=every[0])
    gap = Gap(f"from sigma_g^2 = {every[0]:g} to {every[-1]:g}", rise["models"], rise["updates"])
    claim = f"A larger sigma_g^2 raises MSD more with noise on models than on updates, by {FAR:g} dB at least"
    note = f"Theory for small mu has a ratio of 1 / mu^2 = {-20 * np.log10(TEXT_STEP):.2f} dB."
    return judged(claim, [gap], above(FAR), note=note)


def _linear(evidence: Evidence) -> Claim:
    every = variances(evidence)
    grown = evidence.theory[TEXT_STEP].growth
    worst = max(float(np.max(settled(evidence, "models", variance=v))) for v in every)
    finite = all(np.isfinite(outcome.deviation).all() for outcome in evidence.cells.values())
    ratio = settled(evidence, "models", variance=every[-1]) / settled(evidence, "models", variance=every[0])
    claim = "For some sigma_g^2 the method diverges with noise on models while it converges with noise on updates"
    figure = (
        f"all runs up to sigma_g^2 = {every[-1]:g} settled, at {worst:.2g} at most; MSD at {every[-1]:g} is "
        f"{float(ratio.mean()):.1f} times that at {every[0]:g}. Why: the risks are quadratic, so that noise is added "
        "to a linear recursion; what it adds is in proportion to sigma_g^2, and whether the recursion converges does "
        f"not depend on it (after a round {float(grown.max()):.2f} of a squared deviation is left, whatever the noise)"
    )
    return Claim(claim, not finite, figure if finite else "some runs left all bounds")


def _theory(evidence: Evidence) -> Claim:
    gaps = [
        Gap(_name(cell), outcome.settled, evidence.theory[cell.step].settled(cell))
        for cell, outcome in sorted(evidence.cells.items())
    ]
    claim = f"Moments computed from data, step and sigma_g^2 / L alone give every settled MSD within {CLOSE:g} dB"
    return all_close(claim, gaps, CLOSE)


def _equally_private(evidence: Evidence) -> list[Claim]:
    spent = {
        kind: promise.privacy.guarantee.epsilon
        for kind, promise in evidence.clipped.items()
        if promise.privacy.guarantee is not None
    }
    if not {"models", "updates"} <= spent.keys():
        return []
    claim = "With the same sigma_g and clip, noise on updates is as private per record as noise on models"
    figure = (
        f"epsilon is {spent['updates']:.4g} for updates and {spent['models']:.4g} for models over the same calls, "
        f"{spent['updates'] / spent['models']:.2f} times as much. Why: a record that moves an update moves the model "
        f"by mu = {TEXT_STEP:g} times that. With equal epsilon noise on updates is 1 / mu times as large and, scaled "
        "down by mu, the very noise on models: sharing updates is better only at equal sigma_g. The text's claim "
        "(2.69) has one bound for both"
    )
    same = "(2.69), for updates, takes the sensitivity (2.63) of models: one bound for both"
    return [Claim(claim, spent["updates"] <= spent["models"] * (1 + 1e-6), figure, same)]


def _name(cell: Cell) -> str:
    return f"{cell.share}, mu = {cell.step:g}, sigma_g^2 = {cell.variance:g}"


def _interval(found: Interval, digits: int) -> str:
    return f"{found.mean:+.{digits}f} [{found.low:+.{digits}f}, {found.high:+.{digits}f}]"


def gain(evidence: Evidence) -> Interval:
    """Return by how many dB noise on models is worse than noise on updates with the text's step and noise."""
    return paired_difference(decibels(settled(evidence, "models")), decibels(settled(evidence, "updates")))
