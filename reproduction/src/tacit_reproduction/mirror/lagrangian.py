"""Experiment `lagrangian-budget`: virtual queues on two problems with a budget (Dissertation, ch. 4)."""

from __future__ import annotations

from tacit import algorithms
from tacit.algorithms.mirror._observations import Dual
from tacit.algorithms.mirror.lagrangian_descent import TEXT_CLAIMS
from tacit.algorithms.schedules import inverse_sqrt
from tacit.core.contract import Algorithm
from tacit_reproduction.charts import Points, mean_points, points
from tacit_reproduction.experiment import Claim, Experiment, Figure, Findings, reproducible, seen_in
from tacit_reproduction.judging import Chain, brief, rising
from tacit_reproduction.mirror.budget import AGENTS, PROBLEMS, SEASON, Problem
from tacit_reproduction.mirror.budget_pages import (
    BY_NOISE,
    OVERSPENDING,
    REGRET,
    by_epsilon,
    level,
    method_paragraphs,
    over_horizons,
    price_of_release,
    privacy_paragraph,
    sweep,
    table,
)
from tacit_reproduction.mirror.growth import HOW, linear, sublinear
from tacit_reproduction.mirror.spending import (
    EPSILON,
    FULL,
    QUICK,
    SEEDS_APART,
    UNCONSTRAINED,
    Cell,
    Design,
    Evidence,
    cell_metrics,
    compare,
    description,
    duals_compared,
    merged,
    noise,
    refusal,
)
from tacit_reproduction.workers import crew

METHOD = "lagrangian_descent"
BOLDNESS = (2.0, 8.0, 32.0)
"""V in units of sqrt T. At the horizon of the sweeps all of them lie between K = SEASON and T, as the text wants it."""
MAIN = 8.0
LONGEST_SWEEP = 6000
BY_WINDOW, BY_BOLDNESS = "windows", "boldness"
"""Figures of this experiment alone."""
OF_REGRET = "theorem 1 of chapter 4, (4.17): O(K T / (V eps) + sqrt T); figure 4.1 draws the bound, nothing was run"
OF_SPENDING = "theorem 1 of chapter 4, (4.17): O(sqrt(V T)); nothing was run"


def sweep_horizon(design: Design) -> int:
    """Return T of the sweeps: each horizon is its own run, and not all of them need the longest."""
    return max(horizon for horizon in design.horizons if horizon <= LONGEST_SWEEP)


def main(problem: str, epsilon: float | None = None, dual: Dual = "private") -> Cell:
    """Return a cell with the V that is shown over the horizons."""
    return Cell(problem, METHOD, epsilon, dual, MAIN)


def plan(problem: str, design: Design) -> dict[Cell, tuple[tuple[int, ...], bool]]:
    """Return all settings of a problem with their horizons; steps depend on T, so that each horizon is its own run."""
    middle = (sweep_horizon(design),)
    duals = duals_compared(main(problem, EPSILON), design.longest)
    return {
        Cell(problem, UNCONSTRAINED): (design.horizons, True),
        main(problem): (design.horizons, False),
        main(problem, EPSILON): (design.horizons, False),
        **{main(problem, epsilon): (middle, False) for epsilon in design.epsilons[2:]},
        **{Cell(problem, METHOD, knob=factor): (middle, False) for factor in BOLDNESS if factor != MAIN},
        **dict.fromkeys(duals, ((design.longest,), False)),
    }


def method(problem: Problem, cell: Cell, rounds: int) -> Algorithm:
    """Return the algorithm of a cell."""
    mechanism = noise(problem, cell)
    if cell.method == UNCONSTRAINED:
        return algorithms.mirror_descent(problem.objective, inverse_sqrt(0.5), mechanism, problem.euclidean)
    bold = cell.knob * rounds**0.5
    return algorithms.lagrangian_descent(
        problem.objective, problem.budget, rounds, bold, mechanism, problem.euclidean, cell.dual
    )


def run_problem(task: tuple[str, Design, int]) -> Evidence:
    """Run all settings of a problem."""
    name, design, first = task
    seeds = range(first, first + design.seeds)
    return compare(PROBLEMS[name], seeds, design.horizons, design.windows, plan(name, design), method)


def judge(design: Design, evidence: Evidence) -> list[Claim]:
    """Return every claim with its verdict."""
    claims = []
    for problem in PROBLEMS.values():
        shown = {level(e): main(problem.name, e) for e in (None, EPSILON)}
        regret, spending = (
            sublinear(
                f"Regret against points that keep every {SEASON} rounds grows more slowly than T: {problem.words}",
                design.horizons,
                {name: evidence.regret(cell, SEASON) for name, cell in shown.items()},
                AGENTS,
            ),
            sublinear(
                f"Spending beyond the budget grows more slowly than T: {problem.words}",
                design.horizons,
                {name: evidence.outcomes[cell].spent for name, cell in shown.items()},
                AGENTS,
                "The theorem's order, sqrt(V T) with V in proportion to sqrt T, has slope 0.75.",
            ),
        )
        claims += [*seen_in(REGRET, regret, text=OF_REGRET), *seen_in(OVERSPENDING, spending, text=OF_SPENDING)]
    spent = {p.words: evidence.outcomes[Cell(p.name, UNCONSTRAINED)].spent for p in PROBLEMS.values()}
    free = linear("Mirror descent without the constraint overspends in proportion to T", design.horizons, spent, AGENTS)
    more_spent, less_regret = _by_boldness(design, evidence)
    by_noise = {name: [main(name, e) for e in design.epsilons] for name in PROBLEMS}
    return [
        *claims,
        *seen_in(OVERSPENDING, free),
        *seen_in(BY_BOLDNESS, more_spent, text=OF_SPENDING),
        *seen_in(BY_BOLDNESS, less_regret, text=OF_REGRET),
        *seen_in(BY_WINDOW, _by_window(design, evidence), text=OF_REGRET),
        *by_epsilon("Regret rises as eps falls", evidence, by_noise, sweep_horizon(design), OF_REGRET),
        *price_of_release(evidence, {name: main(name, EPSILON) for name in PROBLEMS}, design.longest, TEXT_CLAIMS),
    ]


def _by_boldness(design: Design, evidence: Evidence) -> list[Claim]:
    at = sweep_horizon(design)
    spending, regret = [], []
    for problem in PROBLEMS.values():
        row = [(f"V = {brief(factor * at**0.5, 3)}", Cell(problem.name, METHOD, knob=factor)) for factor in BOLDNESS]
        lost = [(name, evidence.average_regret(cell, SEASON, at)) for name, cell in reversed(row)]
        spending.append(Chain(problem.words, [(name, evidence.average_spent(cell, at)) for name, cell in row]))
        regret.append(Chain(problem.words, lost))
    note = f"Per agent and round at T = {at:,}, no noise."
    return [
        rising("A larger V spends more beyond the budget, as O(sqrt(V T)) says", spending, note=note),
        rising("and has less regret, as O(K T / (V eps) + sqrt T) says", regret, note=note),
    ]


def _by_window(design: Design, evidence: Evidence) -> Claim:
    last = design.longest
    chains = [
        Chain(
            f"{problem.words}, {level(epsilon)}",
            [(f"K = {k}", evidence.average_regret(main(problem.name, epsilon), k, last)) for k in design.windows],
        )
        for problem in PROBLEMS.values()
        for epsilon in (None, EPSILON)
    ]
    note = (
        f"Per agent and round at T = {last:,}. The theorem's order K is a bound of the worst case: prices that swing "
        "with a season allow nothing more once K is the season."
    )
    return rising("Regret rises with K, whose points need to keep fewer rounds", chains, note=note)


def investigate(design: Design, seed: int, workers: int | None = None) -> Findings:
    """Run everything and judge the claims."""
    first = SEEDS_APART * seed
    with crew(workers) as team:
        # The classifier's benchmarks take longest.
        parts = team("running", run_problem, [(name, design, first) for name in reversed(PROBLEMS)])
    evidence = merged(parts)
    return Findings(
        [*judge(design, evidence), refusal(first)],
        {"horizons": list(design.horizons), "cells": cell_metrics(evidence, design.windows)},
        {"name": "budget problems", "description": description(design), "complete": True},
        _method(design, evidence),
        [table(evidence, design.windows, "V / sqrt T")],
        _figures(design, evidence),
    )


def _method(design: Design, evidence: Evidence) -> list[str]:
    return [
        *method_paragraphs(design, evidence),
        f"V = {MAIN:g} sqrt T unless said otherwise, so that K = {SEASON} < V < T, and alpha = max(T, V sqrt T) = "
        "V sqrt T: the step is 1 / (2 sqrt T) whatever V is, and V only says how slowly the queue's pull grows. "
        "Projections on the simplex and the ball. V and the step need T beforehand: each horizon is its own run, on "
        "the first T rounds of the same data. Mirror descent without the constraint has the step 1 / (2 sqrt t) and is "
        "read at all horizons.",
        f"{HOW}.",
        "The text's figure 4.1 plots the bound for K = V = 1, outside of its own condition V > K; with V below sqrt T "
        "alpha is T and the step V / (2 T), so that such a run does not get anywhere in T rounds. The text also adds "
        "noise for grad f to V grad f, which needs V times as much; here the noise is that of what is released. The "
        "theorem gives orders of the worst case: what is compared are its directions in V, K and eps.",
        privacy_paragraph(TEXT_CLAIMS),
    ]


def _figures(design: Design, evidence: Evidence) -> list[Figure]:
    curves = [main(name, epsilon) for name in PROBLEMS for epsilon in (None, EPSILON)]
    free = [Cell(name, UNCONSTRAINED) for name in PROBLEMS]
    at = sweep_horizon(design)
    missing = f"Lines are means over {design.seeds} seeds, bands their 95 % intervals; a mean not above 0 is left out."
    bars = f"Regret against K = {SEASON}; points are means over {design.seeds} seeds, bars their 95 % intervals."
    bold = {f"{factor:g}": {name: Cell(name, METHOD, knob=factor) for name in PROBLEMS} for factor in BOLDNESS}
    return [
        over_horizons(
            REGRET,
            "Regret over the horizon",
            f"Against points that keep every {SEASON} rounds; the text's figure 4.1 has the bound only. {missing}",
            {cell: evidence.regret(cell, SEASON) for cell in curves},
            evidence,
            "regret per agent, sum of T rounds",
        ),
        over_horizons(
            OVERSPENDING,
            "Spending beyond the budget over the horizon",
            missing,
            {cell: evidence.outcomes[cell].spent for cell in [*curves, *free]},
            evidence,
            "overspent per agent, sum of T rounds",
        ),
        _by_window_figure(design, evidence),
        sweep(BY_BOLDNESS, f"V trades regret for spending, T = {at:,}", bars, evidence, bold, at, "V / sqrt T"),
        sweep(
            BY_NOISE,
            f"More noise, more regret, T = {at:,}",
            bars,
            evidence,
            {level(e): {name: main(name, e) for name in PROBLEMS} for e in design.epsilons},
            at,
            "noise in each round",
        ),
    ]


def _by_window_figure(design: Design, evidence: Evidence) -> Figure:
    panels = {}
    for epsilon in (None, EPSILON):
        row: dict[str, Points] = {}
        for problem in PROBLEMS.values():
            cell = main(problem.name, epsilon)
            row[problem.words] = mean_points(evidence.average_regret(cell, k, design.longest) for k in design.windows)
        panels[level(epsilon).capitalize()] = row
    return points(
        BY_WINDOW,
        f"The longer the window that a comparator has to keep, the more regret, T = {design.longest:,}",
        f"Points are means over {design.seeds} seeds, bars their 95 % intervals. Below 0 the agents do better than any "
        "fixed point that keeps all such windows.",
        panels,
        [str(k) for k in design.windows],
        "window K (rounds)",
        "regret per agent and round",
    )


LAGRANGIAN: Experiment = reproducible(
    "lagrangian-budget",
    "Private online Lagrangian descent with a budget for the long run",
    "Dissertation, ch. 4",
    lambda quick, seed: investigate(QUICK if quick else FULL, seed),
)
