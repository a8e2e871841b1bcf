"""Verdicts of `pgfl-regression` on Gauthier (2023), sec. 5.4.1 and Theorem 5.1."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from tacit_reproduction.experiment import Claim, seen_in
from tacit_reproduction.judging import Chain, rising
from tacit_reproduction.personalised.means import Pair, alike, compared, higher, in_words, mean_decibels
from tacit_reproduction.personalised.regression_optimum import Arrival, at_the_optimum
from tacit_reproduction.personalised.regression_runs import (
    CLIENTS,
    COHORT,
    DIMENSIONS,
    EARLY,
    RECORDS,
    ROUNDS,
    SERVERS,
    WIDE_SPREAD,
    Evidence,
    Floats,
    Noise,
    Outcome,
    Problem,
    Setting,
)

TEXT_TOTAL = 0.095
AFTER = 200
"""Rounds after which figures 5.2 and 5.4 read the NMSD."""
NEARLY, ALIKE = 1.0, 0.5
"""In dB: what "nearly identical" and "the same" are taken to mean."""
ENDS = 2
"""Values of tau between which there is no valley."""
START = 10
"""Rounds after which initial speeds are compared."""
PUBLISHED = Noise()
PLAIN, MIXED = Setting("PGFL"), Setting("PGFL", 0.4)
FADING = Setting("PGFL", 0.4, 0.98)
GFL, CLUSTERFL = Setting("GFL"), Setting("ClusterFL", 0.4)
NAMES = {
    MIXED: "PGFL tau = 0.4",
    PLAIN: "PGFL tau = 0",
    FADING: "PGFL tau = 0.4 * 0.98^t",
    CLUSTERFL: "ClusterFL tau = 0.4",
    GFL: "GFL",
}
EVERYBODY = MIXED._replace(noise=PUBLISHED)
"""Methods whose releases are those of every round."""
USUAL, WIDE = Problem(), Problem(spread=WIDE_SPREAD)
LEARNING, BY_TAU, LOW_SIMILARITY, BY_FIRST, BY_DECAY = "learning", "tau", "low_similarity", "by_phi_0", "by_zeta"
"""Names of figures."""


class Sweeps(NamedTuple):
    """Over what was swept."""

    noises: Sequence[float]
    """SNRs."""
    taus: Sequence[float]
    units: Sequence[Problem]
    """Clips and penalties."""
    firsts: Sequence[float]
    """phi_0."""
    decays: Sequence[float]
    """zeta."""
    lineup: Sequence[Setting]
    """Methods that are compared."""
    private: Sequence[Setting]
    """Methods that are run with the published noise."""
    seeds: int
    """Of the sweeps over phi_0 and zeta."""


def called(setting: Setting, noise: Noise | None = None) -> Setting:
    """Return the setting with a few clients called in each round, and noise on what they send."""
    return setting._replace(scheduled=True, noise=noise)


def best(evidence: Evidence, setting: Setting, sweeps: Sweeps, after: int = ROUNDS) -> tuple[Problem, Outcome]:
    """Return the clip and penalty with which a private setting comes nearest, and what came of it."""
    found = [(problem, evidence[setting, problem]) for problem in sweeps.units]
    return min(found, key=lambda pair: float(np.mean(pair[1].after(after))))


def judge(evidence: Evidence, sweeps: Sweeps, arrivals: Sequence[Arrival]) -> list[Claim]:
    """Put every claim to the test."""
    poor = "tau = 0.4 is faster and more accurate than 0; GFL is worse, ClusterFL notably poor"
    valley = "figure 5.2: with tau from 0.1 to 0.5 lower than with 0, with too large a tau worse (with noise there)"
    return [
        *seen_in(LEARNING, _ordered(evidence, sweeps, scheduled=False), text=f"figure 5.1 (a): {poor}"),
        *seen_in(
            LEARNING, _ordered(evidence, sweeps, scheduled=True), text="figure 5.1 (b); its order is not put in words"
        ),
        *_scheduling(evidence),
        *_private(evidence, sweeps),
        *(seen_in(BY_TAU, _valley(evidence, sweeps), text=valley) if len(sweeps.taus) > ENDS else []),
        *_low_similarity(evidence),
        *_tradeoff(evidence, sweeps),
        _total(evidence, sweeps),
        *at_the_optimum(arrivals),
    ]


def _ordered(evidence: Evidence, sweeps: Sweeps, scheduled: bool) -> Claim:
    def last(setting: Setting, problem: Problem = USUAL) -> Floats:
        return evidence[called(setting) if scheduled else setting, problem].last

    others = [s for s in sweeps.lineup if s.method != "PGFL"]
    pairs = [(PLAIN, MIXED), *((s, PLAIN) for s in others), *((s, MIXED) for s in others)]
    gaps = [Pair(f"{NAMES[worse]} against {NAMES[better]}", last(worse), last(better)) for worse, better in pairs]

    def where(worse: Setting, better: Setting) -> str:
        named = []
        for snr in sweeps.noises:
            problem = Problem(snr=snr)
            gap = mean_decibels(last(worse, problem)) - mean_decibels(last(better, problem))
            named.append(f"{gap:+.1f} at {snr:g}")
        return f"{NAMES[worse]} over {NAMES[better]} {', '.join(named)}"

    note = (
        "It hangs on the noise in the data, which the text does not give. In dB by SNR in dB: "
        f"{where(PLAIN, MIXED)}; {where(GFL, PLAIN)}; {where(GFL, MIXED)}. Mixing trades the error of few data, which "
        "follows the noise, for a pull between clusters, which does not: it pays where the first is larger"
    )
    title = f"{COHORT} of {CLIENTS} clients called" if scheduled else "Everybody called"
    return compared(
        f"{title}: PGFL with tau = 0.4 is below tau = 0, both are below ClusterFL and GFL (NMSD after {ROUNDS} rounds)",
        gaps,
        higher,
        note=note,
    )


def _scheduling(evidence: Evidence) -> list[Claim]:
    gaps = [
        Pair(f"{NAMES[s]} after {n} rounds", evidence[called(s), USUAL].after(n), evidence[s, USUAL].after(n))
        for s in (PLAIN, MIXED)
        for n in (EARLY, ROUNDS)
    ]
    one = Pair(NAMES[GFL], evidence[GFL, USUAL].last, evidence[called(GFL), USUAL].last)
    why = (
        "who is called is drawn anew in each round, and what is learnt from a few follows the draw: that is noise in a "
        "single model as it is in several. A model for all gains nothing from hearing fewer"
    )
    slower = compared("Calling a few makes PGFL slower, and its NMSD higher in the end", gaps, higher)
    better = compared("GFL is better with a few called than with everybody", [one], higher, why)
    return [
        *seen_in(LEARNING, slower, text="figure 5.1 (b): PGFL is slower than in (a) and ends higher"),
        *seen_in(LEARNING, better, text="figure 5.1 (b): GFL does better than in (a)"),
    ]


def _private(evidence: Evidence, sweeps: Sweeps) -> list[Claim]:
    outcomes = {s: best(evidence, called(s, PUBLISHED), sweeps)[1] for s in sweeps.private}
    gaps = [Pair(NAMES[s], outcome.last, evidence[called(s), USUAL].last) for s, outcome in outcomes.items()]
    records = sum(RECORDS) / 2
    ratio = 2 * (2 * PUBLISHED.first) ** -0.5 * np.sqrt(DIMENSIONS) / records
    why = (
        f"by (5.31) and (5.32) the noise of the first round is 2 sqrt(d) / (D_k sqrt(2 phi_0)) = {ratio:.0f} times the "
        f"longest step C / rho that a client with {records:g} records can take, whatever C and rho, and "
        f"{ratio * PUBLISHED.decay ** ((ROUNDS - 1) / 2):.0f} times in round {ROUNDS}; "
        f"{SERVERS * COHORT / 3:g} clients of a cluster are averaged in a round. {_units(evidence, sweeps)}"
    )
    ordered = [(s, MIXED) for s in sweeps.private if s != MIXED] + [(s, PLAIN) for s in sweeps.private[2:]]
    pairs = [Pair(f"{NAMES[a]} against {NAMES[b]}", outcomes[a].last, outcomes[b].last) for a, b in ordered]
    claims = [
        compared(
            f"With noise, phi_0 = {PUBLISHED.first:g}, zeta = {PUBLISHED.decay:g}, the NMSD after {ROUNDS} rounds is "
            f"nearly the same as without (within {NEARLY:g} dB; clip and penalty the best of {len(sweeps.units)})",
            gaps,
            alike(NEARLY),
            why,
        ),
    ]
    if pairs:
        note = "Where nothing is learnt, NMSDs are near 0 dB, that of the zero model, and an order says little"
        claims.append(compared("With that noise the methods keep their order", pairs, higher, note=note))
    return seen_in(LEARNING, *claims, text="figure 5.1 (c): slower, but after 300 iterations nearly identical to (b)")


def _units(evidence: Evidence, sweeps: Sweeps) -> str:
    """Say what clips and penalties cost with the noise, and without any."""
    quiet = Noise(max(sweeps.firsts))
    parts = []
    for problem in sweeps.units:
        noisy, clear = (evidence[called(MIXED, n), problem].last for n in (PUBLISHED, quiet))
        means = [mean_decibels(values) for values in (noisy, clear)]
        parts.append(
            f"C = {problem.clip:g}, rho = {problem.penalty:g}: {means[0]:.1f} with noise, {means[1]:.1f} without"
        )
    return (
        f"PGFL tau = 0.4 in dB: {'; '.join(parts)}. A small C / rho makes the noise small and the learning slow alike"
    )


def _valley(evidence: Evidence, sweeps: Sweeps) -> Claim:
    values = {tau: evidence[called(Setting("PGFL", tau)), USUAL].after(AFTER) for tau in sweeps.taus}
    lowest = min(values, key=lambda tau: float(np.mean(values[tau])))
    gaps = [
        Pair(f"tau = {end:g} against {lowest:g}", values[end], values[lowest]) for end in (min(values), max(values))
    ]
    listed = ", ".join(f"{tau:g}: {mean_decibels(v):.2f}" for tau, v in sorted(values.items()))
    return compared(
        f"NMSD after {AFTER} rounds over tau has a valley between its ends (a few called, no noise)",
        gaps,
        higher,
        note=f"In dB by tau, {listed}",
    )


def _low_similarity(evidence: Evidence) -> list[Claim]:
    plain, mixed, fading = (evidence[called(s), WIDE] for s in (PLAIN, MIXED, FADING))
    name = f"gamma up to {WIDE_SPREAD:g}"
    fixed = compared(
        f"{name}: tau = 0.4 ends above tau = 0, and is below it at first (after {START} rounds)",
        [Pair("in the end", mixed.last, plain.last), Pair("at first", plain.after(START), mixed.after(START))],
        higher,
    )
    both = compared(
        f"{name}: fading tau starts as tau = 0.4 and ends as tau = 0 (within {ALIKE:g} dB)",
        [Pair("start", fading.after(START), mixed.after(START)), Pair("end", fading.last, plain.last)],
        alike(ALIKE),
    )
    return [
        *seen_in(LOW_SIMILARITY, fixed, text="figure 5.3: tau = 0.4 starts faster and ends worse than 0 (with noise)"),
        *seen_in(
            LOW_SIMILARITY, both, text="figure 5.3: starts like tau = 0.4, ends nearly identical to 0 (with noise)"
        ),
    ]


def _tradeoff(evidence: Evidence, sweeps: Sweeps) -> list[Claim]:
    def of(noise: Noise) -> Floats:
        return best(evidence, called(MIXED, noise), sweeps, AFTER)[1].after(AFTER)[: sweeps.seeds]

    firsts = [(f"phi_0 = {first:.3g}", of(Noise(first))) for first in sorted(sweeps.firsts, reverse=True)]
    decays = [(f"zeta = {decay:g}", of(Noise(decay=decay))) for decay in sorted({PUBLISHED.decay, *sweeps.decays})]
    first = rising(f"The smaller phi_0, the higher the NMSD after {AFTER} rounds", [Chain("NMSD", firsts)])
    claims = seen_in(BY_FIRST, first, text="figure 5.4: the smaller phi_0, the higher the NMSD")
    if sweeps.decays:
        nearer = rising(f"The nearer zeta is to 1, the higher the NMSD after {AFTER} rounds", [Chain("NMSD", decays)])
        claims += seen_in(BY_DECAY, nearer, text="figure 5.4: zeta close to 1 costs accuracy")
    return claims


def first_for(total: float) -> float:
    """Return the phi_0 whose true total over the run is this."""
    return total / Noise(1.0).total(ROUNDS)


def _total(evidence: Evidence, sweeps: Sweeps) -> Claim:
    honest = Noise(first_for(TEXT_TOTAL))
    booked = evidence[EVERYBODY, sweeps.units[0]].privacy.summary()["rho"]
    few = evidence[called(MIXED, PUBLISHED), sweeps.units[0]].privacy
    figure = (
        f"booked {booked:.4f} with everybody called, by hand {PUBLISHED.total(ROUNDS):.4f} = sum of phi_0 zeta^-n: by "
        f"(5.32) phi_n is in proportion to 1 / variance, and the variance shrinks. {TEXT_TOTAL:g} is the sum of phi_0 "
        f"zeta^n, {PUBLISHED.printed_total(ROUNDS):.4f}, as if privacy cost less while there is less noise. With "
        f"{COHORT} of {CLIENTS} called the ledger charges the client called most, {few.reads} times, for the dearest "
        f"rounds: {few.summary()['rho']:.4f}. A true total of {TEXT_TOTAL:g} takes phi_0 = {honest.first:.3g}"
    )
    if honest.first in sweeps.firsts:
        problem, outcome = best(evidence, called(MIXED, honest), sweeps)
        figure += f": NMSD {in_words(outcome.last)} dB at C = {problem.clip:g}, rho = {problem.penalty:g}"
    return Claim(
        f"The published noise costs {TEXT_TOTAL:g} in {ROUNDS} rounds",
        abs(booked - TEXT_TOTAL) < 0.01,
        figure,
        f"{TEXT_TOTAL:g}-zCDP in all, from phi_0 = {PUBLISHED.first:g} and zeta = {PUBLISHED.decay:g} (section 5.4.1)",
    )
