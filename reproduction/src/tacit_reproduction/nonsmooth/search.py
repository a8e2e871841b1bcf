"""Tuning of every method by one rule, and all runs behind the verdicts."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

from tacit_reproduction.nonsmooth.problems import PROBLEMS, Name, clip_for
from tacit_reproduction.nonsmooth.runs import (
    Cell,
    Method,
    Outcome,
    Setting,
    loss_of,
    run_cell,
    run_limit,
    run_mixed,
    speed_gap,
    tuning_run,
)
from tacit_reproduction.tuning import Tuned, bracket
from tacit_reproduction.workers import Crew, crew

TUNING_SEEDS_FROM = 500
"""Beyond the first seed that is judged."""
NONE = Setting(math.nan, math.nan)
STARTS: Mapping[Name, Mapping[Method, Setting]] = {
    "elastic-net": {
        "zCDP-NFL": Setting(0.8, 1.6),
        "DP-NFL": Setting(0.1, 6.4),
        "zCDP-grad-NFL": NONE._replace(step=0.4),
    },
    "lad": {
        "zCDP-NFL": Setting(0.4, 6.4),
        "DP-NFL": Setting(0.025, 6.4),
        "zCDP-grad-NFL": NONE._replace(step=0.1),
    },
    "ridge": {
        "zCDP-NFL": Setting(0.8, 1.6),
        "DP-NFL": Setting(0.1, 6.4),
        "zCDP-grad-NFL": NONE._replace(step=0.4),
        "P-ADMM": NONE._replace(penalty=1.6),
    },
}
"""Start of the search; the quick form takes it as it is."""
MATCHED: Method = "zCDP-grad-NFL, constant"
MATCHING_STARTS_AT = 0.05


class Design(NamedTuple):
    """The extent of an experiment."""

    seeds: int
    tuning_seeds: int
    totals: tuple[float, ...]
    """Of epsilon, rising; learning curves are at the one in the middle."""
    penalties: tuple[float, ...]
    """rho to choose from at the middle total; (): nothing is tuned."""
    ratio: float
    """Between neighbouring steps of the grid."""

    @property
    def middle(self) -> float:
        """The total of the learning curves."""
        return self.totals[len(self.totals) // 2]


FULL = Design(20, 4, (1.0, 2.0, 4.0, 8.0, 16.0), (0.4, 1.6, 6.4), 2.0)
QUICK = Design(4, 2, (4.0,), (), 2.0)


class Search(NamedTuple):
    """A walk downhill on the grid of one setting."""

    cell: Cell
    """Start of the search."""
    ratio: float
    seeds: int
    first: int
    speed: float | None = None
    """The logarithm of an early error to come close to; None: the error at the end is made small."""


class Found(NamedTuple):
    """Result of the search."""

    setting: Setting
    tuned: Tuned
    early: float
    """The logarithm of its error after `INITIAL` rounds."""

    @property
    def loss(self) -> float:
        """The minimised error."""
        return min(self.tuned.tried.values())


class Evidence(NamedTuple):
    """All that the verdicts rest on."""

    problem: Name
    clip: float
    middle: float
    settings: Mapping[tuple[Method, float], Setting]
    """(method, total epsilon) -> what was chosen."""
    found: Mapping[tuple[Method, float], Outcome]
    quiet: Mapping[Method, Outcome]
    """With the clip but without noise, in the settings of the middle total."""
    limit: Mapping[Method, Outcome]
    """Long runs without clip and noise."""
    clipped: Outcome
    """zCDP-NFL for as long, with the clip."""
    mixed: Outcome
    """zCDP-grad-NFL at the middle total, with nothing changed but that it mixes as zCDP-NFL does."""

    @property
    def totals(self) -> list[float]:
        """Rising."""
        return sorted({total for method, total in self.found if method == "zCDP-NFL"})


def gather(name: Name, design: Design, first: int, workers: int | None = None) -> Evidence:
    """Tune and run everything, judged seeds from `first` on."""
    others = first + TUNING_SEEDS_FROM
    clip = clip_for(PROBLEMS[name], range(others, others + design.tuning_seeds))
    middle = design.middle
    with crew(workers) as team:
        settings = _settings(team, name, design, clip, others)
        keys = list(settings)
        cells = [Cell(name, method, settings[method, total], total, clip) for method, total in keys]
        at_middle = {method: settings[method, total] for method, total in keys if total == middle}
        silent = [
            Cell(name, method, setting, None, clip) for method, setting in at_middle.items() if method != "DP-NFL"
        ]
        exact: list[Method] = ["zCDP-NFL", *(method for method in at_middle if method == "P-ADMM")]
        ends = [(method, None) for method in exact]
        limits = team(
            "limits",
            run_limit,
            [(name, method, bound, design.seeds, first) for method, bound in (*ends, ("zCDP-NFL", clip))],
        )
        walker = Cell(name, "zCDP-grad-NFL", at_middle["zCDP-grad-NFL"], middle, clip)
        (mixed,) = team("mixing", run_mixed, [(walker, at_middle["zCDP-NFL"], design.seeds, first)])
        runs = team("running", run_cell, [(cell, design.seeds, first) for cell in (*cells, *silent)])
    return Evidence(
        name,
        clip,
        middle,
        settings,
        dict(zip(keys, runs[: len(keys)], strict=True)),
        {cell.method: outcome for cell, outcome in zip(silent, runs[len(keys) :], strict=True)},
        dict(zip(exact, limits[:-1], strict=True)),
        limits[-1],
        mixed,
    )


def search(task: Search) -> Found:
    """Walk downhill: P-ADMM's penalty, every other method's step."""
    cell, judge = task.cell, loss_of if task.speed is None else speed_gap(task.speed)
    early: dict[float, float] = {}

    def with_value(value: float) -> Setting:
        return cell.setting._replace(**{"penalty" if cell.method == "P-ADMM" else "step": value})

    def loss(value: float) -> float:
        outcome = tuning_run(cell._replace(setting=with_value(value)), task.seeds, task.first)
        early[value] = outcome.early
        return judge(outcome)

    begin = cell.setting.penalty if cell.method == "P-ADMM" else cell.setting.step
    tuned = bracket(loss, begin, task.ratio)
    return Found(with_value(tuned.step), tuned, early[tuned.step])


def _settings(team: Crew, name: Name, design: Design, clip: float, first: int) -> dict[tuple[Method, float], Setting]:
    """Choose at the middle total among all penalties, at the others the step alone; then match the initial speed."""
    starts = STARTS[name]
    if not design.penalties:
        return {(method, total): setting for total in design.totals for method, setting in starts.items()}

    def task(method: Method, setting: Setting, total: float, speed: float | None = None) -> Search:
        # The baseline's error is flat, since it hardly learns: a coarser grid ends the walk sooner.
        ratio = design.ratio**2 if method == "DP-NFL" else design.ratio
        return Search(Cell(name, method, setting, total, clip), ratio, design.tuning_seeds, first, speed)

    # The largest penalty has the least noise, which is what the baseline needs.
    choices = {"zCDP-NFL": design.penalties, "DP-NFL": design.penalties[-1:]}

    middle = [
        task(method, setting._replace(penalty=penalty), design.middle)
        for method, setting in starts.items()
        for penalty in choices.get(method, (setting.penalty,))
    ]
    ends = team("tuning", search, middle)
    best: dict[Method, Found] = {}
    for done, end in zip(middle, ends, strict=True):
        method = done.cell.method
        if method not in best or end.loss < best[method].loss:
            best[method] = end
    rest = [
        task(method, found.setting, total)
        for method, found in best.items()
        for total in design.totals
        if total != design.middle
    ]
    match = task(MATCHED, NONE._replace(step=MATCHING_STARTS_AT), design.middle, best["zCDP-NFL"].early)
    *walked, matched = team("tuning", search, [*rest, match])
    chosen = {(method, design.middle): found.setting for method, found in best.items()}
    chosen |= {
        (done.cell.method, total): end.setting
        for done, end in zip(rest, walked, strict=True)
        if (total := done.cell.total) is not None
    }
    chosen[MATCHED, design.middle] = matched.setting
    return chosen
