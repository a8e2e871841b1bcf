"""Verdicts of `pgfl-discovery`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from tacit.metrics import mean_interval
from tacit_reproduction.experiment import Claim, seen_in
from tacit_reproduction.judging import Chain, breaks, rising
from tacit_reproduction.personalised.discovery_runs import Cell, Outcome
from tacit_reproduction.personalised.means import Pair, compared, higher, mean_decibels
from tacit_reproduction.personalised.regression_runs import DIMENSIONS, ROUNDS, SPREAD, WIDE_SPREAD, Floats

MOSTLY = 0.9
"""Clusters are found, it is said, where this share of clients is right."""
RIGHT, RIGHT_UNDER_NOISE, DEVIATION = "right", "right-noise", "deviation"
"""Names of figures."""
KINDS = {"true": "true clusters", "found": "found clusters", "one": "one model"}
Evidence = Mapping[Cell, Outcome]


class Design(NamedTuple):
    """The extent of the experiment."""

    records: tuple[tuple[int, int], ...]
    """From few to many."""
    warmups: tuple[int, ...]
    """The first is used."""
    private_records: tuple[int, int]
    totals: tuple[float, ...]
    """rho, from much to little."""
    seeds: int
    private_seeds: int


def judge(evidence: Evidence, design: Design) -> list[Claim]:
    """Put what one would hope for to the test."""
    return [
        *seen_in(RIGHT, _found(evidence, design), *_better_with(evidence, design)),
        *seen_in(DEVIATION, *_worth_it(evidence, design)),
        *seen_in(RIGHT_UNDER_NOISE, _under_noise(evidence, design)),
    ]


def without_noise(records: tuple[int, int], spread: float) -> Cell:
    """Return the cell in which nothing is hidden."""
    return Cell(records, spread, None)


def name_of(cell: Cell) -> str:
    """Return a cell in words."""
    paid = "" if cell.total is None else f", rho = {cell.total:g}"
    return f"{cell.records[0]} to {cell.records[1]} records, gamma up to {cell.spread:g}{paid}"


def right_of(outcome: Outcome) -> Floats:
    """(seeds,) share of clients in the right cluster after the warm-up that was used."""
    return outcome.right[outcome.warmup]


def _found(evidence: Evidence, design: Design) -> Claim:
    parts, fine = [], True
    for cell, o in evidence.items():
        if cell.total is not None:
            continue
        right = mean_interval(right_of(o))
        fine &= right.mean >= MOSTLY
        parts.append(
            f"{name_of(cell)}: {100 * right.mean:.0f} % [{100 * right.low:.0f}, {100 * right.high:.0f}], chance "
            f"{100 * o.chance.mean():.0f}, knowing the models {100 * o.ceiling.mean():.0f}; all right in "
            f"{int(np.sum(right_of(o) == 1))} of {right.n} runs"
        )
    figure = f"share of clients in the right cluster, {'; '.join(parts)}"
    if not fine:
        figure += (
            ". Why: a client's gradient is H_k (w - w*_q) and noise, with H_k of rank D_k: with D_k far below d it "
            "shows little of the difference, and clusters whose gammas happen to lie close cannot be told apart by "
            "their own records even if the models were known"
        )
    return Claim(f"At least {100 * MOSTLY:g} % of clients are put where they belong, without noise", fine, figure)


def _better_with(evidence: Evidence, design: Design) -> list[Claim]:
    by_records = [
        Chain(
            f"gamma up to {s:g}",
            [(f"{r[0]} to {r[1]}", right_of(evidence[without_noise(r, s)])) for r in design.records],
        )
        for s in (SPREAD, WIDE_SPREAD)
    ]
    by_spread = [
        Chain(
            f"{r[0]} to {r[1]} records",
            [(f"{s:g}", right_of(evidence[without_noise(r, s)])) for s in (SPREAD, WIDE_SPREAD)],
        )
        for r in design.records
    ]
    by_chance = [
        Chain(name_of(cell), [("chance", o.chance), ("found", right_of(o))])
        for cell, o in evidence.items()
        if cell.total is None
    ]
    return [
        rising("More clients are right than by chance, without noise", by_chance),
        rising("The more records, the more clients are right", by_records),
        rising("The wider clusters are apart, the more clients are right", by_spread),
    ]


def _worth_it(evidence: Evidence, design: Design) -> list[Claim]:
    claims = []
    for spread in (WIDE_SPREAD, SPREAD):
        cells = [without_noise(records, spread) for records in design.records]
        pairs = [Pair(name_of(c), evidence[c].deviation["one"], evidence[c].deviation["found"]) for c in cells]
        known = ", ".join(f"{mean_decibels(evidence[c].deviation['true']):.2f}" for c in cells)
        why = (
            "a model per cluster is learnt from a third of the data, and from the wrong ones for whoever is in the "
            "wrong cluster; that is worth it where clusters differ by more than that error"
        )
        claims.append(
            compared(
                f"gamma up to {spread:g}: models for the found clusters beat one model for all",
                pairs,
                higher,
                why,
                f"With true clusters {known} dB",
            )
        )
    return claims


def _under_noise(evidence: Evidence, design: Design) -> Claim:
    parts, working = [], []
    for total in design.totals:
        cell = Cell(design.private_records, WIDE_SPREAD, total)
        o = evidence[cell]
        nothing = breaks([Chain("", [("chance", o.chance), ("found", right_of(o))])])
        if not nothing:
            working.append(total)
        means = ", ".join(f"{words} {mean_decibels(o.deviation[kind]):.2f}" for kind, words in KINDS.items())
        longest = max(o.right)
        parts.append(
            f"rho = {total:g}: {100 * right_of(o).mean():.0f} % right (chance {100 * o.chance.mean():.0f}; after "
            f"{longest} rounds {100 * o.right[longest].mean():.0f}), {means} dB"
        )
    lost = [f"{total:g}" for total in design.totals if total not in working]
    cost = f"of all rounds together; the warm-up's {o.warmup} of {ROUNDS} are in it, and finding itself is free"
    figure = f"{name_of(without_noise(design.private_records, WIDE_SPREAD))}; rho is {cost}. {'; '.join(parts)}"
    if lost:
        figure += (
            f". No better than chance at {', '.join(lost)}. Why: a multiplier carries the penalty times a round's "
            f"noise in each of {DIMENSIONS} coordinates, of which an average over the later half of the warm-up leaves "
            "most, while what tells clusters apart is one direction"
        )
    return Claim("Clusters are found better than by chance under noise at every level tried", not lost, figure)
