"""Runs of one cell: deal the samples out, choose a step on the tuning seeds, run on the evaluation seeds.

Every function takes one task that holds all it needs, so that it can run in any process and gives the same
figures in each. The graph, the partition and the order of the samples depend on the seed and the setting,
never on the method: methods are compared on common random numbers.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tacit.core.contract import Params
from tacit.graphs import Graph, random_digraph
from tacit.metrics import Comparator, best_fixed
from tacit.results import Run
from tacit.streams import Stream, from_arrays, partition
from tacit_reproduction.finished import finished_run
from tacit_reproduction.push_sum.design import METHODS, OBJECTIVE, Cell, Samples
from tacit_reproduction.tuning import Tuned, bracket

COMPARATOR_TOLERANCE = 1e-6
"""Of the best fixed model's average loss; figures are given to four digits."""

Holders = NDArray[np.int32]
"""(rows,) which node holds each sample."""


class Deal(NamedTuple):
    """A partition of the samples that is needed."""

    nodes: int
    fraction: float
    seed: int


def deal_out(task: tuple[Samples, Deal]) -> Holders:
    """Return who holds which sample. Clusters are found on the features without the constant column."""
    samples, (nodes, fraction, seed) = task
    parts = partition.stochastic_adversarial(samples.x[:, :-1], nodes, fraction, seed=3 * seed)
    holder = np.empty(samples.rows, np.int32)
    for node, rows in enumerate(parts):
        holder[rows] = node
    return holder


def make_graph(nodes: int, neighbours: int, seed: int) -> Graph:
    """Return the random digraph of a seed."""
    return random_digraph(nodes, neighbours, seed=3 * seed + 1)


def make_stream(samples: Samples, holder: Holders, rounds: int, seed: int) -> Stream:
    """Return one sample per node and round: its own, in an order of its own, over again when they end."""
    return from_arrays(
        samples.x,
        samples.y,
        holder,
        rounds=rounds,
        exhausted="cycle",
        shuffle_seed=3 * seed + 2,
        name=samples.name,
        description=samples.description,
    )


class Plan(NamedTuple):
    """A cell with its data."""

    samples: Samples
    cell: Cell
    rounds: int
    first_seed: int
    holders: tuple[Holders, ...]
    """One per seed, from `first_seed` on."""

    def run(self, step: float) -> Run:
        """Simulate the cell over all its seeds."""
        setting = self.cell.setting
        return finished_run(
            METHODS[self.cell.method](OBJECTIVE, step=step),
            lambda seed: make_graph(setting.nodes, setting.neighbours, seed),
            lambda seed: make_stream(self.samples, self.holders[seed - self.first_seed], self.rounds, seed),
            rounds=self.rounds,
            repeats=len(self.holders),
            seed=self.first_seed,
            record_every=self.rounds,
        )


def tune(task: tuple[Plan, float, float]) -> Tuned:
    """Choose the step with the lowest average loss; the task adds where to start and the grid's ratio."""
    plan, start, ratio = task
    return bracket(lambda step: float(average_loss(plan.run(step)).mean()), start, ratio)


class Outcome(NamedTuple):
    """Results of a cell."""

    loss: NDArray[np.float64]
    """(seeds, rounds) mean over the nodes of the loss at prediction time."""
    accuracy: NDArray[np.float64]
    """(seeds,) share of right predictions."""

    @property
    def average(self) -> NDArray[np.float64]:
        """(seeds,) the text's figure: average over nodes and rounds."""
        return np.asarray(self.loss.mean(axis=1))

    @property
    def running(self) -> NDArray[np.float64]:
        """(seeds, rounds) the average up to each round."""
        return np.asarray(np.cumsum(self.loss, axis=1) / np.arange(1, self.loss.shape[1] + 1))


def evaluate(task: tuple[Plan, float]) -> Outcome:
    """Run a cell with its step."""
    plan, step = task
    run = plan.run(step)
    accuracy = np.asarray(run.per_round["accuracy"], np.float64).mean(axis=1)
    return Outcome(np.asarray(run.per_round["loss"], np.float64), accuracy)


def best_fixed_losses(plan: Plan) -> NDArray[np.float64]:
    """Return (seeds,) the average loss of the one model that would have been best for all."""
    losses = []
    params: Params | None = None  # each solution is the next start: seeds differ little
    for k, holder in enumerate(plan.holders):
        stream = make_stream(plan.samples, holder, plan.rounds, plan.first_seed + k)
        found = _best_fixed(stream, plan.rounds, params)
        losses.append(found.total_loss / (stream.agents * plan.rounds))
        params = found.params
    return np.array(losses)


def _best_fixed(stream: Stream, rounds: int, start: Params | None) -> Comparator:
    data = stream.chunk(0, rounds)
    return best_fixed(OBJECTIVE, lambda: [data], stream.batch_spec(), tolerance=COMPARATOR_TOLERANCE, start=start)


def average_loss(run: Run) -> NDArray[np.float64]:
    """Return (seeds,) the average loss in double precision."""
    return np.asarray(np.asarray(run.per_round["loss"], np.float64).mean(axis=1))
