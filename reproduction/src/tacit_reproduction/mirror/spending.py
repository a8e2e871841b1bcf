"""Losses and spending of runs with a budget at several horizons, against points that keep the budget."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tacit.algorithms.mirror._observations import Dual
from tacit.core.contract import Algorithm, Mechanism
from tacit.core.errors import DataError
from tacit.metrics import best_fixed_within, check_feasible
from tacit.privacy import laplace, unprotected
from tacit.privacy.spending import RunPrivacy
from tacit.results import Run
from tacit.results.record import figure
from tacit.streams import Stream
from tacit_reproduction.experiment import Claim
from tacit_reproduction.finished import finished_run
from tacit_reproduction.mirror.budget import AGENTS, COORDINATES, MARKET, SEASON, UNPAYABLE, Problem, network

Floats = NDArray[np.float64]
UNCONSTRAINED = "mirror_descent"
SEEDS_APART = 1000
"""Data of seed s of the command are drawn from the numbers from SEEDS_APART * s on."""
EPSILON = 1.0
"""Of the private runs that are shown over the horizons."""
RELEASED_EPSILON = 16.0
"""Of runs with a released dual that learn: the noise is that of 16 records a round at eps = 1."""
READ_IN_A_CHUNK = 5000


class Design(NamedTuple):
    """The extent of an experiment."""

    horizons: tuple[int, ...]
    """Whole seasons."""
    seeds: int
    epsilons: tuple[float | None, ...]
    """With more and more noise; the first two are none and EPSILON."""
    windows: tuple[int, ...]
    """K, of the methods that have one; the last is the season."""

    @property
    def longest(self) -> int:
        """The last horizon."""
        return self.horizons[-1]


FULL = Design((1000, 2000, 5000, 10_000, 20_000), 20, (None, EPSILON, 0.3, 0.1), (1, 25, 50, SEASON))
QUICK = Design((1000, 4000, 12_000), 6, (None, EPSILON), (1, SEASON))


class Cell(NamedTuple):
    """One setting of a method."""

    problem: str
    method: str
    epsilon: float | None = None
    """Of each release; None: no noise."""
    dual: Dual = "private"
    knob: float = 1.0
    """Swept factor of the method's damping or boldness."""


class Outcome(NamedTuple):
    """Results of a cell at some horizons, in sum over all agents and rounds."""

    horizons: tuple[int, ...]
    loss: Floats
    """(seeds, horizons)."""
    spent: Floats
    """(seeds, horizons) sum of c: above 0 the budget is exceeded."""
    privacy: RunPrivacy
    """At the longest horizon."""


class Benchmark(NamedTuple):
    """The best fixed point of the set that keeps every window of so many rounds."""

    loss: Floats
    """(seeds, horizons), in sum over all agents and rounds."""
    gap: float
    """Certified: no average loss is above the optimum by more than this."""
    violation: float
    """No window is broken by more than this per round."""


class Evidence(NamedTuple):
    """All that claims are judged by."""

    horizons: tuple[int, ...]
    outcomes: Mapping[Cell, Outcome]
    best: Mapping[tuple[str, int], Benchmark]
    """(problem, window) -> what it is compared with."""

    def regret(self, cell: Cell, window: int) -> Floats:
        """(seeds, horizons of the cell) loss minus that of the benchmark."""
        outcome = self.outcomes[cell]
        at = [self.horizons.index(horizon) for horizon in outcome.horizons]
        return np.asarray(outcome.loss - self.best[cell.problem, window].loss[:, at])

    def average_regret(self, cell: Cell, window: int, horizon: int) -> Floats:
        """(seeds,) per agent and round."""
        outcome = self.outcomes[cell]
        return np.asarray(self.regret(cell, window)[:, outcome.horizons.index(horizon)] / (AGENTS * horizon))

    def average_spent(self, cell: Cell, horizon: int) -> Floats:
        """(seeds,) per agent and round, beyond the budget."""
        outcome = self.outcomes[cell]
        return np.asarray(outcome.spent[:, outcome.horizons.index(horizon)] / (AGENTS * horizon))


def merged(parts: Sequence[Evidence]) -> Evidence:
    """Put the evidence of several problems together."""
    outcomes = {cell: outcome for part in parts for cell, outcome in part.outcomes.items()}
    return Evidence(parts[0].horizons, outcomes, {key: best for part in parts for key, best in part.best.items()})


def noise(problem: Problem, cell: Cell) -> Mechanism:
    """Return the mechanism of a cell; where the dual is released, more has to fit below the clip."""
    if cell.epsilon is None:
        return unprotected
    clip = problem.wide_clip if cell.dual == "released" else problem.clip
    return laplace(cell.epsilon, clip, perturbs="gradient")


def noise_scale(problem: Problem, epsilon: float) -> float:
    """Return the scale of that noise for a private dual: the l1 sensitivity of a record over eps."""
    return 2 * math.sqrt(COORDINATES) * problem.clip / epsilon


def duals_compared(kept: Cell, longest: int) -> list[Cell]:
    """Return the cells that the private dual of one is compared with."""
    released = kept._replace(dual="released")
    return [released, released._replace(epsilon=RELEASED_EPSILON), thin(kept, longest)]


def thin(kept: Cell, longest: int) -> Cell:
    """Return the private dual that is charged no more in all than a released one that learns."""
    return kept._replace(epsilon=RELEASED_EPSILON / longest)


def compare(
    problem: Problem,
    seeds: Sequence[int],
    horizons: tuple[int, ...],
    windows: Sequence[int],
    plan: Mapping[Cell, tuple[tuple[int, ...], bool]],
    algorithm: Callable[[Problem, Cell, int], Algorithm],
) -> Evidence:
    """Run every cell of a problem on the same data and solve for its benchmarks.

    `plan` says of each cell at which horizons it is wanted, and whether one run can be read at all of them.
    """
    streams = {seed: problem.stream(seed, max(horizons)) for seed in seeds}
    outcomes = {}
    for cell, (wanted, any_time) in plan.items():
        runs = (max(wanted),) if any_time else wanted
        found = [_run(problem, algorithm(problem, cell, rounds), streams, rounds) for rounds in runs]
        outcomes[cell] = outcome_of(found, wanted)
    best = {(problem.name, window): _benchmark(problem, streams.values(), horizons, window) for window in windows}
    return Evidence(horizons, outcomes, best)


def _run(problem: Problem, algorithm: Algorithm, streams: Mapping[int, Stream], rounds: int) -> Run:
    watched = {} if algorithm.constraints else {problem.budget.name: problem.budget.value}
    return finished_run(
        algorithm,
        network,
        lambda seed: streams[seed],
        rounds=rounds,
        repeats=len(streams),
        seed=min(streams),
        figures=watched,
        record_every=rounds,
    )


def outcome_of(runs: Sequence[Run], horizons: tuple[int, ...]) -> Outcome:
    """Read one run at all horizons, or each of several at its own end."""

    def totals(name: str) -> Floats:
        sums = [AGENTS * np.cumsum(np.asarray(run.per_round[name], np.float64), axis=1) for run in runs]
        if len(runs) == 1:
            return np.asarray(sums[0][:, np.array(horizons) - 1])
        return np.stack([part[:, -1] for part in sums], axis=1)

    return Outcome(horizons, totals("loss"), totals(MARKET.budget.name), runs[-1].privacy)


def _reader(stream: Stream, rounds: int) -> Callable[[], Iterator[Any]]:
    starts = range(0, rounds, READ_IN_A_CHUNK)
    return lambda: (stream.chunk(start, min(start + READ_IN_A_CHUNK, rounds)) for start in starts)


def _benchmark(problem: Problem, streams: Any, horizons: tuple[int, ...], window: int) -> Benchmark:
    found = [
        best_fixed_within(
            problem.objective,
            _reader(stream, max(horizons)),
            stream.batch_spec(),
            horizons,
            within=problem.mirror.within,
            constraints=[problem.budget],
            window=window,
        )
        for stream in streams
    ]
    points = [point for row in found for point in row]
    return Benchmark(
        np.array([[point.total_loss for point in row] for row in found]),
        max(np.inf if point.gap is None else point.gap for point in points),
        max(point.violation for point in points),
    )


def refusal(seed: int, rounds: int = 2 * SEASON) -> Claim:
    """Ask for points that keep an unpayable fee round by round, and season by season."""
    stream = MARKET.stream(seed, rounds)

    def ask(window: int) -> str | None:
        try:
            check_feasible(
                MARKET.objective,
                _reader(stream, rounds),
                stream.batch_spec(),
                within=MARKET.mirror.within,
                constraints=[UNPAYABLE],
                window=window,
            )
        except DataError as fault:
            return str(fault)
        return None

    by_round, by_season = ask(1), ask(SEASON)
    said = "nothing was refused" if by_round is None else f"for windows of 1 round: “{by_round}”"
    season = "is accepted" if by_season is None else f"is refused: “{by_season}”"
    named = by_round is not None and UNPAYABLE.name in by_round and "rounds" in by_round and "agent" in by_round
    return Claim(
        "A budget that nobody can keep is refused before a run, and the window is named",
        named and by_season is None,
        f"Buying goods with a fee that follows the season: {said}; for windows of {SEASON} rounds it {season}",
    )


def cell_metrics(evidence: Evidence, windows: Sequence[int]) -> list[dict[str, Any]]:
    """Return what summary.json holds of every cell: all of its horizons, and regret against all windows at the end."""
    rows = []
    for cell, outcome in evidence.outcomes.items():
        last = outcome.horizons[-1]
        regrets = {f"regret_{k}": figure(evidence.average_regret(cell, k, last)) for k in windows}
        curve = {
            str(at): {
                "regret": figure(evidence.average_regret(cell, SEASON, at)),
                "overspending": figure(evidence.average_spent(cell, at)),
            }
            for at in outcome.horizons
        }
        rows.append(
            {**cell._asdict(), "rounds": last, **regrets, "horizons": curve, "privacy": outcome.privacy.summary()}
        )
    return rows


def description(design: Design) -> str:
    """Return the data in one phrase."""
    return (
        f"{AGENTS} agents on a one-sided digraph, up to {max(design.horizons):,} rounds, {design.seeds} seeds with "
        "their own graph, data and noise"
    )
