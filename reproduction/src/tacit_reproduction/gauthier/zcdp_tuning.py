"""Settings of every method of Gauthier (2023), sec. 3.4, at every total: looked for on seeds that are not judged."""

import functools
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from tacit_reproduction.gauthier import nonsmooth as ns
from tacit_reproduction.gauthier.nonsmooth import HALF, MATCHED, OURS, VANISHING, Cell, Method, Name
from tacit_reproduction.study import Crew
from tacit_reproduction.tuning import bracket

CLASSIC_UP_TO = 30.0
"""Total rho beyond which the classic calibration is not proven: some round would have an epsilon of 1 or more."""
PENALTIES: Mapping[Method, tuple[float, ...]] = {OURS: (0.8, 1.6, 3.2, 6.4, 12.8)}
"""rho to choose from; (eps, delta)DP-NFL has a large one, by which it has little noise."""
SEEDS = 4
RATIO, FINE = 2.0, 2.0**0.5  # of the grids; the finer one is for the step that starts alike
QUICK_TOTALS = (0.3, 300.0)
Known = Mapping[Method, tuple[tuple[float, float], tuple[float, float]]]
SQUARES: Known = {
    OURS: ((0.8, 1.6), (1.6, 1.6)), "DP-NFL": ((0.003125, 6.4), (0.003125, 6.4)),
    VANISHING: ((0.4, 0.0), (0.4, 0.0)), MATCHED: ((0.1, 0.0), (0.1, 0.0))}  # fmt: skip
DEVIATIONS: Known = {
    OURS: ((0.4, 6.4), (0.4, 6.4)), "DP-NFL": ((0.000390625, 6.4), (0.000390625, 6.4)),
    VANISHING: ((0.1, 0.0), (0.1, 0.0)), MATCHED: ((0.025, 0.0), (0.025, 0.0))}  # fmt: skip
RIDGE: Known = {**SQUARES, "P-ADMM": ((0.0, 3.2), (0.0, 1.6))}
KNOWN: Mapping[Name, Known] = {"elastic-net": SQUARES, "lad": DEVIATIONS, "ridge": RIDGE}
"""Step and rho at both totals of the quick form, found on two tuning seeds, for the elastic net those of ridge
regression; the first ones begin the search of the full form."""


class Walk(NamedTuple):  # a search downhill for one method, from total to total
    start: Cell
    clip: float
    first: int
    totals: tuple[float, ...]
    speed: float | None = None
    """Logarithm of an early error to come close to; None: the error at the end is made small."""


class Found(NamedTuple):
    """What was found for a total: the cell, what was minimised, and the logarithm of the early error."""

    cell: Cell
    loss: float
    early: float


def walk(task: Walk) -> list[Found]:
    """Search the step, or P-ADMM's penalty, at every total, beginning where the last search ended."""
    cell, found = task.start, []
    name = "penalty" if cell.method == "P-ADMM" else "step"
    rounds, ratio = (ns.ROUNDS, RATIO) if task.speed is None else (ns.INITIAL, FINE)

    @functools.cache
    def errors(tried: Cell) -> tuple[float, float]:
        method, problem = ns.algorithm(tried, task.clip), ns.PROBLEMS[tried.problem]
        error = np.log(ns.outcome(method, problem, (task.first, SEEDS), rounds, ns.INITIAL)["error"])
        early, late = (float(error[:, at].mean()) for at in (0, -1))
        return late if task.speed is None else abs(early - task.speed), early

    def at(value: float) -> Cell:
        change: dict[str, Any] = {name: value}
        return cell._replace(**change)

    for total in task.totals:
        cell = cell._replace(total=total)
        cell = at(bracket(lambda value: errors(at(value))[0], getattr(cell, name), ratio))
        found.append(Found(cell, *errors(cell)))
    return found


def tuned(team: Crew, name: Name, totals: Sequence[float], clip: float, first: int) -> list[Cell]:
    starts = {method: Cell(name, method, totals[0], *settings[0]) for method, settings in KNOWN[name].items()}
    short = tuple(total for total in totals if total <= CLASSIC_UP_TO)
    walks = [
        Walk(start._replace(penalty=penalty), clip, first, short if method == "DP-NFL" else tuple(totals))
        for method, start in starts.items()
        if method != MATCHED
        for penalty in PENALTIES.get(method, (start.penalty,))
    ]
    best: dict[tuple[Method, float], Found] = {}
    for steps in team("tuning", walk, walks):
        for step in steps:
            key = step.cell.method, step.cell.total
            best[key] = min(best.get(key, step), step, key=lambda one: one.loss)
    alike = [Walk(starts[MATCHED], clip, first, (total,), best[OURS, total].early) for total in totals]
    matched = [step for steps in team("matching", walk, alike) for step in steps]
    return with_half([step.cell for step in (*best.values(), *matched)])


def with_half(cells: Sequence[Cell]) -> list[Cell]:
    return [*cells, *(cell._replace(method=HALF, step=cell.step / 2) for cell in cells if cell.method == MATCHED)]


def known(name: Name) -> list[Cell]:
    every = ((m, *of) for m, settings in KNOWN[name].items() for of in zip(QUICK_TOTALS, settings, strict=True))
    return with_half([Cell(name, m, rho, *of) for m, rho, of in every if m != "DP-NFL" or rho <= CLASSIC_UP_TO])
