"""Experiment `omd-constrained`: mirror descent with multipliers on two problems with a budget (Dissertation, ch. 3)."""

from __future__ import annotations

import jax.numpy as jnp

from tacit import algorithms
from tacit.algorithms.mirror._observations import Dual
from tacit.algorithms.mirror.constrained_mirror_descent import TEXT_CLAIMS, SaddleConstants, saddle_constants
from tacit.core.contract import Algorithm
from tacit_reproduction.charts import Points, mean_points, points
from tacit_reproduction.experiment import Claim, Experiment, Figure, Findings, reproducible, seen_in
from tacit_reproduction.judging import Chain, rising
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
    RELEASED_EPSILON,
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
    noise_scale,
    refusal,
)
from tacit_reproduction.workers import crew

METHOD = "constrained_mirror_descent"
DAMPINGS = (0.25, 1.0, 4.0)
"""Factors of the text's gamma."""
WINDOWS = (1, SEASON)
BENCHMARKS, DAMPED = "benchmarks", "damping"
"""Figures of this experiment alone."""
OF_REGRET = "theorem 1 of chapter 3, (3.5): O(V T / (eps max W_uu)) with V clients, linear in T; nothing was run"
OF_SPENDING = "theorem 1 of chapter 3: the constraint is broken by O(T^(-1/4)); nothing was run"
OF_NOISE = "theorem 1 of chapter 3, (3.5): the bound grows like 1 / eps; nothing was run"
SHOWN: tuple[tuple[float | None, Dual], ...] = (
    (None, "private"),
    (EPSILON, "private"),
    (EPSILON, "released"),
    (RELEASED_EPSILON, "released"),
)
"""Noise and dual of the curves over the horizons."""


def constants(problem: Problem) -> SaddleConstants:
    """Return the text's step and damping; its G bounds what a step is made of, so the step's counts the noise too."""
    b, value, slope, square = problem.bounds
    noisy = (slope**2 + square(noise_scale(problem, EPSILON))) ** 0.5
    return SaddleConstants(saddle_constants(b, value, noisy).step, saddle_constants(b, value, slope).damping)


def cells(problem: str, design: Design) -> list[Cell]:
    """Return all settings of a problem."""
    swept = [Cell(problem, METHOD, epsilon) for epsilon in design.epsilons]
    damped = [Cell(problem, METHOD, knob=factor) for factor in DAMPINGS if factor != 1]
    duals = duals_compared(Cell(problem, METHOD, EPSILON), design.longest)
    return [Cell(problem, UNCONSTRAINED), *swept, *damped, *duals]


def method(problem: Problem, cell: Cell, rounds: int) -> Algorithm:
    """Return the algorithm of a cell."""
    step, damping = constants(problem)
    mechanism = noise(problem, cell)
    if cell.method == UNCONSTRAINED:
        return algorithms.mirror_descent(problem.objective, step, mechanism, problem.mirror)
    return algorithms.constrained_mirror_descent(
        problem.objective, problem.budget, step, cell.knob * damping, mechanism, problem.mirror, cell.dual
    )


def run_problem(task: tuple[str, Design, int]) -> Evidence:
    """Run all settings of a problem; steps do not depend on the horizon, so one run is read at all of them."""
    name, design, first = task
    horizons = design.horizons
    plan = dict.fromkeys(cells(name, design), (horizons, True))
    seeds = range(first, first + design.seeds)
    return compare(PROBLEMS[name], seeds, horizons, WINDOWS, plan, method)


def judge(design: Design, evidence: Evidence) -> list[Claim]:
    """Return every claim with its verdict."""
    claims = []
    for problem in PROBLEMS.values():
        shown = {level(e): Cell(problem.name, METHOD, e) for e in (None, EPSILON)}
        horizons = evidence.horizons
        by_round, by_season, spending = (
            sublinear(
                f"Regret against points that keep every round grows more slowly than T: {problem.words}",
                horizons,
                {name: evidence.regret(cell, 1) for name, cell in shown.items()},
                AGENTS,
            ),
            sublinear(
                f"So does regret against points that keep every season, a harder benchmark: {problem.words}",
                horizons,
                {name: evidence.regret(cell, SEASON) for name, cell in shown.items()},
                AGENTS,
            ),
            sublinear(
                f"Spending beyond the budget grows more slowly than T: {problem.words}",
                horizons,
                {name: evidence.outcomes[cell].spent for name, cell in shown.items()},
                AGENTS,
            ),
        )
        claims += [
            *seen_in(BENCHMARKS, by_round, text=OF_REGRET),
            *seen_in(REGRET, by_season),
            *seen_in(OVERSPENDING, spending, text=OF_SPENDING),
        ]
    spent = {p.words: evidence.outcomes[Cell(p.name, UNCONSTRAINED)].spent for p in PROBLEMS.values()}
    free = linear(
        "Mirror descent without the constraint overspends in proportion to T", evidence.horizons, spent, AGENTS
    )
    last = design.longest
    by_noise = {name: [Cell(name, METHOD, e) for e in design.epsilons] for name in PROBLEMS}
    return [
        *claims,
        *seen_in(OVERSPENDING, free),
        *by_epsilon("Regret rises as eps falls", evidence, by_noise, last, OF_NOISE),
        *seen_in(DAMPED, *_by_damping(evidence, last)),
        *price_of_release(evidence, {name: Cell(name, METHOD, EPSILON) for name in PROBLEMS}, last, TEXT_CLAIMS),
    ]


def _by_damping(evidence: Evidence, last: int) -> list[Claim]:
    spending, regret = [], []
    for problem in PROBLEMS.values():
        row = [(factor, Cell(problem.name, METHOD, knob=factor)) for factor in DAMPINGS]
        spent = [(f"{factor:g} gamma", evidence.average_spent(cell, last)) for factor, cell in row]
        lost = [(f"{factor:g} gamma", evidence.average_regret(cell, SEASON, last)) for factor, cell in reversed(row)]
        spending.append(Chain(problem.words, spent))
        regret.append(Chain(problem.words, lost))
    note = f"Per agent and round at T = {last:,}, no noise."
    return [
        rising("The more the multipliers are damped, the more is overspent", spending, note=note),
        rising("and the lower is the regret: gamma trades one for the other", regret, note=note),
    ]


def investigate(design: Design, seed: int, workers: int | None = None) -> Findings:
    """Run everything and judge the claims."""
    first = SEEDS_APART * seed
    with crew(workers) as team:
        # The classifier's benchmarks take longest.
        parts = team("running", run_problem, [(name, design, first) for name in reversed(PROBLEMS)])
    evidence = merged(parts)
    return Findings(
        [*judge(design, evidence), refusal(first)],
        {"horizons": list(evidence.horizons), "cells": cell_metrics(evidence, WINDOWS)},
        {"name": "budget problems", "description": description(design), "complete": True},
        _method(design, evidence),
        [table(evidence, WINDOWS, "gamma, factor")],
        _figures(design, evidence),
    )


def _method(design: Design, evidence: Evidence) -> list[str]:
    numbers = ", ".join(
        f"{problem.words}: eta_t = {float(found.step(jnp.asarray(1))):.2f} / sqrt t and gamma = {found.damping:.2f}"
        for problem in PROBLEMS.values()
        for found in [constants(problem)]
    )
    return [
        *method_paragraphs(design, evidence),
        "Step and damping are the text's, eta_t = sqrt(b / (t (D^2 + G^2 / alpha))) and gamma = 2 G^2 / alpha "
        f"({numbers}). Its G bounds what steps are made of, noise included: eta counts the mean square of the "
        "noise at eps = 1, gamma does not. All runs of a problem have the same step, so that only the noise differs. "
        "Goods are bought by exponentiated gradient, the classifier learns by projected gradient. Steps do not depend "
        "on T: one run is read at all horizons.",
        f"{HOW}.",
        "The text's own regret bound, O(V T / (eps max W_uu)) with V agents, is linear in T and says nothing of these "
        "slopes; its violation is O(T^(-1/4)), which we read as the average, that is T^(3/4) in sum.",
        privacy_paragraph(TEXT_CLAIMS),
    ]


def _figures(design: Design, evidence: Evidence) -> list[Figure]:
    curves = [Cell(name, METHOD, e, dual) for name in PROBLEMS for e, dual in SHOWN]
    free = [Cell(name, UNCONSTRAINED) for name in PROBLEMS]
    last = design.longest
    missing = f"Lines are means over {design.seeds} seeds, bands their 95 % intervals; a mean not above 0 is left out."
    bars = f"points are means over {design.seeds} seeds, bars their 95 % intervals."
    return [
        over_horizons(
            REGRET,
            "Regret over the horizon",
            f"Against points that keep every season (K = {SEASON}). The text has a bound and no figure. {missing}",
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
        _by_benchmark(design, evidence),
        sweep(
            BY_NOISE,
            f"More noise, more regret, T = {last:,}",
            f"Regret against K = {SEASON}; {bars}",
            evidence,
            {level(e): {name: Cell(name, METHOD, e) for name in PROBLEMS} for e in design.epsilons},
            last,
            "noise in each round",
        ),
        sweep(
            DAMPED,
            f"Damping trades regret for spending, T = {last:,}",
            f"Without noise, regret against K = {SEASON}; {bars}",
            evidence,
            {f"{factor:g}": {name: Cell(name, METHOD, knob=factor) for name in PROBLEMS} for factor in DAMPINGS},
            last,
            "damping, in units of the text's gamma",
        ),
    ]


def _by_benchmark(design: Design, evidence: Evidence) -> Figure:
    def over_time(problem: str, epsilon: float | None, window: int) -> Points:
        cell = Cell(problem, METHOD, epsilon)
        return mean_points(evidence.average_regret(cell, window, at) for at in evidence.horizons)

    panels = {
        problem.words.capitalize(): {
            f"{level(epsilon)}, K = {window}": over_time(problem.name, epsilon, window)
            for window in WINDOWS
            for epsilon in (None, EPSILON)
        }
        for problem in PROBLEMS.values()
    }
    return points(
        BENCHMARKS,
        "Regret against both benchmarks",
        f"Against the best point that keeps every round (K = 1, as in the text) and every season (K = {SEASON}). "
        f"Points are means over {design.seeds} seeds, bars their 95 % intervals. Below 0 the agents do better than "
        "any such point.",
        panels,
        [f"{at:,}" for at in evidence.horizons],
        "number of rounds T",
        "regret per agent and round",
    )


CONSTRAINED: Experiment = reproducible(
    "omd-constrained",
    "Private mirror descent with a budget for the long run",
    "Dissertation, ch. 3",
    lambda quick, seed: investigate(QUICK if quick else FULL, seed),
)
