"""Verdicts of `npfl-rl`: pure functions of what was measured. Differences are paired over seeds, in dB."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tacit.experiments.papers.experiment import Claim
from tacit.experiments.papers.gaps import Gap, decibels, judged
from tacit.experiments.papers.judging import Chain, brief, rising
from tacit.experiments.papers.networked.clustered_regression import DIMENSIONS, Floats, Network
from tacit.experiments.papers.networked.tuned_runs import (
    BATCH_DPG,
    BATCH_SAC,
    DPG,
    ONE_MODEL,
    OURS,
    POLICIES,
    SAC,
    START,
    TEXT_TAUS,
    Evidence,
    Outcome,
    fixed,
)
from tacit.experiments.papers.verdicts import lower
from tacit.metrics import Interval, mean_interval

FIRST = 50
"""Rounds that count as initial learning."""
NEAR = 100
"""Rounds after which curves are nearly flat."""
NOTHING_LEFT = 0.01
"""A strength below this is "around 0"."""
JUMP = 0.5
"""Of tau between two records."""
BEST = "the best fixed tau, "


def judge(evidence: Evidence) -> list[Claim]:
    """Return every claim with its verdict."""
    return [claim for network in evidence.design.networks for claim in _of(evidence, network)]


def _of(evidence: Evidence, network: Network) -> list[Claim]:
    best = best_fixed(evidence, network)
    found = [
        _one_model(evidence, network),
        _small_helps(evidence, network),
        _large_hurts(evidence, network),
        _final(evidence, network, POLICIES, fixed(START)),
        _final(evidence, network, POLICIES, fixed(best), BEST),
        _oracle(evidence, network),
        _initial(evidence, network, fixed(START)),
        _initial(evidence, network, fixed(best), BEST),
        _actor_beats_gradient(evidence, network),
        _batch_gradient(evidence, network),
        _batch_calms(evidence, network),
        *(_poor_raise(evidence, network, name) for name in (SAC, DPG)),
        *(_poor_end_lower(evidence, network, name) for name in (SAC, DPG)),
        *(_rich_end_at_zero(evidence, network, name) for name in (SAC, DPG)),
    ]
    ours = [name for name in OURS if name in evidence.design.methods]
    if ours:
        found.append(_final(evidence, network, ours, fixed(best), BEST, "Tuned with rates of ours"))
    return found


def best_fixed(evidence: Evidence, network: Network) -> float:
    """Return the fixed strength of the lowest mean deviation in dB, chosen on the seeds that it is judged on."""
    return min(evidence.design.taus, key=lambda tau: float(np.mean(_db(evidence, network, fixed(tau)))))


def poorest(sizes: NDArray[np.int64], most: bool = False) -> NDArray[np.bool_]:
    """Return (seeds, clients) which third of the clients holds the fewest records; or the most."""
    rank = np.argsort(np.argsort(-sizes if most else sizes, axis=1, kind="stable"), axis=1)
    return np.asarray(rank < sizes.shape[1] // 3)


def mean_of(values: Floats, who: NDArray[np.bool_]) -> Floats:
    """Return (seeds,) the mean over some clients."""
    return np.asarray((values * who).sum(axis=1) / who.sum(axis=1))


def correlation(tau: Floats, with_what: NDArray[np.int64]) -> Interval:
    """Return the correlation over clients, its mean over the seeds in which tau differs at all."""
    varied = tau.std(axis=1) > 0
    pairs = zip(tau[varied], with_what[varied], strict=True)
    return mean_interval([float(np.corrcoef(a, b)[0, 1]) for a, b in pairs])


def _outcome(evidence: Evidence, network: Network, name: str) -> Outcome:
    return evidence.outcomes[network, name]


def _settled(evidence: Evidence, network: Network, name: str) -> Floats:
    return _outcome(evidence, network, name).settled


def _db(evidence: Evidence, network: Network, name: str) -> Floats:
    return decibels(_settled(evidence, network, name))


def _below(found: Interval) -> bool:
    return found.high < 0


# -- fixed strengths ---------------------------------------------------------------------------------------------------


def _one_model(evidence: Evidence, network: Network) -> Claim:
    one = _settled(evidence, network, ONE_MODEL)
    gaps = [Gap(fixed(tau), one, _settled(evidence, network, fixed(tau))) for tau in TEXT_TAUS]
    who = evidence.clients[network]
    alone = who.own == 0
    apart = _outcome(evidence, network, fixed(0.0)).settled_by_client
    why = f"{alone.mean():.0%} of the clients have no neighbour of their own cluster and learn alone at tau = 0"
    if alone.any():
        each = (float(decibels(np.array([apart[group].mean()]))[0]) for group in (alone, ~alone))
        why += "; they settle at {:.1f} dB, the others at {:.1f} dB".format(*each)
    claim = f"One model for all is worse than a model per cluster at every tau (figure 6.1): {network}"
    return judged(claim, gaps, lambda found: found.low > 0, why)


def _small_helps(evidence: Evidence, network: Network) -> Claim:
    gap = Gap("", _settled(evidence, network, fixed(START)), _settled(evidence, network, fixed(0.0)))
    return judged(f"A little pull helps: tau = {START:g} is better than 0 (figure 6.1): {network}", [gap], _below)


def _large_hurts(evidence: Evidence, network: Network) -> Claim:
    links = [(fixed(tau), _db(evidence, network, fixed(tau))) for tau in TEXT_TAUS if tau >= START]
    claim = f"More pull hurts: the error rises over tau = 0.05, 0.1, 0.2, 0.4 (figure 6.1): {network}"
    return rising(claim, [Chain("", links)], " dB", f"Lowest of all: tau = {best_fixed(evidence, network):g}.")


# -- policies ----------------------------------------------------------------------------------------------------------


def _final(
    evidence: Evidence, network: Network, names: Sequence[str], rival: str, words: str = "", who: str = "Tuned"
) -> Claim:
    against = _settled(evidence, network, rival)
    gaps = [Gap(name, _settled(evidence, network, name), against) for name in names]
    claim = f"{who}, the error settles lower than with {words}{rival}: {network}"
    return judged(claim, gaps, _below, _why_not(evidence, network))


def _oracle(evidence: Evidence, network: Network) -> Claim:
    each = np.stack([_settled(evidence, network, fixed(tau)) for tau in evidence.design.taus])
    gaps = [Gap(name, _settled(evidence, network, name), each.min(axis=0)) for name in POLICIES]
    claim = f"Tuned, the error settles lower than with the fixed tau that is best for each seed: {network}"
    return judged(claim, gaps, _below, _why_not(evidence, network))


def _why_not(evidence: Evidence, network: Network) -> str:
    """Say where the error of the policies is, and what their strengths do there."""
    who = evidence.clients[network]
    few = who.reach < DIMENSIONS
    words = [
        "tau is moved by what one round's step does to the loss on the few records held back, not by what it does in "
        "the long run and to neighbours"
    ]
    actor = _outcome(evidence, network, SAC)
    mean = decibels(actor.curve).mean(axis=0)
    lowest = int(np.argmin(mean))
    words.append(
        f"SAC's error was lowest after {actor.rounds[lowest]} rounds, {mean[lowest]:.2f} dB, and is {mean[-1]:.2f} dB "
        "at the end, while tau drifts on"
    )
    rival = _outcome(evidence, network, fixed(best_fixed(evidence, network))).settled_by_client
    for label, group in ((f"reach fewer than {DIMENSIONS} records", few), ("reach more", ~few)):
        if group.any():
            parts = [f"best fixed {_mean_db(rival, group)}"]
            for name in (DPG, SAC):
                found = _outcome(evidence, network, name)
                parts.append(f"{name} {_mean_db(found.settled_by_client, group)} at tau {_tau(found, group)}")
            words.append(f"clients that {label} within their cluster ({group.mean():.0%}): {', '.join(parts)}")
    if few.any():
        jumped = {name: _jumps(_outcome(evidence, network, name), few) for name in (DPG, SAC)}
        words.append(
            f"of the former, tau once leapt by more than {JUMP:g} for {jumped[DPG]:.0%} under DPG, whose step has no "
            f"limit where tau is near 0, and for {jumped[SAC]:.0%} under SAC"
        )
    return "; ".join(words)


def _mean_db(deviation: Floats, group: NDArray[np.bool_]) -> str:
    return f"{10 * np.log10(deviation[group].mean()):.1f} dB"


def _tau(outcome: Outcome, group: NDArray[np.bool_]) -> str:
    return f"{outcome.settled_tau[group].mean():.2f}"


def _jumps(outcome: Outcome, group: NDArray[np.bool_]) -> float:
    """Return the share of clients whose strength leapt at least once."""
    leaps = np.abs(np.diff(outcome.tau, axis=1)).max(axis=1) > JUMP
    return float(leaps[group].mean())


def _initial(evidence: Evidence, network: Network, rival: str, words: str = "") -> Claim:
    against = _outcome(evidence, network, rival).early(FIRST)
    gaps = [Gap(name, _outcome(evidence, network, name).early(FIRST), against) for name in POLICIES]
    quickest = min(
        evidence.design.taus,
        key=lambda tau: float(decibels(_outcome(evidence, network, fixed(tau)).early(FIRST)).mean()),
    )
    claim = f"Tuned, learning starts faster than with {words}{rival}, mean dB of the first {FIRST} rounds: {network}"
    why = "tau moves by little in so few rounds, and a larger fixed tau is faster from the first round on"
    note = f"The fastest fixed one is tau = {quickest:g}."
    return judged(claim, gaps, _below, why, note)


def _actor_beats_gradient(evidence: Evidence, network: Network) -> Claim:
    gap = Gap("", _settled(evidence, network, SAC), _settled(evidence, network, DPG))
    return judged(f"SAC settles lower than DPG: {network}", [gap], _below, _why_not(evidence, network))


def _batch_gradient(evidence: Evidence, network: Network) -> Claim:
    gap = Gap("", _settled(evidence, network, BATCH_DPG), _settled(evidence, network, DPG))
    claim = f"Three epochs make DPG more accurate: {network}"
    return judged(
        claim, [gap], _below, "at thrice the rate and thrice the steps tau goes further, not to a better place"
    )


def _batch_calms(evidence: Evidence, network: Network) -> Claim:
    calm, rough = (_outcome(evidence, network, name).roughness for name in (BATCH_SAC, SAC))
    claim = f"Three epochs make SAC less random, mean change of the error in dB from record to record: {network}"
    return lower(claim, (BATCH_SAC, calm), (SAC, rough))


# -- strengths over the rounds -----------------------------------------------------------------------------------------


def _poor_raise(evidence: Evidence, network: Network, name: str) -> Claim:
    """Early on the third with the least data has raised tau, and by more the less data a client has."""
    who, found = evidence.clients[network], _outcome(evidence, network, name)
    early = found.at(NEAR)
    raised = mean_interval(mean_of(early, poorest(who.sizes)) - START)
    own, reached = (correlation(early, values) for values in (who.sizes, who.reach))
    figure = (
        f"tau of the third of clients with the fewest records moved by {_interval(raised)} from {START:g} in {NEAR} "
        f"rounds; correlation of tau with a client's records {_interval(own)}, with all records within reach in its "
        f"cluster {_interval(reached)} (95 % over {raised.n} seeds)"
    )
    holds = raised.low > 0 and own.high < 0
    if not holds:
        reason = "what tau goes with is the records within reach" if reached.high < 0 else "tau goes with neither"
        figure += f". Why: {reason}; a client's model is its cluster's, to which its own records are a small part"
    claim = f"{name}: clients with few records raise tau early, and by more than those with many: {network}"
    return Claim(claim, holds, figure)


def _poor_end_lower(evidence: Evidence, network: Network, name: str) -> Claim:
    who, found = evidence.clients[network], _outcome(evidence, network, name)
    poor = poorest(who.sizes)
    before, after = (mean_of(values, poor) for values in (found.at(NEAR), found.settled_tau))
    change = mean_interval(after - before)
    figure = (
        f"mean tau {before.mean():.3f} after {NEAR} rounds, {after.mean():.3f} at the end, change {_interval(change)} "
        f"(95 % over {change.n} seeds)"
    )
    if change.high >= 0:
        figure += f". Why: {_apart(found)}"
    claim = f"{name}: clients with few records lower tau again once curves are flat: {network}"
    return Claim(claim, change.high < 0, figure)


def _rich_end_at_zero(evidence: Evidence, network: Network, name: str) -> Claim:
    who, found = evidence.clients[network], _outcome(evidence, network, name)
    rich = mean_interval(mean_of(found.settled_tau, poorest(who.sizes, most=True)))
    late = correlation(found.settled_tau, who.sizes)
    figure = (
        f"mean tau of the third of clients with the most records {_interval(rich)} at the end; correlation of tau with "
        f"a client's records {_interval(late)} (95 % over {rich.n} seeds)"
    )
    if rich.high >= NOTHING_LEFT:
        figure += f". Why: {_apart(found)}"
    claim = f"{name}: clients with many records end with tau around 0, below {NOTHING_LEFT:g}: {network}"
    return Claim(claim, rich.high < NOTHING_LEFT, figure)


def _apart(found: Outcome) -> str:
    tau = found.settled_tau
    zero, large = float((tau < NOTHING_LEFT).mean()), float((tau > JUMP).mean())
    return (
        f"tau drifts on while curves are flat, each client's towards one end: of all clients {zero:.0%} end below "
        f"{NOTHING_LEFT:g} and {large:.0%} above {JUMP:g}"
    )


def _interval(found: Interval) -> str:
    return f"{brief(found.mean, 3)} [{brief(found.low, 3)}, {brief(found.high, 3)}]"
