"""Experiment `isfedavg-ijcnn1`: logistic regression at 100 clients with unequal data (Rizk 2023, sec. 2.6.2)."""

from __future__ import annotations

from collections.abc import Callable

from tacit.metrics import mean_interval, paired_difference
from tacit.results.record import figure
from tacit_reproduction.drawing import Panel, draw_curves, means_of
from tacit_reproduction.experiment import Claim, Experiment, Figure, Findings, Table, reproducible, seen_in
from tacit_reproduction.federated.importance_ijcnn1_runs import (
    ALPHA,
    CLIENTS,
    COHORT,
    FULL,
    KINDS,
    LARGEST,
    QUICK,
    RIDGE,
    RULES,
    SMALLEST,
    STEP,
    Design,
    Evidence,
    Kind,
    Outcome,
    Reference,
    Rule,
    every_row,
    reference,
    run,
)
from tacit_reproduction.federated.importance_runs import Floats, by_round
from tacit_reproduction.judging import shown
from tacit_reproduction.workers import crew

TEXT: dict[Rule, float] = {"uniform": 0.2245, "optimal": 0.1846, "sampled": 0.1846}
"""The text's test errors (section 2.6.2)."""
NEAR = 0.01
SEEDS_APART = 1000
PICTURES: dict[Kind, str] = {"error": "errors", "balanced": "errors-by-class", "loss": "loss"}
"""Names of figures."""


def judge(evidence: Evidence, found: Reference) -> list[Claim]:
    """Return every claim with its verdict."""
    claims = []
    for rule in RULES[1:]:
        for kind in KINDS:
            verdict = _better(evidence, found, rule, kind)
            # The text has one kind of error, and does not say which.
            said = (
                f"from {_percent(TEXT['uniform'])} to {_percent(TEXT[rule])} (section 2.6.2)" if kind == "error" else ""
            )
            claims += seen_in(PICTURES[kind], verdict, text=said)
    for rule in RULES[:2]:
        claims += seen_in(
            PICTURES["error"], _as_printed(evidence, found, rule), text=f"{_percent(TEXT[rule])} (section 2.6.2)"
        )
    return claims


def _better(evidence: Evidence, found: Reference, rule: Rule, kind: Kind) -> Claim:
    plain, other = (evidence[r].settled(kind) for r in ("uniform", rule))
    gap = paired_difference(other, plain)
    write = _loss if kind == "loss" else _percent
    figure_ = (
        f"uniform {write(plain.mean())}, {rule} {write(other.mean())}; difference {write(gap.mean)} "
        f"[{write(gap.low)}, {write(gap.high)}] (95 %, paired over {gap.n} seeds); w^o has "
        f"{write(found.best[kind].mean())}"
    )
    if not gap.high < 0:
        figure_ += (
            f". Why: nine in ten rows are of one class, and saying so always errs in {_percent(found.majority)} of the "
            "cases; to say more takes many rounds along directions in which the risk is flat. What is left to w^o is a "
            "distance that an unfinished run has yet to go, in the mean the same for all rules, and hardly any noise"
        )
    return Claim(f"Importance sampling lowers the {KINDS[kind]}: {rule} probabilities", gap.high < 0, figure_)


def _as_printed(evidence: Evidence, found: Reference, rule: Rule) -> Claim:
    interval = mean_interval(evidence[rule].settled("error"))
    claim = f"The test error of {rule} sampling is {_percent(TEXT[rule])}, give or take {100 * NEAR:g} point"
    figure_ = f"{_percent(interval.mean)} [{_percent(interval.low)}, {_percent(interval.high)}]"
    if abs(interval.mean - TEXT[rule]) <= NEAR:
        return Claim(claim, True, figure_)
    best = {kind: _percent(found.best[kind].mean()) for kind in ("error", "balanced")}
    why = (
        f"Why: {_percent(found.majority)} of the test rows are of the smaller class: saying the other one always errs "
        "less than the text's figures do. These cannot be the plain test error of a model near w^o, "
        f"{best['error']}. Counted by class w^o has {best['balanced']}, this rule "
        f"{_percent(evidence[rule].settled('balanced').mean())}. The text does not say which error it plots, after how "
        "many rounds, or how classes were shared out"
    )
    return Claim(claim, False, f"{figure_}. {why}")


def _percent(share: float) -> str:
    return f"{100 * share:.2f} %"


def _loss(value: float) -> str:
    return f"{value:.5f}"


def investigate(design: Design, seed: int, workers: int | None = None) -> Findings:
    """Run everything and judge the claims; without the data the refusal says where they were looked for."""
    first = SEEDS_APART * seed
    description = every_row().description
    with crew(workers) as team:
        outcomes = team("running", run, [(rule, design, first) for rule in reversed(RULES)])
        (found,) = team("solving", reference, [(design, first)])
    evidence: dict[Rule, Outcome] = dict(zip(RULES, reversed(outcomes), strict=True))
    rows = [(str(rule), *_cells(o.settled), _percent(TEXT[rule])) for rule, o in evidence.items()]
    rows += [
        ("w^o", *_cells(found.best.__getitem__), "-"),
        ("always -1", f"{100 * found.majority:.2f}", "50", "-", "-"),
    ]
    return Findings(
        judge(evidence, found),
        {
            "text": {rule: TEXT[rule] for rule in RULES[:2]},
            "majority": found.majority,
            "optimum": {kind: figure(values) for kind, values in found.best.items()},
            "rules": {rule: {kind: figure(o.settled(kind)) for kind in KINDS} for rule, o in evidence.items()},
        },
        {"name": "ijcnn1", "description": description, "rows": 35_000, "complete": True},
        [
            f"Rizk (2023), sec. 2.6.2: logistic regression, {CLIENTS} clients around one server, {COHORT} a round, "
            f"mu = {STEP:g}, rho = {RIDGE:g}, batches of 1 to 10 and 1 to 5 local steps by client. The 35,000 training "
            f"rows are shared out in parts of {SMALLEST} to {LARGEST} with class mixes from a Dirichlet distribution "
            f"(alpha = {ALPHA:g}), anew for each of {design.seeds} seeds; the text says only that they were non-IID. "
            f"Errors are on all 91,701 test rows, means over rounds {design.settled + 1} to {design.rounds}.",
            "The text does not say which probabilities its classification uses: those that are optimal at w^o (found "
            "by Newton's method, clients counting alike) and those of who took part are both run. Current ones take "
            "all gradients of all clients in every round, and near w^o are the optimal ones; they are left out.",
            "Not private: norms of gradients leave as they are, and who is called depends on them.",
        ],
        [
            Table(
                "Errors in percent, and loss, on the test rows",
                "± is half of the 95 % interval of the mean over the seeds.",
                ("rule", "error", "both classes alike", "loss", "the text's error"),
                rows,
            )
        ],
        _figures(evidence),
    )


def _figures(evidence: Evidence) -> list[Figure]:
    said = f"{means_of(outcome.found['error'] for outcome in evidence.values())} Lines join the recorded rounds."
    ends = f"The text's curves are lost; they end at {_percent(TEXT['uniform'])} and {_percent(TEXT['optimal'])}."
    return [
        draw_curves(
            PICTURES["error"],
            "Test error by rule",
            f"As figure 2.2 (a). {said} {ends}",
            [_panel(evidence, "error", 100.0)],
            "test error (%)",
        ),
        draw_curves(
            PICTURES["balanced"],
            "Test error by rule, both classes counting alike",
            f"Mean of the errors on either class; always saying -1 has 50 %. {said} The text has no such figure.",
            [_panel(evidence, "balanced", 100.0)],
            "mean of both classes' errors (%)",
        ),
        draw_curves(
            PICTURES["loss"],
            "Test loss by rule",
            f"{said} The text has no such figure.",
            [_panel(evidence, "loss", 1.0)],
            "mean logistic loss (nats)",
        ),
    ]


def _panel(evidence: Evidence, kind: Kind, scale: float) -> Panel:
    curves = {str(rule): by_round(o.rounds, scale * o.found[kind]) for rule, o in evidence.items()}
    return Panel(KINDS[kind], curves)


def _cells(of: Callable[[Kind], Floats]) -> tuple[str, str, str]:
    return shown(100 * of("error")), shown(100 * of("balanced")), shown(of("loss"))


IJCNN1: Experiment = reproducible(
    "isfedavg-ijcnn1",
    "Federated averaging under importance sampling: ijcnn1",
    "Rizk (2023), sec. 2.6.2, figure 2.2 (a)",
    lambda quick, seed: investigate(QUICK if quick else FULL, seed),
)
