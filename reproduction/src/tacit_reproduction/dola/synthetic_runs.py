"""Runs behind `dola-synthetic`: one setting at a time, over all its seeds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tacit import algorithms, objectives
from tacit.algorithms.schedules import inverse, inverse_sqrt
from tacit.core.contract import Schedule
from tacit.privacy.spending import RunPrivacy
from tacit.results import Run
from tacit.streams import Stream
from tacit_reproduction.dola.networks import matchings
from tacit_reproduction.dola.protocol import NoiseOrder, noise, pegasos_radius
from tacit_reproduction.finished import finished_run

StepName = Literal["strong", "convex"]
LAMBDA = 0.1
"""The text gives none. At 0.1 the best model has length 1.8, well inside the ball of radius 1 / sqrt(0.1)."""
STEPS: dict[StepName, str] = {"strong": "a_t = 1/(lambda t)", "convex": "a_t = 1/(2 sqrt t)"}
SCHEDULES: dict[StepName, Schedule] = {"strong": inverse(1 / LAMBDA), "convex": inverse_sqrt(0.5)}
OBJECTIVE = objectives.hinge(l2=LAMBDA)


class Design(NamedTuple):
    """The extent of the experiment."""

    examples: int
    """In total, whatever the number of nodes."""
    seeds: int
    points: int
    """Rounds at which the regret is taken, each against the best model of that prefix."""
    whole: bool
    """Every eps for every number of nodes; otherwise what figure 1 shows: every eps at 64 nodes, every number of nodes
    at eps = 0.1."""


FULL = Design(examples=100_000, seeds=20, points=6, whole=True)
QUICK = Design(examples=10_000, seeds=10, points=3, whole=False)


class Cell(NamedTuple):
    """One setting."""

    nodes: int
    epsilon: float | None
    order: NoiseOrder
    step: StepName


class Outcome(NamedTuple):
    """Results of a cell."""

    examples: NDArray[np.int64]
    """(points,) read by all nodes together so far."""
    regret: NDArray[np.float64]
    """(seeds, points) per node and round."""
    idle: NDArray[np.float64]
    """(seeds,) that of never learning: the zero model, whose loss is 1."""
    certified: float
    """The comparator's average loss is above the optimum by no more than this."""
    privacy: RunPrivacy

    @property
    def final(self) -> NDArray[np.float64]:
        """(seeds,) average regret of the whole run."""
        return np.asarray(self.regret[:, -1])


Evidence = Mapping[Cell, Outcome]


def run_cell(cell: Cell, design: Design, streams: Mapping[int, Stream]) -> Outcome:
    """Run a setting over all its seeds."""
    algorithm = algorithms.distributed_online(
        OBJECTIVE, SCHEDULES[cell.step], noise(cell.epsilon, cell.order), pegasos_radius(LAMBDA)
    )
    rounds = design.examples // cell.nodes
    run = finished_run(
        algorithm,
        lambda seed: matchings(cell.nodes),
        lambda seed: streams[seed],
        rounds=rounds,
        repeats=len(streams),
        seed=min(streams),
        record_every=rounds,
    )
    return _outcome(run, design.points)


def _outcome(run: Run, points: int) -> Outcome:
    curve = run.regret(points)
    best = run.average_loss() - curve.per_agent_round[:, -1]
    gap = np.inf if curve.gap is None else curve.gap
    return Outcome(curve.rounds * run.agents, curve.per_agent_round, 1 - best, gap, run.privacy)
