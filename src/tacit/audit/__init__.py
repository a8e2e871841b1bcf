"""Audits: attacks on a method's privacy claim, and checks of the contract::

    tacit.audit.audit(tacit.algorithms.online_push_sum, tacit.privacy.laplace(epsilon=1.0, clip=1.0)).words()

A run is attacked many times over on two neighbouring data sets by an attacker that sees every message; its success
bounds epsilon from below, with a confidence. A bound above the claim shows that the claim is false. A bound below it
proves nothing, but near the claim it shows that the attack is sharp enough to have noticed.
"""

from __future__ import annotations

from tacit.audit.conformance import check_contract
from tacit.audit.experiment import audit
from tacit.audit.linear_network import LinearMethod, linear_network
from tacit.audit.masks import MaskAudit, audit_masks
from tacit.audit.observer import ObserverAudit, audit_observer
from tacit.audit.problems import PROBLEMS
from tacit.audit.report import Audit
from tacit.audit.watch import audited

__all__ = [
    "PROBLEMS",
    "Audit",
    "LinearMethod",
    "MaskAudit",
    "ObserverAudit",
    "audit",
    "audit_masks",
    "audit_observer",
    "audited",
    "check_contract",
    "linear_network",
]
