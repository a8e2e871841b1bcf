"""Verdicts of `npfl-rl` on the strengths tau: rising, and falling again (Gauthier 2023, figure 6.3)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tacit.metrics import Interval, mean_interval
from tacit_reproduction.experiment import Claim, seen_in
from tacit_reproduction.judging import brief
from tacit_reproduction.networked.clustered_regression import Floats, Network
from tacit_reproduction.networked.tuned_runs import DPG, SAC, START, Evidence, Outcome

NEAR = 100
"""Rounds after which curves are nearly flat."""
NOTHING_LEFT = 0.01
"""A strength below this is "around 0"."""
JUMP = 0.5
"""Of tau between two records."""


def strengths_of(network: Network) -> str:
    """Return the name of the figure with three clients' tau."""
    return f"strengths-{network.replace(' ', '-')}"


def judge_strengths(evidence: Evidence, network: Network) -> list[Claim]:
    """Return the claims on tau over the rounds, with verdicts."""
    rises = "figure 6.3: client 30, of few data, raises tau at first; DPG is smooth and slow, SAC quick and random"
    falls = "figure 6.3: near convergence client 30, of few data, lowers tau again"
    zero = "figure 6.3: client 22, of many data, lowers tau almost at once, to around 0"
    mine, picture = (evidence, network), strengths_of(network)
    return [
        *seen_in(picture, *(_poor_raise(*mine, name) for name in (SAC, DPG)), text=rises),
        *seen_in(picture, *(_poor_end_lower(*mine, name) for name in (SAC, DPG)), text=falls),
        *seen_in(picture, *(_rich_end_at_zero(*mine, name) for name in (SAC, DPG)), text=zero),
    ]


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


def _poor_raise(evidence: Evidence, network: Network, name: str) -> Claim:
    """Early on the third with the least data has raised tau, and by more the less data a client has."""
    who, found = evidence.clients[network], evidence.outcomes[network, name]
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
    who, found = evidence.clients[network], evidence.outcomes[network, name]
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
    who, found = evidence.clients[network], evidence.outcomes[network, name]
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
