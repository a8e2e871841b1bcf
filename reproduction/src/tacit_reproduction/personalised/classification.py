"""Runs of `pgfl-mnist` and `pgfl-organ`, and their order."""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

from tacit.streams.dataset import Dataset
from tacit_reproduction.datasets.mnist import mnist
from tacit_reproduction.datasets.organamnist import organamnist
from tacit_reproduction.personalised.classification_runs import (
    ALONE,
    LOST,
    Cell,
    Extent,
    Floats,
    Mixing,
    Noise,
    Outcome,
    Setting,
    images,
    likeness,
    published,
    run_cell,
)
from tacit_reproduction.workers import Crew

Source = Literal["mnist", "organamnist"]


class Design(NamedTuple):
    """The extent of an experiment."""

    rounds: int
    every: int
    seeds: int
    tuning_seeds: int
    """0: no choice is made, every run has the first norm and clip."""
    norms: tuple[float, ...]
    """Of images, and"""
    clips: tuple[float, ...]
    """of gradients: each compared method gets the best of all combinations."""
    levels: tuple[float, ...]
    """Total zCDP rho, rising, among which an affordable one is looked for."""
    taus: tuple[float, ...]
    """Of the sweep, rising from 0."""


class Plan(NamedTuple):
    """Comparisons in a setting."""

    setting: Setting
    mixings: tuple[Mixing, ...]
    """Without mixing first."""
    noisy: bool = True
    """Whether also with noise."""


class Steps(NamedTuple):
    """Chosen values of settings that the text leaves open."""

    norm: float
    clip: float


class Study(NamedTuple):
    """Results in a setting."""

    plan: Plan
    totals: Mapping[Noise, float]
    """zCDP rho of a client called in every round; "affordable" is absent where no level was."""
    steps: Mapping[tuple[Noise, Mixing], Steps]
    outcomes: Mapping[tuple[Noise, Mixing], Outcome]
    likeness: Floats
    """(tasks, tasks), see there."""

    def final(self, noise: Noise, mixing: Mixing) -> Floats:
        """Return accuracies at the end, (seeds,)."""
        return self.outcomes[noise, mixing].final


class Task(NamedTuple):
    """A piece of work for one process."""

    cell: Cell
    norms: tuple[float, ...]
    extent: Extent
    source: Source | Dataset
    """A data set by name, or one that stands in for it."""


_published = functools.cache(lambda source: {"mnist": mnist, "organamnist": organamnist}[source]())


@functools.cache
def _loaded(source: Source, classes: tuple[int, ...]) -> Dataset:
    return images(_published(source), classes)


def rows(source: Source | Dataset, classes: set[int]) -> Dataset:
    """Return the images of these classes."""
    if isinstance(source, Dataset):
        return images(source, classes)
    return _loaded(source, tuple(sorted(classes)))


def do(task: Task) -> list[Outcome]:
    """Run one cell."""
    return run_cell(task.cell, task.norms, task.extent, rows(task.source, task.cell.setting.classes))


def study(team: Crew, plans: Sequence[Plan], design: Design, first: int, source: Source | Dataset) -> list[Study]:
    """Choose norms and clips on seeds of their own, find the affordable level, and run what is compared."""
    apart = range(first + design.seeds, first + design.seeds + design.tuning_seeds)
    whole = range(first, first + design.seeds)
    tuning, final = Extent(design.rounds, apart, design.rounds), Extent(design.rounds, whole, design.every)

    def tuned(wanted: Sequence[Wanted]) -> dict[Wanted, _Best]:
        if not design.tuning_seeds:
            return dict.fromkeys(wanted, _Best(Steps(design.norms[0], design.clips[0]), math.nan))
        tries = [(each, clip) for each in wanted for clip in (design.clips[:1] if each.plain else design.clips)]
        found = team("choosing", do, [Task(each.cell(clip), design.norms, tuning, source) for each, clip in tries])
        best: dict[Wanted, _Best] = {}
        for (each, clip), outcomes in zip(tries, found, strict=True):
            for norm, outcome in zip(design.norms, outcomes, strict=True):
                accuracy = float(outcome.final.mean())
                if each not in best or accuracy > best[each].accuracy:
                    best[each] = _Best(Steps(norm, clip), accuracy)
        return best

    def levels(plan: Plan) -> tuple[float, ...]:
        return design.levels if plan.noisy else ()

    totals = {plan: dict[Noise, float]({"none": math.inf}) for plan in plans}
    for plan in plans:
        totals[plan] |= {"published": published(design.rounds)} if plan.noisy else {}
    best = tuned(
        [Wanted(plan.setting, m, total) for plan in plans for m in plan.mixings for total in totals[plan].values()]
        + [Wanted(plan.setting, ALONE, level) for plan in plans for level in levels(plan)]
    )
    for plan in plans:
        enough = best[Wanted(plan.setting, ALONE, math.inf)].accuracy - LOST
        fits = [level for level in levels(plan) if best[Wanted(plan.setting, ALONE, level)].accuracy > enough]
        totals[plan] |= {"affordable": fits[0]} if fits else {}
    wanted = {
        (plan, noise, m): Wanted(plan.setting, m, total)
        for plan in plans
        for noise, total in totals[plan].items()
        for m in plan.mixings
    }
    best |= tuned([each for each in wanted.values() if each not in best])
    steps = {key: best[each].steps for key, each in wanted.items()}
    tasks = [Task(wanted[key].cell(chosen.clip), (chosen.norm,), final, source) for key, chosen in steps.items()]
    outcomes = dict(zip(wanted, team("running", do, tasks), strict=True))
    return [
        Study(
            plan,
            totals[plan],
            {(noise, m): chosen for (of, noise, m), chosen in steps.items() if of is plan},
            {(noise, m): outcome for (of, noise, m), (outcome,) in outcomes.items() if of is plan},
            likeness(plan.setting, rows(source, plan.setting.classes)),
        )
        for plan in plans
    ]


class Wanted(NamedTuple):
    """A run whose norm and clip are still open."""

    setting: Setting
    mixing: Mixing
    total: float

    @property
    def plain(self) -> bool:
        """Whether there is no noise."""
        return math.isinf(self.total)

    def cell(self, clip: float) -> Cell:
        """Return the run with a clip."""
        return Cell(self.setting, self.mixing, self.total, clip)


class _Best(NamedTuple):
    steps: Steps
    accuracy: float


def sweep(
    team: Crew, of: Study, noise: Noise, mixing: Mixing, design: Design, first: int, source: Source | Dataset
) -> dict[float, Floats]:
    """Return tau -> accuracy at the end (seeds,), with the norm and the clip that were chosen for `mixing`."""
    extent = Extent(design.rounds, range(first, first + design.seeds), design.rounds)
    norm, clip = of.steps[noise, mixing]
    cells = [Cell(of.plan.setting, Mixing(tau), of.totals[noise], clip) for tau in design.taus]
    found = team("sweeping tau", do, [Task(cell, (norm,), extent, source) for cell in cells])
    return {tau: outcomes[0].final for tau, outcomes in zip(design.taus, found, strict=True)}
