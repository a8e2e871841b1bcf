"""Experiment `pgfl-organ`: clusters that tell organs on CT slices apart (Gauthier 2023, sec. 5.4.3)."""

from __future__ import annotations

from typing import NamedTuple

from tacit.metrics import paired_difference
from tacit.streams.dataset import Dataset
from tacit_reproduction.datasets.organamnist import organ
from tacit_reproduction.datasets.tasks import TwoClasses
from tacit_reproduction.experiment import Claim, Experiment, Findings, reproducible, seen_in
from tacit_reproduction.judging import shown
from tacit_reproduction.personalised.classification import Design, Plan, Source, Study, rows, study
from tacit_reproduction.personalised.classification_claims import (
    difference,
    drowned,
    improves,
    in_words,
    learning_of,
    others,
    points_of,
    solved,
)
from tacit_reproduction.personalised.classification_pages import learning, likenesses, method, metrics, table
from tacit_reproduction.personalised.classification_runs import ALONE, Floats, Mixing, Noise, Setting
from tacit_reproduction.workers import crew

FIXED, FADING = Mixing(0.4), Mixing(0.4, 0.98)
"""The text gives no tau here: these are those of its regression."""
ABOUT = {"similar": (5.0, 2.0), "dissimilar": (2.0, 1.0)}
"""Points of accuracy gained, by the text, and how far a figure may be from that."""
EARLY = 20
"""Rounds in which a faster learner is to be ahead."""


def _against(first: str, second: str) -> TwoClasses:
    return TwoClasses((organ(first),), (organ(second),))


SIMILAR = Setting(
    "similar organs",
    (_against("right lung", "left lung"), _against("liver", "left lung"), _against("right kidney", "left lung")),
    clients=3,
    sizes=(2, 2),
    cohort=None,
)
DISSIMILAR = Setting(
    "dissimilar organs",
    (_against("spleen", "left lung"), _against("left kidney", "bladder"), _against("right kidney", "right lung")),
    clients=3,
    sizes=(2, 2),
    cohort=None,
)
FULL = Design(
    rounds=100,
    every=5,
    seeds=40,
    tuning_seeds=8,
    norms=(0.1, 0.3, 1.0, 3.0, 6.0),
    clips=(0.1, 1.0),
    levels=(100.0, 1000.0, 10_000.0, 100_000.0),
    taus=(),
)
QUICK = FULL._replace(every=10, seeds=8, tuning_seeds=0, norms=(3.0,), clips=(1.0,), levels=())
SEEDS_APART = 1000


class Evidence(NamedTuple):
    """All that the claims rest on."""

    similar: Study
    dissimilar: Study
    every: int
    """Rounds between records."""


def investigate(quick: bool, seed: int) -> Findings:
    """Run everything and judge the claims."""
    source: Source = "organamnist"
    design = QUICK if quick else FULL
    plans = [Plan(SIMILAR, (ALONE, FIXED)), Plan(DISSIMILAR, (ALONE, FIXED, FADING), noisy=not quick)]
    with crew() as team:
        similar, dissimilar = study(team, plans, design, SEEDS_APART * seed, source)
    described = rows(source, SIMILAR.classes | DISSIMILAR.classes)
    return findings(Evidence(similar, dissimilar, design.every), design, described)


def judge(evidence: Evidence) -> list[Claim]:
    """Return every claim with its verdict."""
    similar, dissimilar = evidence.similar, evidence.dissimilar
    words = f"Similar organs: learning across clusters, {FIXED.words}, raises test accuracy"
    claims = []
    for noise in similar.totals:
        claims += seen_in(
            learning_of(noise),
            improves(words, similar, noise, FIXED, others(similar)),
            _about(similar, noise, FIXED, *ABOUT["similar"]),
            text="figure 5.6 (a), with noise: much inter-cluster learning adds about 5 %",
        )
    for noise in dissimilar.totals:
        claims += seen_in(
            learning_of(noise),
            _faster(evidence, noise),
            _about(dissimilar, noise, FADING, *ABOUT["dissimilar"]),
            text="figure 5.6 (b), with noise: a medium decay of tau speeds learning up and adds about 2 %",
        )
        kept = "section 5.4.3: tau decays in order to preserve the accuracy in the end; no numbers"
        claims += seen_in(learning_of(noise), _kept(dissimilar, noise), text=kept)
    return [*claims, *drowned(similar), *drowned(dissimilar), solved([similar, dissimilar])]


def _about(of: Study, noise: Noise, mixing: Mixing, gain: float, margin: float) -> Claim:
    """The gain at the end is what the text says: its interval meets the range."""
    found = paired_difference(of.final(noise, mixing), of.final(noise, ALONE))
    return Claim(
        f"{of.plan.setting.name}: {mixing.words} gains about {gain:g} points at the end ({in_words(of, noise)})",
        found.low < gain + margin and found.high > gain - margin and found.low > 0,
        f"{points_of(found.mean, found.low, found.high)} (95 %, paired over {found.n} seeds), by cluster "
        f"{_by_cluster(of, noise, mixing)}; {ALONE.words} has {shown(of.final(noise, ALONE))} %; about means within "
        f"{margin:g}, and above 0. {_capital(others(of))}",
    )


def _faster(evidence: Evidence, noise: Noise) -> Claim:
    of = evidence.dissimilar
    early = [(m.words, _early(of, noise, m, evidence.every)) for m in (FADING, ALONE)]
    found, words = difference(*early)
    figures = f"mean of the first {EARLY} rounds: {words}"
    holds = found.low > 0
    norms = [of.steps[noise, m].norm for m in (FADING, ALONE)]
    why = (
        f"images have norm {norms[0]:g} and {norms[1]:g}, each the best at the end: longer steps are faster"
        if norms[0] < norms[1]
        else others(of)
    )
    claim = f"Dissimilar organs: a fading tau, {FADING.words}, learns faster ({in_words(of, noise)})"
    return Claim(claim, holds, figures if holds else f"{figures}. Why: {why}")


def _early(of: Study, noise: Noise, mixing: Mixing, every: int) -> Floats:
    found: Floats = of.outcomes[noise, mixing].accuracy[:, : EARLY // every].mean(axis=1)
    return found


def _kept(of: Study, noise: Noise) -> Claim:
    found, figures = difference(*((m.words, of.final(noise, m)) for m in (FADING, FIXED)))
    gains = " and ".join(_by_cluster(of, noise, m) for m in (FADING, FIXED))
    return Claim(
        f"Dissimilar organs: at the end a fading tau is better than a fixed one ({in_words(of, noise)})",
        found.low > 0,
        f"{figures}; above {ALONE.words} by cluster {gains}",
    )


def _by_cluster(of: Study, noise: Noise, mixing: Mixing) -> str:
    """Say how far each cluster is above its accuracy without mixing, at the end."""
    gains = (of.outcomes[noise, mixing].by_cluster - of.outcomes[noise, ALONE].by_cluster).mean(axis=0)
    return " / ".join(f"{gain:+.1f}" for gain in gains)


def _capital(words: str) -> str:
    return words[:1].upper() + words[1:]


def findings(evidence: Evidence, design: Design, data: Dataset) -> Findings:
    """Judge what was measured and present it."""
    studies = [evidence.similar, evidence.dissimilar]
    return Findings(
        judge(evidence),
        {of.plan.setting.name.replace(" ", "_"): metrics(of) for of in studies},
        {"name": data.name, "description": data.description, "rows": len(data.y), "complete": data.complete},
        [
            "Similar: right lung, liver or right kidney against the left lung; dissimilar: spleen against left lung, "
            "left kidney against bladder, right kidney against right lung. The first is -1, the second +1, so that "
            "organs which tasks share or which look alike are on one side. Each of 3 clients of a server has one image "
            "of either organ, and all are called in every round.",
            *method(design),
        ],
        [table(studies), likenesses(studies)],
        learning(studies, design, "5.6"),
    )


ORGAN: Experiment = reproducible(
    "pgfl-organ",
    "Personalised graph federated learning: organs on CT slices",
    "Gauthier (2023), sec. 5.4.3, figure 5.6",
    investigate,
)
