"""Experiments `zcdp-elastic-net`, `zcdp-lad` and `zcdp-ridge` (Gauthier 2023, sec. 3.4)."""

from __future__ import annotations

import math
from typing import Any

from tacit.privacy.spending import DELTA
from tacit.results.record import figure
from tacit_reproduction import promises
from tacit_reproduction.experiment import Experiment, Findings, Table, reproducible
from tacit_reproduction.gaps import decibels, in_decibels
from tacit_reproduction.nonsmooth.charts import ORDER, WORDS, figures
from tacit_reproduction.nonsmooth.claims import judge
from tacit_reproduction.nonsmooth.problems import (
    AGENTS,
    CLIP_QUANTILE,
    DIMENSIONS,
    MEAN_DEGREE,
    NOISE_VARIANCE,
    PROBLEMS,
    SAMPLES,
    Name,
)
from tacit_reproduction.nonsmooth.runs import DECAY, INITIAL, LIMIT, LIMIT_ROUNDS, LOOKS, ROUNDS
from tacit_reproduction.nonsmooth.search import FULL, QUICK, Design, Evidence, gather

SEEDS_APART = 1000
OBJECTIVES = {
    "elastic-net": "||X w - y||^2 with 0.001 ||X'y||_inf ||w||_1 + ||w||^2",
    "lad": "||X w - y||_1 without a regulariser",
    "ridge": "||X w - y||^2 with ||w||^2",
}


def investigate(name: Name, design: Design, seed: int, workers: int | None = None) -> Findings:
    """Run everything and judge the claims."""
    evidence = gather(name, design, SEEDS_APART * seed, workers)
    return Findings(
        judge(evidence),
        _metrics(evidence),
        {
            "name": "linear regression",
            "description": (
                f"{SAMPLES} records of each of {AGENTS} nodes in {DIMENSIONS} dimensions, drawn anew for each of "
                f"{design.seeds} seeds"
            ),
            "rows": AGENTS * SAMPLES,
            "complete": True,
        },
        _method(evidence, design),
        [_table(evidence), _privacy_table(evidence)],
        figures(evidence),
    )


def _metrics(evidence: Evidence) -> dict[str, Any]:
    return {
        "clip": evidence.clip,
        "clip_bias_per_node": figure(evidence.clipped.final / AGENTS),
        "mixed_like_zcdp_nfl_db": figure(decibels(evidence.mixed.final)),
        "limit_per_node": {method: figure(outcome.final / AGENTS) for method, outcome in evidence.limit.items()},
        "runs": [
            {
                "method": method,
                "total_epsilon": total,
                "step": _number(evidence.settings[method, total].step),
                "penalty": _number(evidence.settings[method, total].penalty),
                "error_db": figure(decibels(outcome.final)),
                "error_db_per_node": figure(decibels(outcome.final / AGENTS)),
                "disagreement": figure(outcome.apart),
                "booked_epsilon": outcome.privacy.summary()["epsilon"],
            }
            for (method, total), outcome in evidence.found.items()
        ],
    }


def _number(value: float) -> float | None:
    return None if math.isnan(value) else value


def _method(evidence: Evidence, design: Design) -> list[str]:
    low, high = NOISE_VARIANCE
    tuned = (
        f"Settings: eta_n = s / sqrt(n). At the middle total, s of zCDP-NFL (for each rho of "
        f"{', '.join(f'{p:g}' for p in design.penalties)}) and of zCDP-grad-NFL, and rho of P-ADMM, are the best on a "
        f"grid of ratio {design.ratio:g}, by the error after {ROUNDS} rounds in dB on {design.tuning_seeds} other "
        "seeds; at the other totals the same again with rho kept. (eps, delta)DP-NFL has the largest rho, by which it "
        f"has the least noise, and a grid of ratio {design.ratio**2:g}. Beside that, as the text tunes, zCDP-grad-NFL "
        f"has a constant step, the one on the grid whose error after {INITIAL} rounds is nearest to zCDP-NFL's."
        if design.penalties
        else "Settings: eta_n = s / sqrt(n); the quick form tunes nothing and takes the points from which the full "
        "form's search begins."
    )
    return [
        f"{AGENTS} nodes on random symmetric graphs of mean degree {MEAN_DEGREE} (a random tree and random links), "
        f"{SAMPLES} records each, y = <x, w> + noise with x and w standard normal in {DIMENSIONS} dimensions; the text "
        f"gives no noise level, here each node's variance is uniform on {low:g} to {high:g}. The objective is "
        f"{OBJECTIVES[evidence.problem]}, the loss divided by {SAMPLES} and the regulariser by {AGENTS}; y is in units "
        f"in which ||X'y||_inf is {AGENTS * SAMPLES}. w_c is solved for to rounding.",
        f"All methods spend one total (epsilon, delta = {DELTA:g}) on {ROUNDS} rounds. zCDP methods: noise whose "
        f"variance shrinks by zeta = {DECAY:g} per round, phi_1 such that the sum of all phi_n has that epsilon by the "
        "tight conversion. (eps, delta)DP-NFL: the same decay, each round calibrated by sqrt(2 ln(1.25 / delta_n)) / "
        f"epsilon_n, delta_n = delta / {ROUNDS}, the sum of all epsilon_n being the total (Theorem 2.2).",
        f"Every record's gradient is clipped to {evidence.clip:.3g}, for all methods: the {CLIP_QUANTILE:g} quantile "
        "of these norms at the optimum, of data of other seeds. It makes the sensitivity true.",
        tuned,
        "Errors are of the models as they are released, noise included, since a node has no other; the text's w_k "
        "lacks the last round's noise. All methods of a seed share network and data.",
        "The text's theorem compares sum_k f_k at every node's own average with f(w_c), which can be negative where "
        "nodes disagree. Here each node's average is judged by the objective of all data.",
        f"The limit is of runs in double precision over {LIMIT_ROUNDS:,} rounds with eta_n = {LIMIT.step:g} / n and "
        f"rho = {LIMIT.penalty:g}; its averages are of every {LOOKS}th iterate.",
    ]


def _table(evidence: Evidence) -> Table:
    rows = []
    for method in ORDER:
        for total in evidence.totals:
            if (method, total) not in evidence.found:
                continue
            outcome, setting = evidence.found[method, total], evidence.settings[method, total]
            rows.append(
                (
                    WORDS[method],
                    f"{total:g}",
                    *("-" if math.isnan(value) else f"{value:g}" for value in setting),
                    in_decibels(outcome.final),
                    in_decibels(outcome.final / AGENTS),
                    f"{100 * float((outcome.apart / outcome.final).mean()):.0f} %",
                )
            )
        if method in evidence.quiet:
            quiet = evidence.quiet[method]
            own = evidence.settings[method, evidence.middle]
            cells = ("-" if math.isnan(value) else f"{value:g}" for value in own)
            share = f"{100 * float((quiet.apart / quiet.final).mean()):.0f} %"
            rows.append(
                (WORDS[method], "no noise", *cells, in_decibels(quiet.final), in_decibels(quiet.final / AGENTS), share)
            )
    columns = ("method", "total epsilon", "s", "rho", "error (dB)", "error per node (dB)", "disagreement")
    note = (
        "± is half of the 95 % interval of the mean over seeds. Without noise: with the clip, in the settings of "
        f"epsilon {evidence.middle:g}. Disagreement is the part of the error that is distance from the nodes' mean."
    )
    return Table(f"Normalised error after {ROUNDS} rounds", note, columns, rows)


def _privacy_table(evidence: Evidence) -> Table:
    rows = []
    for (method, total), outcome in evidence.found.items():
        if method in ("zCDP-NFL", "DP-NFL"):
            rows.append((WORDS[method], f"{total:g}", *promises.in_columns(outcome.privacy)))
    note = promises.note(outcome.privacy for outcome in evidence.found.values())
    return Table("What was spent", note, ("method", "planned total", *promises.COLUMNS), rows)


def _experiment(name: Name, full: Design = FULL) -> Experiment:
    return reproducible(
        f"zcdp-{name}",
        f"Private nonsmooth learning over a network: {PROBLEMS[name].title}",
        f"Gauthier (2023), sec. 3.4, {PROBLEMS[name].figure}",
        lambda quick, seed: investigate(name, QUICK if quick else full, seed),
    )


ELASTIC_NET = _experiment("elastic-net")
# The text shows no trade-off of this one, so that it has fewer totals.
LAD = _experiment("lad", FULL._replace(totals=(1.0, 4.0, 16.0)))
RIDGE = _experiment("ridge")
