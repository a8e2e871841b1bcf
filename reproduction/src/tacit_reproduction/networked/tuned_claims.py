"""Verdicts of `npfl-rl`: pure functions of the measurements. Differences are paired over seeds, in dB."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tacit.metrics import Interval
from tacit_reproduction.experiment import Claim, seen_in
from tacit_reproduction.gaps import Gap, decibels, judged
from tacit_reproduction.judging import Chain, rising
from tacit_reproduction.networked.clustered_regression import DIMENSIONS, Floats, Network
from tacit_reproduction.networked.tuned_runs import (
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
from tacit_reproduction.networked.tuned_strengths import JUMP, judge_strengths
from tacit_reproduction.verdicts import lower

FIRST = 50
"""Rounds that count as initial learning."""
BEST = "the best fixed tau, "
FIXED, TUNED, SETTLED_TUNED = "fixed", "tuned", "settled-tuned"
"""Names of figures."""


def judge(evidence: Evidence) -> list[Claim]:
    """Return every claim with its verdict."""
    return [claim for network in evidence.design.networks for claim in _of(evidence, network)]


def _of(evidence: Evidence, network: Network) -> list[Claim]:
    best = best_fixed(evidence, network)
    mine = evidence, network
    better = "figure 6.2: all start faster and end more accurate than tau = 0.05"
    found = [
        *seen_in(FIXED, _one_model(*mine), text="figure 6.1: one model does not achieve satisfactory accuracy"),
        *seen_in(FIXED, _small_helps(*mine), text="figure 6.1: tau = 0.05 improves on 0"),
        *seen_in(FIXED, _large_hurts(*mine), text="figure 6.1: with tau = 0.1, 0.2, 0.4 accuracy decreases"),
        *seen_in(
            TUNED,
            _final(*mine, POLICIES, fixed(START)),
            _final(*mine, POLICIES, fixed(best), BEST),
            _oracle(*mine)._replace(seen_in=SETTLED_TUNED),
            _initial(*mine, fixed(START)),
            _initial(*mine, fixed(best), BEST),
            text=better,
        ),
        *seen_in(TUNED, _actor_beats_gradient(*mine), text="figure 6.2: SAC has the better accuracy"),
        *seen_in(TUNED, _batch_gradient(*mine), text="figure 6.2: batches increase the accuracy of DPG"),
        *seen_in(TUNED, _batch_calms(*mine), text="figure 6.2: batches attenuate SAC's randomness"),
        *judge_strengths(*mine),
    ]
    ours = [name for name in OURS if name in evidence.design.methods]
    if ours:
        found += seen_in(SETTLED_TUNED, _final(*mine, ours, fixed(best), BEST, "Tuned with rates of ours"))
    return found


def best_fixed(evidence: Evidence, network: Network) -> float:
    """Return the fixed strength of the lowest mean deviation in dB, chosen on the seeds that it is judged on."""
    return min(evidence.design.taus, key=lambda tau: float(np.mean(_db(evidence, network, fixed(tau)))))


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
