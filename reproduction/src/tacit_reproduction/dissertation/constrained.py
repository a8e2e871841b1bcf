"""Study `omd-constrained`: mirror descent with multipliers and a budget for the long run (Dissertation, ch. 3)."""

import functools
import math
from typing import Any

import numpy as np

from tacit import algorithms
from tacit.algorithms.mirror.constrained_mirror_descent import SaddleConstants, saddle_constants
from tacit.core.contract import Algorithm
from tacit.objectives import entropy
from tacit_reproduction.dissertation import budget
from tacit_reproduction.dissertation.budget import BUDGET, EPSILON, GOODS, OBJECTIVE, SEASON, Cell, rising, words
from tacit_reproduction.dissertation.growth import HOW, sublinear
from tacit_reproduction.figures import curves
from tacit_reproduction.study import Judgement, Study, over
from tacit_reproduction.table import Results
from tacit_reproduction.verdict import Claim, Pair, above, below, headline, judged

RELEASED = 16.0  # epsilon of the dual that is released: the noise is that of 16 records a round at eps = 1
OVERSPENT = 0.1  # per round: who does that breaks the budget


def constants() -> SaddleConstants:
    """Return the text's step and damping; its G bounds what a step is made of, so the step's counts the noise too."""
    scale = 2 * math.sqrt(GOODS) * budget.CLIPS["private"] / EPSILON
    counts = np.arange(1, GOODS + 1)  # mean square of the largest of so many Laplace variables
    square = scale**2 * float(np.sum(1 / counts) ** 2 + np.sum(1 / counts**2))
    slope = (1 + budget.SWING) * (1 + budget.JITTER) * float(budget.PRICE.max())
    divergence, value = math.log(GOODS), slope - budget.PURSE  # from the start: between any two points it has no bound
    step = saddle_constants(divergence, value, math.sqrt(slope**2 + square)).step
    return SaddleConstants(step, saddle_constants(divergence, value, slope).damping)


def cells(quick: bool) -> list[Cell]:
    best = [Cell(quick, "best", window=window) for window in (SEASON, 1)]
    kept = [Cell(quick, "kept", e) for e in ((math.inf, EPSILON) if quick else (math.inf, EPSILON, 0.3, 0.1))]
    return [*best, *kept, Cell(quick, "kept", RELEASED, "released"), Cell(quick, "free")]


def method(cell: Cell, rounds: int) -> Algorithm:
    (step, damping), given = constants(), (cell.mechanism(), entropy())
    if cell.kind == "free":
        return algorithms.mirror_descent(OBJECTIVE, step, *given)
    return algorithms.constrained_mirror_descent(OBJECTIVE, BUDGET, step, damping, *given, cell.dual)


def judge(results: Results) -> Judgement:
    by_round, by_season = (budget.with_regret(results, window) for window in (1, SEASON))
    rounds = by_season.rows[0].measures["rounds"]
    private, released = (by_season.where(kind="kept", dual=dual) for dual in ("private", "released"))

    def grows(claim: str, runs: Results, measure: str, **said: str) -> Claim:
        noises, kept = {"no noise": math.inf, "eps = 1": EPSILON}, runs.where(kind="kept", dual="private")
        found = {name: kept.of(measure, epsilon=e) for name, e in noises.items()}
        return sublinear(f"{claim} grows more slowly than T", rounds, found, **said)

    regret = grows("Regret against points that keep every round", by_round, "regret", seen_in="regret",
                   text="Theorem 1 of chapter 3, (3.5): O(V T / (eps max W_uu)), V clients")  # fmt: skip
    violation = grows("Spending beyond the budget", by_season, "overspent", seen_in="spending",
                      text="Theorem 1 of chapter 3: O(T^(-1/4)) on average, that is T^(3/4) in sum")  # fmt: skip
    season = grows("Regret against points that keep every season", by_season, "regret", seen_in="season")
    noisier = rising(
        "Regret rises as eps falls", [private.where(epsilon=e) for e in private.levels("epsilon")], "regret",
        text="(3.5): the bound grows like 1 / eps; nothing was run", seen_in="season")  # fmt: skip
    free = judged(
        f"Mirror descent without the budget overspends by more than {OVERSPENT:g} per round",
        Pair("", by_season.of("overspent", kind="free")[:, -1] / rounds[-1], OVERSPENT),
        above(), seen_in="spending")  # fmt: skip
    secret = private.where(epsilon=EPSILON)
    dual = judged(
        "A multiplier released with noise has less regret than a private one, at a small part of its total epsilon",
        Pair("per round", released.of("regret")[:, -1] / rounds[-1], secret.of("regret")[:, -1] / rounds[-1]),
        below(), seen_in="season",
        note=f"Booked for a record over the run: {released.of('booked'):,.0f} where it is released, "
        f"{secret.of('booked'):,.0f} where it is private, as every release then depends on every record")  # fmt: skip
    headlines = [
        headline(
            "With a budget for the long run regret and violation are sublinear", place="Theorem 1 of chapter 3",
            text="bounds: O(V T / (eps max W_uu)) on regret, itself linear in T; O(T^(-1/4)) on the violation",
            ours=f"regret: {regret.figure}. Spending: {violation.figure}",
            why="Against points that keep every single round agents even gain: they use slack that those may not.",
            claims=[regret, violation], seen_in="spending")]  # fmt: skip
    axes: dict[str, Any] = {"lines": words, "x": "number of rounds T", "log_x": True}
    figures = [
        curves(by_season, "spending", "Spending beyond the budget", "Per agent, in sum of T rounds.",
               "overspent", y="overspent", log_y=True, **axes),
        curves(by_round.where(kind="kept"), "regret", "Regret against points that keep every round",
               "Per agent, in sum of T rounds. Below 0 agents do better than any such point.", "regret", **axes),
        curves(by_season.where(kind="kept"), "season", "Regret against points that keep every season",
               "Per agent, in sum of T rounds; a mean not above 0 is left out.", "regret", log_y=True, **axes),
    ]  # fmt: skip
    return Judgement([regret, violation, noisier, season, free, dual], headlines, figures)


STUDY = Study(
    name="omd-constrained", title="Private mirror descent with a budget for the long run",
    source="Dissertation, ch. 3", minutes=1,
    measure=over(cells, functools.partial(budget.run, method=method, any_time=True), seeds=(20, 12)), judge=judge,
    method=f"""
{budget.DATA} Agents learn by exponentiated gradient. Step and damping are the text's,
eta_t = sqrt(b / (t (D^2 + G^2 / alpha))) and gamma = 2 G^2 / alpha; its G bounds what steps are made of, so that eta
counts the mean square of the noise at eps = 1, and gamma does not. Steps do not depend on T: one run is read at all
horizons. Multipliers are private unless said otherwise.

{HOW}.

The text runs nothing, and its regret bound is linear in T.""")  # fmt: skip
