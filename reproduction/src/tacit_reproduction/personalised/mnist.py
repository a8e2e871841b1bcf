"""Experiment `pgfl-mnist`: clusters that tell digits or triplets of digits apart (Gauthier 2023, sec. 5.4.2)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from tacit.results.record import figure
from tacit.streams.dataset import Dataset
from tacit_reproduction.datasets.tasks import TwoClasses
from tacit_reproduction.experiment import Claim, Experiment, Findings, Table, reproducible, seen_in
from tacit_reproduction.judging import shown
from tacit_reproduction.personalised.classification import Design, Plan, Source, Study, rows, study, sweep
from tacit_reproduction.personalised.classification_claims import (
    difference,
    drowned,
    improves,
    in_words,
    learning_of,
    others,
    solved,
)
from tacit_reproduction.personalised.classification_pages import (
    by_tau,
    learning,
    likenesses,
    method,
    metrics,
    swept,
    table,
)
from tacit_reproduction.personalised.classification_runs import ALONE, Floats, Mixing, Noise, Setting
from tacit_reproduction.workers import crew

MIXED = Mixing(0.4)
MEDIUM, LARGE, VERY_LARGE = 0.4, 0.6, 1.0
"""Of tau; at 2/3 all clusters have one model, at 1 each has the mean of the others'."""
PAIRS = Setting(
    "pairs",
    (TwoClasses((1,), (8,)), TwoClasses((1,), (9,)), TwoClasses((7,), (8,))),
    clients=15,
    sizes=(2, 4),
    cohort=3,
)
TURNED = PAIRS._replace(name="pairs, third turned", tasks=(*PAIRS.tasks[:2], TwoClasses((8,), (7,))))
"""The text does not say which digit is on which side: here 7 is on that of 9, which looks like it, and 8 is on two."""
TRIPLETS = Setting(
    "triplets",
    tuple(TwoClasses((1, 2, 3), others) for others in ((6, 7, 8), (7, 8, 9), (6, 8, 9))),
    clients=15,
    sizes=(6, 12),
    cohort=3,
)
FULL = Design(
    rounds=100,
    every=5,
    seeds=20,
    tuning_seeds=4,
    norms=(0.1, 0.3, 1.0, 3.0, 6.0),
    clips=(0.1, 1.0),
    levels=(100.0, 1000.0, 10_000.0, 100_000.0),
    taus=(0.0, 0.2, MEDIUM, LARGE, 0.8, VERY_LARGE),
)
QUICK = FULL._replace(every=10, seeds=5, tuning_seeds=0, norms=(3.0,), clips=(1.0,), levels=(), taus=())
SEEDS_APART = 1000


WORDS = {
    PAIRS.name: "Pairs of digits",
    TURNED.name: "Pairs of digits, 7 on the side of 9",
    TRIPLETS.name: "Triplets of digits",
}
IN_TEXT = {
    PAIRS.name: "figure 5.5 (a), with noise: inter-cluster learning improves accuracy",
    TURNED.name: "figure 5.5 (a), with noise: inter-cluster learning improves accuracy; no word on sides",
    TRIPLETS.name: "figure 5.5 (b), with noise: inter-cluster learning improves accuracy significantly",
}


class Evidence(NamedTuple):
    """All that the claims rest on."""

    studies: Mapping[str, Study]
    """By setting."""
    sweeps: Mapping[Noise, Mapping[float, Floats]]
    """Of triplets, noise -> tau -> accuracy at the end."""


def plans(quick: bool) -> list[Plan]:
    """Return what is compared."""
    both = (ALONE, MIXED)
    if quick:
        return [Plan(PAIRS, both, noisy=False), Plan(TRIPLETS, both)]
    return [Plan(PAIRS, both), Plan(TURNED, both, noisy=False), Plan(TRIPLETS, both)]


def investigate(quick: bool, seed: int) -> Findings:
    """Run everything and judge the claims."""
    source: Source = "mnist"
    design = QUICK if quick else FULL
    first = SEEDS_APART * seed
    noisy: tuple[Noise, ...] = ("published", "affordable")
    with crew() as team:
        found = {of.plan.setting.name: of for of in study(team, plans(quick), design, first, source)}
        triplets = found[TRIPLETS.name]
        sweeps = {
            noise: sweep(team, triplets, noise, MIXED, design, first, source)
            for noise in noisy
            if design.taus and noise in triplets.totals
        }
    return findings(Evidence(found, sweeps), design, rows(source, PAIRS.classes | TRIPLETS.classes))


def judge(evidence: Evidence) -> list[Claim]:
    """Return every claim with its verdict."""
    said = f"learning across clusters, {MIXED.words}, raises test accuracy"
    studies = evidence.studies.values()
    claims = []
    for name, of in evidence.studies.items():
        for noise in of.totals:
            verdict = improves(f"{WORDS[name]}: {said}", of, noise, MIXED, _why(of))
            claims += seen_in(learning_of(noise), verdict, text=IN_TEXT[name])
    for of in studies:
        claims += drowned(of)
    for noise, values in evidence.sweeps.items():
        claims += _by_tau(evidence.studies[TRIPLETS.name], noise, values)
    return [*claims, solved(studies)]


def _why(of: Study) -> str:
    return f"{others(of)}. Mixing pulls a model towards the others' also where its own cluster has images enough"


def _by_tau(of: Study, noise: Noise, values: Mapping[float, Floats]) -> list[Claim]:
    named = {tau: (f"tau = {tau:g}", accuracy) for tau, accuracy in values.items()}
    better = [difference(named[tau], named[0.0]) for tau in (MEDIUM, LARGE)]
    last, words = difference(named[MEDIUM], named[VERY_LARGE])
    turns = ", ".join(f"{1 - 1.5 * tau:.1f} at {tau:g}" for tau in (MEDIUM, LARGE, VERY_LARGE))
    return seen_in(
        by_tau(noise),
        Claim(
            f"Triplets: medium and large tau raise test accuracy ({in_words(of, noise)})",
            all(gain.low > 0 for gain, _ in better),
            "; ".join(figures for _, figures in better),
            "figure 5.5 (c): medium and large tau improve accuracy significantly",
        ),
        Claim(
            f"Triplets: a very large tau lowers it again ({in_words(of, noise)})",
            last.low > 0,
            f"{words}. A round's mixing multiplies what sets three clusters' models apart by 1 - 3 tau / 2, {turns}: a "
            "tau of 1 mixes no more than one of 1/3",
            "figure 5.5 (c): very large values degrade it",
        ),
    )


def findings(evidence: Evidence, design: Design, data: Dataset) -> Findings:
    """Judge what was measured and present it."""
    studies, triplets = list(evidence.studies.values()), evidence.studies[TRIPLETS.name]
    figures = learning(studies, design, "5.5 (a) and (b)")
    caption = f"As figure 5.5 (c): after {design.rounds} rounds."
    figures += [swept(triplets, noise, values, caption) for noise, values in evidence.sweeps.items()]
    return Findings(
        judge(evidence),
        {
            **{of.plan.setting.name: metrics(of) for of in studies},
            "sweeps": [
                {"noise": noise, "by_tau": {f"{tau:g}": figure(v) for tau, v in values.items()}}
                for noise, values in evidence.sweeps.items()
            ],
        },
        {"name": data.name, "description": data.description, "rows": len(data.y), "complete": data.complete},
        [
            "Pairs: {1} against {8}, {1} against {9}, {7} against {8}, 2 to 4 images per client; triplets: {1, 2, 3} "
            "against {6, 7, 8}, {7, 8, 9}, {6, 8, 9}, 6 to 12 images: the text's samples 'composed of two images' (or "
            "two triplets) are read as images of which half are of either side. The first side is -1 everywhere, so "
            "that no digit changes sides; then 9 and 7, which look alike, are on different ones. The full form also "
            "runs pairs with 8 as -1 and 7 as +1 in the third cluster, without noise. A client is called in one round "
            "of five.",
            *method(design),
        ],
        [table(studies), likenesses(studies), *_sweeps(evidence)],
        figures,
    )


def _sweeps(evidence: Evidence) -> list[Table]:
    found = [
        (in_words(evidence.studies[TRIPLETS.name], noise), f"{tau:g}", shown(v))
        for noise, values in evidence.sweeps.items()
        for tau, v in values.items()
    ]
    note = "In per cent at the end; every tau has the norm and the clip that were chosen for tau = 0.4."
    return [Table("Test accuracy of triplets by tau", note, ("noise", "tau", "accuracy"), found)] if found else []


MNIST: Experiment = reproducible(
    "pgfl-mnist",
    "Personalised graph federated learning: digits",
    "Gauthier (2023), sec. 5.4.2, figure 5.5",
    investigate,
)
