"""Verdicts of `omd-three-clients`: pure functions of the measurements."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from tacit.metrics import Interval, loglog_slope, mean_interval, paired_difference
from tacit_reproduction.experiment import Claim, seen_in
from tacit_reproduction.judging import Chain, brief, rising, shown
from tacit_reproduction.mirror.slopes import slope_of_mean
from tacit_reproduction.mirror.three_clients_runs import (
    DIMENSIONS,
    EPSILON,
    GAMMA,
    STEPS_IN_WORDS,
    Cell,
    Evidence,
    LimitCell,
    NoiseName,
    Outcome,
    StartName,
    StepName,
)

Floats = NDArray[np.float64]
GONE = 1e-2
"""A distance has vanished if it is below this share of what it was at the start."""
RATE = -0.5
"""Of the text: Reg_t / t falls like t^(-1/2)."""
FITTED = 1 / 20
"""Slopes are of the rounds from this share of the horizon on."""
ALIKE = 0.01
"""Two forms end alike if their distances from the optimum differ by less: a hundredth of the simplex's side or so."""
NOISES: dict[NoiseName, str] = {
    "none": "no noise",
    "bounded": "the text's bounded noise",
    "laplace": "Laplace noise for whole records",
}
TEXT_LIMITS = np.array([[0.2352, 0.1994, 0.2079, 0.1703, 0.1871], [0.2339, 0.0678, 0.1618, 0.2500, 0.2864]])
"""The text's averages over 50 repeats of what it calls the optimum, from its uniform and its non-uniform starts."""


COMPONENTS, STARTS, REGRET, LIMITS = "components", "starts", "regret", "limits"
"""Our figures; of components there is one for each noise."""
OF_AGREEMENT = "figures 2.1 and 2.2 (T = 50): every component of every client goes to that of one vector (curves)"
OF_STARTS = (
    "section 2.4: the optimum whatever the start; yet its averages over 50 repeats are "
    f"{' from the uniform and '.join(str(row.tolist()) for row in TEXT_LIMITS)} from the other starts"
)
OF_RATE = "section 2.4: the bound on Reg_t / t falls like t^-1/2; no regret was measured"
OF_PRIVACY = "theorem 2: eps-locally differentially private, without any delta"


def judge(evidence: Evidence) -> list[Claim]:
    """Return every claim with its verdict."""
    settings = sorted({(cell.rounds, cell.step) for cell in evidence.cells}, key=lambda s: (s[1] == "matched", s[0]))
    shortest, longest = settings[0][0], max(cell.rounds for cell in evidence.cells)

    def shown_in(rounds: int, noise: NoiseName, claim: Claim, text: str) -> list[Claim]:
        named = {longest: STARTS, shortest: components_of(noise)}
        return seen_in(named.get(rounds, ""), claim, text=text)

    cells = [(rounds, noise, step) for rounds, step in settings for noise in NOISES]
    claims = [c for r, n, s in cells for c in shown_in(r, n, _agree(evidence, r, n, s), OF_AGREEMENT)]
    claims += [c for r, n, s in cells for c in shown_in(r, n, _one_vector(evidence, r, n, s), OF_STARTS)]
    starts: tuple[StartName, ...] = ("uniform", "own")
    for rounds, step in settings:
        rates = [_rate(evidence, rounds, start, step) for start in starts]
        claims += seen_in(REGRET if rounds == longest else "", *rates, text=OF_RATE)
    return [*claims, *seen_in(LIMITS, *_limits(evidence)), *_privacy(evidence)]


def components_of(noise: NoiseName) -> str:
    """Return the name of the figure of all components under a noise."""
    return f"{COMPONENTS}-{noise}"


# -- convergence -------------------------------------------------------------------------------------------------------


def spread(models: Floats) -> Floats:
    """Return (..., k) the largest distance between two clients, of models (..., k, clients, d)."""
    pairs = models[..., :, None, :] - models[..., None, :, :]
    return np.asarray(np.max(np.linalg.norm(pairs, axis=-1), axis=(-1, -2)))


def between(one: Outcome, other: Outcome) -> Floats:
    """Return (seeds, k) the largest distance, over the clients, of a client's models from two starts."""
    return np.asarray(np.max(np.linalg.norm(one.models - other.models, axis=-1), axis=-1))


def _agree(evidence: Evidence, rounds: int, noise: NoiseName, step: StepName) -> Claim:
    uniform, own = (evidence.cells[Cell(rounds, noise, start, step)] for start in ("uniform", "own"))
    begun = spread(own.models)[:, 0]
    shares = {"own starts": spread(own.models)[:, -1] / begun, "uniform start": spread(uniform.models)[:, -1] / begun}
    holds = all(mean_interval(share).high < GONE for share in shares.values())
    parts = [f"{name}: {shown(share)} of {begun[0]:.3f}" for name, share in shares.items()]
    what = "largest distance between two clients at the end, as a share of that between the text's own starts"
    figure = f"{what}: {'; '.join(parts)}"
    if not holds:
        figure += f" (expected the interval below {GONE:g}). {_why_apart(noise)}"
    return Claim(f"All clients reach one vector: {_where(rounds, noise, step)}", holds, figure)


def _why_apart(noise: NoiseName) -> str:
    if noise != "laplace":
        return "Why: the last steps still move each client by its own data."
    scale = 2 * DIMENSIONS**0.5 / EPSILON
    return (
        f"Why: noise of scale 2 sqrt(d) / eps = {scale:.0f} in each of {DIMENSIONS} components, where gradients have "
        "length 1 at most; times the step of the last round it still moves a client across the simplex."
    )


def _one_vector(evidence: Evidence, rounds: int, noise: NoiseName, step: StepName) -> Claim:
    uniform, own = (evidence.cells[Cell(rounds, noise, start, step)] for start in ("uniform", "own"))
    distance = between(uniform, own)
    share = distance[:, -1] / distance[:, 0]
    holds = mean_interval(share).high < GONE
    figure = (
        f"distance between the two runs with the same data and noise, at the end {shown(distance[:, -1])}, as a share "
        f"of that at the start {shown(share)}"
    )
    if not holds:
        figure += f" (expected the interval below {GONE:g}). {_why_remembered(own, distance, noise, step)}"
    elif noise == "laplace":
        figure += ". It is not the optimum: the noise, which both runs share, decides where they end"
    return Claim(f"Both starts lead to the same vector: {_where(rounds, noise, step)}", holds, figure)


def _why_remembered(own: Outcome, distance: Floats, noise: NoiseName, step: StepName) -> str:
    if noise == "laplace":
        return "Why: the two runs share their noise, which drives both into the same corner or keeps them in two."
    if noise == "bounded":
        left = EPSILON / math.log(own.regret_rounds[-1]) ** 2 / math.sqrt(DIMENSIONS)
        return (
            "Why: only the regulariser tells vectors of the simplex apart here, and Alg. 3 squeezes the whole "
            f"gradient: of gamma x about 1 / (b sqrt d) = {brief(left, 2)} is left, and no start is forgotten. "
            f"{_theirs()}"
        )
    if step != "text":
        return f"Why: {STEPS_IN_WORDS[step]} has not forgotten the start after so few rounds."
    late = own.at >= max(1, own.at[-1] * FITTED)
    fitted = loglog_slope(own.at[late], distance[:, late].mean(axis=0)).slope
    return (
        "Why: only the regulariser tells vectors of the simplex apart here, and steps of 1/t forget a start like "
        f"t^(-gamma / d) = t^({-GAMMA / DIMENSIONS:g}) in this geometry; measured: t^({fitted:.3f}). {_theirs()}"
    )


def _theirs() -> str:
    theirs = float(np.linalg.norm(TEXT_LIMITS[0] - TEXT_LIMITS[1]))
    return f"The text's own averages from its two starts lie {theirs:.2f} apart."


# -- regret ------------------------------------------------------------------------------------------------------------


def slope(outcome: Outcome) -> Interval:
    """Return the log-log slope of the average regret over the later rounds."""
    late = outcome.regret_rounds >= FITTED * outcome.regret_rounds[-1]
    return slope_of_mean(outcome.regret_rounds[late], outcome.regret[:, late])


def _rate(evidence: Evidence, rounds: int, start: StartName, step: StepName) -> Claim:
    found = {noise: evidence.cells[Cell(rounds, noise, start, step)] for noise in NOISES}
    slopes = {noise: slope(outcome) for noise, outcome in found.items()}
    holds = bool(slopes["bounded"].low <= RATE)
    parts = [
        f"{NOISES[noise]}: t^({fit.mean:.2f}) [{fit.low:.2f}, {fit.high:.2f}], at the end "
        f"{shown(found[noise].regret[:, -1])}"
        for noise, fit in slopes.items()
    ]
    rule = "it holds where the interval with the text's noise reaches down to -0.5"
    why = "" if holds else f" {_why_slow(found['bounded'], start)}"
    if holds and not slopes["none"].low <= RATE:
        why = (
            " Without noise it does not: the data of the first rounds, whose share in a step the text's noise makes "
            "tiny, leave a vector from which steps of 1/t do not come back."
        )
    first = "uniform start" if start == "uniform" else "the clients' own starts"
    claim = f"Reg_t / t falls like t^-1/2 or faster: {first}, T = {rounds:,}, {STEPS_IN_WORDS[step]}"
    figure = f"fit over rounds {int(np.ceil(FITTED * rounds)):,} to {rounds:,}: {'; '.join(parts)}; {rule}."
    return Claim(claim, holds, figure + why)


def _why_slow(outcome: Outcome, start: StartName) -> str:
    if start == "own":
        last = outcome.models[:, -1].mean(axis=(0, 1))
        cost = GAMMA / 2 * (float(last @ last) - 1 / DIMENSIONS)
        return (
            "Why: the start is not forgotten. What is left of it costs gamma/2 (||x||^2 - 1/d) = "
            f"{brief(cost, 2)} in every round, so that Reg_t / t stays there."
        )
    return "Why: the regret is so small that what is left of it is noise."


# -- limits ------------------------------------------------------------------------------------------------------------


def _limits(evidence: Evidence) -> list[Claim]:
    biased, unbiased = (evidence.limits[LimitCell("apart", "none", form)] for form in (False, True))
    alike, alike_too = (evidence.limits[LimitCell("text", "none", form)] for form in (False, True))
    where = "clients that differ"
    note = f"The two optima lie {shown(biased.apart)} apart."
    toward = [("from the Perron-weighted optimum", biased.to_weighted), ("from the true one", biased.to_true)]
    home = [("from the true optimum", unbiased.to_true), ("from the Perron-weighted one", unbiased.to_weighted)]
    nearer = [("unbiased", unbiased.to_true), ("biased", biased.to_true)]
    difference = paired_difference(alike_too.to_true, alike.to_true)
    same = Claim(
        "Where all clients draw from one distribution, as in the text, it makes no difference which form is used",
        bool(max(abs(difference.low), abs(difference.high)) < ALIKE),
        f"distance from the true optimum: biased {shown(alike.to_true)}, unbiased {shown(alike_too.to_true)}; "
        f"difference {brief(difference.mean, 2)} [{brief(difference.low, 2)}, {brief(difference.high, 2)}] (95 %, "
        f"paired over {difference.n} seeds), expected within +-{ALIKE:g}; the true and the Perron-weighted optimum "
        f"lie {shown(alike.apart)} apart",
    )
    return [
        rising(
            f"The biased form goes to the Perron-weighted optimum, not to the true one: {where}",
            [Chain("", toward)],
            note=note,
        ),
        rising(f"The unbiased form goes to the true optimum: {where}", [Chain("", home)]),
        rising(f"The unbiased form ends nearer to the true optimum than the biased one: {where}", [Chain("", nearer)]),
        same,
        *(_learns(evidence, noise) for noise in NOISES if noise != "none"),
    ]


def _learns(evidence: Evidence, noise: NoiseName) -> Claim:
    """The text's data hardly tell vectors apart; these do."""
    limit = evidence.limits[LimitCell("apart", noise, False)]
    found = rising(
        f"With {NOISES[noise]} at eps = {EPSILON:g} the clients learn, where there is something to be learnt: halfway "
        "to the optimum at least",
        [
            Chain(
                "distance from the true optimum",
                [("at the end", limit.to_true), ("half of that at the start", limit.begun / 2)],
            )
        ],
    )
    if found.holds:
        return found
    why = (
        "the noisy gradient is squeezed into [0, 1] by (g + N + b) / (2 b + 1), b = (log T)^2 / eps: what the data "
        "say is divided by 2 b + 1, and what is left is nearly the same in all components, which moves nothing on the "
        "simplex"
        if noise == "bounded"
        else "noise of this size decides every step, and the average of three clients hardly lowers it"
    )
    return found._replace(figure=f"{found.figure}. At the start it was {shown(limit.begun)}. Why: {why}.")


# -- privacy -----------------------------------------------------------------------------------------------------------


def _privacy(evidence: Evidence) -> list[Claim]:
    rounds = min(evidence.record_level)
    spent = evidence.cells[Cell(rounds, "bounded", "own", "text")].privacy.summary()
    records = evidence.record_level[rounds].summary()
    pure = spent["delta"] == 0
    laplace = evidence.cells[Cell(rounds, "laplace", "own", "text")].privacy.summary()
    return [
        Claim(
            f"The noise of Alg. 3 keeps every gradient eps-locally private (Theorem 2): T = {rounds:,}",
            bool(pure),
            f"booked: epsilon {spent['epsilon']:.4g}, delta {spent['delta']:.2g} for one {spent['unit']}; for a whole "
            f"record the same noise keeps epsilon {records['epsilon']:.4g}, delta {records['delta']:.2g}. Why: noise "
            "of bounded support cannot hide values near its ends, so that delta is above 0; and a record moves all "
            "components.",
            text=OF_PRIVACY,
        ),
        Claim(
            f"Laplace noise for whole records keeps epsilon = {EPSILON:g} for each record over the whole run: T = "
            f"{rounds:,}",
            bool(laplace["delta"] == 0 and laplace["unit"] == "record" and laplace["epsilon"] <= EPSILON * (1 + 1e-6)),
            f"booked: epsilon {laplace['epsilon']:.4g}, delta {laplace['delta']:.2g} for one {laplace['unit']}, each "
            "of which is read in one round",
        ),
    ]


def _where(rounds: int, noise: NoiseName, step: StepName) -> str:
    return f"{NOISES[noise]}, T = {rounds:,}, {STEPS_IN_WORDS[step]}"
