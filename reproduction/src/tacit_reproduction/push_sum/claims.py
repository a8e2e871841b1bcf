"""Verdicts on the OPS paper, sec. 5 and appendix B, with reasons where a claim fails."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tacit_reproduction.experiment import Claim, seen_in
from tacit_reproduction.push_sum.design import COMPARISON, DENSITIES, FRACTIONS, LOCAL, SIZES
from tacit_reproduction.push_sum.evidence import Evidence
from tacit_reproduction.verdicts import (
    Named,
    difference_in_words,
    falling,
    larger_gain,
    lower,
    not_worse,
)

IN_TEXT = {
    "COL": "OPS slightly worse than COL",
    "DOL-Symm": "OPS below DOL-Symm",
    "DOL-Asymm": "OPS below DOL-Asymm",
    "Local OGD": "learning alone has more regret than OPS",
    "density": "the denser the network, the lower the average loss",
    "size": "curves of all sizes close together, that of the largest network the lowest",
    "gain": "the regret of OPS falls further with more stochastic samples; clusters gain nothing from company",
}
"""Readings of the text off its curves; it gives no numbers."""
ON_FRACTIONS = (
    "figure 2 (c) and (d), of Occupancy: more stochastic samples, a smaller average loss (curves, no numbers)"
)


def judge(evidence: Evidence) -> list[Claim]:
    """Return every claim with its verdict."""
    claims: list[Claim] = []
    for fraction in FRACTIONS:
        claims += _comparison(evidence, fraction)
        claims += _seen(evidence, DENSITIES, "density", _density(evidence, fraction))
        claims += _seen(evidence, SIZES, "size", _size(evidence, fraction))
    claims += seen_in(COMPARISON, _fractions(evidence), text=ON_FRACTIONS)
    return [*claims, *_seen(evidence, LOCAL, "gain", _gain(evidence))]


def _seen(evidence: Evidence, figure: str, about: str, claim: Claim) -> list[Claim]:
    return seen_in(figure, claim, text=f"{evidence.design.in_text[figure]}: {IN_TEXT[about]} (curves, no numbers)")


def percent(fraction: float) -> str:
    """Return "100 % stochastic"."""
    return f"{100 * fraction:.0f} % stochastic"


def rank_correlation(a: NDArray[np.float64], b: NDArray[np.float64]) -> float:
    """Return Spearman's coefficient of values without ties."""
    ranks = [np.argsort(np.argsort(values)) for values in (a, b)]
    return float(np.corrcoef(ranks[0], ranks[1])[0, 1])


def _main(evidence: Evidence, method: str, fraction: float) -> Named:
    return method, evidence.average(method, evidence.design.main(fraction))


def _comparison(evidence: Evidence, fraction: float) -> list[Claim]:
    ops = _main(evidence, "OPS", fraction)
    where = f"({percent(fraction)})"
    others = {name: _main(evidence, name, fraction) for name in ("COL", "DOL-Symm", "DOL-Asymm", "Local OGD")}
    found = {
        "COL": not_worse(f"COL is not worse than OPS {where}", others["COL"], ops),
        **{
            name: lower(f"OPS has a lower average loss than {name} {where}", ops, others[name])
            for name in ("DOL-Symm", "DOL-Asymm", "Local OGD")
        },
    }
    return [
        shown
        for name, claim in found.items()
        for shown in _seen(evidence, LOCAL if name == "Local OGD" else COMPARISON, name, claim)
    ]


def _density(evidence: Evidence, fraction: float) -> Claim:
    design = evidence.design
    losses = [evidence.average("OPS", setting) for setting in design.by_density(fraction)]
    network = f"the network of {design.density_nodes} nodes"
    claim = f"The loss of OPS falls as {network} grows denser ({percent(fraction)})"
    return falling(claim, design.densities, np.stack(losses), "neighbours up to")


def _size(evidence: Evidence, fraction: float) -> Claim:
    settings = evidence.design.by_size(fraction)
    first, last = settings[0], settings[-1]
    claim = (
        f"OPS with {last.nodes} nodes is not worse than with {first.nodes}, up to {first.neighbours} "
        f"neighbours each ({percent(fraction)})"
    )
    small: Named = (f"n = {first.nodes}", evidence.average("OPS", first))
    large: Named = (f"n = {last.nodes}", evidence.average("OPS", last))
    between = "; ".join(f"n = {s.nodes}: {evidence.average('OPS', s).mean():.4f}" for s in settings[1:-1])
    notes = [f"In between: {between}."] if between else []
    notes += _before_rereading(evidence, fraction)
    if not not_worse(claim, large, small).holds:
        notes.append(_why_size_hurts(evidence, fraction))
    return not_worse(claim, large, small, " ".join(notes))


def _before_rereading(evidence: Evidence, fraction: float) -> list[str]:
    """Compare over the rounds in which no network has to read a sample twice."""
    settings = evidence.design.by_size(fraction)
    fresh = evidence.samples.rows // settings[-1].nodes
    if fresh >= evidence.rounds or fraction < 1:
        return []
    first, last = (
        (f"n = {s.nodes}", evidence.of("OPS", s).loss[:, :fresh].mean(axis=1)) for s in (settings[0], settings[-1])
    )
    found = difference_in_words(last, first)
    return [f"Over the first {fresh} rounds, in which nobody reads a sample twice: {found}."]


def _why_size_hurts(evidence: Evidence, fraction: float) -> str:
    settings = evidence.design.by_size(fraction)
    first, last = settings[0], settings[-1]
    small: Named = (f"n = {first.nodes}", evidence.average("COL", first))
    large: Named = (f"n = {last.nodes}", evidence.average("COL", last))
    worse = lower("", small, large).holds
    mixing = [evidence.mixing[s.nodes] for s in (first, last)]
    tie = rank_correlation(evidence.average("OPS", last), mixing[1].least_mass)
    facts = (
        f"on average the spectral gap goes from {mixing[0].spectral_gap.mean():.3f} to "
        f"{mixing[1].spectral_gap.mean():.3f}, and the least mass of a node, which divides its steps, from "
        f"{mixing[0].least_mass.mean():.2f} to {mixing[1].least_mass.mean():.2f} of an equal share; the rank "
        f"correlation over the seeds of that mass and the loss of OPS at {last.nodes} nodes is {tie:+.2f}"
    )
    verdict = (
        "it is worse too, so the mixing is not the only reason"
        if worse
        else "it shows no harm, so the reason lies in the mixing"
    )
    return f"Why: COL, which mixes at once at any size: {difference_in_words(large, small)}; {verdict}: {facts}."


def _fractions(evidence: Evidence) -> Claim:
    high, low = FRACTIONS
    names = (f"{100 * high:.0f} %", f"{100 * low:.0f} %")
    claim = f"The average loss of OPS is lower at {names[0]} stochastic samples than at {names[1]}"
    losses = [evidence.average("OPS", evidence.design.main(fraction)) for fraction in FRACTIONS]
    first, second = zip(names, losses, strict=True)
    regret = [loss - evidence.best_fixed[f] for loss, f in zip(losses, FRACTIONS, strict=True)]
    notes = [
        f"As regret against the best fixed model of each stream: "
        f"{difference_in_words((names[0], regret[0]), (names[1], regret[1]))}."
    ]
    if not lower(claim, first, second).holds:
        notes.append(_why_fraction_hurts(evidence, names))
    return lower(claim, first, second, " ".join(notes))


def _why_fraction_hurts(evidence: Evidence, names: tuple[str, str]) -> str:
    best = [evidence.best_fixed[fraction] for fraction in FRACTIONS]
    first, second = zip(names, best, strict=True)
    found = f"the loss of that model itself is: {difference_in_words(first, second)}"
    if lower("", second, first).holds:
        return (
            f"Why: the two streams are not equally hard: {found}. Every node counts alike, so the samples of "
            "small clusters are read more often and count for more, and here these are easier."
        )
    return f"The streams are no easier with clusters: {found}."


def _gain(evidence: Evidence) -> Claim:
    high, low = FRACTIONS

    def pair(fraction: float) -> tuple[Named, Named]:
        local, ops = (_main(evidence, name, fraction)[1] for name in ("Local OGD", "OPS"))
        return ("OPS", ops), (f"at {100 * fraction:.0f} %: Local OGD", local)

    return larger_gain(
        f"OPS gains more over Local OGD at {100 * high:.0f} % stochastic samples than at {100 * low:.0f} %",
        pair(high),
        pair(low),
    )
