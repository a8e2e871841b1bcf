"""000 ch. 3 on two problems with a budget: `omd-constrained`, mirror descent with multipliers, per-round benchmark."""

from __future__ import annotations

import jax.numpy as jnp

from tacit import algorithms
from tacit.algorithms.constrained_mirror_descent import TEXT_CLAIMS, SaddleConstants, saddle_constants
from tacit.algorithms.duals import Dual
from tacit.contract import Algorithm
from tacit.experiments.papers.experiment import Claim, Experiment, Figure, Findings, reproducible
from tacit.experiments.papers.judging import Chain, rising
from tacit.experiments.papers.mirror.budget import AGENTS, PROBLEMS, SEASON, Problem
from tacit.experiments.papers.mirror.budget_pages import (
    by_epsilon,
    level,
    method_paragraphs,
    over_horizons,
    price_of_release,
    privacy_paragraph,
    sweep,
    table,
)
from tacit.experiments.papers.mirror.growth import HOW, linear, sublinear
from tacit.experiments.papers.mirror.spending import (
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
from tacit.experiments.papers.workers import crew

METHOD = "constrained_mirror_descent"
DAMPINGS = (0.25, 1.0, 4.0)
"""Factors of the text's gamma."""
WINDOWS = (1, SEASON)
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
        claims += [
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
        ]
    free = {p.words: evidence.outcomes[Cell(p.name, UNCONSTRAINED)].spent for p in PROBLEMS.values()}
    last = design.longest
    by_noise = {name: [Cell(name, METHOD, e) for e in design.epsilons] for name in PROBLEMS}
    return [
        *claims,
        linear("Mirror descent without the constraint overspends in proportion to T", evidence.horizons, free, AGENTS),
        by_epsilon("Regret rises as eps falls", evidence, by_noise, last),
        *_by_damping(evidence, last),
        *price_of_release(evidence, {name: Cell(name, METHOD, EPSILON) for name in PROBLEMS}, last),
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
    missing = "Lines are means over the seeds, bands their 95 % intervals; a mean that is not above 0 is left out."
    return [
        over_horizons(
            "regret",
            "Regret over the horizon",
            f"Against points that keep every season (K = {SEASON}). {missing}",
            {cell: evidence.regret(cell, SEASON) for cell in curves},
            evidence,
        ),
        over_horizons(
            "overspending",
            "Spending beyond the budget over the horizon",
            missing,
            {cell: evidence.outcomes[cell].spent for cell in [*curves, *free]},
            evidence,
        ),
        sweep(
            "noise",
            f"More noise, more regret, T = {last:,}",
            f"Regret against K = {SEASON}; points are means over the seeds, bars their 95 % intervals.",
            evidence,
            {level(e): {name: Cell(name, METHOD, e) for name in PROBLEMS} for e in design.epsilons},
            last,
            "noise of a round",
        ),
        sweep(
            "damping",
            f"Damping trades regret for spending, T = {last:,}",
            f"Without noise, regret against K = {SEASON}; bars are 95 % intervals.",
            evidence,
            {f"{factor:g}": {name: Cell(name, METHOD, knob=factor) for name in PROBLEMS} for factor in DAMPINGS},
            last,
            "damping, in units of the text's gamma",
        ),
    ]


CONSTRAINED: Experiment = reproducible(
    "omd-constrained",
    "Private mirror descent with a budget for the long run",
    "000 chapter 3",
    lambda quick, seed: investigate(QUICK if quick else FULL, seed),
)
