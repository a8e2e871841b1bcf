"""Study `npfl-rl`: mixing of clusters, fixed or tuned by reinforcement learning (Gauthier 2023, sec. 6.3)."""

from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit import objectives
from tacit.algorithms import networked_personalised, private_admm
from tacit.core.contract import Algorithm
from tacit_reproduction.figures import curves
from tacit_reproduction.gauthier import npfl_data
from tacit_reproduction.gauthier.npfl_data import CLIENTS, CONNECTED, DRAWN, World, world
from tacit_reproduction.study import Judgement, Study, finished_run, over
from tacit_reproduction.table import Factor, Floats, Results, Row, decibels, late, parted
from tacit_reproduction.verdict import Claim, Pair, Rule, above, below, headline, judged

PENALTY, RIDGE, START, HALF = 3.0, 1e-3, 0.05, 2
"""rho and lambda / |C_q| of the text, tau of the first round; our squared loss is half of the text's (6.10)."""
LOSS = objectives.squared(l2=RIDGE)
WIDTH, EPOCHS, EVERY, LAST = 0.05, 3, 5, 0.1
FIRST, NEAR, NOTHING_LEFT = 50, 100, 0.01
"""Rounds of initial learning; after which curves are nearly flat; a tau below this is "around 0"."""
TAUS = (0.0, START, 0.1, 0.2, 0.4)
ONE_MODEL = "one model"
RATES = {
    "DPG": ("gradient", HALF * 0.001, 1), "batch DPG": ("gradient", HALF * 0.003, EPOCHS),
    "SAC": ("actor_critic", 0.1, 1), "batch SAC": ("actor_critic", 0.04, EPOCHS)}  # fmt: skip
"""Policy, rate and epochs of the text; of a gradient of half the loss a rate counts twice."""
FIXED = {f"tau = {tau:g}": tau for tau in TAUS}
APART, LITTLE = list(FIXED)[:2]
NAMES = (ONE_MODEL, *FIXED, *RATES)
SHOWN = {"few": 0.0, "moderate": 0.5, "many": 1.0}  # clients of figure 6.3: their ranks by records, as a share


def method(name: str) -> Algorithm:
    if name == ONE_MODEL:
        return private_admm(LOSS, penalty=PENALTY / HALF)
    if name in FIXED:
        return networked_personalised(LOSS, penalty=PENALTY, tau=FIXED[name])
    policy = dict(zip(("policy", "rate", "epochs"), RATES[name], strict=True))
    return networked_personalised(LOSS, penalty=PENALTY, tau=START, width=WIDTH, **policy)


def cells(quick: bool) -> list[tuple[str, int]]:
    return [(name, 150 if quick else 600) for name in reversed(NAMES)]


def run(task: tuple[tuple[str, int], int, int]) -> list[Row]:
    (name, rounds), seeds, first = task
    worlds = [world(network, first + k) for network in (CONNECTED, DRAWN) for k in range(seeds)]
    found = finished_run(
        method(name), lambda seed: worlds[seed - first].graph, lambda seed: worlds[seed - first].stream,
        rounds=rounds, repeats=len(worlds), seed=first, dtype="float64",
        record={"models": np.asarray}, record_every=EVERY)  # fmt: skip
    models, at = found.recorded["models"], np.asarray(found.recorded_rounds)
    tau = np.asarray(found.recorded.get("tau", np.zeros(models.shape[:3])), np.float64)
    networks: list[dict[str, Factor]] = [{"network": network, "method": name} for network in (CONNECTED, DRAWN)]
    return parted({}, networks, seeds, measures(models, tau, at, worlds))


def measures(models: Floats, tau: Floats, at: NDArray[np.int64], worlds: list[World]) -> dict[str, Floats]:
    """Return what is measured of models (seeds, points, clients, d) and strengths (seeds, points, clients)."""
    truth = np.stack([each.truth for each in worlds])[:, None]
    nmsd = (np.square(models - truth).sum(axis=-1) / np.square(truth).sum(axis=-1)).mean(axis=-1)
    rank = np.stack([np.argsort(np.argsort(each.sizes, kind="stable")) for each in worlds])
    poor, rich = (np.where(who, 1.0, np.nan) for who in (rank < CLIENTS // 3, rank >= CLIENTS - CLIENTS // 3))
    near, end = tau[:, at <= max(NEAR, at[0])][:, -1], tau[:, at > (1 - LAST) * at[-1]].mean(axis=1)
    order = [[k for k in np.argsort(each.sizes, kind="stable") if each.accompanied[k]] for each in worlds]
    single = {words: [own[round(share * (len(own) - 1))] for own in order] for words, share in SHOWN.items()}
    return {
        "rounds": at,
        "nmsd": decibels(nmsd),
        "settled": decibels(late(nmsd, LAST)),
        "early": decibels(nmsd[:, at <= FIRST]).mean(axis=1),
        "roughness": np.abs(np.diff(decibels(nmsd[:, at > at[-1] / 2]), axis=1)).mean(axis=1),
        "poor near": np.nanmean(near * poor, axis=1),
        "poor end": np.nanmean(end * poor, axis=1),
        "rich at 0": 100 * np.nanmean((end < NOTHING_LEFT) * rich, axis=1),
        "tau": end.mean(axis=1),
    } | {f"tau, {words}": np.stack([t[:, k] for t, k in zip(tau, own, strict=True)]) for words, own in single.items()}


def claims_on(results: Results, network: str) -> dict[str, list[Claim]]:
    def pair(name: str, other: str, what: str = "settled") -> Pair:
        first, second = (results.of(what, network=network, method=each) for each in (name, other))
        return Pair(f"{name} and {other}, {what}", first, second)

    def row(claim: str, pairs: list[Pair], rule: Rule, said: str, figure: str = "tuned") -> Claim:
        text = said if network == CONNECTED else ""  # the other one is a setting of the sweep
        return judged(f"{claim}: {network}", pairs, rule, unit=" dB", text=text, seen_in=figure)

    one, improves = (
        "figure 6.1: one model does not achieve satisfactory accuracy",
        "figure 6.1: tau = 0.05 improves on 0",
    )
    more, all_four = "figure 6.1: accuracy decreases", "figure 6.2: all versions are better at first and in the end"
    worse = [pair(b, a) for a, b in pairwise(list(FIXED)[1:])]
    fixed = [
        row("One model is worse than a model per cluster", [pair(ONE_MODEL, t) for t in FIXED], above(), one, "fixed"),
        row("A little pull helps, tau = 0.05 against 0", [pair(LITTLE, APART)], below(), improves, "fixed"),
        row("More pull hurts, tau = 0.05, 0.1, 0.2, 0.4", worse, above(), more, "fixed"),
    ]
    better = f"faster in the first {FIRST} rounds and more accurate in the end than tau = 0.05"
    both = {name: [pair(name, LITTLE, "early"), pair(name, LITTLE)] for name in RATES}
    tuned = [row(f"{name}: {better}", pairs, below(), all_four) for name, pairs in both.items()]
    sac, dpg = "figure 6.2: SAC has the better accuracy", "figure 6.2: batches increase the accuracy of DPG"
    calm, calmer = pair("batch SAC", "SAC", "roughness"), "figure 6.2: batches attenuate the randomness of SAC"
    tuned.append(row("SAC settles lower than DPG", [pair("SAC", "DPG")], below(), sac))
    more_accurate = row("Three epochs make DPG more accurate", [pair("batch DPG", "DPG")], below(), dpg)
    less = row("Three epochs make SAC less random, mean change from record to record", [calm], below(), calmer)
    return {"fixed": fixed, "tuned": tuned, "batches": [more_accurate, less]}


def strengths(results: Results) -> list[Claim]:
    def of(what: str | float, name: str) -> Floats | float:
        return results.of(what, network=CONNECTED, method=name) if isinstance(what, str) else what

    def row(claim: str, what: str, against: str | float, rule: Rule, said: str, unit: str = "") -> Claim:
        pairs = [Pair(name, np.asarray(of(what, name)), of(against, name)) for name in ("SAC", "DPG")]
        return judged(claim, pairs, rule, unit=unit, text=f"figure 6.3: {said}", seen_in="strengths")

    poor, falls = "client 30, of few data, raises tau at first", "near convergence client 30 lowers tau again"
    rich = "client 22, of many data, lowers tau to around 0"
    most = f"Most of the third with the most records end with tau below {NOTHING_LEFT:g}"
    return [
        row("The third of the clients with the fewest records raise tau at first", "poor near", START, above(), poor),
        row("They lower tau again once curves are flat", "poor end", "poor near", below(), falls),
        row(most, "rich at 0", 50.0, above(), rich, " %"),
    ]


def judge(results: Results) -> Judgement:
    found = {network: claims_on(results, network) for network in (CONNECTED, DRAWN)}

    def means(network: str) -> str:
        at = {name: results.of("settled", network=network, method=name).mean() for name in NAMES}
        return f"{network}: {', '.join(f'{name} {at[name]:.1f}' for name in (ONE_MODEL, APART, LITTLE, *RATES))} dB"

    best = headline(
        "Clients that tune their mixing by reinforcement learning start faster and end better than with a fixed tau",
        place="figure 6.2", text="curves: all four policies below tau = 0.05, SAC below DPG",
        ours="; ".join(map(means, found)),
        why="Where random clusters fall apart, clients that reach too few records gain most, and SAC finds the large "
        "tau that they need. Where each cluster is connected there is less to gain, and a tau that is moved by what "
        "one round's step does to a few held-back records drifts on after the error is lowest.",
        claims=found[CONNECTED]["tuned"], sweep={network: of["tuned"] for network, of in found.items()},
        seen_in="tuned")  # fmt: skip
    drawn, common = [], dict[str, Any](lines="method", panels="network", y="NMSD (dB)")
    for key, number, names in (("fixed", "6.1", (ONE_MODEL, *FIXED)), ("tuned", "6.2", (LITTLE, *RATES))):
        of_figure = Results(row for name in names for row in results.where(method=name).rows)
        said = f"Drawn like figure {number}: mean over clients."
        drawn.append(curves(of_figure, key, f"NMSD with {key} tau", said, "nmsd", **common))
    two = (results.where(network=CONNECTED, method=method).rows[0] for method in ("SAC", "DPG"))
    own = [(row, words) for row in two for words in SHOWN]
    three = Results(
        Row({"policy": row.factors["method"], "client": f"{words} data"},
            {"rounds": row.measures["rounds"], "tau": row.measures[f"tau, {words}"][:1]})
        for row, words in own)  # fmt: skip
    caption = "Drawn like figure 6.3: of the first seed, the clients with the fewest, middling and most records."
    drawn.append(curves(three, "strengths", "Tau of three clients", caption, "tau", lines="client", panels="policy"))
    claims = [claim for of in found.values() for part in of.values() for claim in part]
    return Judgement([*claims, *strengths(results)], [best], drawn)


STUDY = Study(
    name="npfl-rl", title="Networked personalised learning, mixing tuned by reinforcement learning",
    source="Gauthier (2023), sec. 6.3, figures 6.1 to 6.3", minutes=5,
    measure=over(cells, run, seeds=(20, 6), facts=lambda quick: {"data": npfl_data.WHAT}), judge=judge,
    tabled=("settled", "early", "tau"),
    method=f"""
{npfl_data.HOW}

rho = {PENALTY:g}, lambda / |C_q| = {RIDGE:g}; rates are the text's in its own loss, twice ours. tau starts at
{START:g}, so that curves of figure 6.2 begin alike. Both kinds of network and all seeds run side by side.

The error is ||w_k - w_q||^2 / ||w_q||^2, averaged over clients, in dB; (6.15) prints ||w_q|| without the square.
Settled is the mean of the last {LAST:.0%} of the rounds. Figure 6.3 has three clients of one run: what it says is asked
of the thirds of the clients with the fewest and the most records, after {NEAR} rounds and at the end.""")  # fmt: skip
