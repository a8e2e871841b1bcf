"""Verdicts of both experiments on images: pure functions of a study."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np

from tacit.metrics import Interval, paired_difference
from tacit_reproduction.experiment import Claim, seen_in
from tacit_reproduction.judging import brief, shown
from tacit_reproduction.personalised.classification import Study
from tacit_reproduction.personalised.classification_runs import ALONE, LOST, PHI0, ZETA, Mixing, Noise
from tacit_reproduction.verdicts import Named

EXACT = 1e-3
"""Share of a sensitivity that an inexact local solution may be off."""


def learning_of(noise: Noise) -> str:
    """Return the name of the figure with accuracies round by round."""
    return f"learning-{noise}"


def improves(claim: str, of: Study, noise: Noise, mixing: Mixing, why: str) -> Claim:
    """The mixing raises the accuracy at the end: the whole interval of the difference lies above 0; else why not."""
    gain, figures = difference((mixing.words, of.final(noise, mixing)), (ALONE.words, of.final(noise, ALONE)))
    holds = gain.low > 0
    return Claim(f"{claim} ({in_words(of, noise)})", holds, figures if holds else f"{figures}. Why: {why}")


def difference(high: Named, low: Named) -> tuple[Interval, str]:
    """Return how far the first is above the second, seed by seed, and that in words."""
    found = paired_difference(high[1], low[1])
    return found, (
        f"{high[0]} {shown(high[1])} %, {low[0]} {shown(low[1])} %; difference "
        f"{points_of(found.mean, found.low, found.high)} (95 %, paired over {found.n} seeds)"
    )


def points_of(mean: float, low: float, high: float) -> str:
    """Return a difference of accuracies with its interval."""
    return f"{mean:+.2f} [{low:+.2f}, {high:+.2f}] points"


def in_words(of: Study, noise: Noise) -> str:
    """Say what the noise costs."""
    if noise == "none":
        return "without noise"
    spent = of.outcomes[noise, ALONE].privacy.summary()
    return f"{noise} noise, rho = {brief(spent['rho'], 3)}, epsilon = {brief(spent['epsilon'], 3)}"


def others(of: Study) -> str:
    """Say how well tasks' models do on each other's tests."""
    apart = ~np.eye(len(of.likeness), dtype=bool)
    return (
        f"learnt from many images, a task's model gets {np.diag(of.likeness).mean():.0f} % of its own test right and "
        f"{of.likeness[apart].mean():.0f} % of another task's "
        f"(lowest {of.likeness[apart].min():.0f} %)"
    )


def drowned(of: Study) -> list[Claim]:
    """At the published noise, if it was run, accuracy is what it is without noise, up to `LOST` points."""
    if "published" not in of.totals:
        return []
    loss = paired_difference(of.final("none", ALONE), of.final("published", ALONE))
    holds = loss.high < LOST
    ratio = 2 / math.sqrt(2 * PHI0)
    figures = (
        f"{shown(of.final('published', ALONE))} % against {shown(of.final('none', ALONE))} %, {ALONE.words}; guessing "
        f"has 50 %; loss {points_of(loss.mean, loss.low, loss.high)} (95 %, paired over {loss.n} seeds)"
    )
    why = (
        f". Why: in the first round noise along any direction is {ratio:.0f} / D_k times as large as a client's whole "
        "step within the clip can be, and a few thousand releases do not average that away"
    )
    claim = f"{of.plan.setting.name}: noise of phi_0 = {PHI0:g}, zeta = {ZETA:g} costs less than {LOST:g} points"
    verdict = Claim(f"{claim} ({in_words(of, 'published')})", holds, figures if holds else figures + why)
    said = "figures 5.5 and 5.6 have noise (phi_0 = 0.001, zeta = 0.99 in section 5.4.1) and no curve without it"
    return seen_in(learning_of("published"), verdict, text=said)


def solved(studies: Iterable[Study]) -> Claim:
    """Local problems are solved well enough for the sensitivity to hold."""
    worst = max(outcome.residual for each in studies for outcome in each.outcomes.values())
    return Claim(
        f"Newton steps solve every local problem to within {EXACT:g} of its sensitivity",
        worst < EXACT,
        f"largest residual of all runs: {worst:.1e} of the sensitivity",
    )
