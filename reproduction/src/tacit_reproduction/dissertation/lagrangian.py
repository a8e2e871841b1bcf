"""Study `lagrangian-budget`: virtual queues and a budget for the long run (Dissertation, ch. 4)."""

import functools
import math
from typing import Any

import numpy as np

from tacit import algorithms
from tacit.core.contract import Algorithm
from tacit.objectives import Euclidean, Simplex
from tacit_reproduction.dissertation import budget
from tacit_reproduction.dissertation.budget import BUDGET, EPSILON, OBJECTIVE, SEASON, Cell, rising, words
from tacit_reproduction.dissertation.growth import HOW, sublinear
from tacit_reproduction.figures import curves, dots
from tacit_reproduction.study import Judgement, Study, over
from tacit_reproduction.table import Results, Row
from tacit_reproduction.verdict import Claim, headline

BOLDNESS, MAIN = (4.0, 8.0, 16.0), 8.0
"""V in units of sqrt T: at all horizons between K = SEASON and T, as the text wants it."""


def cells(quick: bool) -> list[Cell]:
    best = [Cell(quick, "best", window=window) for window in ((SEASON, 1) if quick else (SEASON, 50, 25, 1))]
    swept = [Cell(quick, knob=knob) for knob in BOLDNESS]
    return [*best, *swept, *(Cell(quick, "kept", e, knob=MAIN) for e in ((EPSILON,) if quick else (EPSILON, 0.3, 0.1)))]


def method(cell: Cell, rounds: int) -> Algorithm:
    bold = cell.knob * rounds**0.5
    return algorithms.lagrangian_descent(OBJECTIVE, BUDGET, rounds, bold, cell.mechanism(), Euclidean(Simplex()))


def judge(results: Results) -> Judgement:
    windows = sorted(results.where(kind="best").levels("window"))
    by_window = {window: budget.with_regret(results, window) for window in windows}
    runs = by_window[SEASON]
    plain, main = runs.where(epsilon=math.inf), runs.where(knob=MAIN)
    order = "Theorem 1 of chapter 4, (4.17): O(K T / (V eps) + sqrt T)"

    def both(rows: list[Row]) -> list[Claim]:
        rounds, asked = rows[0].measures["rounds"], (
            ("regret", f"Regret against points that keep every {SEASON} rounds", f"{order}; figure 4.1 draws it"),
            ("overspent", "Spending beyond the budget", "(4.17): O(sqrt(V T)), here slope 0.75"))  # fmt: skip
        return [
            sublinear(f"{what} grows more slowly than T", rounds, {words(row): row.measures[measure] for row in rows},
                      text=bound, seen_in=measure)
            for measure, what, bound in asked]  # fmt: skip

    claims = both([row for row in main.rows if row.factors["epsilon"] in (math.inf, EPSILON)])
    bolder = [plain.where(knob=knob) for knob in BOLDNESS]
    further = [
        rising("A larger V spends more beyond the budget", bolder, "overspent", text="(4.17): O(sqrt(V T))",
               seen_in="boldness"),
        rising("A larger V has less regret", bolder[::-1], "regret", text=order, seen_in="boldness"),
        rising("Regret rises with K, whose points need to keep fewer rounds",
               [by_window[window].where(knob=MAIN, epsilon=EPSILON) for window in windows], "regret", text=order),
        rising("Regret rises as eps falls", [main.where(epsilon=e) for e in main.levels("epsilon")], "regret",
               text=order, seen_in="regret")]  # fmt: skip
    headlines = [
        headline(
            "Regret against points that keep every window, and violation, are sublinear",
            place="Theorem 1 of chapter 4, figure 4.1",
            text="bounds: O(K T / (V eps) + sqrt T) on regret, which the figure draws, O(sqrt(V T)) on the violation",
            ours=f"regret: {claims[0].figure}. Spending: {claims[1].figure}",
            why="The text leaves V open between K and T; what of that range fits every horizon is run. Its figure has "
            "K = V = 1, outside of its own condition V > K.",
            claims=claims, sweep={f"V = {knob:g} sqrt T": both(plain.where(knob=knob).rows) for knob in BOLDNESS},
            seen_in="regret")]  # fmt: skip
    both_ends = [
        (row, *of) for row in plain.rows for of in (("spent beyond the budget", "overspent"), ("regret", "regret"))
    ]
    ends = Results(
        Row({**row.factors, "measure": name}, {"value": row.measures[key][:, -1] / np.max(row.measures["rounds"])})
        for row, name, key in both_ends)  # fmt: skip
    axes: dict[str, Any] = {"lines": words, "x": "number of rounds T", "log_x": True, "log_y": True}
    caption = f"Per agent, in sum of T rounds, V = {MAIN:g} sqrt T."
    figures = [
        curves(main, "regret", f"Regret, K = {SEASON}", f"{caption} Figure 4.1 has the bound.", "regret", **axes),
        curves(main, "overspent", "Spending beyond the budget", caption, "overspent", **axes),
        dots(ends, "boldness", "V trades regret for spending", "Per agent and round at the longest horizon, no noise.",
             "value", x="knob", lines="measure", x_label="V / sqrt T", y="per agent and round", log_x=True),
    ]  # fmt: skip
    return Judgement([*claims, *further], headlines, figures)


STUDY = Study(
    name="lagrangian-budget", title="Private online Lagrangian descent with a budget for the long run",
    source="Dissertation, ch. 4", minutes=2,
    measure=over(cells, functools.partial(budget.run, method=method, any_time=False), seeds=(20, 12)),
    judge=judge,
    method=f"""
{budget.DATA} alpha = max(T, V sqrt T) = V sqrt T, so that the step is 1 / (2 sqrt T) whatever V is, and V only
says how slowly the queue's pull grows. V and the step need T beforehand: each horizon is its own run, on the first T
rounds of the same data. The queue is private.

{HOW}.

The text adds noise for grad f to V grad f, which needs V times as much; here it is for the release.""")  # fmt: skip
