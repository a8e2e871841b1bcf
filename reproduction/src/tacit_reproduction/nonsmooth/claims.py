"""Verdicts on Gauthier (2023), sec. 3.4: pure functions of the measurements, in dB, seed by seed."""

from __future__ import annotations

import numpy as np

from tacit.metrics import Interval
from tacit.privacy.planning import noise_for, total_rho
from tacit.privacy.spending import DELTA
from tacit_reproduction.experiment import Claim, seen_in
from tacit_reproduction.gaps import Gap, decibels, judged
from tacit_reproduction.judging import brief
from tacit_reproduction.mirror.slopes import slope_of_mean
from tacit_reproduction.nonsmooth.problems import AGENTS, PROBLEMS
from tacit_reproduction.nonsmooth.runs import (
    AVERAGED,
    AVERAGED_LONG,
    DECAY,
    INITIAL,
    ROUNDS,
    Counts,
    Method,
    Outcome,
)
from tacit_reproduction.nonsmooth.search import MATCHED, Evidence

REACHED = 1e-6
"""Squared distance from the optimum, relative to the optimum's size, that counts as having reached it."""
SLOPE_SPARE = 0.1
FITTED_FROM = 1 / 4
"""Of a run: slopes are fitted from there on, before it models are on their way from where they started."""
SAME_SUM = 1e-6
OVER_ROUNDS, BY_TOTAL, AVERAGES = "rounds", "privacy", "averaged"
"""Names of figures."""


def judge(evidence: Evidence) -> list[Claim]:
    """Return every claim with its verdict."""
    place, nonsmooth = PROBLEMS[evidence.problem].figure, evidence.problem != "ridge"
    by_total = BY_TOTAL if len(evidence.totals) > 1 else OVER_ROUNDS
    walker = f"{place}: the ADMM significantly outperforms subgradients" if nonsmooth else ""
    claims = seen_in(by_total, _below_subgradient(evidence), text=walker)
    if (MATCHED, evidence.middle) in evidence.found:
        claims += seen_in(OVER_ROUNDS, _below_at_equal_speed(evidence), text=walker)
    classic = f"{place}: zCDP allows for better accuracy than (eps, delta) at the same total" if nonsmooth else ""
    claims += seen_in(by_total, _below_classic(evidence), text=classic)
    if ("P-ADMM", evidence.middle) in evidence.found:
        exact = f"{place}: slightly better than P-ADMM, for all total privacy losses"
        claims += seen_in(by_total, _below_exact(evidence), text=exact)
    rates = [
        _rate("without noise and clip", evidence.limit["zCDP-NFL"], AVERAGED_LONG),
        _rate(f"at a total epsilon of {evidence.middle:g}", evidence.found["zCDP-NFL", evidence.middle], AVERAGED),
    ]
    return [
        *claims,
        *seen_in(AVERAGES, *rates, text="Theorem IV of chapter 3: it converges with a rate of O(1 / n)"),
        _limit(evidence)._replace(text="Theorem III of chapter 3: it converges to the exact solution"),
        _sums(evidence)._replace(
            text="Theorem I of chapter 3 and its corollary: phi_n follows from the noise, and adds up"
        ),
    ]


def _below(found: Interval) -> bool:
    return found.high < 0


def _gaps(evidence: Evidence, other: Method) -> list[Gap]:
    found = evidence.found
    return [
        Gap(f"epsilon {total:g}", found["zCDP-NFL", total].final, found[other, total].final)
        for total in evidence.totals
        if (other, total) in found
    ]


def _below_subgradient(evidence: Evidence) -> Claim:
    walker = evidence.found["zCDP-grad-NFL", evidence.middle]
    mixing = Gap("", evidence.mixed.final, walker.final).interval
    return judged(
        f"zCDP-NFL is below zCDP-grad-NFL after {ROUNDS} rounds at equal total privacy, both with steps like "
        "1 / sqrt(n) and tuned by one rule",
        _gaps(evidence, "zCDP-grad-NFL"),
        _below,
        f"{_noise_not_speed(evidence, 'zCDP-grad-NFL')}. A node keeps the noise that it released for longer: by (3.8) "
        "it gives all neighbours together less than half of the weight, and ever less as eta_n falls. With that mixing "
        f"and nothing else changed, zCDP-grad-NFL itself is {mixing.mean:+.2f} [{mixing.low:+.2f}, {mixing.high:+.2f}] "
        "dB off what it was. The rest is its step, 1 / (1 / eta_n + 2 rho |N_k|), longest for nodes of few neighbours. "
        "Multipliers could put right what different data do to nodes, but here all data are of one kind",
    )


def _below_at_equal_speed(evidence: Evidence) -> Claim:
    ours, other = evidence.found["zCDP-NFL", evidence.middle], evidence.found[MATCHED, evidence.middle]
    early = [float(np.exp(outcome.early)) for outcome in (ours, other)]
    return judged(
        "zCDP-NFL is below zCDP-grad-NFL where the latter has a constant step that gives it the same initial speed, as "
        "the text tunes them",
        [Gap(f"epsilon {evidence.middle:g}", ours.final, other.final)],
        _below,
        _noise_not_speed(evidence, MATCHED),
        f"After {INITIAL} rounds the errors are {brief(early[0], 3)} and {brief(early[1], 3)}, at a constant step of "
        f"{evidence.settings[MATCHED, evidence.middle].step:g}",
    )


def _below_classic(evidence: Evidence) -> Claim:
    booked = evidence.found["DP-NFL", evidence.middle].privacy.summary()["epsilon"]
    return judged(
        "zCDP-NFL is below (eps, delta)DP-NFL at every total privacy loss",
        _gaps(evidence, "DP-NFL"),
        _below,
        note=(
            f"What the classic rules call a total epsilon of {evidence.middle:g} is one of {brief(float(booked), 3)} "
            "by sums of zCDP: they ask for that much more noise"
        ),
    )


def _below_exact(evidence: Evidence) -> Claim:
    return judged(
        "zCDP-NFL slightly outperforms P-ADMM on the smooth problem, at every total privacy loss",
        _gaps(evidence, "P-ADMM"),
        _below,
        _noise_not_speed(evidence, "P-ADMM"),
    )


def _noise_not_speed(evidence: Evidence, other: Method) -> str:
    """Say what is left of both errors without noise, and how much of them is disagreement."""
    parts = []
    for method in ("zCDP-NFL", other):
        outcome, quiet = evidence.found[method, evidence.middle], evidence.quiet[method]
        share = 100 * float(np.mean(outcome.apart / outcome.final))
        parts.append(
            f"{method} {float(np.mean(decibels(outcome.final))):.1f} dB, {float(np.mean(decibels(quiet.final))):.1f} "
            f"without noise, and {share:.0f} % of its error is disagreement"
        )
    return f"At epsilon {evidence.middle:g}, in the same settings: {'; '.join(parts)}"


def _rate(where: str, outcome: Outcome, rounds: Counts) -> Claim:
    """Theorem II and IV are about averaged iterates."""
    assert outcome.excess is not None  # judged runs have it
    last = int(rounds[-1])
    late = rounds >= FITTED_FROM * last
    slope = slope_of_mean(rounds[late], outcome.excess[:, late])
    holds = slope.high <= SLOPE_SPARE - 1
    means = outcome.excess.mean(axis=0)
    figure = (
        f"log-log slope from round {rounds[late][0]} to {last:,} {slope.mean:.2f} [{slope.low:.2f}, {slope.high:.2f}] "
        f"(95 %, jackknife over {slope.n} seeds), wanted at most -1 + {SLOPE_SPARE:g}; from "
        f"{brief(float(means[late][0]), 3)} to {brief(float(means[-1]), 3)}"
    )
    if not holds:
        start = int(np.searchsorted(outcome.rounds, FITTED_FROM * last))
        early, final = (float(np.mean(outcome.error[:, at])) / AGENTS for at in (start, -1))
        figure += (
            f". Why: the iterates themselves are still on their way, with an error per node of {brief(early, 3)} and "
            f"then {brief(final, 3)}, in a setting that is chosen for little noise; averages carry that way along"
        )
    return Claim(
        f"f(averaged iterate) - f(w_c) of zCDP-NFL falls like 1 / n or faster (Theorem IV), {where}", holds, figure
    )


def _limit(evidence: Evidence) -> Claim:
    worst = {method: float(outcome.final.max()) / AGENTS for method, outcome in evidence.limit.items()}
    figures = ", ".join(f"{method} {value:.1e}" for method, value in worst.items())
    outcome = evidence.limit["zCDP-NFL"]
    below = (outcome.error.max(axis=0) / AGENTS <= REACHED)[::-1]
    since = outcome.rounds[::-1][: len(below) if below.all() else int(np.argmin(below))]
    reached = f"zCDP-NFL is there from round {since[-1]} on" if len(since) else "zCDP-NFL is not there yet"
    return Claim(
        f"Without noise and clip the methods reach the optimum: ||w_k - w_c||^2 <= {REACHED:g} ||w_c||^2, all seeds",
        max(worst.values()) <= REACHED,
        f"largest over {len(outcome.final)} seeds of the mean over nodes after {outcome.rounds[-1]:,} rounds, eta_n = "
        f"8 / n: {figures}; {reached}. With the clip it is {evidence.clipped.final.mean() / AGENTS:.1e} in the mean: a "
        "clip moves the fixed point by that",
    )


def _sums(evidence: Evidence) -> Claim:
    """Booked totals against the sum of phi_n = phi_1 zeta^-(n-1)."""
    off = 0.0
    for (method, total), outcome in evidence.found.items():
        if method != "DP-NFL" and outcome.privacy.guarantee is not None:
            noise = noise_for("gaussian", total, DELTA, ROUNDS, DECAY)
            expected = total_rho(1 / (2 * noise**2), ROUNDS, DECAY)
            off = max(off, abs(outcome.privacy.guarantee.rho / expected - 1))
    solved = max(outcome.residual for outcome in evidence.found.values())
    spent = ", ".join(
        f"{evidence.found['zCDP-NFL', total].privacy.summary()['epsilon']:.4f}" for total in evidence.totals
    )
    figure = f"largest relative difference {off:.1e}; zCDP-NFL has spent epsilon {spent} at delta = {DELTA:g}"
    if solved:
        figure += f"; local problems of P-ADMM are solved to {solved:.1e}"
    return Claim(
        f"A run's total of the decaying noise is the sum of all phi_n = phi_1 zeta^-(n-1), to {SAME_SUM:g}",
        off <= SAME_SUM,
        figure,
    )
