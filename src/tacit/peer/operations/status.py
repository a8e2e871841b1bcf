"""Status of a peer: its round, its budget, the state of its model and of its certificate."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tacit.core.contract import Params
from tacit.core.errors import ConfigError, DataError, IdentityError, ModelError
from tacit.peer.identity.credentials import IdentityWatch
from tacit.peer.identity.identity import Identity, expiry_warning
from tacit.peer.node.node import Node
from tacit.peer.operations.counters import Counters
from tacit.peer.operations.logs import Log
from tacit.privacy.ledger import Ledger
from tacit.privacy.noise import hides

LOOK_AT_CERTIFICATE, LOOK_AT_LIST = 60.0, 2.0
"""Seconds between two looks at a certificate, and at the files of identity and revocation list."""


def model_fault(node: Node) -> str | None:
    """Return why a peer's model cannot be used; None if it can, or if its role has none."""
    if not node.predicts or all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(node.model())):
        return None
    return (
        f"the model of round {node.round} is not finite: it diverged, and neighbours refuse it; choose a "
        "smaller step in the job, and begin a new epoch"
    )


def publish_progress(counters: Counters, node: Node) -> None:
    """Set the figures that every step may change."""
    counters.set("tacit_round", node.round)
    counters.set("tacit_lag_rounds", node.lag())
    if node.plan.booked:
        use = node.store.ledger.use()
        counters.set(f"tacit_{use.unit}_limit", use.limit)
        counters.set(f"tacit_{use.unit}_spent", use.spent)
        counters.set(f"tacit_{use.unit}_left", use.left)
        counters.set("tacit_budget_runs_out", use.runs_out)
        counters.set("tacit_releases_cut", node.releases_cut)


def predicted(node: Node, x: np.ndarray) -> np.ndarray:
    """Return the prediction of a peer's model for x, or raise if it is not finite."""
    algorithm = node.plan.algorithm
    if not node.predicts:
        raise ConfigError(f"a {node.plan.role!r} has no model of its own; ask a {algorithm.predictor!r}")
    if algorithm.objective.predict is None:
        raise ConfigError("this objective has no `predict`; give it one to ask a peer for predictions")
    model = node.model()
    with node.plan.precision():
        said = np.asarray(algorithm.objective.predict(model, jnp.asarray(x)))
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
        "next_round": node.next_round,
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
            "budget": ledger.use()._asdict() if plan.booked else None,
        },
        "next_epoch": None if node.links.epochs is None else node.links.epochs.status(),
        "neighbours": standing_of(node),
        "model_fault": model_fault(node),
        "certificate": certificate_status(identity, datetime.now(UTC)),
        "revoked": None if identity.revoked is None else identity.revoked.status(),
    }


def standing_of(node: Node) -> dict[str, dict[str, Any]]:
    """Return the evidence against in-neighbours, by name; nothing where the job has no robust rule."""
    if not hasattr(node.machine.state, "carried"):  # most methods have no rule, and load nothing for one
        return {}
    from tacit.peer.operations.standing import neighbour_standing

    return neighbour_standing(node)


def certificate_status(identity: Identity, now: datetime) -> dict[str, Any]:
    """Return the remaining life of a certificate, with a warning where it is about to end, or has ended."""
    try:
        warning = expiry_warning(identity, now)
    except IdentityError as expired:
        warning = str(expired)
    return {
        "expires": identity.not_after.isoformat(),
        "days_left": round((identity.not_after - now) / timedelta(days=1), 1),
        "warning": identity.revocation or warning,
        "fingerprint": identity.fingerprint,
    }


class CertificateWatch:
    """Reports on a peer's certificate: seconds left as a figure, warnings before its end, renewals in the log."""

    def __init__(self, watch: IdentityWatch, counters: Counters, log: Log) -> None:
        self._watch, self._counters, self._log = watch, counters, log
        self._fingerprint = watch.current().fingerprint

    def look(self, now: datetime) -> None:
        """Report on the certificate that is in use."""
        identity = self._watch.current()
        found = certificate_status(identity, now)
        self._counters.set("tacit_certificate_expiry_seconds", (identity.not_after - now).total_seconds())
        if identity.fingerprint != self._fingerprint:
            self._fingerprint = identity.fingerprint
            self._log.info("certificate renewed", expires=found["expires"], fingerprint=identity.fingerprint)
        if found["warning"] is not None:
            self._log.seldom("certificate", "certificate", warning=found["warning"])

    async def run(self, then: Callable[[], None]) -> None:
        """Look now and then, until cancelled; `then`, which looks at the revocation list, is called more often."""
        for k in itertools.count():
            if k % round(LOOK_AT_CERTIFICATE / LOOK_AT_LIST) == 0:
                self.look(datetime.now(UTC))
            then()
            await asyncio.sleep(LOOK_AT_LIST)


def distance(alone: Params, together: Params) -> float:
    """Return the distance between a model without and with its neighbours: root mean square over coordinates."""
    pairs = zip(jax.tree.leaves(alone), jax.tree.leaves(together), strict=True)
    with np.errstate(invalid="ignore", over="ignore"):  # a model that diverged is at no distance: NaN says so
        squares = [np.square(np.asarray(a, np.float64) - np.asarray(b, np.float64)) for a, b in pairs]
    count = sum(part.size for part in squares)
    return float(np.sqrt(sum(part.sum() for part in squares) / max(count, 1)))
