"""Experiment `dola-synthetic`: regret by privacy and by number of nodes (Li et al., sec. 6, figure 1)."""

from __future__ import annotations

from typing import Any

from tacit.results.record import figure
from tacit_reproduction import promises
from tacit_reproduction.charts import Curve, log_curves
from tacit_reproduction.dola.protocol import (
    ORDERS,
    SEEDS_APART,
    NoiseOrder,
    in_words,
    level,
    pegasos_radius,
)
from tacit_reproduction.dola.samples import DIMENSIONS, FLIPPED, dealt, unit_ball
from tacit_reproduction.dola.synthetic_runs import (
    FULL,
    LAMBDA,
    QUICK,
    STEPS,
    Cell,
    Design,
    Evidence,
    Outcome,
    StepName,
    run_cell,
)
from tacit_reproduction.experiment import Claim, Experiment, Figure, Findings, Table, reproducible, seen_in
from tacit_reproduction.judging import Chain, brief, rising, shown
from tacit_reproduction.workers import crew

NODES = (1, 4, 64)
EPSILONS: tuple[float | None, ...] = (None, 1.0, 0.1, 0.01)
COMPARED_NODES, COMPARED_EPSILON = 64, 0.1
"""Figure 1 (a) is of 64 nodes, figure 1 (c) of eps = 0.1."""
BY_PRIVACY, BY_NODES = "privacy", "nodes"
"""Our figures; each step has its own."""


def cells(design: Design, nodes: int) -> list[Cell]:
    """Return the settings with this many nodes; without noise the order does not matter."""
    epsilons = EPSILONS if design.whole or nodes == COMPARED_NODES else (COMPARED_EPSILON,)
    return [Cell(nodes, e, order, step) for step in STEPS for e in epsilons for order in ORDERS if e or order == "text"]


def run_nodes(task: tuple[Design, int, int]) -> dict[Cell, Outcome]:
    """Run all settings with one number of nodes on the same streams: their comparators are solved for once."""
    design, nodes, first = task
    seeds = range(first, first + design.seeds)
    streams = {s: dealt(unit_ball(design.examples, s), nodes, 1, s, "unit ball") for s in seeds}
    return {cell: run_cell(cell, design, streams) for cell in cells(design, nodes)}


def judge(evidence: Evidence) -> list[Claim]:
    """Return every claim with its verdict."""
    return [claim for step in STEPS for claim in _of_step(evidence, step)]


def _of_step(evidence: Evidence, step: StepName) -> list[Claim]:
    claims = []
    where_printed = " (drawn for a_t = 1/(lambda t); curves, no numbers)"
    by_privacy, by_nodes = _name(BY_PRIVACY, step), _name(BY_NODES, step)
    for order, words in ORDERS.items():
        where = f"{words}, {STEPS[step]}"
        claims += [
            *seen_in(
                by_privacy,
                _by_privacy(evidence, order, step, where),
                text=f"figure 1 (a): lowest without noise, and the closer to that the larger eps{where_printed}",
            ),
            *seen_in(
                by_privacy,
                _low_regret(evidence, order, step, where),
                text=f"figure 1 (a): low even at eps = 0.01{where_printed}",
            ),
            *seen_in(
                by_nodes,
                _by_nodes(evidence, order, step, where),
                text=f"figure 1 (c): lowest with one node, and lower the fewer nodes{where_printed}",
            ),
        ]
    for epsilon in EPSILONS[1:]:
        text, ours = (evidence[Cell(COMPARED_NODES, epsilon, order, step)].final for order in ORDERS)
        claim = f"Noise before the projection costs less than noise after it: {level(epsilon)}, {STEPS[step]}"
        links = [("our order", ours), ("the text's", text)]
        claims += seen_in(by_privacy, rising(claim, [Chain(in_words(COMPARED_NODES), links)]))
    return claims


def _name(figure: str, step: StepName) -> str:
    return f"{figure}-{step}"


def _at(evidence: Evidence, nodes: int, epsilon: float | None, order: NoiseOrder, step: StepName) -> Outcome:
    return evidence[Cell(nodes, epsilon, "text" if epsilon is None else order, step)]


def _by_privacy(evidence: Evidence, order: NoiseOrder, step: StepName, where: str) -> Claim:
    chains = [
        Chain(in_words(nodes), [(level(e), _at(evidence, nodes, e, order, step).final) for e in EPSILONS])
        for nodes in NODES
        if Cell(nodes, None, "text", step) in evidence
    ]
    free, weak, strong = (_at(evidence, COMPARED_NODES, e, order, step).final.mean() for e in (None, 1.0, 0.01))
    note = (
        f"At {COMPARED_NODES} nodes the regret is {brief(weak - free)} above that without noise for eps = 1 and "
        f"{brief(strong - free)} for eps = 0.01."
    )
    verdict = rising(f"Regret approaches that without noise as eps grows: {where}", chains, note=note)
    if verdict.holds or order == "text":
        return verdict
    why = "Why: where noise alone decides, every model lies at the edge of the ball, and more noise changes nothing."
    return verdict._replace(figure=f"{verdict.figure} {why}")


def _low_regret(evidence: Evidence, order: NoiseOrder, step: StepName, where: str) -> Claim:
    outcome = _at(evidence, COMPARED_NODES, 0.01, order, step)
    claim = f"Regret is low even at eps = 0.01, that is lower than that of never learning: {where}"
    links = [("DOLA", outcome.final), ("the zero model", outcome.idle)]
    found = rising(claim, [Chain(in_words(COMPARED_NODES), links)])
    if found.holds:
        return found
    return found._replace(figure=f"{found.figure}. Why: {_noise_in_words(0.01, step)}.")


def _noise_in_words(epsilon: float, step: StepName) -> str:
    first = {"strong": 1 / LAMBDA, "convex": 0.5}[step]
    scale = 2 * first * DIMENSIONS**0.5 / epsilon
    return (
        f"in the first round the noise S(1) / eps has scale {scale:,.0f} in each of {DIMENSIONS} coordinates, where "
        f"models have length {pegasos_radius(LAMBDA):.2g} at most, and it falls only as fast as the steps do"
    )


def _by_nodes(evidence: Evidence, order: NoiseOrder, step: StepName, where: str) -> Claim:
    found = [(in_words(n), _at(evidence, n, COMPARED_EPSILON, order, step).final) for n in NODES]
    claim = f"Fewer nodes have lower regret: {where}"
    verdict = rising(claim, [Chain(level(COMPARED_EPSILON), found)])
    if verdict.holds:
        return verdict
    why = (
        "Why: more nodes mean fewer rounds, hence larger steps and more noise at the end, but also averages of more "
        "noisy values. Where the projection comes after the noise, no model is longer than the radius, so that the "
        "first effect is bounded, and averaging decides."
        if order == "ours"
        else "Why: more nodes mean fewer rounds, hence larger steps and more noise at the end, but also averages of "
        "more noisy values; here the second outweighs the first."
    )
    return verdict._replace(figure=f"{verdict.figure}. {why}")


def investigate(design: Design, seed: int, workers: int | None = None) -> Findings:
    """Run everything and judge the claims."""
    with crew(workers) as team:
        tasks = [(design, nodes, SEEDS_APART * seed) for nodes in NODES]
        evidence = {cell: outcome for part in team("running", run_nodes, tasks) for cell, outcome in part.items()}
    return Findings(
        judge(evidence),
        _metrics(evidence),
        {
            "name": "unit ball",
            "description": (
                f"{design.examples:,} points of the unit ball in {DIMENSIONS} dimensions, drawn anew for each of "
                f"{design.seeds} seeds, with {FLIPPED:.0%} of the labels flipped"
            ),
            "rows": design.examples,
            "complete": True,
        },
        _method(design, evidence),
        [_table(evidence, step) for step in STEPS],
        [picture for step in STEPS for picture in _figures(evidence, step)],
    )


def _metrics(evidence: Evidence) -> dict[str, Any]:
    return {
        "lambda": LAMBDA,
        "radius": pegasos_radius(LAMBDA),
        "cells": [
            {
                **cell._asdict(),
                "average_regret": figure(outcome.final),
                "regret_of_zero_model": figure(outcome.idle),
                "privacy": outcome.privacy.summary(),
            }
            for cell, outcome in evidence.items()
        ],
    }


def _method(design: Design, evidence: Evidence) -> list[str]:
    gap = max(outcome.certified for outcome in evidence.values())
    return [
        f"Hinge loss with l2 = {LAMBDA:g} (the text gives no lambda), models in the ball of radius 1 / sqrt(lambda), "
        f"gradients clipped to length 1. The same {design.examples:,} examples are dealt out evenly over 1, 4 or 64 "
        "nodes; in each round every node reads one of its own, which nobody reads again. Random pairs of nodes "
        "average their values in each round: weights are doubly stochastic and the graph is another one each time.",
        "Regret is the loss of all nodes at prediction time minus that of the one model that would have been best for "
        f"all of them up to that round, solved for on all the data (its average loss is within {gap:.1g} of the "
        f"optimum), per node and round. {design.seeds} seeds, each with its own data, partition, pairs and noise; "
        "without noise the order of noise and projection does not matter, so that there is one run of it.",
        "Both orders of noise and projection have the same scale, S(t) / eps with S(t) = 2 a_t sqrt(d) L. The text "
        "noises the projected model, so that what is mixed lies anywhere. We noise the step and project afterwards, "
        "which is post-processing of a released value and hence free.",
        "Privacy: each record is read in one round, and all states are made of released values, so that eps holds for "
        "each record over the whole run.",
    ]


def _table(evidence: Evidence, step: StepName) -> Table:
    rows = []
    for cell, outcome in evidence.items():
        if cell.step == step:
            where = "-" if cell.epsilon is None else ORDERS[cell.order]
            asked = (in_words(cell.nodes), where, *promises.in_columns(outcome.privacy))
            rows.append((*asked, shown(outcome.final), shown(outcome.idle)))
    columns = ("nodes", "order", *promises.COLUMNS, "average regret", "of the zero model")
    spent = promises.note(outcome.privacy for outcome in evidence.values())
    note = f"± is half of the 95 % interval of the mean. {spent}"
    return Table(f"Average regret with {STEPS[step]}", note, columns, rows)


def _figures(evidence: Evidence, step: StepName) -> list[Figure]:
    def curves(wanted: dict[str, tuple[int, float | None]], order: NoiseOrder) -> dict[str, Curve]:
        found = {label: _at(evidence, nodes, e, order, step) for label, (nodes, e) in wanted.items()}
        return {label: Curve(outcome.examples, outcome.regret) for label, outcome in found.items()}

    by_privacy: dict[str, tuple[int, float | None]] = {level(e): (COMPARED_NODES, e) for e in EPSILONS}
    by_nodes: dict[str, tuple[int, float | None]] = {in_words(n): (n, COMPARED_EPSILON) for n in NODES}
    seeds = len(next(iter(evidence.values())).final)
    kinds = (
        (BY_PRIVACY, f"Regret and privacy, {COMPARED_NODES} nodes, {STEPS[step]}", "1 (a)", by_privacy),
        (BY_NODES, f"Regret and number of nodes, {level(COMPARED_EPSILON)}, {STEPS[step]}", "1 (c)", by_nodes),
    )
    return [
        log_curves(
            _name(name, step),
            title,
            f"As the text's figure {number}. Lines are means over {seeds} seeds, bands their 95 % intervals.",
            {words.capitalize(): curves(wanted, order) for order, words in ORDERS.items()},
            "examples read by all nodes together",
            "regret per node and round so far",
        )
        for name, title, number, wanted in kinds
    ]


SYNTHETIC: Experiment = reproducible(
    "dola-synthetic",
    "Private distributed online learning on synthetic data",
    "Li et al., sec. 6, figure 1",
    lambda quick, seed: investigate(QUICK if quick else FULL, seed),
)
