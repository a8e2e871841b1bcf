"""Experiment `pao-variants`: the effect of PAO-Fed's settings (Gauthier 2023, sec. 4.4.2)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from tacit.metrics import paired_difference
from tacit_reproduction.asynchronous.curves import in_metrics, learning_curves, loads, steady_error
from tacit_reproduction.asynchronous.setting import (
    CLIENTS,
    ROUNDS,
    Curve,
    Task,
    data_in_words,
    labelled,
    run,
    setting_in_words,
)
from tacit_reproduction.asynchronous.variants_claims import (
    LONG_PICTURE,
    PICTURE,
    SIZES,
    Curves,
    Limits,
    judge,
    long,
    sized,
)
from tacit_reproduction.asynchronous.variants_limit import DECAYED, SWEEP, predicted
from tacit_reproduction.drawing import IN_WORDS
from tacit_reproduction.experiment import Experiment, Figure, Findings, Table, reproducible
from tacit_reproduction.gaps import in_decibels
from tacit_reproduction.workers import crew

STEP = 0.4
VARIANTS = ("C0", "U0", "C1", "U1", "C2", "U2")
SEEDS_APART = 1000
"""Between the first seeds of two runs of the experiment."""


class Design(NamedTuple):
    """Extent of the experiment."""

    clients: int
    rounds: int
    seeds: int
    long_rounds: int
    """Of runs that are to come nearer to a steady state; 0: there are none."""
    long_seeds: int
    ablated: tuple[str, ...]
    """Variants that are also run with windows in pseudo-random order, and with the manuscript's rule."""


FULL = Design(CLIENTS, ROUNDS, 20, 8 * ROUNDS, 4, ("C1", "U1", "C2", "U2"))
QUICK = Design(64, 500, 4, 0, 0, ())


def tasks_of(design: Design, first: int) -> list[Task]:
    """Return everything that is to be run, long ones first."""

    def task(label: str, variant: str, **settings: object) -> Task:
        return Task(
            label,
            "pao_fed",
            {"variant": variant, "step": STEP, **settings},
            rounds=design.rounds,
            seeds=design.seeds,
            seed=first,
            clients=design.clients,
        )

    sizes = [task(sized(m), "U1", share=m) for m in SIZES if sized(m) not in VARIANTS]
    plain = [task(variant, variant) for variant in VARIANTS]
    drawn_out = {*map(sized, SIZES), "U2"} if design.long_rounds else set()
    slow = [t for t in (*plain, *sizes) if t.label in drawn_out]
    return [
        *(t._replace(label=long(t.label), rounds=design.long_rounds, seeds=design.long_seeds) for t in slow),
        *plain,
        *sizes,
        *(task(randomly(v), v, order="random") for v in design.ablated),
        *(task(newest(v), v, newest_only=True) for v in design.ablated),
    ]


def randomly(variant: str) -> str:
    """Return the label of a variant whose windows come in pseudo-random order."""
    return f"{variant}, random order"


def newest(variant: str) -> str:
    """Return the label of a variant with the manuscript's rule."""
    return f"{variant}, newest only"


def investigate(design: Design, seed: int, workers: int | None = None) -> Findings:
    """Run everything and judge the claims."""
    with crew(workers) as team:
        found = team("running", run, tasks_of(design, SEEDS_APART * seed))
        cases = (*SWEEP, *DECAYED) if design.long_rounds else ()
        limits = dict(zip(cases, team("predicting", predicted, cases), strict=True))
    return findings(labelled(found), limits, design)


def findings(curves: Curves, limits: Limits, design: Design) -> Findings:
    """Judge what was measured and present it."""
    return Findings(
        judge(curves, limits),
        {
            "curves": [in_metrics(curve) for curve in curves.values()],
            "predicted_db": {f"{case.variant}, m = {case.share}": end for case, end in limits.items()},
        },
        data_in_words(design.clients, design.rounds, design.seeds),
        _method(design),
        [loads("Errors and bits", list(curves.values())), *([_ablations(curves, design)] if design.ablated else [])],
        _figures(curves),
    )


def _method(design: Design) -> list[str]:
    return [
        setting_in_words(design.clients, design.rounds, design.seeds),
        f"The step is {STEP:g} and m is 4 unless said, as in the text. C: all share one window, U: each has its own; "
        "0: a client sends back the window it just got, 1 and 2: the one that the server will send next, refined since "
        "it was last overwritten; 2: an update that is l iterations late counts 0.2^l.",
        "Random order: windows at pseudo-random multiples of m in place of one after the other. Newest only: of "
        "updates of one iteration that touch the same coordinate the youngest count; this is in the text's manuscript "
        "and not in its chapter, which adds up all of them.",
    ]


def _ablations(curves: Curves, design: Design) -> Table:
    rows = []
    for variant in design.ablated:
        plain = curves[variant]
        for other in (curves[randomly(variant)], curves[newest(variant)]):
            difference = paired_difference(other.steady(), plain.steady())
            rows.append(
                (
                    other.label,
                    in_decibels(steady_error(other)),
                    in_decibels(steady_error(plain)),
                    f"{difference.mean:+.2f} [{difference.low:+.2f}, {difference.high:+.2f}]",
                )
            )
    note = "Steady errors; differences are paired over seeds (95 %)."
    return Table("Order of windows, and updates that meet", note, ("changed", "dB", "as above, dB", "difference"), rows)


def _figures(curves: Curves) -> list[Figure]:
    def some(labels: Sequence[str]) -> list[Curve]:
        return [curves[label] for label in labels]

    drawn = [
        learning_curves(
            PICTURE,
            "PAO-Fed's settings",
            f"As figure 4.2. {IN_WORDS}",
            {
                "(a) windows": some(("C0", "U0", "C1", "U1")),
                "(b) m": some([sized(m) for m in SIZES]),
                "(c) late updates": some(("C1", "U1", "C2", "U2")),
            },
        )
    ]
    if long("U1") in curves:
        drawn.append(
            learning_curves(
                LONG_PICTURE,
                "The number of coordinates in a message, over a longer time",
                "As figure 4.2 (b), with clients that have proportionally more data.",
                {"U1": some([long(sized(m)) for m in SIZES])},
            )
        )
    return drawn


VARIANTS_OF_PAO_FED: Experiment = reproducible(
    "pao-variants",
    "PAO-Fed: windows, their size, and late updates",
    "Gauthier (2023), sec. 4.4.2, figure 4.2",
    lambda quick, seed: investigate(QUICK if quick else FULL, seed),
)
