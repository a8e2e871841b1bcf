"""Studies `zcdp-elastic-net`, `zcdp-lad` and `zcdp-ridge`: private nonsmooth learning (Gauthier 2023, sec. 3.4)."""

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from tacit import algorithms
from tacit.privacy.conversions import tight
from tacit.privacy.spending import DELTA
from tacit_reproduction.figures import Figure, curves, dots
from tacit_reproduction.gauthier import nonsmooth as ns
from tacit_reproduction.gauthier.nonsmooth import HALF, MATCHED, OURS, PROBLEMS, ROUNDS, VANISHING, Cell, Method, Name
from tacit_reproduction.gauthier.zcdp_tuning import CLASSIC_UP_TO, RATIO, SEEDS, known, tuned
from tacit_reproduction.study import Crew, Judgement, Study
from tacit_reproduction.table import Results, Row, cells_of
from tacit_reproduction.verdict import Claim, Pair, below, fact, headline, judged, slopes

TOTALS = (0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0)  # rho of a whole run; the text's are in its figures alone
TUNING_FROM = 500  # first tuning seed, counted from the first that is judged
AVERAGED = np.unique(np.geomspace(5, ROUNDS, 24).astype(np.int64))  # rounds at which averaged iterates are judged
LIMIT_ROUNDS, LOOKS, LIMIT = 1600, 5, (8.0, 1.6)
"""Of runs without noise: rounds, those between two looks, and eta_n = 8 / n with rho."""
AVERAGED_LONG: ns.Counts = LOOKS * np.unique(np.geomspace(5, LIMIT_ROUNDS // LOOKS, 24).astype(np.int64))
REACHED = 1e-6  # squared distance from the optimum, relative to the optimum's size, that counts as having reached it
SLOPE_SPARE, FITTED_FROM = 0.1, 1 / 4
"""Share of a run from which on slopes are fitted; before it models are on their way from where they started."""


def run(task: tuple[Cell, float, int, int]) -> dict[str, Any]:
    """Run a cell with so many seeds from the first one on; the cell without noise long, in double precision."""
    cell, clip, seeds, first = task
    problem, those = PROBLEMS[cell.problem], (first, seeds)
    if np.isinf(cell.total):
        vanishing = algorithms.inverse(cell.step)
        plain = algorithms.zcdp_admm(problem.objective(), vanishing, penalty=cell.penalty)
        return ns.outcome(plain, problem, those, LIMIT_ROUNDS, LOOKS, AVERAGED_LONG, "float64")
    return ns.outcome(ns.algorithm(cell, clip), problem, those, ROUNDS, 1, AVERAGED if cell.method == OURS else None)


def measure(name: Name, team: Crew, quick: bool, first: int) -> Results:
    others = first + TUNING_FROM
    clip = ns.clip_for(PROBLEMS[name], range(others, others + (2 if quick else SEEDS)))
    wanted = known(name) if quick else tuned(team, name, TOTALS, clip, others)
    cells = [Cell(name, OURS, np.inf, *LIMIT), *sorted(wanted, key=lambda cell: cell.method != "P-ADMM")]
    found = team("running", run, [(cell, clip, 4 if quick else 20, first) for cell in cells])
    words = (
        f"{ns.SAMPLES} records of each of {ns.AGENTS} nodes in {ns.DIMENSIONS} dimensions, drawn anew for each seed."
    )
    return cells_of(cells, found, {"data": words, "clip": clip})


OUTPERFORMS = (
    "At equal privacy ADMM outperforms subgradients on nonsmooth problems, and slightly P-ADMM on a smooth one"
)


def judge(name: Name, results: Results) -> Judgement:
    problem = PROBLEMS[name]
    private = results.keep(lambda row: bool(np.isfinite(row.factors["total"])))
    totals = sorted(private.levels("total"))

    def pairs(other: Method, at: Sequence[float]) -> list[Pair]:
        both = (OURS, other)
        return [Pair(f"rho {rho:g}", *(private.of("final", method=m, total=rho) for m in both)) for rho in at]

    def compared(other: Method, words: str, text: str = "", at: Sequence[float] = totals) -> Claim:
        said = f"{problem.place}: {text}" if text else ""
        return judged(f"zCDP-NFL is below {words}", pairs(other, at), below(), unit=" dB", text=said, seen_in="privacy")

    def gains(other: Method) -> str:
        found = zip(pairs(other, totals), totals, strict=True)
        return ", ".join(f"{pair.interval.mean:+.1f} ({total:g})" for pair, total in found)

    def alike(at: Sequence[float]) -> Claim:
        text = "the ADMM-based algorithm significantly outperforms the subgradient-based one"
        step = "zCDP-grad-NFL with the constant step that starts alike"
        return compared(MATCHED, step, "" if name == "ridge" else text, at)

    words: dict[str, Any] = {"place": problem.place, "seen_in": "privacy"}
    if name == "ridge":
        text = "it slightly outperforms P-ADMM, for all total privacy losses"
        third = compared("P-ADMM", "P-ADMM on a smooth problem", text)
        found = headline(
            OUTPERFORMS,
            text="curves: slightly outperforms, for all total privacy losses",
            ours=f"zCDP-NFL minus P-ADMM in dB (total rho): {gains('P-ADMM')}",
            why="The text's reason is the step that falls, by which less of each round's noise enters. P-ADMM solves "
            "its local problems to the end and has the penalty alone to trade speed for noise, so that how much the "
            "step is worth hangs on the penalties, of which the text gives none, nor steps, clip or the noise of its "
            "data. Here both methods are tuned by one rule, on one grid and other seeds, anew for each total, which "
            "is kinder to P-ADMM than one penalty for all totals.",
            claims=[third], sweep={f"total rho {rho:g}": [compared("P-ADMM", "", "", [rho])] for rho in totals},
            **words)  # fmt: skip
    else:
        text = "zCDP allows for better accuracy than (eps, delta)-DP given the same budget"
        short = [total for total in totals if total <= CLASSIC_UP_TO]
        third = compared("DP-NFL", "(eps, delta)DP-NFL at the same total epsilon", text, short)
        at = {total: alike([total]) for total in totals}
        ahead = ", ".join(f"{total:g}" for total, claim in at.items() if claim.holds) or "none of these"
        found = headline(
            OUTPERFORMS,
            text="curves: significantly outperforms; the step that starts alike cannot reach high accuracy",
            ours=f"zCDP-NFL minus zCDP-grad-NFL in dB (total rho): {gains(MATCHED)}",
            why=f"ADMM is ahead at a total rho of {ahead}. Under much noise both end with what noise leaves, and a "
            "node of the ADMM holds on to its own noise for longer, as (3.8) gives all neighbours together less than "
            "half of the weight. Under little noise it is the constant step that keeps subgradients from the optimum. "
            f"Alike is a loose word: with half of that step, which starts nearly so, it is {gains(HALF)}. "
            f"With steps s / sqrt(n), which are not the text's: {gains(VANISHING)}.",
            claims=[alike(totals)], sweep={f"total rho {total:g}": [claim] for total, claim in at.items()},
            **words)  # fmt: skip
    claims = [
        alike(totals), compared(VANISHING, "zCDP-grad-NFL, both with steps s / sqrt(n), the best on other seeds"),
        third, _rate(results, totals), _limit(results),
        compared(HALF, "zCDP-grad-NFL with half the constant step that starts alike")]  # fmt: skip
    return Judgement(claims, [found], _figures(problem, results, private, totals))


def _rate(results: Results, totals: Sequence[float]) -> Claim:
    def slope(total: float) -> Any:
        rounds = results.of("averaged", method=OURS, total=total)
        later = rounds >= FITTED_FROM * rounds[-1]
        return slopes(np.log(rounds[later]), np.log(results.of("excess", method=OURS, total=total)[:, later]))

    noisy = ", ".join(f"{slope(total).mean():.2f} ({total:g})" for total in totals)
    claim = "f(averaged iterate) - f(w_c) of zCDP-NFL without noise and clip falls like 1 / n or faster"
    said = "Theorem IV of chapter 3: it converges with a rate of O(1 / n)"
    note = f"Wanted: at most -1 + {SLOPE_SPARE:g}. With noise, over {ROUNDS} rounds (total rho): {noisy}"
    fitted = Pair("log-log slope", slope(np.inf))
    return judged(claim, fitted, below(SLOPE_SPARE - 1), text=said, seen_in="averages", note=note)


def _limit(results: Results) -> Claim:
    error = results.of("error", method=OURS, total=np.inf)[:, -1] / ns.AGENTS
    claim = f"Without noise and clip zCDP-NFL reaches the optimum: ||w_k - w_c||^2 <= {REACHED:g} ||w_c||^2, all seeds"
    mean = f"largest over {len(error)} seeds of the mean over nodes after {LIMIT_ROUNDS:,} rounds: {error.max():.1e}"
    said = "Theorem III of chapter 3: it converges to the exact solution"
    return fact(claim, bool(error.max() <= REACHED), mean, said, "averages")


def _figures(problem: ns.Problem, results: Results, private: Results, totals: Sequence[float]) -> list[Figure]:
    ends = (totals[0], totals[-1])
    of_method: dict[str, Any] = {"lines": "method", "y": "normalised error (sum over the nodes)", "log_y": True}

    def label(row: Row) -> str | None:
        total = row.factors["total"]
        noise = f"total rho {total:g}" if np.isfinite(float(total)) else "no noise, no clip, eta_n = 8 / n"
        return noise if "excess" in row.measures else None

    by_total = f"total rho (epsilon {tight(ends[0], DELTA):.3g} to {tight(ends[1], DELTA):.3g})"
    over, after = f"Normalised error, {problem.title}", f"Privacy and accuracy after {ROUNDS} rounds, {problem.title}"
    left = f"As {problem.place}, left, at the least and the most of the totals; errors are of w_k, before its noise."
    right = "The text shows no trade-off of this one." if problem.absolute else f"As {problem.place} (b)."
    averaged = f"Objective at averaged iterates of zCDP-NFL, {problem.title}"
    theorem = "On all data, mean over the agents, above its value at w_c; Theorem IV says 1 / n."
    both: dict[str, Any] = {"x": "total", "x_label": by_total, "y": "normalised error (dB)", "log_x": True}
    logs: dict[str, Any] = {"at": "averaged", "y": "f(averaged w_k) - f(w_c)", "log_x": True, "log_y": True}
    return [
        curves(private.where(total=ends), "rounds", over, left, "error", panels="total rho {total:g}", **of_method),
        dots(private, "privacy", after, right, "final", lines="method", **both),
        curves(results, "averages", averaged, theorem, "excess", lines=label, **logs),
    ]


def _study(name: Name, minutes: float) -> Study:
    problem, (low, high) = PROBLEMS[name], ns.NOISE_VARIANCE
    return Study(
        name=f"zcdp-{name}", title=f"Private nonsmooth learning over a network: {problem.title}",
        source=f"Gauthier (2023), sec. 3.4, {problem.place}", minutes=minutes,
        measure=functools.partial(measure, name), judge=functools.partial(judge, name), tabled=("final",),
        method=f"""
{ns.AGENTS} nodes on random symmetric graphs of mean degree {ns.MEAN_DEGREE}, {ns.SAMPLES} records each, y = <x, w> +
noise with x and w standard normal in {ns.DIMENSIONS} dimensions; the text gives no noise level, here each node's
variance is uniform on {low:g} to {high:g}. The objective is {problem.words}. Errors are of w_k as (3.8) gives it,
before the noise of (3.9), as the text defines its measure.

All methods spend one total on {ROUNDS} rounds: noise whose variance shrinks by zeta = {ns.DECAY:g} per round, phi_1
such that all phi_n sum to rho, from {TOTALS[0]:g} to {TOTALS[-1]:g}; the text's totals are in its pictures alone.
(eps, delta)DP-NFL has the same decay, each round calibrated by the classic rule and all epsilon_n summing to the same
epsilon at delta = {DELTA:g}. Every record's gradient is clipped, for all methods, to the {ns.CLIP_QUANTILE:g} quantile
of these norms at the optimum, of data of other seeds.

Settings are chosen anew for each total on {SEEDS} other seeds, by the error after {ROUNDS} rounds: s of eta_n =
s / sqrt(n) and rho, on grids of ratio {RATIO:g}. As the text tunes, zCDP-grad-NFL has a constant step, the one whose
error after {ns.INITIAL} rounds is nearest to zCDP-NFL's; with half of it, and with the best s / sqrt(n), it is a
baseline of our own. The quick form takes settings that were found so. Without noise: {LIMIT_ROUNDS:,} rounds of
double precision, eta_n = 8 / n.""",
    )  # fmt: skip


ELASTIC_NET = _study("elastic-net", 6)
LAD = _study("lad", 6)
RIDGE = _study("ridge", 9)
