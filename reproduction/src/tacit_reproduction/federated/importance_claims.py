"""Verdicts of `isfedavg-regression`: paired over the seeds, in dB of steady-state MSD."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from tacit.metrics import Interval, mean_interval, paired_difference
from tacit_reproduction.experiment import Claim, seen_in
from tacit_reproduction.federated.importance_runs import (
    RULES,
    Curves,
    Evidence,
    Floats,
    Problem,
    RuleName,
    Setting,
)
from tacit_reproduction.federated.importance_sampling import Checks, judge_sampler
from tacit_reproduction.judging import Chain, brief, rising

TEXT_GAIN, NEAR = 13.1, 1.0
"""The text's gain in dB, and how near a figure must be to be the same."""
AS_GOOD = 0.5
"""In dB: no worse than by this is as good."""
EARLY = 60
"""Rounds after which speed is compared: about one time constant of the mean recursion, 1 / (2 mu)."""
NOT_MUCH = 1.0
"""In dB: no more than this is not much."""
SIGNIFICANT = 0.05
"""Of several tests together."""
PLAIN = Problem()
LEARNING, COHORTS, STEPS, NOISE, CONTRAST, DIVERGENCE = (
    "learning",
    "cohorts",
    "steps",
    "noise",
    "contrast",
    "divergence",
)
"""Names of figures."""
IN_TEXT: dict[RuleName, str] = {
    "optimal": f"{TEXT_GAIN:g} dB below (section 2.6.1, figure 2.1)",
    "current": "outperforms the other solutions and converges faster (section 2.6.1, figure 2.1)",
    "sampled": "performs just as well as the true probabilities (section 2.6.1, figure 2.1)",
}
WORDS: dict[RuleName, str] = {
    "uniform": "uniform",
    "optimal": "optimal probabilities (2.46), (2.48)",
    "current": "current ones (2.50)-(2.51)",
    "sampled": "sampled ones (2.53)-(2.54)",
}


class Sweeps(NamedTuple):
    """Values of the settings that are varied one at a time."""

    cohorts: Sequence[int]
    steps: Sequence[int]
    noise: Sequence[Problem]
    features: Sequence[Problem]
    contrast: Sequence[Problem]


def judge(evidence: Evidence, sweeps: Sweeps, checks: Checks, drifts: Mapping[Problem, Floats]) -> list[Claim]:
    """Return every claim with its verdict."""
    main = [
        *(_better(evidence, rule)._replace(text=IN_TEXT[rule]) for rule in RULES[1:]),
        _the_gain(evidence, sweeps)._replace(text=IN_TEXT["optimal"]),
        _as_good(evidence)._replace(text=IN_TEXT["sampled"]),
        _current_best(evidence)._replace(text=IN_TEXT["current"]),
        _current_fastest(evidence)._replace(text=IN_TEXT["current"]),
    ]
    more = "figure 2.3, L = 6, 30, 60: both perform better, and the improvement decreases"
    range_of_xi = "figure 2.5 (b): there is a range of xi in which FedAvg diverges and ISFedAvg converges"
    features = [_features(evidence, sweeps, rule) for rule in RULES[1:]]
    return [
        *seen_in(LEARNING, *main),
        *(seen_in(COHORTS, *_by_cohort(evidence, sweeps), text=more) if len(sweeps.cohorts) > 1 else []),
        *(
            seen_in(STEPS, _by_steps(evidence, sweeps), text="figure 2.4: performance does not change much with E_k")
            if len(sweeps.steps) > 1
            else []
        ),
        *seen_in(NOISE, *_by_noise(evidence, sweeps, drifts), text=range_of_xi),
        *seen_in(DIVERGENCE, *features, text=range_of_xi),
        *judge_sampler(checks),
    ]


def gain(evidence: Evidence, rule: RuleName, problem: Problem = PLAIN, cohort: int = 6) -> Floats:
    """Return (seeds,) by how many dB a rule is below uniform sampling."""
    plain, better = (evidence[Setting(name, cohort), problem].decibels for name in ("uniform", rule))
    with np.errstate(invalid="ignore"):
        return np.asarray(plain - better)


def _main(evidence: Evidence, rule: RuleName) -> Curves:
    return evidence[Setting(rule), PLAIN]


def in_decibels(found: Interval) -> str:
    """Return an interval in words."""
    return f"{found.mean:.2f} dB [{found.low:.2f}, {found.high:.2f}]"


def _better(evidence: Evidence, rule: RuleName) -> Claim:
    found = mean_interval(gain(evidence, rule))
    return Claim(
        f"Importance sampling has a lower steady-state MSD than uniform sampling: {WORDS[rule]}",
        found.low > 0,
        f"{in_decibels(found)} below (95 %, paired over {found.n} seeds); uniform is at "
        f"{_main(evidence, 'uniform').decibels.mean():.2f} dB, the text gains {TEXT_GAIN:g} dB",
    )


def _the_gain(evidence: Evidence, sweeps: Sweeps) -> Claim:
    found = mean_interval(gain(evidence, "optimal"))
    claim = f"With optimal probabilities the gain is {TEXT_GAIN:g} dB, give or take {NEAR:g}"
    by_contrast = ", ".join(
        f"{in_decibels(mean_interval(gain(evidence, 'optimal', problem)))} at {problem.contrast:g}"
        for problem in (PLAIN, *sweeps.contrast)
    )
    figure = f"{in_decibels(found)}. With the noise of one client in twenty so many times as strong: {by_contrast}"
    holds = abs(found.mean - TEXT_GAIN) <= NEAR
    if holds:
        return Claim(claim, True, figure)
    why = (
        "Why: the text gives no ranges for R_k and the noise. The gain is the mean square of gradient norms over the "
        "square of their mean, so it is that of the heterogeneity that was put in: where variances are uniform on a "
        "range, nobody counts much more than the others; a few clients that are far noisier give as much as the text"
    )
    return Claim(claim, False, f"{figure}. {why}")


def _as_good(evidence: Evidence) -> Claim:
    found = paired_difference(_main(evidence, "sampled").decibels, _main(evidence, "optimal").decibels)
    figure = f"{in_decibels(found)} above, where up to {AS_GOOD:g} dB counts as well (95 %, paired, {found.n} seeds)"
    if found.high <= AS_GOOD:
        return Claim("Sampled probabilities perform just as well as optimal ones", True, figure)
    why = (
        "Why: only who is called learns, L of K clients a round, so that probabilities lag behind for long; (2.53) "
        "shares out anew what L clients have among these alone, (2.54) what B_k records have, so that a client with "
        "B_k = 1 never changes its own; and the norm of a stochastic gradient over few records is noise"
    )
    return Claim("Sampled probabilities perform just as well as optimal ones", False, f"{figure}. {why}")


def _current_best(evidence: Evidence) -> Claim:
    found = paired_difference(_main(evidence, "current").decibels, _main(evidence, "optimal").decibels)
    figure = f"current minus optimal {in_decibels(found)} (95 %, paired over {found.n} seeds)"
    if not found.high < 0:
        figure += (
            ". Why: near the optimum the current gradients are those at w^o but for the distance that is left, so that "
            "both rules are the same there"
        )
    return Claim("Current probabilities outperform optimal ones in the steady state", found.high < 0, figure)


def _current_fastest(evidence: Evidence) -> Claim:
    links = [(rule, _at(_main(evidence, rule), EARLY)) for rule in ("current", "optimal", "uniform")]
    (_, fast), *others = links
    found = [paired_difference(fast, slow) for _, slow in others]
    means = ", ".join(f"{name} {values.mean():.2f} dB" for name, values in links)
    gaps = ", ".join(f"minus {name} {in_decibels(f)}" for (name, _), f in zip(others, found, strict=True))
    holds = all(f.high < 0 for f in found)
    why = (
        ""
        if holds
        else ". Why: the step in the mean is the same for all rules, as all are unbiased; they differ in noise alone"
    )
    claim = f"Current probabilities converge faster (MSD after {EARLY} rounds)"
    return Claim(claim, holds, f"{means}; current {gaps} (95 %, paired){why}")


def _at(curves: Curves, round_: int) -> Floats:
    return np.asarray(10 * np.log10(curves.msd[:, np.searchsorted(curves.rounds, round_)]))


def _by_cohort(evidence: Evidence, sweeps: Sweeps) -> list[Claim]:
    chains = [
        Chain(rule, [(f"L = {n}", _steady(evidence, rule, n)) for n in reversed(sweeps.cohorts)])
        for rule in ("uniform", "optimal")
    ]
    saved = [
        (f"L = {n}", _steady(evidence, "uniform", n) - _steady(evidence, "optimal", n))
        for n in reversed(sweeps.cohorts)
    ]
    ratio = ", ".join(
        f"{in_decibels(mean_interval(gain(evidence, 'optimal', cohort=n)))} at L = {n}" for n in sweeps.cohorts
    )
    return [
        rising("More clients a round lower the MSD of both", chains),
        rising(
            "The more clients a round, the less is gained by importance sampling (MSD in the linear domain, as in "
            "figure 2.3)",
            [Chain("uniform minus optimal", saved)],
            note=f"The MSD of both falls about as 1 / L, and so does their difference; as a ratio the gain is {ratio}.",
        ),
    ]


def _steady(evidence: Evidence, rule: RuleName, cohort: int) -> Floats:
    return evidence[Setting(rule, cohort), PLAIN].steady


def _by_steps(evidence: Evidence, sweeps: Sweeps) -> Claim:
    first = sweeps.steps[0]
    parts, worst = [], 0.0
    for rule in ("uniform", "optimal"):
        base = evidence[Setting(rule, most_steps=first), PLAIN].decibels
        for most in sweeps.steps[1:]:
            found = paired_difference(evidence[Setting(rule, most_steps=most), PLAIN].decibels, base)
            worst = max(worst, abs(found.low), abs(found.high))
            parts.append(f"{rule}, E up to {most}: {in_decibels(found)}")
    figure = f"against E up to {first}: {'; '.join(parts)} (95 %, paired); not much is up to {NOT_MUCH:g} dB"
    why = ""
    if worst > NOT_MUCH:
        mean = {most: 10 * np.log10(np.mean(1 / np.arange(1, most + 1))) for most in sweeps.steps}
        fall = ", ".join(f"{mean[most] - mean[first]:.2f} dB up to {most}" for most in sweeps.steps[1:])
        why = (
            ". Why: a client that takes more steps draws more records, and the noise that these bring falls with the "
            f"mean of 1 / E_k ({fall}); the noise here is mostly theirs"
        )
    return Claim("The number of local steps does not change much", worst <= NOT_MUCH, figure + why)


def _by_noise(evidence: Evidence, sweeps: Sweeps, drifts: Mapping[Problem, Floats]) -> list[Claim]:
    named = [(f"xi {brief(float(drifts[p].mean()), 3)}", p) for p in sweeps.noise]
    rules: tuple[RuleName, RuleName] = ("uniform", "optimal")
    chains = [Chain(r, [(name, evidence[Setting(r), p].decibels) for name, p in named]) for r in rules]
    gains = [(name, mean_interval(gain(evidence, "optimal", p))) for name, p in named]
    scaled = np.array([evidence[Setting("uniform"), p].steady.mean() / p.noise**2 for p in sweeps.noise])
    diverged = [int(evidence[Setting("uniform"), p].diverged().sum()) for p in sweeps.noise]
    why = (
        "Why: the risks are quadratic, so that a round is w - M w + b with a random matrix M made of features alone. "
        "Noise enters b only: it scales the MSD by its variance, whatever its size, and stability depends on M "
        f"(MSD over noise variance is between {brief(scaled.min(), 3)} and {brief(scaled.max(), 3)})"
    )
    seeds, swept = gains[0][1].n, "figure 2.5 (a), xi = 0.297, 1.5, 4.94, 10"
    return [
        rising("A larger xi (more noise) makes both worse", chains, unit=" dB")._replace(text=f"{swept}: both worsen"),
        Claim(
            "Importance sampling is better at every xi",
            all(found.low > 0 for _, found in gains),
            ", ".join(f"{name}: {in_decibels(found)}" for name, found in gains),
            f"{swept}: ISFedAvg always does better",
        ),
        Claim(
            "With xi large enough (more noise) uniform sampling diverges",
            any(count == seeds for count in diverged),
            f"{', '.join(f'{name}: {n} of {seeds} diverged' for (name, _), n in zip(named, diverged, strict=True))}. "
            + ("" if any(count == seeds for count in diverged) else why),
        ),
    ]


def common_round(evidence: Evidence, sweeps: Sweeps) -> int:
    """Return the last round that all rules have reached where features are large."""
    return min(int(evidence[Setting(rule), p].rounds[-1]) for rule in RULES for p in sweeps.features)


def _features(evidence: Evidence, sweeps: Sweeps, rule: RuleName) -> Claim:
    """Tell whether at some strength of the features uniform sampling diverges for more seeds: one-sided sign tests."""
    from scipy.special import bdtrc

    by, found, least = common_round(evidence, sweeps), [], 1.0
    for problem in sweeps.features:
        plain, other = (evidence[Setting(name), problem].diverged(by) for name in ("uniform", rule))
        for_it, against = int(np.sum(plain & ~other)), int(np.sum(other & ~plain))
        if for_it > 0:
            least = min(least, float(bdtrc(for_it - 1, for_it + against, 0.5)))
        found.append(f"x {problem.features:g}: uniform {plain.sum()}, {rule} {other.sum()} of {len(plain)}")
    holds = least < SIGNIFICANT / len(found)
    figure = (
        f"diverged in {by} rounds with the variance of features so many times as large, {'; '.join(found)}; the "
        f"smallest p of sign tests is {least:.2g}, where {SIGNIFICANT / len(found):.2g} decides"
    )
    if not holds and rule != "current":
        figure += (
            ". Why: these probabilities are made for gradients near w^o. Far from it a record's gradient grows with "
            "its features, while its share follows a residual that may be small, and counts by 1 / p_n"
        )
    return Claim(
        f"There is a range in which uniform sampling diverges and importance sampling does not: {WORDS[rule]}",
        holds,
        figure,
    )
