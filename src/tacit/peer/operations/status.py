"""Status of a peer: its round, its budget, the state of its model and of its certificate."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Any, Literal, NamedTuple

import jax
import numpy as np

from tacit.core.contract import Params
from tacit.core.errors import DataError, IdentityError, ModelError
from tacit.peer.identity.credentials import IdentityWatch
from tacit.peer.identity.identity import Identity, expiry_warning
from tacit.peer.node.node import Node
from tacit.peer.operations.counters import Counters
from tacit.peer.operations.logs import Log
from tacit.privacy.accounting import Budget
from tacit.privacy.conversions import tight
from tacit.privacy.events import Loss
from tacit.privacy.ledger import Ledger
from tacit.privacy.noise import hides

LOOK_AT_CERTIFICATE = 60.0
"""Seconds between two looks."""


class Spending(NamedTuple):
    """A budget in its own unit."""

    unit: Literal["epsilon", "rho"]
    spent: float
    left: float
    delta: float | None


def spending(budget: Budget, spent: Loss) -> Spending:
    """Return the spent part of a budget; with a delta, by the smaller of the two bounds on epsilon that hold at it."""
    if budget.rho is not None:
        return Spending("rho", spent.rho, max(0.0, budget.rho - spent.rho), None)
    assert budget.epsilon is not None  # a budget has one of the two
    epsilon = spent.epsilon
    if budget.delta is not None:
        epsilon = min(epsilon, tight(spent.rho, budget.delta - budget.reserve))
    return Spending("epsilon", epsilon, max(0.0, budget.epsilon - epsilon), budget.delta)


def model_fault(node: Node) -> str | None:
    """Return why a peer's model cannot be used; None if it can, or if its role has none."""
    if not node.predicts or all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(node.model())):
        return None
    return (
        f"the model of round {node.round} is not finite: it diverged, and neighbours refuse it; choose a "
        "smaller step in the job, and begin a new epoch"
    )


def predicted(node: Node, x: np.ndarray) -> np.ndarray:
    """Return the prediction of a peer's model for x, or raise if it is not finite."""
    said = node.predict(x)
    if np.isfinite(said).all():
        return said
    fault = model_fault(node)
    if fault is not None:
        raise ModelError(fault)
    raise DataError("the prediction of this x is not finite: its values are too large; give smaller ones")


def status_of(node: Node, ledger: Ledger, identity: Identity) -> dict[str, Any]:
    """Return the status of a peer, as plain data."""
    plan = node.plan
    protects = plan.booked or any(hides(phase.mechanism) for phase in plan.algorithm.phases)
    return {
        "name": plan.name,
        "role": plan.role,
        "job": plan.job,
        "algorithm": plan.algorithm.name,
        "on_missing_neighbour": plan.algorithm.missing,
        "round": node.round,
        "position": list(node.position),
        "waiting_for": sorted(node.missing()),
        "held_back_by": sorted(node.held_back_by),
        "lag": node.lag(),
        "heard_rounds": dict(sorted(node.claims.said.items())),
        "doubted": sorted(node.doubted()),
        "unconfirmed": {name: node.unconfirmed(name) for name in sorted(node.sends_to)},
        "privacy": {
            "booked": plan.booked,
            "holds": plan.algorithm.privacy.holds if protects else "nothing: no noise, or noise from a seed",
            "releases": ledger.releases,
            "cut": node.releases_cut,
            "budget": spending(ledger.budget, ledger.spent())._asdict() if plan.booked else None,
        },
        "model_fault": model_fault(node),
        "certificate": {"expires": identity.not_after.isoformat(), "fingerprint": identity.fingerprint},
    }


async def watch_certificate(watch: IdentityWatch, counters: Counters, log: Log) -> None:
    """Report the remaining life of the certificate, and warn before its end, until cancelled."""
    while True:
        identity, now = watch.current(), datetime.now(UTC)
        counters.set("tacit_certificate_expiry_seconds", (identity.not_after - now).total_seconds())
        try:
            warning = expiry_warning(identity, now)
        except IdentityError as expired:
            warning = str(expired)
        if warning is not None:
            log.seldom("certificate", "certificate", warning=warning)
        await asyncio.sleep(LOOK_AT_CERTIFICATE)


def distance(alone: Params, together: Params) -> float:
    """Return the distance between a model without and with its neighbours: root mean square over coordinates."""
    pairs = zip(jax.tree.leaves(alone), jax.tree.leaves(together), strict=True)
    with np.errstate(invalid="ignore", over="ignore"):  # a model that diverged is at no distance: NaN says so
        squares = [np.square(np.asarray(a, np.float64) - np.asarray(b, np.float64)) for a, b in pairs]
    count = sum(part.size for part in squares)
    return float(np.sqrt(sum(part.sum() for part in squares) / max(count, 1)))
