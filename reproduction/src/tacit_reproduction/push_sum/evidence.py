"""All runs of one push-sum experiment, and the controls needed to judge them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tacit.graphs import perron, spectral_gap
from tacit_reproduction.push_sum.cells import (
    Deal,
    Holders,
    Outcome,
    Plan,
    best_fixed_losses,
    deal_out,
    evaluate,
    make_graph,
    tune,
)
from tacit_reproduction.push_sum.design import FRACTIONS, Cell, Design, Samples, Setting, cell_of
from tacit_reproduction.tuning import Tuned
from tacit_reproduction.verdicts import not_worse
from tacit_reproduction.workers import Crew

SEEDS_APART = 1000
"""Experiments with different seeds share no graph, partition or order."""
TUNING_OFFSET = 500


class Mixing(NamedTuple):
    """Mixing of the graphs of a setting, seed by seed."""

    spectral_gap: NDArray[np.float64]
    least_mass: NDArray[np.float64]
    """Of the node that has least in the long run, where 1 is an equal share."""


@dataclass(frozen=True)
class Evidence:
    """Runs and their results."""

    design: Design
    samples: Samples
    rounds: int
    steps: dict[Cell, Tuned]
    """Of the cells that were tuned; others share one of these, see `Design.tuned_as`."""
    outcomes: dict[Cell, Outcome]
    best_fixed: dict[float, NDArray[np.float64]]
    """Fraction -> (seeds,) loss of the best fixed model in the main setting."""
    mixing: dict[int, Mixing]
    """Number of nodes -> of the graphs in the sweep over sizes; its two ends."""

    def step_of(self, cell: Cell) -> Tuned:
        """Return the step that a cell ran with."""
        return self.steps[self.design.tuned_as(cell)]

    def of(self, method: str, setting: Setting) -> Outcome:
        """Return what a method came to in a setting."""
        return self.outcomes[cell_of(method, setting)]

    def average(self, method: str, setting: Setting) -> NDArray[np.float64]:
        """Return (seeds,) the average loss of a method in a setting."""
        return self.of(method, setting).average


def gather(design: Design, samples: Samples, seed: int, crew: Crew) -> Evidence:
    """Run everything."""
    evaluation = range(SEEDS_APART * seed, SEEDS_APART * seed + design.seeds)
    evidence = Evidence(design, samples, samples.rows // design.nodes, {}, {}, {}, {})
    lab = _Lab(evidence, evaluation, crew)
    lab.run(design.cells())
    harmed = [fraction for fraction in FRACTIONS if not _size_is_harmless(evidence, fraction)]
    lab.run([cell for fraction in harmed for cell in design.controls(fraction)])
    references = [lab.plan(cell_of("COL", design.main(fraction)), evaluation) for fraction in FRACTIONS]
    best = crew("solving for the best fixed models", best_fixed_losses, references)
    evidence.best_fixed.update(zip(FRACTIONS, best, strict=True))
    for nodes in (design.sizes[0], design.sizes[-1]):
        evidence.mixing[nodes] = _mixing(nodes, design.size_neighbours, evaluation)
    return evidence


class _Lab:
    """Runs cells and adds what comes out to the evidence."""

    def __init__(self, evidence: Evidence, evaluation: range, crew: Crew) -> None:
        first = evaluation.start + TUNING_OFFSET
        self._evidence, self._crew = evidence, crew
        self._evaluation, self._tuning = evaluation, range(first, first + evidence.design.tuning_seeds)
        self._dealt: dict[Deal, Holders] = {}

    def run(self, cells: Sequence[Cell]) -> None:
        """Deal out, choose steps, run: whatever is not there yet."""
        evidence, design = self._evidence, self._evidence.design
        fresh = sorted((c for c in cells if c not in evidence.outcomes), key=_cost, reverse=True)
        tuned = dict.fromkeys(c for c in map(design.tuned_as, fresh) if c not in evidence.steps)
        self._deal(tuned, self._tuning)
        self._deal(fresh, self._evaluation)
        tasks = [(self.plan(c, self._tuning), design.starts[c.method], design.step_ratio) for c in tuned]
        evidence.steps.update(zip(tuned, self._crew("choosing steps", tune, tasks), strict=True))
        runs = [(self.plan(c, self._evaluation), evidence.step_of(c).step) for c in fresh]
        evidence.outcomes.update(zip(fresh, self._crew("running", evaluate, runs), strict=True))

    def plan(self, cell: Cell, seeds: range) -> Plan:
        """Return a cell with its data."""
        nodes, _, fraction = cell.setting
        holders = tuple(self._dealt[Deal(nodes, fraction, seed)] for seed in seeds)
        return Plan(self._evidence.samples, cell, self._evidence.rounds, seeds.start, holders)

    def _deal(self, cells: Iterable[Cell], seeds: range) -> None:
        wanted = dict.fromkeys(
            Deal(cell.setting.nodes, cell.setting.fraction, seed) for cell in cells for seed in seeds
        )
        deals = [deal for deal in wanted if deal not in self._dealt]
        tasks = [(self._evidence.samples, deal) for deal in deals]
        self._dealt.update(zip(deals, self._crew("dealing samples out", deal_out, tasks), strict=True))


def _size_is_harmless(evidence: Evidence, fraction: float) -> bool:
    settings = evidence.design.by_size(fraction)
    large, small = (("", evidence.average("OPS", settings[k])) for k in (-1, 0))
    return not_worse("", large, small).holds


def _cost(cell: Cell) -> tuple[float, Cell]:
    """Roughly what a cell takes, so that the longest can go first; ties are broken by name."""
    alone = cell.method in ("COL", "Local OGD")
    return cell.setting.nodes * (1.0 if alone else float(cell.setting.neighbours)), cell


def _mixing(nodes: int, neighbours: int, seeds: range) -> Mixing:
    graphs = [make_graph(nodes, neighbours, seed).with_weights("sender") for seed in seeds]
    return Mixing(
        np.array([spectral_gap(graph) for graph in graphs]),
        np.array([nodes * perron(graph).right.min() for graph in graphs]),
    )
